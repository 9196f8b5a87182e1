//! Each rule, on a history that keeps it and on one that breaks it.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use callsign::{
    Kind,
    cores::{Batch, CallId, GivenUp, Message, Op, RequestNumber, Row, Slot},
};
use callsign_elector::record::{Leader, LogEnd, Term};
use callsign_store::{
    Time, Version,
    ids::{Ballot, Epoch, Incarnation, NodeName, Nonce, Position, Sequence, SessionId, SessionNumber, Token},
};

use crate::recording::{
    counts::{Count, RecordingCounts},
    merged::{InCluster, InRegistry, grants::RecordedGrant, holders::RecordedClaim},
    place::{Place, Process},
};

fn process(name: &str) -> Process {
    Process { node: NodeName::new(name).unwrap(), incarnation: Incarnation(1) }
}

fn place(frame: u64) -> Place {
    Place::beginning(Path::new("x.rec")).at(frame)
}

fn at(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

fn session(name: &str) -> SessionId {
    let Process { node, incarnation } = process(name);
    SessionId { node, incarnation, number: SessionNumber(1) }
}

/// A batch in which the actor 7 of `host` gets a name.
fn batch(position: u64, epoch: u64, nonce: u64, host: &str, name: &str) -> Bytes {
    let register = Op::Register {
        name: name.into(),
        session: 0,
        request: RequestNumber(1),
        actor: Some(7),
        kind: Kind::of("x"),
        meta: None,
    };
    Batch {
        epoch: Epoch(epoch),
        nonce: Nonce(nonce),
        position: Position(position),
        prev: LogEnd::default(),
        sessions: vec![Arc::new(session(host))],
        ops: vec![register],
    }
    .encode()
}

fn term(epoch: u64, leader: &str) -> Term {
    let Process { node, incarnation } = process(leader);
    Term {
        leader: Some(Leader { node, incarnation, token: Token(1) }),
        epoch: Epoch(epoch),
        ballot: Ballot(epoch),
        elected_at: Version(1),
    }
}

/// The row that a batch makes of it.
fn row(position: u64, host: &str) -> Row {
    Row {
        position: Position(position),
        session: Arc::new(session(host)),
        request: RequestNumber(1),
        actor: 7,
        kind: Kind::of("x"),
        more: None,
        slot: Slot::default(),
    }
}

/// The rules that a history breaks, and what was counted.
fn judged(history: impl FnOnce(&mut InCluster, &mut InRegistry)) -> (Vec<&'static str>, RecordingCounts) {
    let (mut cluster, mut registry) = (InCluster::default(), InRegistry::default());
    history(&mut cluster, &mut registry);
    let (mut counts, mut breaches) = (RecordingCounts::default(), Vec::new());
    registry.finish(&cluster, &mut counts, &mut breaches);
    (breaches.into_iter().map(|breach| breach.rule).collect(), counts)
}

fn broken(history: impl FnOnce(&mut InCluster, &mut InRegistry)) -> Vec<&'static str> {
    judged(history).0
}

/// Two nodes that do everything once, in order.
fn good(cluster: &mut InCluster, registry: &mut InRegistry) {
    let (a, b) = (process("a"), process("b"));
    for (number, who) in [&a, &b].into_iter().enumerate() {
        let trust = cluster.trust_of(who);
        trust.grant(at(1), SessionNumber(1), at(10));
        trust.lives(at(20));
        registry.leaders.term(&who.node, &place(1), &term(1, "a"));
        registry.growth.view(who, &place(1), Version(1), Epoch(1));
        registry.growth.position(who, &place(2), Position(1));
        registry.log.see(&who.node, &place(2), Position(1), &batch(1, 1, 1, "a", "desk"));
        registry.prefixes.held(who, &place(2), Position(1), [("desk".into(), row(1, "a"))].into());
        registry.claims.believes(who, &place(2), SessionNumber(1), at(2));
        registry.queue.take(&place(3), &vec![u8::try_from(number).unwrap()]);
        registry.queue.apply(&place(3), &session(who.node.as_str()), Sequence(1));
        registry.calls.call(who, &place(4), CallId(1));
        registry.calls.answer(who, &place(5), CallId(1));
    }
    registry.log.propose(&a, &place(1), Position(1), batch(1, 1, 1, "a", "desk"));
    registry.leaders.speaks(&a, &place(2), Epoch(1));
    registry.messages.asked(a.clone(), b.clone(), &Message::HandoffDone { epoch: Epoch(1) });
    registry.messages.came(a.clone(), b.clone(), &place(2), &Message::HandoffDone { epoch: Epoch(1) });
    registry.grants.grant(grant("desk", 1));
    registry.claims.claim("desk".into(), claim("a", 2, Some(4)));
    registry.claims.claim("desk".into(), claim("b", 4, None));
}

fn grant(name: &str, token: u64) -> RecordedGrant {
    RecordedGrant {
        process: process("a"),
        place: place(5),
        session: SessionNumber(1),
        name: name.into(),
        actor: 7,
        token: Position(token),
    }
}

fn claim(node: &str, from: u64, until: Option<u64>) -> RecordedClaim {
    RecordedClaim {
        process: process(node),
        place: place(from),
        session: SessionNumber(1),
        token: Position(1),
        from: at(from),
        until: until.map(at),
    }
}

#[test]
fn a_good_history_breaks_nothing_and_exercises_every_check() {
    let (broken, mut counts) = judged(good);
    assert_eq!(broken, Vec::<&str>::new());
    counts.add(Count::Steps, 1);
    counts.add(Count::Effects, 1);
    assert_eq!(counts.never(), []);
    assert_eq!(counts.get(Count::Handed), 1);
}

#[test]
fn two_batches_at_one_position_are_noticed() {
    let found = broken(|_, registry| {
        registry.log.see(&process("a").node, &place(1), Position(1), &batch(1, 1, 1, "a", "desk"));
        registry.log.see(&process("b").node, &place(2), Position(1), &batch(1, 1, 2, "b", "desk"));
    });
    assert_eq!(found, ["a position has one batch"]);
}

#[test]
fn a_batch_that_says_another_position_or_cannot_be_read_is_noticed() {
    let found = broken(|_, registry| {
        registry.log.see(&process("a").node, &place(1), Position(1), &batch(2, 1, 1, "a", "desk"));
        registry.log.see(&process("a").node, &place(1), Position(2), &Bytes::from_static(b"?"));
    });
    assert_eq!(found, ["a batch says where it is"; 2]);
}

#[test]
fn an_epoch_that_goes_down_in_the_log_is_noticed() {
    let found = broken(|_, registry| {
        for (position, epoch) in [(1, 2), (2, 1)] {
            let batch = batch(position, epoch, position, "a", "desk");
            registry.log.see(&process("a").node, &place(1), Position(position), &batch);
        }
    });
    assert_eq!(found, ["epochs never go down in the log"]);
}

#[test]
fn two_that_commit_in_one_epoch_are_noticed_but_not_one_whose_batch_was_not_committed() {
    let history = |registry: &mut InRegistry, committed: &str| {
        for (position, by) in [(1, "a"), (2, committed)] {
            let batch = batch(position, 1, position, by, "desk");
            registry.log.propose(&process(by), &place(position), Position(position), batch.clone());
            registry.log.see(&process("c").node, &place(9), Position(position), &batch);
        }
        registry.log.propose(&process("b"), &place(8), Position(2), batch(2, 1, 5, "b", "desk"));
    };
    assert_eq!(broken(|_, registry| history(registry, "b")), ["an epoch has one committing leader"]);
    assert_eq!(broken(|_, registry| history(registry, "a")), Vec::<&str>::new());
}

#[test]
fn two_leaders_of_one_epoch_are_noticed() {
    let found = broken(|_, registry| {
        registry.leaders.term(&process("a").node, &place(1), &term(1, "a"));
        registry.leaders.term(&process("b").node, &place(2), &term(1, "b"));
    });
    assert_eq!(found, ["an epoch has one leader"]);
    let found = broken(|_, registry| {
        registry.leaders.speaks(&process("a"), &place(1), Epoch(1));
        registry.leaders.speaks(&process("b"), &place(2), Epoch(1));
    });
    assert_eq!(found, ["an epoch has one leader"]);
}

#[test]
fn a_leader_that_nobody_elected_is_noticed() {
    let speaks = broken(|_, registry| {
        registry.leaders.term(&process("a").node, &place(1), &term(1, "a"));
        registry.leaders.speaks(&process("b"), &place(2), Epoch(1));
    });
    let commits = broken(|_, registry| {
        registry.leaders.term(&process("a").node, &place(1), &term(1, "a"));
        registry.log.propose(&process("b"), &place(2), Position(1), batch(1, 1, 1, "b", "desk"));
        registry.log.see(&process("c").node, &place(3), Position(1), &batch(1, 1, 1, "b", "desk"));
    });
    assert_eq!([speaks, commits], [["only the elected leads"], ["only the elected leads"]]);
}

#[test]
fn a_message_at_another_incarnation_than_it_was_asked_for_is_noticed() {
    let came = |incarnation, times| {
        broken(|_, registry| {
            let to = |incarnation| Process { incarnation: Incarnation(incarnation), ..process("b") };
            let message = Message::HandoffDone { epoch: Epoch(1) };
            registry.messages.asked(process("a"), to(1), &message);
            for _ in 0..times {
                registry.messages.came(process("a"), to(incarnation), &place(2), &message);
            }
        })
    };
    let noticed = ["a message reaches the process that it was asked for"];
    assert_eq!((came(1, 0), came(1, 1)), (vec![], vec![]));
    assert_eq!((came(2, 1), came(1, 2)), (noticed.to_vec(), noticed.to_vec()));
}

#[test]
fn a_replica_and_a_view_that_go_back_are_noticed() {
    let found = broken(|_, registry| {
        registry.growth.position(&process("a"), &place(1), Position(5));
        registry.growth.position(&process("a"), &place(2), Position(4));
    });
    assert_eq!(found, ["a replica only goes forward"]);
    for (version, epoch) in [(4, 5), (5, 4)] {
        let found = broken(|_, registry| {
            registry.growth.view(&process("a"), &place(1), Version(5), Epoch(5));
            registry.growth.view(&process("a"), &place(2), Version(version), Epoch(epoch));
        });
        assert_eq!(found, ["views only go forward"]);
    }
    // Another incarnation begins anew.
    let found = broken(|_, registry| {
        registry.growth.position(&process("a"), &place(1), Position(5));
        let again = Process { incarnation: Incarnation(2), ..process("a") };
        registry.growth.position(&again, &place(1), Position(1));
    });
    assert_eq!(found, Vec::<&str>::new());
}

#[test]
fn a_replica_that_holds_something_else_than_the_log_says_is_noticed() {
    let desk = || ("desk".into(), row(1, "a"));
    let door = || ("door".into(), row(3, "b"));
    let with = |position, rows: &[(callsign::Name, Row)]| {
        broken(|_, registry| {
            let unregister = |position, name: &str, of| {
                let ops = vec![Op::Unregister {
                    name: name.into(),
                    position: Position(of),
                    why: GivenUp::Unregistered,
                }];
                let (epoch, nonce, position) = (Epoch(1), Nonce(position), Position(position));
                Batch { epoch, nonce, position, prev: LogEnd::default(), sessions: Vec::new(), ops }.encode()
            };
            let gone = Batch {
                epoch: Epoch(1),
                nonce: Nonce(4),
                position: Position(5),
                prev: LogEnd::default(),
                sessions: vec![Arc::new(session("b"))],
                ops: vec![Op::HostGone { session: 0 }],
            };
            let log = [
                batch(1, 1, 1, "a", "desk"),
                unregister(2, "desk", 9), // of another registration
                batch(3, 1, 3, "b", "door"),
                unregister(4, "desk", 1),
                gone.encode(),
            ];
            for (position, batch) in (1..).zip(log) {
                registry.log.see(&process("a").node, &place(1), Position(position), &batch);
            }
            registry.prefixes.held(
                &process("a"),
                &place(2),
                Position(position),
                rows.iter().cloned().collect(),
            );
        })
    };
    let good = [vec![desk()], vec![desk()], vec![desk(), door()], vec![door()], vec![]];
    for (index, rows) in good.iter().enumerate() {
        for position in 1..=5 {
            let same = good[position - 1] == *rows;
            let found = with(position as u64, rows);
            assert_eq!(found.is_empty(), same, "{index} at {position}: {found:?}");
        }
    }
    // What nobody has recorded cannot be compared with.
    assert_eq!(with(6, &[]), Vec::<&str>::new());
}

#[test]
fn a_grant_that_the_log_does_not_have_is_noticed() {
    let rule = ["a grant is in the log"];
    let with = |grant: RecordedGrant| {
        broken(|_, registry| {
            registry.log.see(&process("a").node, &place(1), Position(1), &batch(1, 1, 1, "a", "desk"));
            registry.grants.grant(grant);
        })
    };
    assert_eq!(with(grant("desk", 1)), Vec::<&str>::new());
    assert_eq!(with(grant("door", 1)), rule);
    assert_eq!(with(grant("desk", 2)), rule);
    assert_eq!(with(RecordedGrant { actor: 8, ..grant("desk", 1) }), rule);
    assert_eq!(with(RecordedGrant { session: SessionNumber(2), ..grant("desk", 1) }), rule);
    assert_eq!(with(RecordedGrant { process: process("b"), ..grant("desk", 1) }), rule);
}

/// Two nodes trust their sessions until then, and claim a name.
fn held(until: [u64; 2], claims: [RecordedClaim; 2]) -> Vec<&'static str> {
    broken(|cluster, registry| {
        for (name, until) in ["a", "b"].into_iter().zip(until) {
            let trust = cluster.trust_of(&process(name));
            trust.grant(at(1), SessionNumber(1), at(until));
            trust.lives(at(20));
        }
        for claim in claims {
            registry.claims.claim("desk".into(), claim);
        }
    })
}

#[test]
fn two_that_hold_a_name_and_trust_their_sessions_are_noticed() {
    let rule = ["a name has one trusted holder"];
    assert_eq!(held([10, 10], [claim("a", 2, Some(5)), claim("b", 4, None)]), rule);
    assert_eq!(held([10, 10], [claim("a", 2, None), claim("b", 4, Some(5))]), rule);
    // It claims on, but does not trust: it was stopped.
    assert_eq!(held([4, 10], [claim("a", 2, None), claim("b", 4, None)]), Vec::<&str>::new());
    // It gave the name up at the moment at which the other got it.
    assert_eq!(held([10, 10], [claim("a", 2, Some(4)), claim("b", 4, None)]), Vec::<&str>::new());
    // One node may not overlap itself, but its claims are one after the other.
    assert_eq!(held([10, 10], [claim("a", 2, Some(5)), claim("a", 4, None)]), Vec::<&str>::new());
}

#[test]
fn a_lapse_ends_trust_and_the_end_of_a_process_ends_what_it_was_granted() {
    for (ends_by_lapse, expected) in [(true, 0), (false, 1)] {
        let found = broken(|cluster, registry| {
            let trust = cluster.trust_of(&process("a"));
            trust.grant(at(1), SessionNumber(1), at(10));
            trust.lives(at(3));
            if ends_by_lapse {
                trust.lapse(at(3));
            }
            trust.lives(at(if ends_by_lapse { 20 } else { 5 }));
            let other = cluster.trust_of(&process("b"));
            other.grant(at(1), SessionNumber(1), at(10));
            other.lives(at(20));
            registry.claims.claim("desk".into(), claim("a", 2, None));
            registry.claims.claim("desk".into(), claim("b", 4, None));
        });
        assert_eq!(found.len(), expected, "{found:?}");
    }
    // Killed at 3, so that 10 never came.
    let found = broken(|cluster, registry| {
        for (name, last) in [("a", 3), ("b", 20)] {
            let trust = cluster.trust_of(&process(name));
            trust.grant(at(1), SessionNumber(1), at(10));
            trust.lives(at(last));
        }
        registry.claims.claim("desk".into(), claim("a", 2, None));
        registry.claims.claim("desk".into(), claim("b", 4, None));
    });
    assert_eq!(found, Vec::<&str>::new());
}

#[test]
fn a_session_that_is_trusted_without_having_been_granted_is_noticed() {
    let found = broken(|cluster, registry| {
        let trust = cluster.trust_of(&process("a"));
        trust.grant(at(5), SessionNumber(1), at(10));
        trust.lives(at(20));
        registry.claims.believes(&process("a"), &place(1), SessionNumber(1), at(4));
        registry.claims.believes(&process("a"), &place(1), SessionNumber(2), at(6));
        registry.claims.believes(&process("b"), &place(1), SessionNumber(1), at(6));
    });
    assert_eq!(found, ["a session is trusted once that was granted"; 3]);
}

#[test]
fn a_call_that_is_answered_twice_or_was_never_made_is_noticed() {
    let found = broken(|_, registry| {
        registry.calls.call(&process("a"), &place(1), CallId(1));
        for frame in [2, 3] {
            registry.calls.answer(&process("a"), &place(frame), CallId(1));
        }
        registry.calls.answer(&process("b"), &place(4), CallId(1));
    });
    assert_eq!(found, ["a call is answered once"; 2]);
}

#[test]
fn an_entry_that_is_taken_off_the_queue_twice_is_noticed() {
    let found = broken(|_, registry| {
        for frame in [1, 2] {
            registry.queue.take(&place(frame), &b"entry".to_vec());
            registry.queue.apply(&place(frame), &session("a"), Sequence(3));
        }
        registry.queue.take(&place(3), &b"another".to_vec());
    });
    assert_eq!(found, ["an entry is taken off the queue once"; 2]);
}
