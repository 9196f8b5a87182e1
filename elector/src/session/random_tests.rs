//! Random schedules of a host and its observers, with drifting clocks, stopped processes, slow, unknown and late
//! commits: a session is never closed while its host trusts it (P1).

use std::{collections::BTreeMap, time::Duration};

use super::{test_store::Rows, *};
use crate::{
    ids::{ClusterName, Incarnation, NodeName, SessionId, SessionNumber},
    keys::ClusterKeys,
    random::SplitMix64,
    record::{Record, SessionRecord},
    store::{CommitOutcome, Proof, StoreError, Transaction},
    time::Time,
};

/// Microseconds of true time, which nobody can see.
type Micros = u64;

/// More find more; these take some seconds.
const SEEDS: u64 = 400;

const MILLI: Micros = 1_000;
const SECOND: Micros = 1_000 * MILLI;

/// What happens at some time.
enum Happening {
    Arrives {
        node: usize,
        input: Input,
    },
    /// A transaction reaches the store.
    Lands {
        node: usize,
        id: RequestId,
        transaction: Transaction,
        answer: Option<(Micros, CommitOutcome)>,
    },
    /// A read reaches the store.
    Reads {
        node: usize,
        id: RequestId,
        reads: Vec<crate::store::Read>,
        answer_at: Micros,
    },
}

struct Node {
    core: Session,
    /// How fast its clock runs, in millionths.
    rate: u64,
    offset: Micros,
    wake: Option<Time>,
    trust: Option<(SessionNumber, Time)>,
    /// It does not run before this time.
    stopped_until: Micros,
}

impl Node {
    fn clock(&self, now: Micros) -> Time {
        Time(Duration::from_micros(self.offset + now * self.rate / 1_000_000))
    }

    /// When, in true time, its clock shows `at`.
    fn reaches(&self, at: Time) -> Micros {
        let local = u64::try_from(at.0.as_micros()).unwrap().saturating_sub(self.offset) + 1;
        (local * 1_000_000).div_ceil(self.rate)
    }

    fn trusts(&self, now: Micros) -> Option<SessionNumber> {
        self.trust.filter(|(_, until)| self.clock(now) < *until).map(|(number, _)| number)
    }
}

/// How often each thing happened that the schedules are there for.
#[derive(Debug, Default)]
struct Seen {
    closed_by_others: usize,
    lapsed: usize,
    resumed: usize,
    lost: usize,
    unknown: usize,
    landed_late: usize,
}

struct World {
    rows: Rows,
    nodes: Vec<Node>,
    happenings: BTreeMap<(Micros, u64), Happening>,
    count: u64,
    draw: SplitMix64,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut draw = SplitMix64::new(seed);
        let nodes = (0..3)
            .map(|index| {
                let config = SessionConfig {
                    cluster: ClusterName::new("c").unwrap(),
                    node: NodeName::new(format!("n{index}")).unwrap(),
                    incarnation: Incarnation(index + 1),
                    timing: SessionTiming::default(),
                    seed: seed + index,
                };
                let mut core = Session::new(config).unwrap();
                let mut none = Vec::new();
                core.step(Time::ZERO, Input::Leads(index == 1), &mut none);
                // Within 1000 ppm of each other.
                let rate = 999_500 + draw.draw() % 1_000;
                let offset = draw.draw() % SECOND;
                Node { core, rate, offset, wake: None, trust: None, stopped_until: 0 }
            })
            .collect();
        let mut world = Self {
            rows: Rows::default(),
            nodes,
            happenings: BTreeMap::new(),
            count: 0,
            draw,
            seen: Seen::default(),
        };
        for node in 0..3 {
            world.at(0, Happening::Arrives { node, input: Input::Start });
        }
        world
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw.draw() % 100 < percent
    }

    fn between(&mut self, low: Micros, high: Micros) -> Micros {
        low + self.draw.draw() % (high - low)
    }

    fn at(&mut self, time: Micros, happening: Happening) {
        self.count += 1;
        self.happenings.insert((time, self.count), happening);
    }

    /// How long one way to the store takes: mostly short, sometimes very long.
    fn way(&mut self) -> Micros {
        match self.draw.draw() % 20 {
            0 => self.between(SECOND, 6 * SECOND),
            1..4 => self.between(100 * MILLI, SECOND),
            _ => self.between(MILLI, 10 * MILLI),
        }
    }

    fn run(&mut self, until: Micros, seed: u64) {
        loop {
            let happens = self.happenings.keys().next().copied();
            let wakes = (0..self.nodes.len())
                .filter_map(|n| {
                    let node = &self.nodes[n];
                    node.wake.map(|at| (node.reaches(at).max(node.stopped_until), n))
                })
                .min();
            let (now, wake) = match (happens, wakes) {
                (Some((at, _)), Some((wake, node))) if wake < at => (wake, Some(node)),
                (Some((at, _)), _) => (at, None),
                (None, Some((wake, node))) => (wake, Some(node)),
                (None, None) => return,
            };
            if now > until {
                return;
            }
            if let Some(node) = wake {
                self.nodes[node].wake = None;
                self.arrive(now, node, Input::Wake);
            } else if let Some((_, happening)) = self.happenings.pop_first() {
                self.happen(now, happening);
            }
            self.check(now, seed);
        }
    }

    fn happen(&mut self, now: Micros, happening: Happening) {
        match happening {
            Happening::Arrives { node, input } if now < self.nodes[node].stopped_until => {
                let later = self.nodes[node].stopped_until;
                self.at(later, Happening::Arrives { node, input });
            }
            Happening::Arrives { node, input } => self.arrive(now, node, input),
            Happening::Reads { node, id, reads, answer_at } => {
                let result = Ok(self.rows.read(&reads));
                self.at(
                    answer_at.max(now),
                    Happening::Arrives { node, input: Input::ReadDone { id, result } },
                );
            }
            Happening::Lands { node, id, transaction, answer } => {
                let outcome = self.rows.commit(&transaction);
                let Some((at, said)) = answer else { return };
                let outcome = if said == CommitOutcome::Unknown { said } else { outcome };
                self.at(at.max(now), Happening::Arrives { node, input: Input::CommitDone { id, outcome } });
            }
        }
    }

    fn arrive(&mut self, now: Micros, node: usize, input: Input) {
        // Stopped by a signal, or by the machine.
        if self.chance(1) && self.chance(30) {
            self.nodes[node].stopped_until = now + self.between(SECOND, 25 * SECOND);
        }
        let mut effects = Vec::new();
        let clock = self.nodes[node].clock(now);
        self.nodes[node].core.step(clock, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Read { id, reads } => {
                    if self.chance(3) {
                        let result = Err(StoreError::Unavailable("down".to_owned()));
                        self.at(now, Happening::Arrives { node, input: Input::ReadDone { id, result } });
                    } else {
                        let at = now + self.way();
                        let answer_at = at + self.way();
                        self.at(at, Happening::Reads { node, id, reads, answer_at });
                    }
                }
                Effect::Commit { id, transaction } => self.send(now, node, id, transaction),
                Effect::Prove { node: whom, incarnation } => {
                    let input = Input::Proof { node: whom, incarnation, proof: Proof::None };
                    self.at(now + MILLI, Happening::Arrives { node, input });
                }
                Effect::Trust { number, until } => self.nodes[node].trust = Some((number, until)),
                Effect::Lapse => self.nodes[node].trust = None,
                Effect::WakeAt(at) => self.nodes[node].wake = Some(at),
                Effect::Emit(event) => match event {
                    SessionEvent::Lapsed { .. } => self.seen.lapsed += 1,
                    SessionEvent::Resumed { .. } => self.seen.resumed += 1,
                    SessionEvent::Lost { .. } => self.seen.lost += 1,
                    SessionEvent::PeerClosed(_) => self.seen.closed_by_others += 1,
                    _ => {}
                },
            }
        }
    }

    fn send(&mut self, now: Micros, node: usize, id: RequestId, transaction: Transaction) {
        let at = now + self.way();
        let back = at + self.way();
        let unknown = Some((back, CommitOutcome::Unknown));
        match self.draw.draw() % 100 {
            // Carried out, and answered as it is.
            0..70 => {
                let answer = Some((back, CommitOutcome::Conflict));
                self.at(at, Happening::Lands { node, id, transaction, answer });
            }
            // Carried out, and nobody knows.
            70..80 => {
                self.seen.unknown += 1;
                self.at(at, Happening::Lands { node, id, transaction, answer: unknown });
            }
            // Not carried out, and nobody knows.
            80..86 => {
                let input = Input::CommitDone { id, outcome: CommitOutcome::Unknown };
                self.at(back, Happening::Arrives { node, input });
            }
            // Given up, and carried out much later.
            86..92 => {
                self.seen.landed_late += 1;
                let input = Input::CommitDone { id, outcome: CommitOutcome::Unknown };
                self.at(back, Happening::Arrives { node, input });
                let late = back + self.between(0, 15 * SECOND);
                self.at(late, Happening::Lands { node, id, transaction, answer: None });
            }
            // Carried out, and never answered.
            92..96 => self.at(at, Happening::Lands { node, id, transaction, answer: None }),
            _ => {
                let outcome = CommitOutcome::Unavailable("down".to_owned());
                self.at(back, Happening::Arrives { node, input: Input::CommitDone { id, outcome } });
            }
        }
    }

    /// Whoever trusts a session has it open in the store.
    fn check(&self, now: Micros, seed: u64) {
        let keys = ClusterKeys::new(&ClusterName::new("c").unwrap());
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(number) = node.trusts(now) else { continue };
            let name = NodeName::new(format!("n{index}")).unwrap();
            let record =
                self.rows.rows.get(&keys.session(&name)).map(|v| SessionRecord::from_value(v).unwrap());
            let incarnation = Incarnation(index as u64 + 1);
            let session = SessionId { node: name, incarnation, number };
            assert!(
                record.as_ref().is_some_and(|r| r.is_open_as(&session)),
                "seed {seed}, {now} us: {session} is trusted, but the store has {record:?}"
            );
        }
    }
}

#[test]
fn a_session_is_never_closed_while_its_host_trusts_it() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.run(120 * SECOND, seed);
        seen.closed_by_others += world.seen.closed_by_others;
        seen.lapsed += world.seen.lapsed;
        seen.resumed += world.seen.resumed;
        seen.lost += world.seen.lost;
        seen.unknown += world.seen.unknown;
        seen.landed_late += world.seen.landed_late;
    }
    // The rule means something only if what it forbids was near.
    let least = [seen.closed_by_others, seen.lapsed, seen.resumed, seen.lost, seen.unknown, seen.landed_late]
        .into_iter()
        .min();
    assert!(least > Some(100), "{seen:?}");
}
