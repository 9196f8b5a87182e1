//! Forged cases for what a node owes to others, and for what it may ask for.

use std::{sync::Arc, time::Duration};

use callsign::cores::{
    Answer, CallId, Chunk, Drained, Effect, GivenUp, Input, LeavingTimes, Message, NodeCore, NodeInput, Op,
    OpId, Request, RequestNumber, Tell, Wish,
};
use callsign_elector::{
    record::{AuthorFloor, MembershipEvent, SessionFloor},
    session::{self, SessionConfig},
};
use callsign_sim::{
    oracle::Check,
    world::{Action, CoreId, Fate, name_of},
};
use callsign_store::{
    Time, Transaction, Write,
    ids::{Position, Sequence, SessionNumber, Token},
    record::Record,
};

use super::{Scene, register};
use crate::cluster::{Cluster, store_ops};

#[test]
fn trap_8_checks_of_lapses_and_of_what_a_leader_reads_fire() {
    // The second of two lapses stops and tells nobody.
    let mut scene = Scene::new();
    let session = scene.cluster.session_id(scene.host);
    scene.cluster.tell(scene.host, Input::SessionLapsed(session.clone()));
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.cluster.tell(scene.host, Input::SessionLapsed(session));
    scene.fires(Check::AllTold);

    // A session that nobody has read asks, and the leader has nothing read: it takes the message for a forged one.
    let mut scene = Scene::new();
    let mut session = scene.cluster.session_id(scene.host);
    session.number = SessionNumber(99);
    let wish = Wish::Unregister { position: Position(1), why: GivenUp::Unregistered };
    let requests = vec![Request { number: RequestNumber(1), name: name_of(5), wish }];
    let epoch = scene.cluster.term().epoch;
    let (acknowledged, session) = (RequestNumber(0), Arc::new(session));
    let from = scene.cluster.session_id(scene.other).node;
    let message = Message::Requests { epoch, session, acknowledged, requests };
    scene.cluster.tell(scene.leader, Input::Message { from, message });
    scene.fires(Check::Looked);

    // A member says that it has the end of the log, and has not.
    let mut scene = Scene::new();
    let epoch = scene.cluster.term().epoch;
    scene.does(scene.host, vec![Effect::Tell(Tell::Synced(epoch, Position(0)))]);
    scene.fires(Check::SyncedAtEnd);

    // A donor sends one chunk more than may be on their way; those of another snapshot do not count.
    let mut scene = Scene::new();
    let to = scene.cluster.session_id(scene.other).node;
    let link = scene.parts(scene.leader).link_of.get(&to).map(|link| link.0);
    let window = scene.cluster.world.setup.tuning.snapshot_window;
    let chunk = |id, index| {
        let message = Message::SnapshotChunk { id, index, chunk: Chunk::default(), end: None };
        Effect::Send { to: to.clone(), link, message }
    };
    let chunks = (0..window).flat_map(|index| [chunk(7, index), chunk(8, index)]);
    scene.does(scene.leader, chunks.collect());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.does(scene.leader, vec![chunk(7, window)]);
    scene.fires(Check::InWindow);
}

#[test]
fn trap_8_checks_of_leaving_fire() {
    // Who has left commits; and says that it leads.
    for speaks in [false, true] {
        let mut scene = Scene::new();
        let (to, epoch) = (scene.cluster.session_id(scene.host).node, scene.cluster.term().epoch);
        let link = scene.parts(scene.leader).link_of.get(&to).map(|link| link.0);
        let goes_on = if speaks {
            let message = Message::Replicate { epoch, position: Position(1), batch: Vec::new().into() };
            Effect::Send { to, link, message }
        } else {
            scene.flight(900, vec![Op::Open])
        };
        let left = Effect::Answer { call: CallId(1 << 60), answer: Answer::Left };
        scene.does(scene.leader, vec![left, goes_on]);
        scene.fires(Check::Retired);
    }

    // A node has drained, and nobody can read that it drains.
    let mut scene = Scene::new();
    let by = scene.cluster.session_id(scene.leader).node;
    let answer = Answer::Drained(Drained::Led { by });
    scene.does(scene.host, vec![Effect::Answer { call: CallId(1 << 60), answer }]);
    scene.fires(Check::DrainKnown);

    // Of a former join it was said that it drains, and the present one says that it is synced.
    let mut scene = Scene::new();
    let (token, epoch) = (scene.cluster.row(scene.host).unwrap().token, scene.cluster.term().epoch);
    scene.say(scene.host, MembershipEvent::Drain { token: Token(token.0 - 1) });
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    let position = scene.cluster.end();
    scene.say(scene.host, MembershipEvent::Synced { token, epoch, position });
    scene.fires(Check::DrainSaid);

    // A node that has left is a member all the same: between its last look and what it says, its row is back.
    let mut scene = Scene::new();
    let host = scene.host;
    let row = scene.cluster.row(host).unwrap();
    let key = scene.cluster.world.setup.keys.member(&row.session.node);
    scene.cluster.must(&Action::Leave { node: host });
    let is_of_host = store_ops(host, CoreId::Elector);
    let is_gone = move |c: &Cluster| c.row(host).is_none();
    let mut answered = None;
    for _ in 0..10_000 {
        let action = scene.cluster.next();
        let looks = is_gone(&scene.cluster) && is_of_host(&scene.cluster.world, &action);
        if let (true, Action::Store { node, nth, .. }) = (looks, &action) {
            scene.cluster.must(&Action::Store { node: *node, nth: *nth, fate: Fate::Late });
            answered = Some(Action::Answered { node: *node, nth: *nth });
            break;
        }
        scene.cluster.must(&action);
    }
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().put(key, row.to_value()));
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    assert!(scene.cluster.world.apply(&answered.unwrap()));
    scene.fires(Check::LeaveSaid);

    // A node leaves that knows of none of its registries.
    let mut scene = Scene::new();
    let node = scene.host;
    let second = Duration::from_secs(1);
    let times = LeavingTimes { drain: second, decide: second, say: second, close: second };
    let setup = scene.cluster.world.setup.clone();
    let process = scene.cluster.world.nodes[usize::from(node)].process.as_mut().unwrap().edit();
    let config = SessionConfig {
        cluster: setup.cluster.clone(),
        node: setup.names[usize::from(node)].clone(),
        incarnation: process.incarnation,
        timing: setup.session,
        seed: 0,
    };
    process.node = NodeCore::new(config, times).unwrap();
    assert!(scene.cluster.world.apply(&Action::Leave { node }));
    scene.fires(Check::NamesThenSession);

    // A node has failed, and is through with closing its session, which is open.
    let mut scene = Scene::new();
    let node = scene.host;
    scene.cluster.must(&Action::Fail { node, of_session: true });
    // A session that knows of none that is open.
    scene.cluster.world.step_node(node, NodeInput::SessionBroke);
    scene.fires(Check::FailedClosed);
}

#[test]
fn trap_8_checks_of_what_a_node_asks_for_fire() {
    // Commits, one upon the other.
    let mut scene = Scene::new();
    let commit = |n: u64| Effect::Commit { id: OpId((1 << 60) + n), transaction: Transaction::new() };
    scene.does(scene.host, (0..8_u64).map(commit).collect());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.does(scene.host, vec![commit(8)]);
    scene.fires(Check::BacksOff);

    // A session that reads the same, one upon the other: nothing is missing, again and again.
    let mut scene = Scene::new();
    let node = scene.host;
    let is_of_session = |op: &callsign_sim::world::StoreOp| op.core == CoreId::Session;
    for nth in 0..9 {
        assert_eq!(scene.cluster.world.oracle.violation(), None, "after {nth} reads");
        let missing = session::Input::Missing { since: None, facts: Vec::new() };
        scene.cluster.world.step_node(node, NodeInput::Session(missing));
        while let Some(nth) =
            scene.cluster.world.process(node).and_then(|process| process.ops.iter().position(is_of_session))
        {
            let nth = u8::try_from(nth).unwrap();
            scene.cluster.world.apply(&Action::Store { node, nth, fate: Fate::Done });
        }
    }
    scene.fires(Check::BacksOff);

    // A member that wants to be woken now, whenever it is.
    let mut scene = Scene::new();
    for _ in 0..=100 {
        assert_eq!(scene.cluster.world.oracle.violation(), None);
        scene.parts(scene.host).member_wake = Time::ZERO;
        assert!(scene.cluster.world.apply(&Action::Wake { node: scene.host, core: CoreId::Member }));
    }
    scene.fires(Check::NoSpin);

    // A message for which no link was asked for.
    let mut scene = Scene::new();
    let (to, epoch) = (scene.cluster.session_id(scene.other).node, scene.cluster.term().epoch);
    let message = Message::Replicate { epoch, position: Position(1), batch: Vec::new().into() };
    scene.parts(scene.host).core.forge([Effect::Send { to, link: Some(9_999), message }]);
    scene.does(scene.host, Vec::new());
    scene.fires(Check::SentAsAsked);

    // A nonce that another batch had.
    let mut scene = Scene::new();
    let flights = [1, 2].map(|nonce| scene.flight(nonce, vec![Op::Open]));
    scene.does(scene.leader, flights.to_vec());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.does(scene.leader, flights[..1].to_vec());
    scene.fires(Check::NonceOnce);
}

#[test]
fn trap_8_checks_of_the_dead_fire() {
    // The leader knows that the session of a holder is closed, and cannot free its names yet.
    let with_the_dead = || {
        let mut scene = Scene::new();
        let (leader, host) = (scene.leader, scene.host);
        let session = scene.cluster.session_id(host);
        scene.cluster.hold(store_ops(leader, CoreId::Member));
        scene.cluster.must(&Action::Crash { node: host });
        let knows = move |c: &Cluster| c.member(leader).unwrap().view().sessions.is_closed(&session);
        scene.cluster.until("it knows", knows);
        scene
    };
    // It is asked for more and more.
    let mut scene = with_the_dead();
    let flights = [(1, 8), (2, 9)].map(|(nonce, name)| scene.flight(nonce, vec![register(name, 900)]));
    scene.does(scene.leader, flights[..1].to_vec());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.does(scene.leader, flights[1..].to_vec());
    scene.fires(Check::FreedInTurn);

    // It grants a name to the dead.
    let mut scene = with_the_dead();
    let mut op = register(9, 900);
    if let Op::Register { session, .. } = &mut op {
        *session = 0;
    }
    let flight = scene.flight(1, vec![op]);
    scene.does(scene.leader, vec![flight]);
    scene.fires(Check::ReadOpen);
}

#[test]
fn trap_8_checks_of_sweeping_fire() {
    let keys = Scene::new().cluster.world.setup.keys.clone();
    // What an open session needs, and what a member writes by.
    for is_author in [false, true] {
        let mut scene = Scene::new();
        let node = scene.cluster.session_id(scene.host).node;
        let key = if is_author { keys.author(&node) } else { keys.cluster().session(&node) };
        scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(key));
        scene.fires(Check::SweptIsOver);
    }
    // A floor of numbers goes back.
    let sessions = [2, 1].map(|n| SessionFloor(SessionNumber(n)).to_value());
    let authors = [2, 1].map(|n| AuthorFloor(Sequence(n)).to_value());
    for (key, values) in [(keys.cluster().session_floor(), sessions), (keys.author_floor(), authors)] {
        let mut scene = Scene::new();
        for value in values {
            assert_eq!(scene.cluster.world.oracle.violation(), None);
            scene.forge(scene.leader, CoreId::Session, Transaction::new().put(key.clone(), value));
        }
        scene.fires(Check::NumbersGrow);
    }
}

/// A node closes another's session for one that has watched it: it was not trusted itself meanwhile.
#[test]
fn trap_8_check_of_who_watched_fires() {
    let mut scene = Scene::new();
    let (leader, host, other) = (scene.leader, scene.host, scene.other);
    for node in [host, other] {
        scene.cluster.hold(store_ops(node, CoreId::Session));
    }
    let node = scene.cluster.session_id(host).node;
    let key = scene.cluster.world.setup.keys.cluster().session(&node);
    let closes = move |_: &callsign_sim::world::World, transaction: &Transaction| {
        transaction.writes.iter().any(|write| matches!(write, Write::Put { key: k, .. } if *k == key))
    };
    let mut before = None;
    for _ in 0..20_000 {
        if scene.cluster.commit_of(leader, CoreId::Session, &closes).is_some() {
            break;
        }
        let action = scene.cluster.next();
        before = Some((scene.cluster.world.clone(), action.clone()));
        scene.cluster.must(&action);
    }
    let (world, action) = before.unwrap();
    scene.cluster.world = world;
    let watcher = scene.cluster.world.process(leader).unwrap().clone();
    let process = scene.cluster.world.nodes[usize::from(other)].process.as_mut().unwrap().edit();
    (process.node, process.session_wake, process.ops) = (watcher.node, watcher.session_wake, watcher.ops);
    let action = match action {
        Action::Store { nth, fate, .. } => Action::Store { node: other, nth, fate },
        Action::Wake { core, .. } => Action::Wake { node: other, core },
        action => panic!("{action:?}"),
    };
    assert!(scene.cluster.world.apply(&action));
    scene.fires(Check::Watched);
}
