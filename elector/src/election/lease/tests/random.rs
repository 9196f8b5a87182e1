//! Random schedules of members whose clocks drift, that are stopped, whose requests are slow, lost, late: while nobody is
//! preempted, no two of them trust a term at one time, and what is stored never goes back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{beds::LEASE, people::id};
use crate::{
    election::{
        Candidate, ElectionConfig, Verdict,
        lease::{
            Event, What,
            member::{Answer, Ask, Member},
            operation::{Input, Step},
        },
        oracle::{Grant, Refusal},
        state::Seat,
        term::Fence,
    },
    ids::{Ballot, ClusterName, ElectionName, Epoch, Incarnation, Nonce},
    keys::{ClusterKeys, ElectionKeys},
    record::Record,
    store::{CommitOutcome, Limits, Read, StoreError, Transaction, mvcc::Mvcc},
    time::Time,
};

/// Microseconds of true time, which nobody can see.
type Micros = u64;

const MILLI: Micros = 1_000;
const SECOND: Micros = 1_000 * MILLI;

/// More find more; these take some seconds.
const SEEDS: u64 = 200;
const MEMBERS: usize = 3;

/// After so long an answer is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(3);

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// How long a request is on its way: mostly some milliseconds.
    fn travel(&mut self) -> Micros {
        if self.below(20) == 0 { self.below(9 * SECOND) } else { MILLI + self.below(40 * MILLI) }
    }
}

enum Happening {
    Poll { node: usize },
    Reads { node: usize, operation: u64, reads: Vec<Read> },
    Lands { node: usize, operation: u64, transaction: Transaction },
    Answered { node: usize, operation: u64, input: Input },
}

struct Node {
    member: Member,
    /// How fast its clock runs, in millionths, and what it showed at the beginning.
    rate: u64,
    offset: Micros,
    stopped_until: Micros,
    /// The operation under way, and when it began.
    operation: u64,
    began: Option<Time>,
    nonce: Nonce,
    held: Option<(Grant<Fence>, Time)>,
}

impl Node {
    fn clock(&self, now: Micros) -> Time {
        Time(Duration::from_micros(self.offset + now * self.rate / 1_000_000))
    }

    fn trusts(&self, now: Micros) -> bool {
        self.held.as_ref().is_some_and(|(_, until)| self.clock(now) < *until)
    }
}

#[derive(Debug, Default)]
struct Seen {
    won: u32,
    taken_over: u32,
    refreshed: u32,
    resigned: u32,
    own_expired: u32,
    late_grants: u32,
    given_up: u32,
    landed_late: u32,
    conflicts: u32,
}

struct World {
    store: Mvcc,
    keys: ElectionKeys,
    nodes: Vec<Node>,
    happenings: BTreeMap<(Micros, u64), Happening>,
    count: u64,
    draw: Draw,
    last: Seat,
    holders: BTreeMap<Epoch, (String, Incarnation)>,
    /// The epochs of which it was told that somebody was elected, and that they are over.
    elected: BTreeSet<Epoch>,
    over: BTreeSet<Epoch>,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let cluster = ClusterName::new("c").unwrap();
        let keys = ClusterKeys::new(&cluster).election(&ElectionName::new("e").unwrap());
        let nodes = (0..MEMBERS).map(|n| {
            let me = Candidate {
                member: id(&format!("m{n}")),
                incarnation: Incarnation(n as u64 + 1),
                priority: 1,
                tags: BTreeSet::new(),
            };
            Node {
                member: Member::new(keys.clone(), me, true),
                rate: 999_500 + draw.below(1_001),
                offset: draw.below(3_600 * SECOND),
                stopped_until: 0,
                operation: 0,
                began: None,
                nonce: Nonce(draw.below(u64::from(u32::MAX))),
                held: None,
            }
        });
        let nodes = nodes.collect();
        let mut world = Self {
            store: Mvcc::new(Limits::FOUNDATIONDB, 10_000),
            keys,
            nodes,
            happenings: BTreeMap::new(),
            count: 0,
            draw,
            last: Seat::default(),
            holders: BTreeMap::new(),
            elected: BTreeSet::new(),
            over: BTreeSet::new(),
            seen: Seen::default(),
        };
        for node in 0..MEMBERS {
            let at = world.draw.below(SECOND);
            world.at(at, Happening::Poll { node });
        }
        world
    }

    fn at(&mut self, at: Micros, happening: Happening) {
        self.count += 1;
        self.happenings.insert((at, self.count), happening);
    }

    fn run(mut self, until: Micros) -> Seen {
        let mut initialised = false;
        while let Some(((now, _), happening)) = self.happenings.pop_first() {
            if now > until {
                break;
            }
            if !initialised {
                initialised = true;
                self.now_ask(now, 0, Ask::Prepare(Some(ElectionConfig::default())));
            }
            self.happen(now, happening);
        }
        self.seen
    }

    fn happen(&mut self, now: Micros, happening: Happening) {
        match happening {
            Happening::Reads { node, operation, reads } => {
                let result = self.store.read(&reads, None).unwrap();
                let lost = self.draw.below(20);
                let result = match lost {
                    0 => return,
                    1 => Err(StoreError::Unavailable("drawn".to_owned())),
                    _ => Ok(result),
                };
                let at = now + self.draw.travel();
                self.at(at, Happening::Answered { node, operation, input: Input::Read(result) });
            }
            Happening::Lands { node, operation, transaction } => {
                let outcome = self.store.apply(&transaction);
                let is_late = self.nodes[node].operation != operation;
                self.seen.landed_late += u32::from(is_late && matches!(outcome, CommitOutcome::Committed(_)));
                self.seen.conflicts += u32::from(outcome == CommitOutcome::Conflict);
                self.look_at_the_seat();
                let outcome = match self.draw.below(20) {
                    0 => return,
                    1 => CommitOutcome::Unknown,
                    _ => outcome,
                };
                let at = now + self.draw.travel();
                self.at(at, Happening::Answered { node, operation, input: Input::Commit(outcome) });
            }
            Happening::Poll { node } | Happening::Answered { node, .. }
                if now < self.nodes[node].stopped_until =>
            {
                let at = self.nodes[node].stopped_until;
                self.at(at, happening);
            }
            Happening::Answered { node, operation, input } => {
                if self.nodes[node].operation == operation && self.nodes[node].began.is_some() {
                    let local = self.nodes[node].clock(now);
                    let mut events = Vec::new();
                    let step = self.nodes[node].member.step(local, input, &mut events);
                    self.hear(&events);
                    self.take(now, node, step);
                }
            }
            Happening::Poll { node } => {
                self.poll(now, node);
                let next = now + SECOND / 2 + self.draw.below(SECOND / 2);
                self.at(next, Happening::Poll { node });
            }
        }
    }

    fn poll(&mut self, now: Micros, node: usize) {
        if self.draw.below(60) == 0 {
            self.nodes[node].stopped_until = now + self.draw.below(15 * SECOND);
        }
        let local = self.nodes[node].clock(now);
        if let Some(began) = self.nodes[node].began {
            if local.since(began) < PATIENCE {
                return;
            }
            self.seen.given_up += 1;
        }
        let nonce = self.nodes[node].nonce;
        let ask = match &self.nodes[node].held {
            Some((grant, _)) if self.draw.below(25) == 0 => {
                let epoch = grant.term.epoch;
                // The work has stopped.
                self.nodes[node].held = None;
                Ask::Resign(epoch)
            }
            Some((grant, until)) if local < *until => Ask::Refresh(grant.term.epoch, LEASE),
            Some(_) => {
                self.nodes[node].held = None;
                Ask::Claim(nonce)
            }
            None => Ask::Claim(nonce),
        };
        self.now_ask(now, node, ask);
    }

    fn now_ask(&mut self, now: Micros, node: usize, ask: Ask) {
        let local = self.nodes[node].clock(now);
        self.nodes[node].operation += 1;
        self.nodes[node].began = Some(local);
        let step = self.nodes[node].member.begin(local, ask);
        self.take(now, node, step);
    }

    fn take(&mut self, now: Micros, node: usize, step: Step<Answer>) {
        let operation = self.nodes[node].operation;
        let at = now + self.draw.travel();
        let answer = match step {
            Step::Read(reads) => return self.at(at, Happening::Reads { node, operation, reads }),
            Step::Commit(transaction) => {
                return self.at(at, Happening::Lands { node, operation, transaction });
            }
            Step::Done(answer) => answer,
        };
        let began = self.nodes[node].began.take().expect("one is under way");
        match answer {
            Ok(Answer::Verdict(Verdict::Granted(grant))) => self.granted(now, node, began, grant),
            Ok(Answer::Verdict(Verdict::Denied(denial))) => {
                self.seen.own_expired += u32::from(denial.why == Refusal::TermOver);
                self.nodes[node].held = None;
                self.nodes[node].nonce = Nonce(self.draw.below(u64::from(u32::MAX)));
            }
            Ok(Answer::Resigned(was)) => self.seen.resigned += u32::from(was),
            // Nothing is known: the same attempt is made again, while what it holds lasts.
            Ok(_) | Err(_) => {}
        }
    }

    fn granted(&mut self, now: Micros, node: usize, began: Time, grant: Grant<Fence>) {
        // The lease less what two clocks can drift apart in it, from the start of the attempt.
        let until = began + (LEASE - LEASE / 1_000);
        self.nodes[node].nonce = Nonce(self.draw.below(u64::from(u32::MAX)));
        if self.nodes[node].clock(now) >= until {
            self.seen.late_grants += 1;
            self.nodes[node].held = None;
            return;
        }
        assert!(self.elected.contains(&grant.term.epoch), "nobody was told of {}", grant.term);
        let is_new = self.nodes[node].held.as_ref().is_none_or(|(held, _)| held.term != grant.term);
        self.seen.won += u32::from(is_new);
        self.seen.refreshed += u32::from(!is_new);
        self.nodes[node].held = Some((grant, until));
        let trust: Vec<_> = self.nodes.iter().filter(|other| other.trusts(now)).collect();
        assert!(
            trust.len() == 1,
            "at {now}: {:?}",
            trust.iter().map(|other| &other.held).collect::<Vec<_>>()
        );
    }

    /// An election is told once, and so is its end.
    fn hear(&mut self, events: &[Event]) {
        for event in events {
            match &event.what {
                What::Elected => {
                    let epoch = event.epoch.unwrap();
                    let holder = &self.holders[&epoch];
                    assert_eq!(event.member.as_ref().map(ToString::to_string).as_ref(), Some(&holder.0));
                    assert!(self.elected.insert(epoch), "{epoch} was told twice");
                }
                What::Vacated { was } => {
                    assert!(self.over.insert(was.epoch), "the end of {was} was told twice");
                }
                What::Preempted { .. } => panic!("nobody comes before anybody: {event:?}"),
                _ => {}
            }
        }
    }

    /// What every commit must leave: a seat that never goes back, one holder for each epoch.
    fn look_at_the_seat(&mut self) {
        let Some(value) = self.store.get(&self.keys.seat()) else { return };
        let seat = Seat::from_value(value).unwrap();
        if seat == self.last {
            return;
        }
        assert!(
            seat.ballot > self.last.ballot || self.last.ballot == Ballot(0),
            "{seat:?} after {:?}",
            self.last
        );
        if seat.epoch != self.last.epoch {
            assert_eq!(seat.epoch.0, seat.ballot.0);
            self.seen.taken_over += u32::from(seat.holder.is_some() && self.last.holder.is_some());
        }
        if let Some(holder) = &seat.holder {
            let who = (holder.member.to_string(), holder.incarnation);
            let first = self.holders.entry(seat.epoch).or_insert_with(|| who.clone());
            assert_eq!(*first, who);
        }
        self.last = seat;
    }
}

#[test]
fn inv1_inv2_inv6_no_two_trust_one_seat_whatever_is_slow_lost_late_or_stopped() {
    let mut all = Seen::default();
    for seed in 0..SEEDS {
        let seen = World::new(seed).run(200 * SECOND);
        all.won += seen.won;
        all.taken_over += seen.taken_over;
        all.refreshed += seen.refreshed;
        all.resigned += seen.resigned;
        all.own_expired += seen.own_expired;
        all.late_grants += seen.late_grants;
        all.given_up += seen.given_up;
        all.landed_late += seen.landed_late;
        all.conflicts += seen.conflicts;
    }
    println!("{all:?}");
    // A run that has not seen these has shown nothing.
    let Seen {
        won,
        taken_over,
        refreshed,
        resigned,
        own_expired,
        late_grants,
        given_up,
        landed_late,
        conflicts,
    } = all;
    for (what, times) in [
        ("won", won),
        ("taken over", taken_over),
        ("refreshed", refreshed),
        ("resigned", resigned),
        ("own expired", own_expired),
        ("given up", given_up),
        ("landed late", landed_late),
        ("conflicts", conflicts),
    ] {
        assert!(times > 50, "{what}: {times}");
    }
    assert!(late_grants > 0);
}
