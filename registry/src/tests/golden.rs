//! What members of other versions send, read, and write into the log: `tests/golden/files/registry`, and `docs/compatibility.md`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use callsign_elector::record::LogEnd;
use callsign_golden::{Golden, seed};
use callsign_store::{
    Version,
    ids::{Epoch, Incarnation, NodeName, Nonce, Position, SessionId, SessionNumber},
};
use callsign_transport::Kind;

use crate::{
    core::{
        entry::Entry,
        group::{GroupId, MembershipName},
        log::{Batch, CorruptBatch, Op},
        message::{BadMessage, ChangedRow, Chunk, ChunkHeld, ChunkRow, Message, Request, Verdict, Wish},
        meta::Meta,
        name::Name,
        replica::Replica,
        table::RequestNumber,
        taking::{Decline, Offered, TakeRefusal, Taker, Taking},
        traced::Traced,
        why::GivenUp,
    },
    fuzz::World,
};

const EPOCH: Epoch = Epoch(7);
const POSITION: Position = Position(70_000);
const KIND: Kind = Kind(0x0123_4567_89ab_cdef);

fn session() -> Arc<SessionId> {
    let node = NodeName::new("a").unwrap();
    Arc::new(SessionId { node, incarnation: Incarnation(u64::MAX - 1), number: SessionNumber(2) })
}

fn meta() -> Meta {
    Meta::new(&BTreeMap::from([("zone", "eu")])).unwrap()
}

/// Names that nobody registers: those of a member of a group, and of a place in a semaphore of 4.
fn memberships() -> [(&'static str, Name, MembershipName<'static>); 2] {
    let of = |group: &GroupId| group.member(&session(), 40);
    [
        ("member", of(&GroupId::group("room/7")), MembershipName { group: "\0groom/7", limit: None }),
        ("place", of(&GroupId::semaphore("gpu", 4)), MembershipName { group: "\0sgpu", limit: Some(4) }),
    ]
}

fn register(name: Name, request: RequestNumber, meta: Option<Meta>) -> Op {
    Op::Register { name, session: 0, request, actor: Some(40), kind: KIND, meta }
}

fn ops() -> Vec<(&'static str, Op)> {
    let (name, request): (Name, _) = ("pricing".into(), RequestNumber(300));
    let [member, place] = memberships().map(|(_, name, _)| name);
    let bind = |name, meta| Op::Bind { name, position: Position(69_998), request, actor: 40, meta };
    let unregister = |why| Op::Unregister { name: name.clone(), position: Position(69_999), why };
    vec![
        ("Register", register(name.clone(), request, None)),
        ("Register/meta", register(name.clone(), request, Some(meta()))),
        (
            "Register/starting",
            Op::Register { name: name.clone(), session: 0, request, actor: None, kind: KIND, meta: None },
        ),
        ("Bind", bind(name.clone(), None)),
        ("Bind/meta", bind(name.clone(), Some(meta()))),
        (
            "Update",
            Op::Update { name: name.clone(), position: Position(69_998), request, meta: Some(meta()) },
        ),
        ("Update/none", Op::Update { name: name.clone(), position: Position(69_998), request, meta: None }),
        (
            "Transfer",
            Op::Transfer {
                name: name.clone(),
                position: Position(69_998),
                session: 0,
                request,
                actor: 41,
                kind: KIND,
            },
        ),
        ("Unregister", unregister(GivenUp::Unregistered)),
        ("Unregister/ended", unregister(GivenUp::ActorEnded)),
        ("Unregister/failed", unregister(GivenUp::StartFailed { reason: "no room".into() })),
        ("HostGone", Op::HostGone { session: 0 }),
        ("Open", Op::Open),
        ("Reset", Op::Reset),
        ("Register/member", register(member, request, None)),
        ("Register/place", register(place, request, None)),
    ]
}

/// The end of a log in which all batches have the same nonce.
fn end(position: u64) -> LogEnd {
    let nonce = if position == 0 { Nonce(0) } else { Nonce(u64::MAX) };
    LogEnd { position: Position(position), nonce }
}

fn batch(ops: Vec<Op>) -> Batch {
    let (nonce, sessions) = (Nonce(u64::MAX), vec![session()]);
    Batch { epoch: EPOCH, nonce, position: POSITION, prev: end(69_999), sessions, ops }
}

/// What is behind a message whose requests are in traces.
const TRACED: [Traced<'static>; 2] = {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    [
        Traced { number: RequestNumber(300), parent, state: Some("rojo=00f067aa0ba902b7") },
        Traced { number: RequestNumber(301), parent, state: None },
    ]
};

/// Messages of which there are lines with traces.
const IN_TRACES: [&str; 2] = ["Requests/Register", "Take/Ask"];

fn messages() -> Vec<(&'static str, Message)> {
    let (epoch, position, session) = (EPOCH, POSITION, session());
    let request = |wish| Request { number: RequestNumber(300), name: "pricing".into(), wish };
    let requests = |wish| {
        let (session, requests) = (session.clone(), vec![request(wish)]);
        Message::Requests { epoch, session, acknowledged: RequestNumber(299), requests }
    };
    let delta = |row: Option<&'static [u8]>| Message::ViewDelta {
        epoch,
        version: Version(70_000),
        from: Some(Bytes::from_static(b"mark")),
        to: Some(Bytes::from_static(&[0xff, 0])),
        rows: vec![ChangedRow {
            node: NodeName::new("b").unwrap(),
            row: row.map(Bytes::from_static),
            session: None,
        }],
    };
    let [member, place] = memberships().map(|(_, name, _)| name);
    let joins = |name| {
        let wish = Wish::Register { actor: Some(40), kind: KIND, meta: None };
        let requests = vec![Request { number: RequestNumber(300), name, wish }];
        Message::Requests { epoch, session: session.clone(), acknowledged: RequestNumber(299), requests }
    };
    let verdict = |verdict| {
        let verdicts = vec![(RequestNumber(300), verdict)];
        Message::Verdicts { epoch, session: session.clone(), position, verdicts }
    };
    let holder = Entry {
        node: session.node.clone(),
        incarnation: session.incarnation,
        session: session.number,
        actor: Some(40),
        kind: KIND,
        token: Position(69_998),
        revision: Position(69_999),
        meta: None,
    };
    let starting = Entry { actor: None, ..holder.clone() };
    let batches = vec![(position, Bytes::from_static(b"batch"))];
    let held_by = |actor, revision, meta| ChunkHeld {
        position,
        session: 0,
        request: RequestNumber(300),
        actor,
        kind: KIND,
        revision,
        meta,
    };
    let held = |revision, meta| held_by(Some(40), revision, meta);
    let rows = vec![
        ChunkRow { name: "pricing".into(), row: Some(held(None, None)) },
        ChunkRow { name: "said".into(), row: Some(held(Some(Position(70_001)), Some(meta()))) },
        ChunkRow { name: "starting".into(), row: Some(held_by(None, None, None)) },
        ChunkRow { name: "gone".into(), row: None },
    ];
    let (taker, holder_of) =
        (Taker { session: session.clone(), number: RequestNumber(300) }, session.clone());
    let declined = |why| {
        let holder = session.clone();
        Message::Take(Taking::Declined { holder, number: 3, why })
    };
    let ask = Taking::Ask {
        taker: taker.clone(),
        holder: holder_of.clone(),
        name: "pricing".into(),
        token: position,
        actor: 41,
        kind: KIND,
    };
    let chunk = Chunk { sessions: vec![session.clone()], gone: vec![(0, Position(70))], rows };
    vec![
        ("Requests/Register", requests(Wish::Register { actor: Some(40), kind: KIND, meta: None })),
        (
            "Requests/Register/meta",
            requests(Wish::Register { actor: Some(40), kind: KIND, meta: Some(meta()) }),
        ),
        (
            "Requests/Update",
            requests(Wish::Update { position, revision: Some(position), meta: Some(meta()) }),
        ),
        ("Requests/Update/none", requests(Wish::Update { position, revision: None, meta: None })),
        ("Requests/Unregister", requests(Wish::Unregister { position, why: GivenUp::Unregistered })),
        ("Requests/Unregister/ended", requests(Wish::Unregister { position, why: GivenUp::ActorEnded })),
        (
            "Requests/Unregister/failed",
            requests(Wish::Unregister { position, why: GivenUp::StartFailed { reason: "no room".into() } }),
        ),
        ("Requests/Register/starting", requests(Wish::Register { actor: None, kind: KIND, meta: None })),
        ("Requests/Bind", requests(Wish::Bind { position, actor: 40, meta: None })),
        ("Requests/Bind/meta", requests(Wish::Bind { position, actor: 40, meta: Some(meta()) })),
        (
            "Requests/Transfer",
            requests(Wish::Transfer {
                position,
                to: session.clone(),
                number: RequestNumber(300),
                actor: 41,
                kind: KIND,
            }),
        ),
        ("Verdicts/Transferred", verdict(Verdict::Transferred { token: position })),
        ("Verdicts/Kept", verdict(Verdict::Kept { allowed: None })),
        ("Verdicts/Kept/permits", verdict(Verdict::Kept { allowed: Some(vec!["shop/".to_owned()].into()) })),
        ("Verdicts/Gone", verdict(Verdict::Gone)),
        ("Verdicts/Granted", verdict(Verdict::Granted { token: Position(69_998), revision: position })),
        ("Verdicts/Taken", verdict(Verdict::Taken { holder: Box::new(holder.clone()) })),
        ("Verdicts/Taken/starting", verdict(Verdict::Taken { holder: Box::new(starting) })),
        ("Verdicts/Released", verdict(Verdict::Released)),
        ("Verdicts/Updated", verdict(Verdict::Updated { revision: position })),
        ("Verdicts/Moved", verdict(Verdict::Moved { revision: position })),
        ("Verdicts/NotHeld", verdict(Verdict::NotHeld { holder: Some(Box::new(holder)) })),
        ("Verdicts/NotHeld/free", verdict(Verdict::NotHeld { holder: None })),
        ("Verdicts/OtherLimit", verdict(Verdict::OtherLimit { limit: 4 })),
        (
            "Verdicts/NotPermitted",
            verdict(Verdict::NotPermitted { allowed: vec!["shop/".to_owned()].into() }),
        ),
        ("Replicate", Message::Replicate { epoch, position, batch: Bytes::from_static(b"batch") }),
        ("ApplyNamesSnapshot", Message::ApplyNamesSnapshot { epoch, batches: batches.clone() }),
        ("Heartbeat", Message::Heartbeat { epoch, end: end(70_000) }),
        ("Progress", Message::Progress { epoch, position }),
        ("Fetch", Message::Fetch { epoch, after: position }),
        ("Fetched", Message::Fetched { epoch, after: Position(69_999), batches }),
        ("SnapshotWanted", Message::SnapshotWanted { id: 3, below: 4 }),
        ("SnapshotNext", Message::SnapshotNext { id: 3, below: 9 }),
        ("SnapshotChunk", Message::SnapshotChunk { id: 3, index: 1, chunk: chunk.clone(), end: None }),
        (
            "SnapshotChunk/last",
            Message::SnapshotChunk { id: 3, index: 1, chunk, end: Some((epoch, end(70_000))) },
        ),
        ("SnapshotRefused", Message::SnapshotRefused { id: 3 }),
        ("TransferSnapshot", Message::TransferSnapshot { epoch }),
        ("Transferred", Message::Transferred { epoch, position }),
        ("Take/Ask", Message::Take(ask)),
        (
            "Take/Refused",
            Message::Take(Taking::Refused {
                taker: taker.clone(),
                holder: holder_of.clone(),
                why: TakeRefusal::NotGiven,
            }),
        ),
        (
            "Take/Refused/failed",
            Message::Take(Taking::Refused {
                taker: taker.clone(),
                holder: holder_of.clone(),
                why: TakeRefusal::Failed { reason: "no".into() },
            }),
        ),
        (
            "Take/Data",
            Message::Take(Taking::Data {
                taker: taker.clone(),
                holder: holder_of,
                consent: 3,
                data: Bytes::from_static(b"data"),
            }),
        ),
        ("Take/Received", Message::Take(Taking::Received { taker: taker.clone(), consent: 3 })),
        ("Take/Over", Message::Take(Taking::Over { taker })),
        (
            "Take/Offer",
            Message::Take(Taking::Offer(Offered {
                holder: session.clone(),
                number: 3,
                name: "pricing".into(),
                token: position,
                kind: KIND,
            })),
        ),
        ("Take/Declined", declined(Decline::NoReceiver)),
        ("Take/Declined/draining", declined(Decline::Draining)),
        ("Take/Declined/not-ready", declined(Decline::NotReady)),
        ("Take/Declined/failed", declined(Decline::Failed { reason: "no room".into() })),
        ("Requests/Register/member", joins(member.clone())),
        ("Requests/Register/place", joins(place.clone())),
        (
            "SnapshotChunk/members",
            Message::SnapshotChunk {
                id: 3,
                index: 1,
                chunk: Chunk {
                    sessions: vec![session.clone()],
                    gone: Vec::new(),
                    rows: [member, place].map(|name| ChunkRow { name, row: Some(held(None, None)) }).to_vec(),
                },
                end: None,
            },
        ),
        ("RunHandoff", Message::RunHandoff { epoch }),
        ("HandoffDone", Message::HandoffDone { epoch }),
        ("LinksWanted", Message::LinksWanted),
        (
            "Links",
            Message::Links {
                linked: vec![NodeName::new("b").unwrap(), NodeName::new("c").unwrap()],
                position: POSITION,
            },
        ),
        ("Links/none", Message::Links { linked: Vec::new(), position: Position(0) }),
        ("ViewDelta", delta(Some(b"row"))),
        ("ViewDelta/gone", delta(None)),
        ("Observers", Message::Observers { epoch, observers: vec![NodeName::new("b").unwrap()] }),
    ]
}

fn of_the_registry() -> Golden {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    for (name, message) in messages() {
        let read = |bytes: &[u8]| Message::decode(bytes).map_err(|error| error.to_string());
        golden.sample(format!("message/{name}"), message, |message| message.encode().to_vec(), read);
    }
    for (name, message) in messages() {
        let read = |bytes: &[u8]| match Message::decode_with(bytes, true) {
            Ok((message, traced)) if traced == TRACED => Ok(message),
            other => Err(format!("{other:?}")),
        };
        let write = |message: &Message| message.encode_with(&TRACED).to_vec();
        if IN_TRACES.contains(&name) {
            golden.sample(format!("message/{name}/in-traces"), message, write, read);
        }
    }
    for (name, op) in ops() {
        let read = |bytes: &[u8]| Batch::decode(bytes).map_err(|error| error.to_string());
        golden.sample(format!("log/{name}"), batch(vec![op]), |batch| batch.encode().to_vec(), read);
    }
    for (what, name, means) in memberships() {
        let read = move |bytes: &[u8]| {
            let name = str::from_utf8(bytes).map_err(|error| error.to_string())?;
            if MembershipName::of(name) == Some(means) {
                Ok(Name::from(name))
            } else {
                Err(format!("{name:?}"))
            }
        };
        golden.sample(format!("name/{what}"), name, |name: &Name| name.as_bytes().to_vec(), read);
    }
    crate::driver::singleton::golden(&mut golden);
    golden.must_cover::<Message>("message");
    golden.must_cover::<Wish>("message/Requests");
    golden.must_cover::<Taking>("message/Take");
    golden.must_cover::<Verdict>("message/Verdicts");
    golden.must_cover::<Op>("log");
    golden
}

#[test]
fn what_members_send_and_log_is_what_former_versions_read_and_wrote() {
    of_the_registry().check();
}

#[test]
fn what_a_later_version_adds_behind_a_message_or_a_batch_is_not_read() {
    let more = b"\x81\xa3new\xc3";
    for (name, message) in messages() {
        let later = [&message.encode()[..], more].concat();
        assert_eq!(Message::decode(&later), Ok(message.clone()), "{name}");
        assert_eq!(Message::decode_with(&later, true), Ok((message.clone(), Vec::new())), "nor for a trace");
        let traced = [&message.encode_with(&TRACED)[..], more].concat();
        assert_eq!(Message::decode_with(&traced, true), Ok((message.clone(), TRACED.to_vec())), "{name}");
        assert_eq!(Message::decode(&traced), Ok(message), "it is not asked for");
    }
    for (name, op) in ops() {
        let later = [&batch(vec![op.clone()]).encode()[..], more].concat();
        assert_eq!(Batch::decode(&later), Ok(batch(vec![op])), "{name}");
    }
}

/// The same, with another name for a variant: as long, so that nothing else changes.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
}

#[test]
fn a_message_of_the_future_is_told_from_a_damaged_one_and_from_another_version() {
    let heartbeat = Message::Heartbeat { epoch: EPOCH, end: end(70_000) }.encode();
    let future = renamed(&heartbeat, "Heartbeat", "Heartache");
    assert_eq!(Message::decode(&future), Err(BadMessage::Unknown("Heartache".into())));
    let future = renamed(&Message::LinksWanted.encode(), "LinksWanted", "LoadsWanted");
    assert_eq!(
        Message::decode(&future),
        Err(BadMessage::Unknown("LoadsWanted".into())),
        "also without a field"
    );
    let damaged = &heartbeat[..heartbeat.len() - 1];
    assert!(matches!(Message::decode(damaged), Err(BadMessage::Malformed(_))));
    let another = [&[2], &heartbeat[1..]].concat();
    assert_eq!(Message::decode(&another), Err(BadMessage::Version { found: Some(2) }));
    assert_eq!(Message::decode(&[]), Err(BadMessage::Version { found: None }));
    // A wish or a verdict of the future cannot be dropped alone: the others of its message would be out of order.
    let (_, released) = messages().into_iter().find(|(name, _)| *name == "Verdicts/Released").unwrap();
    let future = renamed(&released.encode(), "Released", "Rejected");
    assert!(matches!(Message::decode(&future), Err(BadMessage::Malformed(_))));
}

#[test]
fn an_operation_of_the_future_is_never_passed_over() {
    let known = ops().into_iter().map(|(_, op)| op);
    let written = batch(known.chain([Op::Open]).collect()).encode();
    let future = renamed(&written, "Unregister", "Reregister");
    assert_eq!(Batch::decode(&future), Err(CorruptBatch::UnknownOp { op: "Reregister".into() }));
    let another = [&[2], &written[1..]].concat();
    assert_eq!(Batch::decode(&another), Err(CorruptBatch::Schema { found: Some(2) }));
}

/// A batch at a position, behind the one before it.
fn of_the_log(position: u64, ops: Vec<Op>) -> Batch {
    Batch { position: Position(position), prev: end(position - 1), ..batch(ops) }
}

/// Batches at positions 1, 2 and 3, the second with an operation of the future; and the second as it is without.
fn log_with_a_gap() -> ([Bytes; 3], Bytes) {
    let at = |position, ops| of_the_log(position, ops).encode();
    let unregister =
        || vec![Op::Unregister { name: "other".into(), position: Position(1), why: GivenUp::Unregistered }];
    let known = at(2, unregister());
    let future = renamed(&known, "Unregister", "Reregister").into();
    ([at(1, vec![Op::Open]), future, at(3, vec![Op::Open])], known)
}

#[test]
fn a_replica_stops_in_front_of_an_operation_that_it_does_not_know() {
    let ([first, future, third], known) = log_with_a_gap();
    let mut replica = Replica::new(NodeName::new("b").unwrap(), BTreeMap::new());
    replica.base_on_nothing();
    replica.offer(EPOCH, Position(1), &first).unwrap();
    for _ in 0..2 {
        let stopped = replica.offer(EPOCH, Position(2), &future);
        assert_eq!(stopped, Err(CorruptBatch::UnknownOp { op: "Reregister".into() }));
        replica.offer(EPOCH, Position(3), &third).unwrap();
        assert_eq!(replica.position(), Position(1));
    }
    replica.offer(EPOCH, Position(2), &known).unwrap();
    assert_eq!(replica.position(), Position(3));
}

#[test]
fn a_batch_that_cannot_be_read_does_not_wait_and_what_was_applied_is_told() {
    let ([_, future, third], known) = log_with_a_gap();
    let mut replica = Replica::new(NodeName::new("a").unwrap(), BTreeMap::new());
    replica.base_on_nothing();
    assert!(matches!(replica.offer(EPOCH, Position(2), &future), Err(CorruptBatch::UnknownOp { .. })));
    replica.offer(EPOCH, Position(3), &third).unwrap();
    let gone = of_the_log(1, vec![Op::HostGone { session: 0 }]);
    let applied = replica.offer(EPOCH, Position(1), &gone.encode()).unwrap();
    assert_eq!((applied.gone.len(), replica.position()), (1, Position(1)));
    replica.offer(EPOCH, Position(2), &known).unwrap();
    assert_eq!(replica.position(), Position(3));
}

#[test]
fn a_batch_at_another_position_than_its_own_is_not_applied() {
    let ([first, ..], _) = log_with_a_gap();
    let mut replica = Replica::new(NodeName::new("b").unwrap(), BTreeMap::new());
    replica.base_on_nothing();
    replica.offer(EPOCH, Position(1), &first).unwrap();
    let wrong = replica.offer(EPOCH, Position(2), &first);
    assert!(matches!(wrong, Err(CorruptBatch::Malformed(_))), "{wrong:?}");
    assert_eq!(replica.position(), Position(1));
}

#[test]
fn a_member_that_cannot_read_the_log_says_why_and_asks_about_once_a_second() {
    let (log, _) = log_with_a_gap();
    let mut world = World::new();
    world.term(0, 1);
    for batch in log {
        world.log(&batch);
    }
    world.term(0, 0);
    for _ in 0..100 {
        world.time(Duration::from_millis(100));
    }
    assert_eq!(world.registry.member().replica().position(), Position(1));
    let said = world.corrupt.first().expect("it says nothing");
    assert!(said.contains("Reregister"), "{said}");
    assert!((8..=15).contains(&world.corrupt.len()), "{} times in ten seconds", world.corrupt.len());
    assert!(world.reads <= 20, "{} reads in ten seconds", world.reads);
}

#[test]
fn golden_lines_are_where_fuzzing_begins() {
    let piece = |what: u8, bytes: &[u8]| {
        [&[what][..], &u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    };
    let first = |bytes: Bytes, position: u8| {
        // At the beginning of a log: 70 000 takes five bytes, a small number one.
        let at = bytes.windows(5).position(|part| part == [0xce, 0, 1, 0x11, 0x70]).unwrap();
        [&bytes[..at], &[position], &bytes[at + 5..]].concat()
    };
    let leads = [piece(1, &[1, 1]), piece(3, &[1])].concat();
    for (name, message) in messages() {
        let message = piece(0, &message.encode());
        seed("messages", name, &[&message[..], &piece(1, &[0, 7]), &message, &leads, &message].concat());
    }
    for (name, message) in messages().into_iter().filter(|(name, _)| IN_TRACES.contains(name)) {
        let message = piece(0, &message.encode_with(&TRACED));
        let name = format!("{name}/in-traces");
        seed("messages", &name, &[&message[..], &piece(1, &[0, 7]), &message, &leads, &message].concat());
    }
    let mut whole = Vec::new();
    for (nth, (name, op)) in ops().into_iter().enumerate() {
        let encoded = first(batch(vec![op]).encode(), u8::try_from(nth + 1).unwrap());
        seed("log", name, &piece(0, &encoded));
        whole.extend(piece(0, &encoded));
        seed(
            "messages",
            &format!("log-{name}"),
            &[piece(4, &encoded), leads.clone(), piece(6, b"x")].concat(),
        );
    }
    seed("log", "whole", &whole);
}
