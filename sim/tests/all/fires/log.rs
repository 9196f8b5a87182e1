//! The checks of what the leader writes into the log.

use std::sync::Arc;

use callsign::cores::{Batch, GivenUp, Op, RequestNumber};
use callsign_elector::record::PositionRecord;
use callsign_sim::{
    oracle::{Check, Outcome},
    world::{CoreId, name_of},
};
use callsign_store::{
    Transaction,
    ids::{Epoch, Position, SessionId, SessionNumber},
    record::Record,
};
use callsign_transport::Kind;

use super::{Scene, register, register_for};

#[test]
fn trap_8_checks_of_the_log_fire() {
    // In an epoch that is over.
    let mut scene = Scene::new();
    let batch = Batch { epoch: Epoch(0), ..scene.batch(vec![Op::Open]) };
    scene.log(scene.leader, &batch);
    scene.fires(Check::OneCommitter);

    // By a node that does not lead.
    let mut scene = Scene::new();
    let batch = scene.batch(vec![Op::Open]);
    scene.log(scene.other, &batch);
    scene.fires(Check::OneCommitter);

    // A position left out, and one written twice.
    for (position, skips) in [(3, true), (0, false)] {
        let mut scene = Scene::new();
        let end = scene.cluster.end();
        let position = Position(end.0 + position);
        assert_eq!(position > end.next(), skips);
        let batch = Batch { position, ..scene.batch(vec![Op::Open]) };
        scene.log(scene.leader, &batch);
        scene.fires(Check::PositionGrows);
    }

    // The names of a session that is open.
    let mut scene = Scene::new();
    scene.ops(vec![Op::HostGone { session: 0 }]);
    scene.fires(Check::Kept);

    // A name that another holds.
    let mut scene = Scene::new();
    scene.ops(vec![register(0, 900)]);
    scene.fires(Check::AnswerTrue);

    // A request that was granted before.
    let mut scene = Scene::new();
    scene.ops(vec![register(8, 900)]);
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.ops(vec![register(9, 900)]);
    scene.fires(Check::RequestOnce);

    // Two operations on one name.
    let mut scene = Scene::new();
    let position = scene.cluster.end().next();
    scene.ops(vec![
        register(9, 900),
        Op::Unregister { name: name_of(9), position, why: GivenUp::Unregistered },
    ]);
    scene.fires(Check::OneOpPerName);

    // What nobody holds under that token says something else of itself.
    let mut scene = Scene::new();
    let (name, position, request) = (name_of(1), scene.cluster.end(), RequestNumber(900));
    scene.ops(vec![Op::Update { name, position, request, meta: None }]);
    scene.fires(Check::UpdateTrue);

    // What is held already gets an actor that was started for it.
    let mut scene = Scene::new();
    let (name, request) = (name_of(1), RequestNumber(900));
    let position = scene.cluster.holder(scene.host, 1).unwrap().position;
    scene.ops(vec![Op::Bind { name, position, request, actor: 77, meta: None }]);
    scene.fires(Check::BindTrue);

    // It goes to another actor under a token that nobody has.
    let mut scene = Scene::new();
    let (name, position, request, kind) = (name_of(1), scene.cluster.end(), RequestNumber(900), Kind(7));
    let mut batch = scene.batch(vec![Op::Transfer { name, position, session: 0, request, actor: 77, kind }]);
    // Of a session that no member is in, nobody knows whether it has the data.
    let later = SessionNumber(batch.sessions[0].number.0 + 1);
    batch.sessions[0] = Arc::new(SessionId { number: later, ..scene.cluster.session_id(scene.host) });
    scene.log(scene.leader, &batch);
    scene.fires(Check::MoveTrue);

    // It goes to an actor whose node has no data.
    let mut scene = Scene::new();
    let (name, request, kind) = (name_of(1), RequestNumber(900), Kind(7));
    let position = scene.cluster.holder(scene.host, 1).unwrap().position;
    scene.parts(scene.leader).acting.clear();
    let mut batch = scene.batch(vec![Op::Transfer { name, position, session: 0, request, actor: 77, kind }]);
    batch.sessions[0] = Arc::new(scene.cluster.session_id(scene.other));
    scene.log(scene.leader, &batch);
    scene.fires(Check::MoveWanted);

    // Nobody asked the leader for it.
    let mut scene = Scene::new();
    let mut batch = scene.batch(vec![register(9, 900)]);
    batch.sessions[1] = Arc::new(scene.cluster.session_id(scene.other));
    scene.log(scene.leader, &batch);
    scene.fires(Check::OwnEpoch);

    // It was refused, and is granted later.
    let mut scene = Scene::new();
    let call = scene.cluster.register(scene.host, 1);
    scene.cluster.rest();
    assert!(matches!(scene.cluster.outcome(call), Some(Outcome::Taken { .. })));
    let position = scene.cluster.holder(scene.host, 1).unwrap().position;
    // As the host does first.
    scene.parts(scene.leader).acting.clear();
    scene.ops(vec![Op::Unregister { name: name_of(1), position, why: GivenUp::Unregistered }]);
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    let actor = scene.cluster.world.told()[call].actor;
    scene.ops(vec![register_for(actor, 1, 900)]);
    scene.fires(Check::NoMeansNo);

    // Everybody has a base, and it is emptied.
    let mut scene = Scene::new();
    scene.ops(vec![Op::Reset]);
    scene.fires(Check::ResetSafe);

    // The floor goes back.
    let mut scene = Scene::new();
    let keys = scene.cluster.world.setup.keys.clone();
    for floor in [2, 1] {
        assert_eq!(scene.cluster.world.oracle.violation(), None);
        let floor = PositionRecord(Position(floor)).to_value();
        scene.forge(scene.leader, CoreId::Member, Transaction::new().put(keys.floor(), floor));
    }
    scene.fires(Check::FloorGrows);

    // What nobody has read is cut.
    let mut scene = Scene::new();
    let keys = scene.cluster.world.setup.keys.clone();
    let floor = PositionRecord(Position(scene.cluster.end().0 + 2));
    scene.forge(scene.leader, CoreId::Member, Transaction::new().put(keys.floor(), floor.to_value()));
    scene.fires(Check::FloorSafe);
}
