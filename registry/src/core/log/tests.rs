use callsign_store::ids::{Incarnation, NodeName, SessionNumber};

use super::*;
use crate::core::message::{Chunk, Wish};

fn session(node: &str) -> Arc<SessionId> {
    let node = NodeName::new(node).unwrap();
    Arc::new(SessionId { node, incarnation: Incarnation(u64::MAX >> 12), number: SessionNumber(1 << 50) })
}

fn meta() -> Option<Meta> {
    Meta::new(&"m".repeat(200)).ok()
}

/// One of each, with the greatest numbers.
fn operations(name: &str) -> Vec<Op> {
    let name: Name = name.into();
    let (position, request, kind) = (Position(1 << 50), RequestNumber(1 << 50), Kind(u64::MAX));
    let (session, actor) = (u32::MAX >> 8, u64::MAX >> 1);
    let of_whys = |why| Op::Unregister { name: name.clone(), position, why };
    vec![
        Op::Register { name: name.clone(), session, request, actor: Some(actor), kind, meta: None },
        Op::Register { name: name.clone(), session, request, actor: None, kind, meta: meta() },
        Op::Bind { name: name.clone(), position, request, actor, meta: meta() },
        Op::Transfer { name: name.clone(), position, session, request, actor, kind },
        Op::Update { name: name.clone(), position, request, meta: meta() },
        of_whys(GivenUp::Unregistered),
        of_whys(GivenUp::ActorEnded),
        of_whys(GivenUp::StartFailed { reason: "r".repeat(200) }),
        Op::HostGone { session },
        Op::Open,
        Op::Reset,
    ]
}

#[test]
fn an_operation_takes_no_more_bytes_than_it_weighs() {
    for name in ["", "x", &"n".repeat(300)] {
        for op in operations(name) {
            let bytes = rmp_serde::to_vec(&op).unwrap().len();
            let weight = op.weight();
            assert!((bytes..bytes + 80).contains(&weight), "{op:?} takes {bytes}, and weighs {weight}");
        }
    }
    assert_eq!([GivenUp::Unregistered.weight(), GivenUp::ActorEnded.weight()], [0, 0]);
}

#[test]
fn a_wish_weighs_as_much_as_the_operation_that_it_comes_to_and_as_a_row_of_a_snapshot() {
    let (name, position, kind): (Name, _, _) = ("x".into(), Position(3), Kind(7));
    let why = GivenUp::StartFailed { reason: "r".repeat(200) };
    let unregister = Wish::Unregister { position, why: why.clone() };
    let op = Op::Unregister { name: name.clone(), position, why };
    assert_eq!(unregister.weight(&name), op.weight());
    let (to, number) = (session("b"), RequestNumber(1));
    let transfer = Wish::Transfer { position, to, number, actor: 1, kind };
    assert_eq!(transfer.weight(&name), Op::weight_of(&name, None) + SESSION_BYTES);
    let register = Wish::Register { actor: Some(1), kind, meta: meta() };
    assert_eq!(register.weight(&name), Op::weight_of(&name, meta().as_ref()));
    assert_eq!(Chunk::weight(&name, None), Op::weight_of(&name, None));
}

#[test]
fn a_batch_is_full_when_one_more_operation_and_its_session_may_not_fit() {
    let mut builder = BatchBuilder::default();
    assert!(!builder.is_full(ONE_OPERATION, 1000), "the first one always fits");
    let index = builder.session(&session("a"));
    // Another copy of the same id is the same session.
    assert_eq!((index, builder.session(&session("a")), builder.session(&session("b"))), (0, 0, 1));
    assert_eq!((builder.session(&session("a")), builder.sessions.len(), builder.is_empty()), (0, 2, true));
    builder.push(Op::Open);
    assert!(!builder.is_empty());
    let weight = 2 * SESSION_BYTES + Op::Open.weight();
    let next = Op::weight_of(&"x".into(), None);
    let limit = weight + next + SESSION_BYTES;
    assert!(!builder.is_full(limit, next) && builder.is_full(limit - 1, next));
    assert!(builder.is_full(ONE_OPERATION, 0));
}

#[test]
fn a_batch_that_names_a_session_which_it_does_not_list_is_refused() {
    let batch = |session: u32| Batch {
        epoch: Epoch(1),
        nonce: Nonce(1),
        position: Position(4),
        prev: LogEnd::default(),
        sessions: vec![self::session("a"), self::session("b")],
        ops: vec![Op::Open, Op::HostGone { session }, Op::Reset],
    };
    assert_eq!(Batch::decode_at(Position(4), &batch(1).encode()), Ok(batch(1)));
    assert!(matches!(Batch::decode(&batch(2).encode()), Err(CorruptBatch::Malformed(_))));
    assert!(matches!(Batch::decode_at(Position(5), &batch(1).encode()), Err(CorruptBatch::Malformed(_))));
    assert_eq!(Batch::decode(&[]), Err(CorruptBatch::Schema { found: None }));
    assert_eq!(Batch::decode(&[SCHEMA + 1, 0]), Err(CorruptBatch::Schema { found: Some(SCHEMA + 1) }));
    for op in operations("x") {
        if let Op::Bind { .. } | Op::Update { .. } | Op::Unregister { .. } | Op::Open = op {
            let with = Batch { ops: vec![op], ..batch(1) };
            assert_eq!(Batch::decode(&with.encode()), Ok(with));
        }
    }
}
