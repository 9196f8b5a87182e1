//! What a member believes of what another one says: a node that leads nothing does not speak for the registry.

use super::*;
use crate::core::message::{Request, Verdict, Wish};

/// It follows l, and o is linked as well.
fn with_another() -> One {
    let mut one = One::following();
    one.links("o", 2);
    one
}

#[test]
fn batches_are_taken_from_the_leader_that_is_followed_and_from_nobody_else() {
    let next = batch(2, vec![register("x")]);
    let batches = || vec![(Position(2), next.encode())];
    let opening = || Message::ApplyNamesSnapshot { epoch: Epoch(5), batches: batches() };
    let fetched = || Message::Fetched { epoch: Epoch(5), after: Position(1), batches: batches() };
    for message in [replicate(&next), opening(), fetched()] {
        let after = |from: &str| {
            let mut one = with_another();
            one.hears("l", heartbeat(5, 2));
            assert_eq!(sends(&one.wakes_after(150)).len(), 1, "it is asked for");
            let effects = one.hears(from, message.clone());
            (one.member.replica.position(), tells(&effects).is_empty())
        };
        assert_eq!(after("o"), (Position(1), true), "{message:?}");
        assert_eq!(after("l").0, Position(2), "{message:?}");
    }
}

#[test]
fn what_a_leader_has_said_counts_until_the_next_one_is_heard() {
    let mut one = with_another();
    one.sees(6, Some("o"));
    one.hears("l", replicate(&batch(2, vec![])));
    assert_eq!(one.member.replica.position(), Position(2), "it may have come late");
    one.hears("o", heartbeat(6, 2));
    one.hears("l", replicate(&batch(3, vec![])));
    assert_eq!(one.member.replica.position(), Position(2));
}

#[test]
fn a_name_is_granted_by_the_leader_that_was_asked_and_by_nobody_else() {
    let mut one = with_another();
    one.registers(1, "x");
    let granted = Verdict::Granted { token: Position(1), revision: Position(1) };
    let verdicts = Message::Verdicts {
        epoch: Epoch(5),
        session: Arc::new(session("m")),
        position: Position(0),
        verdicts: vec![(RequestNumber(1), granted)],
    };
    assert_eq!(answers(&one.hears("o", verdicts.clone())), []);
    assert_eq!(answers(&one.hears("l", verdicts)).len(), 1);
}

#[test]
fn that_a_leader_has_stepped_down_or_run_its_handoff_is_its_own_to_say() {
    let mut one = with_another();
    one.hears("o", Message::Transferred { epoch: Epoch(5), position: Position(u64::MAX) });
    assert_eq!(one.member.catchup.wanted(), Position(1), "nobody was asked to step down");
    let done = |epoch| Message::HandoffDone { epoch: Epoch(epoch) };
    for (from, epoch, told) in
        [("o", 5, vec![]), ("l", 4, vec![]), ("l", 5, vec![Tell::HandoffDone(Epoch(5))])]
    {
        assert_eq!(tells(&one.hears(from, done(epoch))), told, "{from} of {epoch}");
    }
    // Of two that a new leader may ask, the one that led before is waited for.
    let mut one = One::new();
    one.links("l", 1);
    one.links("o", 2);
    one.sees(4, Some("l"));
    one.sees(5, Some("m"));
    let transferred = || Message::Transferred { epoch: Epoch(5), position: Position(3) };
    let reads = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Read { .. }));
    assert!(!reads(&one.hears("o", transferred())));
    assert!(reads(&one.hears("l", transferred())));
}

#[test]
fn a_node_asks_in_a_session_of_the_incarnation_that_is_linked() {
    let mut one = One::leading();
    let asks = |incarnation| {
        let session = SessionId { incarnation: Incarnation(incarnation), ..session("l") };
        let wish = Wish::Register { actor: Some(3), kind: Kind(7), meta: None };
        let requests = vec![Request { number: RequestNumber(1), name: "y".into(), wish }];
        let acknowledged = RequestNumber(0);
        Message::Requests { epoch: Epoch(5), session: Arc::new(session), acknowledged, requests }
    };
    let writes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Commit { .. }));
    let effects = one.hears("l", asks(9));
    assert!(!writes(&effects) && tells(&effects).is_empty(), "it is read by nobody: {effects:?}");
    assert!(writes(&one.hears("l", asks(1))));
}
