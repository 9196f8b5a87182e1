use callsign_store::ids::{Incarnation, SessionNumber};

use super::*;
use crate::core::{
    table::{More, Slot},
    taking::{TakeRefusal, Taker},
};

fn session() -> SessionId {
    let node = NodeName::new("n".repeat(100)).unwrap();
    SessionId { node, incarnation: Incarnation(u64::MAX >> 12), number: SessionNumber(1 << 50) }
}

/// A row at this position, which was changed last at that revision.
fn row(position: u64, revision: u64) -> Row {
    let (position, revision) = (Position(position), Position(revision));
    let (request, actor, kind) = (RequestNumber(1 << 50), u64::MAX >> 1, Kind(u64::MAX));
    let (session, more) = (Arc::new(session()), More::of(position, revision, None));
    Row { position, session, request, actor, kind, more, slot: Slot::default() }
}

#[test]
fn a_verdict_takes_no_more_bytes_than_it_weighs() {
    let position = Position(1 << 50);
    let holder = || Box::new(row(1 << 50, 1 << 51).holder());
    let allowed: Arc<[String]> = (0..50).map(|_| "p".repeat(300)).collect();
    for verdict in [
        Verdict::Granted { token: position, revision: position },
        Verdict::Taken { holder: holder() },
        Verdict::Released,
        Verdict::Updated { revision: position },
        Verdict::Moved { revision: position },
        Verdict::NotHeld { holder: Some(holder()) },
        Verdict::OtherLimit { limit: u32::MAX },
        Verdict::NotPermitted { allowed: allowed.clone() },
        Verdict::Transferred { token: position },
        Verdict::Kept { allowed: Some(allowed) },
        Verdict::Gone,
    ] {
        let weight = verdict.weight();
        let bytes = rmp_serde::to_vec(&(RequestNumber(1 << 50), &verdict)).unwrap().len();
        assert!((bytes..bytes + 400).contains(&weight), "{verdict:?} takes {bytes}, and weighs {weight}");
    }
}

#[test]
fn a_chunk_lists_each_session_once_and_a_revision_only_where_something_was_changed() {
    let mut chunk = Chunk::default();
    chunk.push("x".into(), Some(row(3, 3)));
    chunk.push("y".into(), Some(row(3, 4)));
    chunk.push("z".into(), None);
    chunk.push_gone(session(), Position(2));
    assert_eq!(chunk.sessions, [Arc::new(session())]);
    let held = chunk.rows.iter().map(|row| row.row.as_ref().map(|held| (held.session, held.revision)));
    assert_eq!(held.collect::<Vec<_>>(), [Some((0, None)), Some((0, Some(Position(4)))), None]);
    assert_eq!(chunk.gone, [(0, Position(2))]);
}

#[test]
fn what_another_node_wrote_stays_within_the_line_that_says_that_it_cannot_be_read() {
    let unknown = Message::decode(b"\x01\xa3x\ny").unwrap_err();
    assert_eq!(unknown, BadMessage::Unknown("x\\ny".to_owned()));
    // A refusal of a reason that there is not.
    let (taker, holder) =
        (Taker { session: Arc::new(session()), number: RequestNumber(3) }, Arc::new(session()));
    let why = TakeRefusal::TakerGone;
    let refused = Message::Take(Taking::Refused { taker, holder, why }).encode();
    let known = refused.strip_suffix(b"\xa9TakerGone").unwrap();
    let malformed = Message::decode(&[known, &b"\xa3x\ny"[..]].concat()).unwrap_err().to_string();
    assert!(malformed.contains("x\\ny") && !malformed.contains('\n'), "{malformed}");
}
