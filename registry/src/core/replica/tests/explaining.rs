//! What a replica says of a name is what the log says, or that it does not remember.

use std::time::Duration;

use callsign_store::random::SplitMix64;

use super::*;
use crate::core::explained::{Explained, MAX_TOLD, NameState, PastChange, WhyFree};

const NAMES: [&str; 6] = ["u", "v", "w", "x", "y", "z"];

fn at(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

fn explain(replica: &Held, name: &str) -> Explained {
    replica.explain(&name.into())
}

/// The change by which a name came to be free.
fn ended(replica: &Held, name: &str) -> PastChange {
    match explain(replica, name).state {
        NameState::Free(WhyFree::Ended(last)) => last,
        other => panic!("{name}: {other:?}"),
    }
}

fn unregister_for(name: &str, position: u64, why: GivenUp) -> Op {
    Op::Unregister { name: name.into(), position: Position(position), why }
}

/// A log, what it says of each name, and a replica that follows it with gaps.
struct Log {
    random: SplitMix64,
    position: u64,
    /// The number of the present session of each node.
    sessions: [u64; 2],
    /// Follows without a gap.
    whole: Held,
    replica: Held,
    /// Batches are missing.
    is_cut: bool,
    /// Where, which name, why, and whether it is free then.
    changes: Vec<(Position, &'static str, Why, bool)>,
    resets: Vec<Position>,
}

impl Log {
    fn new(seed: u64) -> Self {
        let (whole, replica) = (replica(), replica());
        let random = SplitMix64::new(seed);
        let (changes, resets) = (Vec::new(), vec![Position(0)]);
        Self { random, position: 0, sessions: [1, 1], whole, replica, is_cut: false, changes, resets }
    }

    fn draw(&mut self, below: u32) -> u32 {
        u32::try_from(self.random.draw() % u64::from(below)).unwrap()
    }

    fn session(&self, of: u32) -> Arc<SessionId> {
        let number = SessionNumber(self.sessions[of as usize]);
        Arc::new(SessionId { number, ..SessionId::clone(&session(["a", "b"][of as usize])) })
    }

    fn write(&mut self, ops: Vec<Op>) {
        self.position += 1;
        let batch = Batch { sessions: vec![self.session(0), self.session(1)], ..batch(self.position, ops) };
        self.whole.apply(&batch);
        while self.whole.is_busy() {
            self.whole.proceed(99);
        }
        if !self.is_cut {
            self.replica.apply(&batch);
        }
    }

    /// Something happens to a name.
    fn change(&mut self) {
        let (name, kind, of) = (NAMES[self.draw(6) as usize], self.draw(7), self.draw(2));
        let next = Position(self.position + 1);
        let Some(row) = self.whole.row(name) else {
            let (why, actor) =
                if kind == 0 { (Why::Starting, None) } else { (Why::Registered, Some(self.position)) };
            self.changes.push((next, name, why, false));
            return self.write(vec![register_of(of, name, actor)]);
        };
        let token = row.position.0;
        let (why, op) = match kind {
            0 => (Why::Unregistered, unregister(name, token)),
            1 => (Why::ActorEnded, unregister_for(name, token, GivenUp::ActorEnded)),
            2 => {
                let failed = GivenUp::StartFailed { reason: "no disk".into() };
                ((&failed).into(), unregister_for(name, token, failed))
            }
            3 => (Why::Bound, bind(name, token)),
            4 => (Why::Updated, update(name, token)),
            _ => (Why::Transferred, transfer(name, token, of)),
        };
        self.changes.push((next, name, why, kind < 3));
        self.write(vec![op]);
    }

    /// A session is closed: what it held is free, or a reset frees everything.
    fn free_many(&mut self, session: Option<u32>) {
        let next = Position(self.position + 1);
        let ids = [self.session(0), self.session(1)];
        let is_freed = |name: &&str| {
            let row = self.whole.row(name);
            row.is_some_and(|row| session.is_none_or(|of| row.session == ids[of as usize]))
        };
        let freed: Vec<_> = NAMES.into_iter().filter(is_freed).collect();
        let why = if session.is_some() { Why::NodeGone } else { Why::Reset };
        self.changes.extend(freed.into_iter().map(|name| (next, name, why.clone(), true)));
        if let Some(of) = session {
            self.write(vec![Op::HostGone { session: of }]);
            self.sessions[of as usize] += 1;
        } else {
            self.resets.push(next);
            self.write(vec![Op::Reset]);
        }
    }

    /// The replica loses its base, or gets one again by a snapshot.
    fn cut(&mut self) {
        self.is_cut = !self.is_cut;
        if self.is_cut {
            return self.replica.give_up_base();
        }
        assert!(self.replica.install(snapshot(&self.whole), Epoch(1), self.whole.end()));
        self.check();
        while self.replica.is_busy() {
            self.replica.proceed(2);
        }
    }

    /// What the replica says of every name is true. How often each kind of answer was met.
    fn check(&self) -> [u32; 5] {
        let mut met = [0; 5];
        let is_known = self.replica.is_based();
        for name in NAMES {
            let said = explain(&self.replica, name);
            let logged = |change: &PastChange| {
                let PastChange { change, .. } = change;
                let is_it = |(at, of, why, is_free): &(Position, &str, Why, bool)| {
                    (*at, *of, why, *is_free) == (change.position, name, &change.why, change.now.is_none())
                };
                self.changes.iter().any(is_it)
            };
            assert!(said.changes.iter().all(logged), "{name}: {said:?}");
            // What a change brings was changed there.
            let is_of_then = |told: &PastChange| {
                told.change.now.as_ref().is_none_or(|now| now.revision == told.change.position)
            };
            assert!(said.changes.iter().all(is_of_then), "{name}: {said:?}");
            assert_eq!(is_known, said.remembers_from.is_some());
            let last = self.changes.iter().rev().find(|(_, of, ..)| *of == name);
            let last_at = last.map_or(Position(0), |(at, ..)| *at);
            let kind = match &said.state {
                NameState::Unknown => {
                    assert!(!is_known && said.changes.is_empty());
                    0
                }
                NameState::Held { entry, .. } => {
                    assert_eq!(Some(entry), self.whole.row(name).map(|row| row.entry()).as_ref());
                    1
                }
                NameState::Free(WhyFree::Ended(change)) => {
                    assert!(last.is_some_and(|(at, _, why, is_free)| {
                        (*at, why, *is_free) == (change.change.position, &change.change.why, true)
                    }));
                    2
                }
                NameState::Free(WhyFree::Reset { position, .. }) => {
                    assert!(self.resets.contains(position) && last_at <= *position);
                    3
                }
                NameState::Free(WhyFree::NotRemembered { since }) => {
                    assert!(last_at <= *since && *since > Position(0), "{name}: {last:?} {since}");
                    4
                }
            };
            assert_eq!(kind == 1, is_known && self.whole.row(name).is_some(), "{name}: {said:?}");
            met[kind] += 1;
        }
        met
    }
}

#[test]
fn why_a_name_is_free_is_the_last_reason_of_the_log_or_it_is_not_remembered() {
    let mut met = [0; 5];
    for seed in 0..400 {
        let mut log = Log::new(seed);
        for _ in 0..60 {
            match log.draw(24) {
                0 => log.cut(),
                1 if log.draw(4) == 0 && !log.is_cut => log.free_many(None),
                2 | 3 => {
                    let of = log.draw(2);
                    log.free_many(Some(of));
                }
                4 => log.replica.remember(),
                5 => log.replica.remember_nothing(),
                // Some of what is gone is swept late.
                6..10 => {
                    log.replica.proceed(1);
                }
                _ => log.change(),
            }
            log.check().iter().zip(&mut met).for_each(|(more, met)| *met += more);
        }
    }
    assert!(met.iter().all(|met| *met > 100), "each kind of answer was met: {met:?}");
}

#[test]
fn a_name_that_went_with_its_session_is_explained_before_it_is_swept_and_after() {
    let mut replica = replica();
    replica.apply(&batch(1, vec![register("x"), register("y")]));
    let row = replica.row("x").unwrap();
    replica.apply(&batch(2, vec![Op::HostGone { session: 0 }]));
    assert_eq!(replica.past.went_at(&row), Some(Position(2)));
    for _ in 0..3 {
        for name in ["x", "y"] {
            let PastChange { change, .. } = ended(&replica, name);
            assert_eq!((change.position, change.why), (Position(2), Why::NodeGone));
            assert_eq!(change.was.map(|was| was.token), Some(Position(1)));
        }
        replica.proceed(1);
    }
    assert!(!replica.is_busy());
    assert_eq!(replica.past.went_at(&row), None, "it remembers by name");
    // It is taken again before it is swept.
    replica.apply(&batch(3, vec![register("x")]));
    replica.apply(&batch(4, vec![Op::HostGone { session: 0 }]));
    replica.apply(&batch(5, vec![register_of(1, "x", Some(9))]));
    let said = explain(&replica, "x");
    let ends: Vec<_> = said.changes.iter().map(|told| told.change.position.0).collect();
    assert!(matches!(said.state, NameState::Held { .. }) && ends == [2, 4], "{said:?}");
}

#[test]
fn a_transfer_is_told_with_both_holders_and_metadata_is_told_where_somebody_watches() {
    let mut replica = replica();
    replica.apply(&batch(1, vec![register("x")]));
    replica.apply(&batch(2, vec![update("x", 1)]));
    replica.apply(&batch(3, vec![transfer("x", 1, 1)]));
    let told = explain(&replica, "x").changes;
    let [PastChange { change, .. }] = told.as_slice() else { panic!("{told:?}") };
    let tokens = [&change.was, &change.now].map(|entry| entry.as_ref().map(|entry| entry.token.0));
    assert_eq!((tokens, &change.why), ([Some(1), Some(3)], &Why::Transferred));
    assert_eq!(change.was.as_ref().map(|was| (was.revision.0, was.meta.is_some())), Some((2, false)));
    replica.remember();
    replica.apply(&batch(4, vec![update("x", 3)]));
    replica.apply(&batch(5, vec![unregister("x", 3)]));
    let told = explain(&replica, "x").changes;
    let whys: Vec<_> = told.iter().map(|told| told.change.why.as_str()).collect();
    assert_eq!(whys, ["transferred", "updated", "unregistered"]);
    let last = told[2].change.was.as_ref();
    assert!(last.is_some_and(|was| was.meta.is_some() && was.revision == Position(4)), "{last:?}");
}

#[test]
fn so_many_registrations_are_remembered_and_what_is_older_is_not_called_never_held() {
    let mut replica = replica();
    let begun = NameState::Free(WhyFree::Reset { position: Position(0), ago: None });
    assert_eq!(explain(&replica, "n0").state, begun);
    let names: Vec<_> = (0..=MAX_ENDED).map(|number| format!("n{number}")).collect();
    for (nth, name) in (0..).zip(&names) {
        replica.apply(&batch(2 * nth + 1, vec![register(name)]));
        replica.apply(&batch(2 * nth + 2, vec![unregister(name, 2 * nth + 1)]));
    }
    let forgotten = NameState::Free(WhyFree::NotRemembered { since: Position(2) });
    assert_eq!(explain(&replica, "n0").state, forgotten);
    assert_eq!(explain(&replica, "nobody").state, forgotten, "it may have been held as n0 was");
    assert_eq!(ended(&replica, "n1").change.position, Position(4));
    // Memberships take no room.
    let next = 2 * names.len() as u64 + 1;
    let member = GroupId::group("g").member(&session("a"), 1);
    replica.apply(&batch(next, vec![register(&member)]));
    replica.apply(&batch(next + 1, vec![unregister(&member, next)]));
    assert_eq!(ended(&replica, "n1").change.position, Position(4));
}

#[test]
fn the_last_changes_are_told_and_no_more_than_so_many() {
    let mut replica = replica();
    for nth in 0..40 {
        replica.apply(&batch(2 * nth + 1, vec![register("x")]));
        replica.apply(&batch(2 * nth + 2, vec![unregister("x", 2 * nth + 1)]));
    }
    let told = explain(&replica, "x").changes;
    let positions: Vec<_> = told.iter().map(|told| told.change.position.0).collect();
    let expected: Vec<_> = (40 - MAX_TOLD as u64..40).map(|nth| 2 * nth + 2).collect();
    assert_eq!(positions, expected);
}

#[test]
fn how_long_ago_something_was_applied_is_known_to_about_a_second() {
    let mut replica = replica();
    for (position, millis) in [(1, 100_000), (2, 100_900), (3, 101_100), (4, 105_000)] {
        replica.tick(Time(Duration::from_millis(millis)));
        replica.apply(&batch(position, vec![register(&format!("n{position}"))]));
    }
    replica.tick(at(110));
    let ago = |replica: &Held, name: &str| match explain(replica, name).state {
        NameState::Held { ago, .. } => ago.map(|ago| ago.as_millis()),
        other => panic!("{other:?}"),
    };
    let all = ["n1", "n2", "n3", "n4"].map(|name| ago(&replica, name));
    assert_eq!(all, [Some(10_000), Some(10_000), Some(8_900), Some(5_000)]);
    replica.apply(&batch(5, vec![update("n4", 4), unregister("n1", 1)]));
    assert_eq!(ended(&replica, "n1").ago, Some(Duration::ZERO));
    let NameState::Held { ago: since, changed_ago, .. } = explain(&replica, "n4").state else { panic!() };
    assert_eq!((since, changed_ago), (Some(Duration::from_secs(5)), Some(Duration::ZERO)));

    // What is read from the log was committed some time ago.
    replica.applies_late();
    replica.apply(&batch(6, vec![register("n5")]));
    assert_eq!(ago(&replica, "n5"), None);
    replica.tick(at(112));
    assert_eq!((ago(&replica, "n5"), ago(&replica, "n4")), (None, Some(7_000)));

    // What a snapshot brings was applied by somebody else. What was applied here before keeps its time.
    let mut whole = replica.clone();
    whole.apply(&batch(7, vec![register("n6")]));
    replica.give_up_base();
    replica.tick(at(120));
    assert!(replica.install(snapshot(&whole), Epoch(1), whole.end()));
    while replica.is_busy() {
        replica.proceed(9);
    }
    assert_eq!(["n2", "n6"].map(|name| ago(&replica, name)), [Some(20_000), None]);
    // Of a log that was lost no time is known.
    replica.forget();
    assert!(replica.install(snapshot(&whole), Epoch(1), whole.end()));
    while replica.is_busy() {
        replica.proceed(9);
    }
    assert_eq!(ago(&replica, "n2"), None);
}

#[test]
fn so_many_times_are_remembered_and_the_oldest_are_forgotten_first() {
    let times = 4096;
    let mut replica = replica();
    for position in 1..=times + 1 {
        replica.tick(at(position));
        replica.apply(&batch(position, Vec::new()));
    }
    let ago = |position: u64| replica.past.ago(Position(position)).map(|ago| ago.as_secs());
    assert_eq!([ago(1), ago(2), ago(times + 1)], [None, Some(times - 1), Some(0)]);
}

#[test]
fn of_a_replica_that_begins_anew_no_time_of_before_counts() {
    let mut replica = replica();
    replica.tick(at(100));
    replica.apply(&batch(1, vec![register("x")]));
    replica.give_up_base();
    replica.base_on_nothing();
    replica.tick(at(110));
    replica.apply(&batch(1, vec![register("x")]));
    let said = explain(&replica, "x").state;
    assert!(matches!(said, NameState::Held { ago: Some(Duration::ZERO), .. }), "{said:?}");
}
