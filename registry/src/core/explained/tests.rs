use callsign_store::ids::{Incarnation, NodeName, SessionNumber};
use callsign_transport::Kind;

use super::*;

fn entry(token: u64, revision: u64, actor: Option<u64>) -> Entry {
    Entry {
        node: NodeName::new("berlin").unwrap(),
        incarnation: Incarnation(1),
        session: SessionNumber(1),
        actor,
        kind: Kind(7),
        token: Position(token),
        revision: Position(revision),
        meta: None,
    }
}

fn said(state: &NameState) -> String {
    state.of(&"shop".into()).to_string()
}

fn free(why: Why, ago: Option<u64>) -> String {
    let was = Some(entry(17, 17, Some(3)));
    let change = Change { name: "shop".into(), position: Position(412), was, now: None, why };
    said(&NameState::Free(WhyFree::Ended(PastChange { change, ago: ago.map(Duration::from_secs) })))
}

#[test]
fn why_a_name_is_free_is_a_sentence() {
    let failed = Why::StartFailed { reason: "no disk".into() };
    for (why, ago, expected) in [
        (Why::ActorEnded, Some(12), "its actor on berlin ended at position 412 (12 s ago)"),
        (Why::Unregistered, Some(119), "it was unregistered on berlin at position 412 (119 s ago)"),
        (Why::NodeGone, Some(120), "the session of its node, berlin, was closed at position 412 (2 min ago)"),
        (failed, None, "no actor could be started for it on berlin at position 412: no disk"),
        (Why::ActorEnded, Some(7_200), "its actor on berlin ended at position 412 (2 h ago)"),
        (Why::ActorEnded, Some(180_000), "its actor on berlin ended at position 412 (2 days ago)"),
    ] {
        assert_eq!(free(why, ago), format!("nobody holds shop: {expected}"));
    }
    for (why, expected) in [
        (
            WhyFree::Reset { position: Position(9), ago: Some(Duration::from_secs(1)) },
            "the registry began with no names at position 9 (1 s ago), and nobody has held it since",
        ),
        (
            WhyFree::NotRemembered { since: Position(9) },
            "this node remembers changes from position 9 on, and none of this name",
        ),
    ] {
        assert_eq!(said(&NameState::Free(why)), format!("nobody holds shop: {expected}"));
    }
}

#[test]
fn who_holds_a_name_is_a_sentence() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let held = |entry, ago, changed_ago| said(&NameState::Held { entry, ago, changed_ago });
    assert_eq!(
        held(entry(17, 17, Some(3)), seconds(5), seconds(5)),
        "shop is held on berlin: registered at position 17 (5 s ago), which is its token"
    );
    assert_eq!(
        held(entry(17, 19, Some(3)), None, seconds(2)),
        "shop is held on berlin: registered at position 17, which is its token, and changed at 19 (2 s ago)"
    );
    assert_eq!(
        held(entry(17, 17, None), seconds(1), seconds(1)),
        "an actor is being started for shop on berlin, since position 17 (1 s ago)"
    );
    let unknown = "this node does not know who holds shop: its replica is not complete";
    assert_eq!(said(&NameState::Unknown), unknown);
}
