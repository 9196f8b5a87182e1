mod explaining;

use std::sync::Arc;

use callsign_store::ids::{Incarnation, Nonce, SessionId, SessionNumber};
use callsign_transport::Kind;

use super::*;
use crate::core::{
    group::GroupId,
    message::Chunk,
    meta::Meta,
    table::RequestNumber,
    why::{GivenUp, Why},
};

type Held = Replica<BTreeMap<Name, Row>>;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> Arc<SessionId> {
    Arc::new(SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) })
}

/// The replica of node a, at the beginning of the log.
fn replica() -> Held {
    let mut replica = Replica::new(node("a"), BTreeMap::new());
    assert_eq!((replica.epoch(), replica.is_based()), (Epoch(0), false));
    replica.base_on_nothing();
    replica
}

fn end(position: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(position) }
}

/// The batch at a position, behind the one at the position before it. Its sessions are those of nodes a and b.
fn batch(position: u64, ops: Vec<Op>) -> Batch {
    let sessions = vec![session("a"), session("b")];
    let prev = if position == 1 { LogEnd::default() } else { end(position - 1) };
    Batch { epoch: Epoch(1), nonce: Nonce(position), position: Position(position), prev, sessions, ops }
}

fn register_of(session: u32, name: &str, actor: Option<u64>) -> Op {
    Op::Register { name: name.into(), session, request: RequestNumber(1), actor, kind: Kind(7), meta: None }
}

/// Node a registers a name.
fn register(name: &str) -> Op {
    register_of(0, name, Some(5))
}

fn unregister(name: &str, position: u64) -> Op {
    Op::Unregister { name: name.into(), position: Position(position), why: GivenUp::Unregistered }
}

fn update(name: &str, position: u64) -> Op {
    let meta = Meta::new(&BTreeMap::from([("zone", "eu")])).ok();
    Op::Update { name: name.into(), position: Position(position), request: RequestNumber(2), meta }
}

fn bind(name: &str, position: u64) -> Op {
    let (position, request) = (Position(position), RequestNumber(3));
    Op::Bind { name: name.into(), position, request, actor: 6, meta: None }
}

/// It goes to an actor of node b.
fn transfer(name: &str, position: u64, session: u32) -> Op {
    let (position, request) = (Position(position), RequestNumber(4));
    Op::Transfer { name: name.into(), position, session, request, actor: 8, kind: Kind(9) }
}

fn offer(replica: &mut Held, batch: &Batch) -> Result<Applied, CorruptBatch> {
    replica.offer(batch.epoch, batch.position, &batch.encode())
}

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| Name::from(*name)).collect()
}

#[test]
fn what_several_batches_changed_is_told_together() {
    let row = |position| {
        let mut replica = replica();
        replica.skip_to(end(position - 1));
        replica.apply(&batch(position, vec![register("x")]));
        replica.row("x").unwrap()
    };
    let one = |name: &str, position: u64| {
        let (name, session): (Name, _) = (name.into(), SessionId::clone(&session(name)));
        let (row, position) = (row(position), Position(position));
        Applied {
            own_freed: vec![(name.clone(), row.clone())],
            own_gone: vec![session.clone()],
            gone: vec![(session, position.0)],
            starts: vec![name.clone()],
            given: vec![(name.clone(), row.clone(), node("b"), position)],
            taken: vec![(name.clone(), row)],
            ended: vec![(name.clone(), position)],
            is_of_many: false,
            freed_places: vec![(name, position)],
        }
    };
    for is_of_many in [true, false] {
        let mut all = one("x", 1);
        all.merge(Applied { is_of_many, ..one("y", 2) });
        let (x, y) = (one("x", 1), one("y", 2));
        assert_eq!(all.own_freed, [x.own_freed, y.own_freed].concat());
        assert_eq!(all.own_gone, [x.own_gone, y.own_gone].concat());
        assert_eq!(all.gone, [x.gone, y.gone].concat());
        assert_eq!(all.starts, [x.starts, y.starts].concat());
        assert_eq!(all.given, [x.given, y.given].concat());
        assert_eq!(all.taken, [x.taken, y.taken].concat());
        assert_eq!(all.ended, [x.ended, y.ended].concat());
        assert_eq!(all.freed_places, [x.freed_places, y.freed_places].concat());
        assert_eq!(all.is_of_many, is_of_many);
    }
}

#[test]
fn each_operation_tells_whom_it_concerns_and_does_nothing_to_another_registration() {
    let mut replica = replica();
    let place = GroupId::semaphore("gpu", 2).member(&session("b"), 1);
    let registered = vec![
        register("x"),
        register_of(1, "y", Some(5)),
        register_of(0, "s", None),
        register_of(0, "t", None),
        register_of(1, &place, Some(5)),
    ];
    assert_eq!(replica.apply(&batch(1, registered)), Applied::default());
    let before: Vec<_> = replica.rows().map(|(name, row)| (name.clone(), row.clone())).collect();
    // They name another registration than the one that there is.
    let others =
        vec![update("x", 9), bind("s", 9), transfer("y", 9, 0), unregister("t", 9), unregister("n", 1)];
    assert_eq!(replica.apply(&batch(2, others)), Applied::default());
    let after: Vec<_> = replica.rows().map(|(name, row)| (name.clone(), row.clone())).collect();
    assert_eq!(after, before);

    assert_eq!(replica.apply(&batch(3, vec![update("x", 1)])), Applied::default());
    let row = replica.row("x").unwrap();
    assert_eq!((row.revision(), row.request, row.meta().is_some()), (Position(3), RequestNumber(2), true));
    let applied = replica.apply(&batch(4, vec![bind("s", 1)]));
    assert_eq!(applied, Applied { starts: names(&["s"]), ..Applied::default() });
    let bound = replica.row("s").unwrap();
    assert_eq!((bound.actor(), bound.revision()), (Some(6), Position(4)));
    let applied = replica.apply(&batch(5, vec![unregister("t", 1), unregister(&place, 1)]));
    let (starts, freed_places) = (names(&["t"]), vec![(place.clone(), Position(1))]);
    let ended = vec![("t".into(), Position(1)), (place.clone(), Position(1))];
    assert_eq!((applied.starts, applied.freed_places, applied.ended), (starts, freed_places, ended));
    assert!(
        matches!(&applied.own_freed[..], [(name, _)] if name.as_str() == "t"),
        "the place was another node's"
    );
    let applied = replica.apply(&batch(6, vec![transfer("x", 1, 1), transfer("y", 1, 0)]));
    assert_eq!(applied.ended, [("x".into(), Position(1)), ("y".into(), Position(1))]);
    let (is_given, is_taken) = (&applied.given[..], &applied.taken[..]);
    let [(name, was, to, Position(6))] = is_given else { panic!("{is_given:?}") };
    assert_eq!((name.as_str(), was.position, to), ("x", Position(1), &node("b")));
    assert!(matches!(is_taken, [(name, now)] if name.as_str() == "y" && now.position == Position(6)));
    let [x, y] = ["x", "y"].map(|name| replica.row(name).unwrap());
    assert_eq!((x.meta(), x.revision()), (row.meta(), Position(6)), "the metadata goes with the name");
    assert_eq!((y.meta(), y.revision()), (None, Position(6)));
    let applied = replica.apply(&batch(7, vec![unregister("x", 6)]));
    assert!(applied.own_freed.is_empty() && applied.freed_places.is_empty() && applied.starts.is_empty());
    let applied = replica.apply(&batch(8, vec![Op::HostGone { session: 0 }, Op::HostGone { session: 1 }]));
    let (a, b) = (SessionId::clone(&session("a")), SessionId::clone(&session("b")));
    assert_eq!((applied.own_gone, applied.is_of_many), (vec![a.clone()], true));
    assert_eq!(applied.gone, [(a, 2), (b, 0)]);
    assert!(replica.sessions().is_empty());
}

#[test]
fn a_batch_is_applied_once_behind_the_one_that_it_names_and_kept_until_that_is_there() {
    let mut replica = replica();
    let one = batch(1, vec![register("x")]);
    assert_eq!(replica.position(), Position(0));
    offer(&mut replica, &batch(3, vec![register("z")])).unwrap();
    assert_eq!((replica.position(), replica.gap_before()), (Position(0), Some(Position(3))));
    offer(&mut replica, &batch(4, vec![register("w")])).unwrap();
    assert!(!replica.is_busy(), "a gap is before it");
    offer(&mut replica, &one).unwrap();
    assert_eq!(replica.position(), Position(1));
    // It is here already.
    offer(&mut replica, &one).unwrap();
    assert_eq!((replica.gap_before(), replica.is_busy()), (Some(Position(3)), false));
    offer(&mut replica, &batch(2, vec![register("y")])).unwrap();
    assert_eq!((replica.position(), replica.count(), replica.gap_before()), (Position(4), 4, None));
    assert!(replica.row("w").is_some() && !replica.is_busy());
    // This is of a leader that is deposed.
    let mut newer = batch(5, vec![]);
    newer.epoch = Epoch(2);
    offer(&mut replica, &newer).unwrap();
    assert_eq!((replica.epoch(), replica.position()), (Epoch(2), Position(5)));
    let old = batch(6, vec![register("v")]);
    offer(&mut replica, &old).unwrap();
    assert_eq!((replica.position(), replica.gap_before()), (Position(5), None));
    replica.offer(Epoch(2), Position(6), &old.encode()).unwrap();
    assert_eq!(replica.position(), Position(6), "the leader of epoch 2 says that it is committed");
}

#[test]
fn a_batch_of_another_log_is_refused_and_changes_nothing() {
    let at_three = || {
        let mut replica = replica();
        for position in 1..=3 {
            replica.apply(&batch(position, vec![]));
        }
        replica
    };
    let diverged = Err(CorruptBatch::Diverged { at: end(3) });
    let other = |batch: Batch, prev: LogEnd| Batch { prev, ..batch };
    let mut replica = at_three();
    // One is at the position that was applied last, and the other follows such a one.
    assert_eq!(offer(&mut replica, &Batch { nonce: Nonce(99), ..batch(3, vec![]) }), diverged);
    let follows = other(batch(4, vec![]), LogEnd { nonce: Nonce(99), ..end(3) });
    assert_eq!(offer(&mut replica, &follows), diverged);
    // These pass over it.
    assert_eq!(offer(&mut replica, &other(batch(4, vec![]), end(2))), diverged);
    assert_eq!(offer(&mut replica, &other(batch(9, vec![]), end(2))), diverged);
    assert_eq!((replica.end(), replica.gap_before()), (end(3), None));
    // It cannot be told of what came before.
    let before = Batch { nonce: Nonce(99), ..batch(2, vec![]) };
    assert_eq!(offer(&mut replica, &before), Ok(Applied::default()));
    assert_eq!(replica.is_next(&before), Ok(false));
    assert_eq!(replica.is_next(&batch(3, vec![])), Ok(false));
    assert_eq!(replica.is_next(&batch(4, vec![])), Ok(true));
    assert_eq!(replica.is_next(&batch(5, vec![])), Ok(false));
    assert_eq!(replica.is_next(&other(batch(6, vec![]), end(3))), Ok(true), "as after a lineage");
}

#[test]
fn what_waited_is_dropped_if_a_newer_leader_wrote_something_else_there() {
    let mut replica = replica();
    replica.apply(&batch(1, vec![]));
    offer(&mut replica, &batch(3, vec![register("x")])).unwrap();
    offer(&mut replica, &batch(4, vec![register("y")])).unwrap();
    let newer = Batch { epoch: Epoch(2), ..batch(2, vec![]) };
    offer(&mut replica, &newer).unwrap();
    assert_eq!((replica.position(), replica.gap_before()), (Position(2), Some(Position(4))));
    assert_eq!(replica.count(), 0);
    // It is dropped, too, if another source has brought it.
    let mut replica = self::replica();
    offer(&mut replica, &batch(2, vec![register("x")])).unwrap();
    for position in 1..=2 {
        replica.apply(&batch(position, vec![]));
    }
    assert!(replica.is_busy());
    assert_eq!(replica.proceed(9), Proceeded::default());
    assert_eq!((replica.position(), replica.gap_before(), replica.is_busy()), (Position(2), None, false));
}

/// The batch at a position, with a name of its own that makes it so many bytes long.
fn batch_of(position: u64, bytes: usize) -> Batch {
    let of =
        |length: usize| batch(position, vec![register(&format!("{position}{}", "x".repeat(length - 1)))]);
    // Its length takes as many bytes from here on.
    let beside = of(70_000).encode().len() - 70_000;
    let built = if bytes > 70_000 { of(bytes - beside) } else { of(bytes + 2 - beside) };
    assert_eq!(built.encode().len(), bytes);
    built
}

#[test]
fn what_waits_for_a_gap_is_bounded_and_counted_once() {
    let waits = |replica: &Held, position: u64| replica.waiting.contains_key(&Position(position));
    let mut replica = replica();
    // The same one again takes its place.
    for _ in 0..2 {
        offer(&mut replica, &batch_of(2, MAX_WAITING_BYTES - 1000)).unwrap();
    }
    offer(&mut replica, &batch_of(3, 1001)).unwrap();
    assert!(!waits(&replica, 3), "it is one byte too many");
    offer(&mut replica, &batch_of(3, 1000)).unwrap();
    assert!(waits(&replica, 2) && waits(&replica, 3));
    // When the gap is closed there is room again.
    offer(&mut replica, &batch(1, vec![])).unwrap();
    replica.proceed(1);
    assert_eq!(replica.position(), Position(3));
    offer(&mut replica, &batch_of(5, MAX_WAITING_BYTES)).unwrap();
    assert!(waits(&replica, 5));
    // There is, too, when all of it was for nothing.
    replica.give_up_base();
    assert_eq!(replica.gap_before(), None);
    offer(&mut replica, &batch_of(5, MAX_WAITING_BYTES)).unwrap();
    assert!(waits(&replica, 5));
}

#[test]
fn what_waited_is_applied_in_moments() {
    for (first, after) in [(APPLIED_BYTES - 1, 3), (APPLIED_BYTES, 2)] {
        let mut replica = replica();
        for position in 3..=4 {
            offer(&mut replica, &batch_of(position, 1000)).unwrap();
        }
        offer(&mut replica, &batch_of(2, first)).unwrap();
        offer(&mut replica, &batch(1, vec![])).unwrap();
        assert_eq!((replica.position(), replica.is_busy()), (Position(after), true));
        // What comes meanwhile waits for its turn.
        offer(&mut replica, &batch(5, vec![])).unwrap();
        assert_eq!(replica.position(), Position(after));
        replica.proceed(1);
        assert_eq!((replica.position(), replica.is_busy()), (Position(5), false));
    }
}

#[test]
fn without_a_base_only_what_needs_none_is_applied() {
    let mut replica = Replica::new(node("a"), BTreeMap::new());
    offer(&mut replica, &batch(1, vec![register("x")])).unwrap();
    offer(&mut replica, &batch(4, vec![register("y")])).unwrap();
    assert_eq!((replica.position(), replica.is_busy()), (Position(0), false));
    let applied = offer(&mut replica, &batch(3, vec![Op::Reset])).unwrap();
    assert_eq!((replica.position(), replica.is_based(), replica.count()), (Position(4), true, 1));
    assert!(applied.is_of_many);
    // One that it has passed is no news.
    replica.give_up_base();
    offer(&mut replica, &batch(4, vec![Op::Reset])).unwrap();
    offer(&mut replica, &batch(2, vec![Op::Reset])).unwrap();
    assert!(!replica.is_based());
}

#[test]
fn a_reset_frees_all_names_also_those_of_a_log_that_was_longer() {
    let mut longer = replica();
    longer.skip_to(end(9));
    longer.apply(&batch(10, vec![register("x"), register_of(1, "y", Some(5))]));
    longer.forget();
    assert_eq!((longer.position(), longer.epoch(), longer.is_based()), (Position(0), Epoch(0), false));
    let reset = Batch { prev: LogEnd::default(), ..batch(5, vec![Op::Reset, register("z")]) };
    let applied = offer(&mut longer, &reset).unwrap();
    assert_eq!((longer.count(), longer.is_based(), longer.epoch()), (1, true, Epoch(1)));
    assert!(longer.row("x").is_none() && longer.row("y").is_none() && longer.row("z").is_some());
    assert_eq!((applied.own_gone, applied.is_of_many), (vec![SessionId::clone(&session("a"))], true));
    // Names that come after it do not wait for those that went.
    let mut replica = replica();
    replica.apply(&batch(1, vec![register("x"), register("y")]));
    replica.apply(&batch(2, vec![Op::Reset, Op::Open]));
    replica.apply(&batch(3, vec![register("z")]));
    assert!(replica.is_busy() && replica.row("x").is_none() && replica.row("z").is_some());
    assert_eq!(replica.proceed(1).installed, None);
    assert!(replica.is_busy());
    replica.proceed(1);
    assert!(!replica.is_busy() && replica.rows().count() == 1);
}

#[test]
fn a_base_that_is_given_up_serves_nobody() {
    let mut replica = replica();
    let place = GroupId::semaphore("gpu", 1).member(&session("a"), 1);
    replica.apply(&batch(1, vec![register(&place)]));
    assert!(replica.holds(&place, Position(1)));
    replica.touched.insert((node("b"), 1), Touched::at_most(9));
    replica.give_up_base();
    assert!(!replica.holds(&place, Position(1)) && replica.touched.is_empty());
    assert_eq!((replica.end(), replica.epoch()), (end(1), Epoch(1)), "where it was is known");
    replica.base_on_nothing();
    assert_eq!((replica.end(), replica.count(), replica.row(&place)), (LogEnd::default(), 0, None));
}

/// A snapshot of what another replica has.
fn snapshot(of: &Held) -> Staged {
    let mut chunk = Chunk::default();
    for (name, row) in of.rows() {
        chunk.push(name.clone(), Some(row.clone()));
    }
    let mut staged = Staged::default();
    staged.take(chunk).unwrap();
    staged
}

/// Another replica, which is at position 5 of epoch 1.
fn other() -> Held {
    let mut other = replica();
    for position in 1..=4 {
        other.apply(&batch(position, vec![register(&format!("n{position}"))]));
    }
    other.apply(&batch(5, vec![register_of(1, "s", None), update("n1", 1)]));
    other
}

#[test]
fn a_snapshot_takes_the_place_of_all_that_was_there_and_is_as_if_the_log_had_been_applied() {
    let other = other();
    let mut replica = replica();
    replica.apply(&batch(1, vec![register("x")]));
    replica.touched.insert((node("b"), 1), Touched::at_most(9));
    assert!(replica.install(snapshot(&other), Epoch(1), other.end()));
    assert!(replica.touched.is_empty(), "what is being sent was begun on the former content");
    assert!(!replica.is_based() && replica.is_busy() && replica.row("x").is_none());
    // What comes meanwhile waits, unless the snapshot has it.
    offer(&mut replica, &batch(4, vec![register("n4")])).unwrap();
    assert_eq!(replica.gap_before(), None);
    offer(&mut replica, &batch(6, vec![register("y")])).unwrap();
    assert_eq!((replica.position(), replica.gap_before()), (Position(1), Some(Position(6))));
    let mut installed = Vec::new();
    while replica.is_busy() {
        installed.extend(replica.proceed(1).installed);
    }
    assert_eq!((installed, replica.position(), replica.is_based()), (vec![Position(5)], Position(6), true));
    let rows = |replica: &Held| {
        let rows = replica.rows().map(|(name, row)| (name.clone(), row.clone()));
        rows.filter(|(name, _)| name.as_str() != "y").collect::<Vec<_>>()
    };
    assert_eq!(rows(&replica), rows(&other));
    // An older one, and one of the same position, are of no use.
    assert!(!replica.install(snapshot(&other), Epoch(1), other.end()));
    assert!(!replica.install(snapshot(&other), Epoch(1), replica.end()));
    assert_eq!((replica.is_based(), replica.row("y").is_some()), (true, true));
    // Without a base any is.
    replica.give_up_base();
    assert!(replica.install(snapshot(&other), Epoch(1), other.end()));
}

#[test]
fn the_epoch_of_a_replica_does_not_go_back_by_a_snapshot() {
    let mut replica = replica();
    replica.apply(&Batch { epoch: Epoch(3), ..batch(1, vec![]) });
    assert!(replica.install(snapshot(&other()), Epoch(2), end(5)));
    replica.proceed(100);
    while replica.is_busy() {
        replica.proceed(100);
    }
    assert_eq!((replica.epoch(), replica.position()), (Epoch(3), Position(5)));
    assert!(replica.install(snapshot(&other()), Epoch(4), end(6)));
    while replica.is_busy() {
        replica.proceed(100);
    }
    assert_eq!(replica.epoch(), Epoch(4));
}

#[test]
fn a_snapshot_that_is_being_installed_is_forgotten_with_the_base() {
    let begin: [fn(&mut Held); 3] = [Replica::give_up_base, Replica::forget, Replica::base_on_nothing];
    for begin in begin {
        let mut replica = replica();
        assert!(replica.install(snapshot(&other()), Epoch(1), end(5)));
        begin(&mut replica);
        assert!(!replica.is_installing());
        while replica.is_busy() {
            assert_eq!(replica.proceed(9).installed, None);
        }
    }
}

#[test]
fn a_snapshot_says_that_names_of_a_session_are_gone_that_it_brought_before() {
    let mut staged = snapshot(&other());
    let mut chunk = Chunk::default();
    chunk.push_gone(SessionId::clone(&session("a")), Position(4));
    chunk.push("n2".into(), None);
    staged.take(chunk).unwrap();
    let mut replica = replica();
    assert!(replica.install(staged, Epoch(1), end(5)));
    while replica.is_busy() {
        replica.proceed(9);
    }
    let names_of: Vec<_> = replica.rows().map(|(name, _)| name.clone()).collect();
    assert_eq!(names_of, names(&["s"]), "a session that is gone has none");
    let unlisted = Chunk { gone: vec![(0, Position(4))], ..Chunk::default() };
    assert!(matches!(Staged::default().take(unlisted), Err(CorruptBatch::Malformed(_))));
}

#[test]
fn what_is_changed_while_a_snapshot_is_sent_is_remembered_by_name_up_to_a_number() {
    let mut replica = replica();
    let begun = vec![
        register("u"),
        register_of(0, "s", None),
        register("t"),
        register("f"),
        register_of(1, "g", Some(5)),
    ];
    replica.apply(&batch(1, begun));
    let key = (node("b"), 1);
    let ops = [register("n"), update("u", 1), bind("s", 1), transfer("t", 1, 1), unregister("f", 1)];
    for (nth, op) in ops.into_iter().enumerate() {
        replica.touched.insert(key.clone(), Touched::at_most(1));
        replica.apply(&batch(nth as u64 + 2, vec![op]));
        let touched = replica.touched.get_mut(&key).unwrap();
        assert_eq!((touched.count(), touched.take()), (1, names(&[["n", "u", "s", "t", "f"][nth]])));
        assert!(touched.take().is_empty());
    }
    // All names of a session go at once, and those that are no more count for nothing.
    replica.apply(&batch(7, vec![Op::HostGone { session: 1 }, Op::HostGone { session: 1 }]));
    let gone = replica.touched.get_mut(&key).unwrap().take_gone();
    assert_eq!(gone, BTreeMap::from([(SessionId::clone(&session("b")), Position(8))]));
    // One is too many: it is forgotten.
    replica.touched.insert(key.clone(), Touched::at_most(2));
    replica.apply(&batch(8, vec![register("p"), register("q"), update("u", 1)]));
    assert!(replica.touched.is_empty());
    replica.touched.insert(key.clone(), Touched::at_most(2));
    replica.apply(&batch(9, vec![update("p", 8), update("q", 8), update("p", 8)]));
    assert_eq!(replica.touched[&key].count(), 2);
}

#[test]
fn where_nobody_watches_nothing_that_is_swept_is_kept_for_watches() {
    let mut replica = replica();
    replica.remember();
    replica.apply(&batch(1, vec![register("x")]));
    replica.remember_nothing();
    assert!(!replica.memory().is_on());
    replica.apply(&batch(2, vec![register("y"), Op::HostGone { session: 0 }]));
    while replica.is_busy() {
        replica.proceed(9);
    }
    assert!(replica.rows.take_swept().is_empty(), "the rows keep nothing");
    assert_eq!(replica.memory().of("y").count(), 0);
    replica.remember();
    replica.apply(&batch(3, vec![register("z")]));
    replica.remember();
    replica.apply(&batch(4, vec![Op::HostGone { session: 0 }]));
    assert!(replica.memory().is_sweeping());
    while replica.is_busy() {
        replica.proceed(9);
    }
    assert!(!replica.memory().is_waiting());
}

#[test]
fn of_a_session_without_names_nothing_is_remembered_and_nothing_is_sent() {
    let mut replica = replica();
    let known = |replica: &Held| -> Vec<String> {
        replica.sessions().keys().map(|session| session.node.to_string()).collect()
    };
    // Each batch lists the sessions of a and of b.
    replica.apply(&batch(1, vec![register("x")]));
    assert_eq!(known(&replica), ["a"]);
    replica.apply(&batch(2, vec![unregister("x", 1)]));
    assert_eq!(known(&replica), [""; 0]);
    let key = (node("b"), 1);
    replica.touched.insert(key.clone(), Touched::at_most(9));
    replica.apply(&batch(3, vec![Op::HostGone { session: 1 }]));
    assert!(replica.touched.get_mut(&key).unwrap().take_gone().is_empty());
}
