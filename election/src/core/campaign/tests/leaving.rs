//! A campaign that ends asks that nothing of it is left.

use super::{super::*, story::*};
use crate::{
    core::campaign::OnLoss,
    oracle::{Fault, Refusal, Signal, Verdict},
};

/// It follows, and another leads.
fn following(config: CoreConfig) -> Story {
    let mut story = Story::of(config);
    story.denied(Some(other(1)));
    assert_eq!(story.phase(), Phase::Following);
    story
}

fn end(story: &Story) -> (Duration, End) {
    match story.log.last() {
        Some((at, Effect::End(end))) => (at.since(Time(s(1_000))), end.clone()),
        other => panic!("it has not ended: {other:?}"),
    }
}

/// The term that it gave back when it left last.
fn held(story: &Story) -> Option<Epoch> {
    let last = story.log.iter().rev().find_map(|(_, effect)| match effect {
        Effect::Leave { held, .. } => Some(held),
        _ => None,
    });
    last.expect("it left").as_ref().map(|held| held.term.epoch)
}

#[test]
fn whoever_follows_leaves_at_once_when_it_is_to_stop() {
    let mut story = following(config());
    let length = story.log.len();
    story.step(Input::Stop);
    assert_eq!((story.told_since(length), held(&story)), (vec!["leave"], None));
    assert_eq!(story.phase(), Phase::Leaving);
    assert_eq!(story.core.status(story.now).grant, None);
    // Nothing is asked beside it, whatever comes.
    for input in [Input::Stop, Input::Info, Input::Signal(Signal::Wakeup), Input::Wake] {
        story.step(input);
    }
    story.signal(Signal::ResignRequested { epoch: None });
    assert_eq!(story.told_since(length), ["leave"]);
    story.leaves();
    assert_eq!(end(&story), (s(0), End { why: Lost::Shutdown, release: Release::NotHeld }));
    assert_eq!(story.core.wake_at(), None);
}

#[test]
fn a_term_and_what_shows_that_it_takes_part_go_in_one_question() {
    let mut story = leading(config(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    assert_eq!((held(&story), story.phase()), (Some(Epoch(1)), Phase::Releasing));
    story.abdicated(Ok(true));
    assert_eq!(end(&story).1.release, Release::Released);
    assert_eq!((story.count("leave"), story.count("abdicate")), (1, 0));
    // It failed each time: it is not asked for a second time.
    let mut story = leading(config(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    story.pass(s(20));
    assert!(matches!(end(&story), (at, End { release: Release::Failed(_), .. }) if at <= s(6)));
    assert_eq!((story.count("leave"), story.count("abdicate")), (3, 0));
}

#[test]
fn a_stop_while_the_seat_is_given_back_leaves_after_that() {
    let giving_back = || {
        let mut story = leading(config(), grant(1, 1));
        story.signal(Signal::ResignRequested { epoch: None });
        story.role_stopped();
        assert_eq!(story.count("abdicate"), 1);
        story.step(Input::Stop);
        assert_eq!(story.count("leave"), 0, "one call at a time");
        story
    };
    let mut story = giving_back();
    story.abdicated(Ok(true));
    assert_eq!(held(&story), None);
    story.leaves();
    assert_eq!(end(&story).1, End { why: Lost::ResignRequested, release: Release::Released });
    // It was not given back: the next try does both.
    let mut story = giving_back();
    story.abdicated(Err(fault(true)));
    story.until_it_asks(s(5));
    assert_eq!(held(&story), Some(Epoch(1)));
    story.abdicated(Ok(false));
    assert_eq!(end(&story).1.release, Release::WasGone);
}

#[test]
fn a_campaign_that_ends_with_its_term_leaves_too() {
    let config = CoreConfig { on_loss: OnLoss::Stop, ..config() };
    // Another has the seat: there is no term to give back.
    let mut story = leading(config.clone(), grant(1, 1));
    story.pass(s(3));
    story.denied(Some(other(2)));
    assert_eq!(story.count("leave"), 0, "its role still stops");
    story.role_stopped();
    assert_eq!(held(&story), None);
    story.leaves();
    assert_eq!(end(&story).1, End { why: Lost::Denied, release: Release::NotHeld });
    // There is one.
    let mut story = leading(config, grant(1, 1));
    story.pass(s(3));
    let why = Refusal::Outranked;
    story.answer(Ok(Verdict::Denied(crate::Denial { why, ..denial(None) })));
    story.role_stopped();
    assert_eq!(held(&story), Some(Epoch(1)));
    story.abdicated(Ok(true));
    assert_eq!(end(&story).1, End { why: Lost::Denied, release: Release::Released });
}

#[test]
fn leaving_takes_no_longer_than_a_first_try_to_give_a_seat_back() {
    // No answer.
    let mut story = following(config());
    story.step(Input::Stop);
    story.pass(s(20));
    assert_eq!((end(&story).0, story.count("leave")), (s(1), 1));
    assert_eq!(story.events().last(), Some(&"campaign.leave_failed"));
    // It fails at once, each time: it pauses longer and longer.
    let mut story = following(config());
    story.step(Input::Stop);
    while !story.core.is_over() {
        story.until_it_asks(s(1));
        story.abdicated(Err(fault(false)));
    }
    assert!(end(&story).0 < s(1));
    assert_eq!(story.count("leave"), 3, "after 200 and 400 ms, and not after 800 more");
    assert_eq!(story.events().iter().filter(|event| **event == "campaign.leave_failed").count(), 1);
    // For good.
    let mut story = following(config());
    story.step(Input::Stop);
    story.abdicated(Err(Fault::Fatal("no".to_owned())));
    assert_eq!((end(&story).0, story.count("leave")), (s(0), 1));
    // Its pause would take all the time that there is.
    let mut story = following(CoreConfig { abdicate_tries: vec![ms(200)], ..config() });
    story.step(Input::Stop);
    story.abdicated(Err(fault(false)));
    assert_eq!((end(&story).0, story.count("leave")), (s(0), 1));
    assert_eq!(story.events().last(), Some(&"campaign.leave_failed"));
    // Nothing is to be tried.
    let mut story = following(CoreConfig { abdicate_tries: Vec::new(), ..config() });
    story.step(Input::Stop);
    assert_eq!((end(&story).0, story.count("leave")), (s(0), 0));
    // The claim in flight has taken all the time that there is.
    let mut story = Story::<Fence>::of(CoreConfig { abdicate_tries: vec![s(1)], ..config() });
    story.step(Input::Stop);
    story.pass(s(20));
    assert_eq!(story.log.last().unwrap().0.since(Time(s(1_000))), s(1));
    assert_eq!(story.count("leave"), 0);
}

#[test]
fn tries_may_take_as_long_as_you_like() {
    let config = CoreConfig { abdicate_tries: vec![Duration::MAX; 2], ..config() };
    let mut story = leading(config.clone(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    assert_eq!((held(&story), story.phase()), (Some(Epoch(1)), Phase::Releasing));
    story.abdicated(Err(fault(true)));
    story.until_it_asks(s(5));
    story.abdicated(Ok(true));
    assert_eq!((end(&story).1.release, story.count("leave")), (Release::Released, 2));
    // It has no term.
    let mut story = following(config);
    story.step(Input::Stop);
    story.leaves();
    assert_eq!(end(&story), (s(0), End { why: Lost::Shutdown, release: Release::NotHeld }));
}

#[test]
fn a_term_that_it_did_not_know_to_have_is_said_to_be_given_back() {
    // The answer to its claim was lost.
    let mut story = Story::<Fence>::of(config());
    story.answer(Err(fault(true)));
    story.step(Input::Stop);
    story.answer(Err(fault(true)));
    story.abdicated(Ok(true));
    assert_eq!(end(&story).1.release, Release::Released);
    assert_eq!(story.events().last(), Some(&"campaign.resigned"));
    // No term was there, or the oracle does not look for one.
    let mut story = Story::<Fence>::of(config());
    story.answer(Err(fault(true)));
    story.step(Input::Stop);
    story.answer(Err(fault(true)));
    story.abdicated(Ok(false));
    assert_eq!(end(&story).1.release, Release::Unknown);
}

#[test]
fn whoever_goes_on_does_not_leave() {
    let mut story = leading(CoreConfig { cool_down: Duration::ZERO, ..config() }, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.pass(s(60));
    assert_eq!(story.count("leave"), 0);
}

#[test]
fn a_stop_does_not_wait_for_whether_others_could_lead_nor_for_what_becomes_of_a_message() {
    let mut story = leading(config(), grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    assert_eq!(story.count("rivals"), 1);
    let length = story.log.len();
    story.step(Input::Stop);
    assert_eq!(story.told_since(length), ["abandon", "leave"]);
    let mut story = following(config());
    story.step(Input::Info);
    let length = story.log.len();
    story.step(Input::Stop);
    assert_eq!(story.told_since(length), ["abandon", "leave"]);
}

#[test]
fn a_seat_that_is_not_tried_to_be_given_back_is_not_said_to_be() {
    let mut story = leading(CoreConfig { abdicate_tries: Vec::new(), ..config() }, grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    let fault = Fault::Fatal("it was not tried".to_owned());
    assert_eq!(end(&story), (s(0), End { why: Lost::Shutdown, release: Release::Failed(fault) }));
    assert_eq!((story.count("abdicate"), story.count("leave")), (0, 0));
}
