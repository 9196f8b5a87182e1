use callsign_store::ids::{Position, SessionNumber};
use callsign_transport::Kind;

use super::*;
use crate::{
    core::{
        caller::{CallerEffect as Effect, CallerInput as Input},
        host::OnTake,
        input::{Answer, Call, CallId, Drained, OnLapse},
    },
    error::{ExplainError, UnregisterError},
};

const WAIT: Duration = Duration::from_secs(5);
const OUT: Option<Duration> = Some(Duration::from_secs(9));

fn at(seconds: u64, trusted: Option<u64>) -> Now {
    Now { time: Time(Duration::from_secs(seconds)), trusted: trusted.map(SessionNumber) }
}

fn caller(on_outage: OnOutage) -> Caller {
    Caller::new("x".into(), on_outage, at(100, None).time, WAIT)
}

fn granted(session: u64) -> Granted {
    Granted { token: Position(4), revision: Position(4), session: SessionNumber(session), claim: CallId(1) }
}

fn asks(seconds: u64) -> Effect {
    Effect::Ask(Duration::from_secs(seconds))
}

#[test]
fn who_is_granted_a_name_is_told_while_its_session_is_trusted() {
    let mut one = caller(OnOutage::Wait);
    assert_eq!(one.step(at(100, Some(1)), None, Input::Begin), Some(asks(5)));
    let answer = one.step(at(101, Some(1)), None, Input::Answered(Ok(granted(1))));
    assert_eq!(answer, Some(Effect::Done(Ok(granted(1)))));
    for (trusted, session) in [(None, 1), (Some(2), 1)] {
        let mut other = caller(OnOutage::Wait);
        other.step(at(100, Some(1)), None, Input::Begin);
        let answer = other.step(at(102, trusted), None, Input::Answered(Ok(granted(session))));
        let unknown = RegisterError::Unknown { name: "x".to_owned(), waited: Duration::from_secs(2) };
        assert_eq!(answer, Some(Effect::Done(Err(unknown))));
    }
}

#[test]
fn who_waits_is_asked_for_again_when_trust_is_back_with_the_time_that_is_left() {
    let mut one = caller(OnOutage::Wait);
    one.step(at(100, None), OUT, Input::Begin);
    let refused = one.step(at(101, None), OUT, Input::Answered(Err(RegisterError::Lapsed)));
    assert_eq!(refused, Some(Effect::AwaitTrust(at(105, None).time)));
    assert_eq!(one.wakes_at(), Some(at(105, None).time));
    assert_eq!(
        one.step(at(102, None), OUT, Input::Wake),
        Some(Effect::AwaitTrust(at(105, None).time)),
        "too early"
    );
    assert_eq!(one.step(at(103, Some(1)), None, Input::Trusted), Some(asks(2)));
    assert_eq!(one.wakes_at(), None);
    // Trust came back while the refusal was on its way.
    assert_eq!(one.step(at(104, Some(1)), None, Input::Trusted), None);
    assert_eq!(one.step(at(104, Some(1)), None, Input::Answered(Err(RegisterError::Lapsed))), Some(asks(1)));
    let last = one.step(at(105, None), OUT, Input::Answered(Err(RegisterError::Lapsed)));
    assert_eq!(last, Some(Effect::AwaitTrust(at(105, None).time)));
    let lasting = OUT.unwrap();
    let over = one.step(at(105, None), OUT, Input::Wake);
    assert_eq!(over, Some(Effect::Done(Err(RegisterError::StoreUnavailable { lasting }))));
    assert_eq!(one.step(at(106, Some(1)), None, Input::Trusted), None, "it is done");
}

#[test]
fn who_prefers_an_error_asks_nothing_of_a_store_that_is_gone() {
    let lasting = OUT.unwrap();
    let mut one = caller(OnOutage::Fail);
    let refused = one.step(at(100, Some(1)), OUT, Input::Begin);
    assert_eq!(refused, Some(Effect::Done(Err(RegisterError::StoreUnavailable { lasting }))));
    let mut other = caller(OnOutage::Fail);
    assert_eq!(other.step(at(100, None), None, Input::Begin), Some(asks(5)));
    let refused = other.step(at(100, None), None, Input::Answered(Err(RegisterError::Lapsed)));
    assert_eq!(refused, Some(Effect::Done(Err(RegisterError::Lapsed))), "and does not wait");
}

#[test]
fn what_may_have_been_sent_is_not_asked_again() {
    let unknown = RegisterError::Unknown { name: "x".to_owned(), waited: WAIT };
    for (error, outage, told) in [
        (RegisterError::NoLeader, None, RegisterError::NoLeader),
        (RegisterError::NotSynced, OUT, RegisterError::StoreUnavailable { lasting: OUT.unwrap() }),
        (RegisterError::ActorEnded, OUT, RegisterError::ActorEnded),
        (unknown.clone(), OUT, unknown),
    ] {
        let mut one = caller(OnOutage::Wait);
        one.step(at(100, Some(1)), None, Input::Begin);
        let answer = one.step(at(101, Some(1)), outage, Input::Answered(Err(error)));
        assert_eq!(answer, Some(Effect::Done(Err(told))));
    }
}

#[test]
fn whoever_gets_no_answer_of_its_member_is_told_nothing_that_may_be_wrong() {
    let (name, token) = (|| Name::from("x"), Position(4));
    let unknown = || RegisterError::Unknown { name: "x".to_owned(), waited: WAIT };
    let pending = UnregisterError::Pending { name: "x".to_owned(), waited: WAIT };
    for (call, told) in [
        (
            Call::Take {
                name: name(),
                token,
                actor: 5,
                kind: Kind(7),
                on_lapse: OnLapse::Stop,
                on_take: OnTake::Give,
            },
            Answer::Taken(Err(unknown().into())),
        ),
        (Call::Unregister { name: name() }, Answer::Unregistered(Err(pending.clone()))),
        (Call::Withdraw { name: name(), token }, Answer::Unregistered(Err(pending))),
        (Call::WaitFor { position: Position(9) }, Answer::Reached(Err(token))),
        (Call::Explain { name: name() }, Answer::Explained(Err(ExplainError::Unanswered { waited: WAIT }))),
        (Call::Ready, Answer::Ready(false)),
        (Call::Drain, Answer::Drained(Drained::TimedOut)),
        (Call::Leave, Answer::Left),
    ] {
        assert_eq!(call.silence().answer(WAIT, token), told);
    }
}
