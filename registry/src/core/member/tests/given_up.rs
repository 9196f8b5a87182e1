//! Callers that wait no more.

use super::*;
use crate::error::ConsistentError;

/// What is asked in order to wait, of a member that can answer none of it yet.
fn waits() -> [(Call, Answer); 3] {
    let behind = ConsistentError::StoreUnavailable { waited: MILLIS(1000) };
    [
        (Call::Ready, Answer::Ready(false)),
        (Call::WaitFor { position: Position(50) }, Answer::Reached(Err(Position(1)))),
        (Call::Consistent { name: "x".into() }, Answer::Consistent(Err(behind))),
    ]
}

fn unlinked() -> One {
    let mut one = One::following();
    one.now.trusted = None;
    one
}

#[test]
fn nobody_is_answered_who_has_given_up_and_all_others_are() {
    for (call, answer) in waits() {
        let mut one = unlinked();
        for id in [1, 2, 3] {
            assert_eq!(answers(&one.calls(id, call.clone(), 1000)), [], "{call:?}");
        }
        one.step(Input::GiveUp { call: CallId(2) });
        let mut answered = answers(&one.wakes_after(1000));
        answered.sort_by_key(|(id, _)| *id);
        assert_eq!(answered, [(1, answer.clone()), (3, answer)], "{call:?}");
    }
}

#[test]
fn a_member_whose_callers_have_all_given_up_rests() {
    let looks_soon = |one: &One| one.member.wakes_at(one.now.time) <= one.now.time + MEMBER_TICK;
    assert!(!looks_soon(&unlinked()));
    for (call, _) in waits() {
        let mut one = unlinked();
        let effects = one.calls(1, call.clone(), 1000);
        assert!(looks_soon(&one), "{call:?}");
        one.step(Input::GiveUp { call: CallId(1) });
        let read = effects.iter().find_map(|effect| match effect {
            Effect::Read { id, .. } => Some(*id),
            _ => None,
        });
        if let Some(read) = read {
            one.reads(read, &[Some(end(1).to_value())]);
        }
        assert!(!looks_soon(&one), "{call:?}");
        assert_eq!(answers(&one.wakes_after(1000)), [], "{call:?}");
    }
}

#[test]
fn a_read_that_has_ended_serves_nobody_who_has_given_up_since() {
    let mut one = unlinked();
    let effects = one.calls(1, Call::Consistent { name: "x".into() }, 1000);
    let Some(Effect::Read { id, .. }) = effects.iter().find(|effect| matches!(effect, Effect::Read { .. }))
    else {
        panic!("{effects:?}")
    };
    assert_eq!(answers(&one.reads(*id, &[Some(end(50).to_value())])), [], "it is behind");
    one.step(Input::GiveUp { call: CallId(1) });
    assert_eq!(answers(&one.wakes_after(1000)), []);
}

#[test]
fn a_registration_goes_on_when_nobody_waits_for_it() {
    let mut one = One::following();
    let asked = one.registers(1, "x");
    assert!(!sends(&asked).is_empty(), "{asked:?}");
    one.step(Input::GiveUp { call: CallId(1) });
    assert!(one.member.wakes_at(one.now.time) <= one.now.time + MEMBER_TICK, "it waits for its verdict");
}
