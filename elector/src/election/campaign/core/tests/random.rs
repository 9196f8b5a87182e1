//! Random schedules of some campaigns over one authority, with drifting clocks, stopped processes, slow calls, lost
//! replies and operations that land late: at most one of them may be asked and say yes (Inv6), what is published takes
//! turns (Inv8), no two believe in the same epoch (Inv9), nothing is given back while its role works (Inv7), and no two roles
//! work at once but in processes that were stopped.

use std::collections::BTreeMap;

use super::{super::*, story};
use crate::{
    election::{
        oracle::{Attempt, Denial, Fault, Refusal, Signal, Validity, Verdict},
        role::Abort,
        term::AuthorityTime,
    },
    ids::{Incarnation, MemberId, Nonce},
};

/// Microseconds of true time, which nobody can see.
type Micros = u64;

/// More find more; these take some seconds.
const SEEDS: u64 = 300;

const MILLI: Micros = 1_000;
const SECOND: Micros = 1_000 * MILLI;
const LEASE: Micros = 10 * SECOND;
/// What it is made after a minute, in worlds where it is changed.
const SHORTER: Micros = 5 * SECOND;

/// What is asked of the authority.
#[derive(Clone, Debug)]
enum Op {
    Claim(Attempt),
    Refresh(Attempt, Grant<Fence>),
    Abdicate(Term),
}

/// What happens at some time.
enum Happening {
    Arrives(usize, Input<Fence>),
    /// An operation reaches the authority; its answer leaves at that time, if there is one.
    Lands(usize, CallId, Op, Answer),
}

#[derive(Clone, Copy)]
enum Answer {
    True(Micros),
    Unknown(Micros),
    None,
}

/// What is otherwise than it should be, or than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    None,
    /// Clocks stand still with their process, as the plain monotonic clock does in suspend.
    ClocksStop,
    /// The lease is made shorter. Until a refresh shows that the shorter grant arrived, the longer one counts.
    Shortened,
    /// It counts at once.
    ShortenedAtOnce,
}

struct Node {
    core: Core<Fence>,
    /// How fast its clock runs, in millionths.
    rate: u64,
    offset: Micros,
    /// It does not run before this time.
    stopped_until: Micros,
    /// How long its clock stood still in all before it did last, and from when to when that was; if it is one that does.
    stood_still: Micros,
    still: (Micros, Micros),
    trust: Option<(Epoch, Until)>,
    /// The run for which its role may be at work.
    works: Option<RunId>,
    /// Its process stood still since that began.
    was_stopped: bool,
    leads: Option<Epoch>,
    in_flight: Option<CallId>,
}

impl Node {
    fn clock(&self, now: Micros) -> Time {
        let (from, to) = self.still;
        let still = now.clamp(from, to) - from;
        let runs = now - self.stood_still - still;
        Time(Duration::from_micros(self.offset + runs * self.rate / 1_000_000))
    }

    /// When, in true time, its clock shows `at`.
    fn reaches(&self, at: Time) -> Micros {
        let local = u64::try_from(at.0.as_micros()).unwrap().saturating_sub(self.offset) + 1;
        let (from, to) = self.still;
        (local * 1_000_000).div_ceil(self.rate) + self.stood_still + (to - from)
    }

    /// What `check()` says now.
    fn check(&self, now: Micros) -> Option<Epoch> {
        self.trust.filter(|(_, until)| !until.is_over(self.clock(now))).map(|(epoch, _)| epoch)
    }
}

/// How often each thing happened that the schedules are there for.
#[derive(Clone, Debug, Default)]
struct Seen {
    terms: usize,
    lapsed: usize,
    late: usize,
    unknown: usize,
    landed_late: usize,
    aborted: usize,
    resigned: usize,
    repeated: usize,
}

struct World {
    ballot: u64,
    holder: Option<(Term, Nonce)>,
    expires: Micros,
    nodes: Vec<Node>,
    happenings: BTreeMap<(Micros, u64), Happening>,
    count: u64,
    draw: SplitMix64,
    twist: Twist,
    /// No more faults from here.
    calm_from: Micros,
    seen: Seen,
}

impl World {
    fn new(seed: u64, twist: Twist) -> Self {
        let mut draw = SplitMix64::new(seed);
        let count = 2 + draw.draw() % 4;
        let nodes = (0..count).map(|index| {
            let config = Config {
                member: MemberId::new(format!("n{index}")).unwrap(),
                incarnation: Incarnation(index),
                seed: seed * 10 + index,
                ..story::config()
            };
            Node {
                core: Core::new(config).unwrap(),
                // Within 1000 ppm of the authority's.
                rate: 999_001 + draw.draw() % 1_999,
                offset: draw.draw() % SECOND,
                stopped_until: 0,
                stood_still: 0,
                still: (0, 0),
                trust: None,
                works: None,
                was_stopped: false,
                leads: None,
                in_flight: None,
            }
        });
        let nodes: Vec<_> = nodes.collect();
        let mut world = Self {
            ballot: 0,
            holder: None,
            expires: 0,
            nodes,
            happenings: BTreeMap::new(),
            count: 0,
            draw,
            twist,
            calm_from: Micros::MAX,
            seen: Seen::default(),
        };
        for node in 0..world.nodes.len() {
            world.at(0, Happening::Arrives(node, Input::Start));
        }
        world
    }

    fn at(&mut self, time: Micros, happening: Happening) {
        self.count += 1;
        self.happenings.insert((time, self.count), happening);
    }

    fn between(&mut self, low: Micros, high: Micros) -> Micros {
        low + self.draw.draw() % (high - low)
    }

    /// How long one way takes: mostly short, sometimes very long.
    fn way(&mut self, now: Micros) -> Micros {
        match self.draw.draw() % 20 {
            _ if now >= self.calm_from => self.between(MILLI, 10 * MILLI),
            0 => self.between(SECOND, 8 * SECOND),
            1..4 => self.between(100 * MILLI, SECOND),
            _ => self.between(MILLI, 10 * MILLI),
        }
    }

    /// Runs until then; what was wrong, if anything was.
    fn run(&mut self, until: Micros) -> Result<(), String> {
        loop {
            let happens = self.happenings.keys().next().copied();
            let wakes = (0..self.nodes.len())
                .filter_map(|n| {
                    let node = &self.nodes[n];
                    node.core.wake_at().map(|at| (node.reaches(at).max(node.stopped_until), n))
                })
                .min();
            let (now, wake) = match (happens, wakes) {
                (Some((at, _)), Some((wake, node))) if wake < at => (wake, Some(node)),
                (Some((at, _)), _) => (at, None),
                (None, Some((wake, node))) => (wake, Some(node)),
                (None, None) => return Ok(()),
            };
            if now > until {
                return Ok(());
            }
            if let Some(node) = wake {
                self.arrive(now, node, Input::Wake)?;
            } else if let Some((_, happening)) = self.happenings.pop_first() {
                self.happen(now, happening)?;
            }
            self.check(now)?;
        }
    }

    fn happen(&mut self, now: Micros, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Arrives(node, input) if now < self.nodes[node].stopped_until => {
                let later = self.nodes[node].stopped_until;
                self.at(later, Happening::Arrives(node, input));
                Ok(())
            }
            Happening::Arrives(node, input) => self.arrive(now, node, input),
            Happening::Lands(node, call, op, answer) => {
                let said = self.land(now, node, &op);
                let (at, is_known) = match answer {
                    Answer::True(at) => (at, true),
                    Answer::Unknown(at) => (at, false),
                    Answer::None => return Ok(()),
                };
                let input = match said {
                    Ok(verdict) => Input::Answered { call, answer: Ok(verdict) },
                    Err(was_there) => Input::Abdicated { call, answer: Ok(was_there) },
                };
                let input = if is_known { input } else { unknown(input) };
                self.at(at.max(now), Happening::Arrives(node, input));
                Ok(())
            }
        }
    }

    /// The authority. An attempt that it knows already changes nothing, and does not lengthen the lease.
    fn land(&mut self, now: Micros, node: usize, op: &Op) -> Result<Verdict<Fence>, bool> {
        let valid = now < self.expires;
        let is_shortened =
            matches!(self.twist, Twist::Shortened | Twist::ShortenedAtOnce) && now > 60 * SECOND;
        let lease = if is_shortened { SHORTER } else { LEASE };
        match op {
            Op::Claim(attempt) => match &self.holder {
                Some((term, nonce)) if valid && *nonce == attempt.nonce => {
                    self.seen.repeated += 1;
                    Ok(granted(term.clone(), self.ballot, lease))
                }
                Some((term, _)) if valid => Ok(denied(Some(term.clone()))),
                _ => {
                    self.ballot += 1;
                    let term = Term {
                        leader: MemberId::new(format!("n{node}")).unwrap(),
                        incarnation: Incarnation(node as u64),
                        epoch: Epoch(self.ballot),
                        elected_at: AuthorityTime(now),
                    };
                    self.holder = Some((term.clone(), attempt.nonce));
                    self.expires = now + lease;
                    self.seen.terms += 1;
                    Ok(granted(term, self.ballot, lease))
                }
            },
            Op::Refresh(attempt, held) => match &mut self.holder {
                Some((term, nonce)) if valid && *term == held.term => {
                    if *nonce == attempt.nonce {
                        self.seen.repeated += 1;
                    } else {
                        *nonce = attempt.nonce;
                        self.ballot += 1;
                        self.expires = now + lease;
                        if let (Validity::For(held), Twist::Shortened) = (held.validity, self.twist) {
                            let held = u64::try_from(held.as_micros()).unwrap();
                            self.expires = now + lease.max(held);
                        }
                    }
                    Ok(granted(held.term.clone(), self.ballot, lease))
                }
                other => Ok(denied(other.as_ref().filter(|_| valid).map(|(term, _)| term.clone()))),
            },
            Op::Abdicate(held) => {
                let is_mine = self.holder.as_ref().is_some_and(|(term, _)| term == held);
                if is_mine {
                    self.holder = None;
                    self.seen.resigned += 1;
                }
                Err(is_mine)
            }
        }
    }

    fn arrive(&mut self, now: Micros, index: usize, input: Input<Fence>) -> Result<(), String> {
        if now < self.calm_from {
            match self.draw.draw() % 300 {
                // Stopped by a signal, or by the machine.
                0 => {
                    let pause = self.between(SECOND, 25 * SECOND);
                    self.nodes[index].stopped_until = now + pause;
                    self.nodes[index].was_stopped = true;
                    if self.twist == Twist::ClocksStop {
                        let node = &mut self.nodes[index];
                        let (from, to) = std::mem::replace(&mut node.still, (now, now + pause));
                        node.stood_still += to - from;
                        self.at(now + pause, Happening::Arrives(index, input));
                        return Ok(());
                    }
                }
                1 => self.at(now, Happening::Arrives(index, Input::Signal(Signal::Wakeup))),
                2 => {
                    let signal = Signal::ResignRequested { epoch: None };
                    self.at(now, Happening::Arrives(index, Input::Signal(signal)));
                }
                3 => {
                    if let Some(run) = self.nodes[index].works {
                        let reason = "it ended".to_owned();
                        self.at(now, Happening::Arrives(index, Input::Exited { run, reason }));
                    }
                }
                _ => {}
            }
        }
        let clock = self.nodes[index].clock(now);
        let answered = input.call();
        if self.nodes[index].in_flight == answered {
            self.nodes[index].in_flight = None;
        }
        if let Input::Stopped { run } | Input::Aborted { run } = &input
            && self.nodes[index].works == Some(*run)
        {
            self.nodes[index].works = None;
        }
        let mut effects = Vec::new();
        self.nodes[index].core.step(clock, input, &mut effects);
        for effect in effects {
            // What was answered just now is abandoned all the same, if it came too late to count.
            if !matches!(effect, Effect::Abandon { call } if Some(call) == answered) {
                self.carry_out(now, index, effect)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, now: Micros, index: usize, effect: Effect<Fence>) -> Result<(), String> {
        let node = &mut self.nodes[index];
        match effect {
            Effect::Claim { call, attempt } => self.send(now, index, call, Op::Claim(attempt))?,
            Effect::Refresh { call, attempt, held } => {
                self.send(now, index, call, Op::Refresh(attempt, held))?;
            }
            Effect::Abdicate { call, held } => {
                if node.works.is_some() {
                    return Err(format!("n{index} gives {} back while its role works", held.term));
                }
                self.send(now, index, call, Op::Abdicate(held.term))?;
            }
            Effect::Rivals { call } => {
                node.in_flight = Some(call);
                self.at(now + MILLI, Happening::Arrives(index, Input::Rivals { call, answer: Ok(true) }));
            }
            Effect::Abandon { call } => {
                if node.in_flight.take() != Some(call) {
                    return Err(format!("n{index} abandons what is not in flight"));
                }
            }
            Effect::Trust { grant, until } => {
                if until.is_over(node.clock(now)) {
                    return Err(format!("n{index} trusts {} too late", grant.term));
                }
                node.trust = Some((grant.term.epoch, until));
            }
            Effect::Lapse => node.trust = None,
            Effect::Publish(Transition::Leading(grant)) => {
                if node.leads.is_some() || node.check(now) != Some(grant.term.epoch) {
                    return Err(format!("n{index} publishes that it leads: {:?}", node.leads));
                }
                node.leads = Some(grant.term.epoch);
            }
            Effect::Publish(Transition::Following(_)) => {
                if node.leads.take().is_none() {
                    return Err(format!("n{index} publishes twice that it follows"));
                }
            }
            Effect::Activate { run, .. } => {
                if node.works.is_none() {
                    node.was_stopped = now < node.stopped_until;
                }
                node.works = Some(run);
                let failed = self.draw.draw().is_multiple_of(10);
                let answer = if failed { Err(Abort("no".to_owned())) } else { Ok(()) };
                let at = now + self.between(MILLI, 2 * SECOND);
                self.at(at, Happening::Arrives(index, Input::Activated { run, answer }));
            }
            Effect::Deactivate { run, .. } => {
                let at = now + self.between(MILLI, 3 * SECOND);
                self.at(at, Happening::Arrives(index, Input::Stopped { run }));
            }
            Effect::Abort { run } => {
                self.seen.aborted += 1;
                self.at(now, Happening::Arrives(index, Input::Aborted { run }));
            }
            Effect::Emit(event) => match event.what {
                What::Lost { why: Lost::TrustLapsed } => self.seen.lapsed += 1,
                What::UnusableGrant { .. } => self.seen.late += 1,
                _ => {}
            },
            Effect::Inform { .. } | Effect::Follow { .. } | Effect::End(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, now: Micros, node: usize, call: CallId, op: Op) -> Result<(), String> {
        if let Some(other) = self.nodes[node].in_flight.replace(call) {
            return Err(format!("n{node} has two calls in flight: {other:?}, {call:?}"));
        }
        let at = now + self.way(now);
        let back = at + self.way(now);
        let (at, answer) = match self.draw.draw() % 100 {
            _ if now >= self.calm_from => (at, Answer::True(back)),
            0..80 => (at, Answer::True(back)),
            // Carried out, and nobody knows.
            80..88 => (at, Answer::Unknown(back)),
            // Carried out, and never answered.
            88..93 => (at, Answer::None),
            // Given up, and carried out much later.
            _ => {
                self.seen.landed_late += 1;
                (back + self.between(0, 15 * SECOND), Answer::None)
            }
        };
        if !matches!(answer, Answer::True(_)) {
            self.seen.unknown += 1;
        }
        self.at(at, Happening::Lands(node, call, op, answer));
        Ok(())
    }

    fn check(&self, now: Micros) -> Result<(), String> {
        let yes: Vec<_> =
            (0..self.nodes.len()).filter_map(|n| self.nodes[n].check(now).map(|epoch| (n, epoch))).collect();
        if yes.len() > 1 {
            return Err(format!("{now} us: all of these lead: {yes:?}"));
        }
        // Whoever leads has the seat, by the authority's own clock.
        if let [(node, epoch)] = yes[..] {
            let holder = self.holder.as_ref().filter(|_| now < self.expires);
            if holder.is_none_or(|(term, _)| term.epoch != epoch) {
                return Err(format!("{now} us: n{node} leads in {epoch}, and the seat is {holder:?}"));
            }
        }
        // Of processes that run, no two work: each stops, or is aborted, before the lease can end.
        let work = |node: &&Node| node.works.is_some() && !node.was_stopped;
        if self.nodes.iter().filter(work).count() > 1 {
            return Err(format!("{now} us: two roles are at work"));
        }
        let mut believed: Vec<_> = self.nodes.iter().filter_map(|node| node.leads).collect();
        believed.sort();
        if believed.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("{now} us: two believe in one epoch: {believed:?}"));
        }
        Ok(())
    }
}

fn granted(term: Term, ballot: u64, lease: Micros) -> Verdict<Fence> {
    let fence = Fence { epoch: term.epoch, ballot: Ballot(ballot) };
    let validity = Validity::For(Duration::from_micros(lease));
    Verdict::Granted(Grant { term, fence, validity, refresh_in: Some(Duration::from_micros(lease / 3)) })
}

fn denied(leader: Option<Term>) -> Verdict<Fence> {
    Verdict::Denied(Denial { why: Refusal::Held, leader, retry_in: None })
}

fn unknown(input: Input<Fence>) -> Input<Fence> {
    let fault = Fault::Transient { maybe_committed: true, cause: "lost".to_owned() };
    match input {
        Input::Answered { call, .. } => Input::Answered { call, answer: Err(fault) },
        Input::Abdicated { call, .. } => Input::Abdicated { call, answer: Err(fault) },
        other => other,
    }
}

#[test]
fn random_schedules_keep_the_invariants() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed, Twist::None);
        world.run(120 * SECOND).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        // Healed: somebody leads within a lease, the longest backoff and what was on its way.
        world.calm_from = 120 * SECOND;
        world.run(180 * SECOND).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let leads = world.nodes.iter().filter(|node| node.leads.is_some()).count();
        assert_eq!(leads, 1, "seed {seed}: nobody leads after all is well");
        let new = world.seen;
        seen.terms += new.terms;
        seen.lapsed += new.lapsed;
        seen.late += new.late;
        seen.unknown += new.unknown;
        seen.landed_late += new.landed_late;
        seen.aborted += new.aborted;
        seen.resigned += new.resigned;
        seen.repeated += new.repeated;
    }
    // The rules mean something only if what they forbid was near.
    let least = [
        seen.terms,
        seen.lapsed,
        seen.late,
        seen.unknown,
        seen.landed_late,
        seen.aborted,
        seen.resigned,
        seen.repeated,
    ];
    assert!(least.iter().all(|count| *count > 20), "{seen:?}");
}

/// Clocks that stop with their machine are what the boot-time clock is for; and these schedules would tell.
#[test]
fn c11_a_clock_that_stops_in_suspend_is_found_out() {
    let wrong = wrong(Twist::ClocksStop);
    assert!(wrong > 20, "{wrong}");
}

/// An authority that makes its lease shorter, and whose answer to that refresh is lost, has a leader that goes by the
/// longer one: it must let that one end first.
#[test]
fn a_lease_that_is_made_shorter_counts_when_the_leader_is_known_to_know() {
    assert_eq!(wrong(Twist::Shortened), 0);
    let wrong = wrong(Twist::ShortenedAtOnce);
    assert!(wrong > 0);
}

/// In how many schedules something was wrong.
fn wrong(twist: Twist) -> usize {
    (0..SEEDS).filter(|seed| World::new(*seed, twist).run(120 * SECOND).is_err()).count()
}
