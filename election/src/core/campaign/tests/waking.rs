//! Signals that come while something is asked, and how often they bring the next question forward.

use super::{super::*, story::*};
use crate::oracle::{Signal, Validity};

/// The oracle has nothing to tidy.
fn has_nothing_to_tidy(story: &mut Story) {
    let call = story.call();
    story.step(Input::Tidied { call, answer: Ok(None) });
}

#[test]
fn one_signal_brings_one_refresh_forward_and_no_more() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(ms(100));
    story.signal(Signal::Wakeup);
    story.pass(ms(649));
    assert_eq!(story.count("refresh"), 0, "a quarter of the usual time is between two");
    story.pass(ms(1));
    assert_eq!(story.count("refresh"), 1);
    story.granted(grant(1, 2));
    has_nothing_to_tidy(&mut story);
    story.pass(ms(2_999));
    assert_eq!(story.count("refresh"), 1);
    story.pass(ms(1));
    assert_eq!(story.count("refresh"), 2, "at its usual time");
}

#[test]
fn a_signal_during_a_refresh_brings_another_one() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    story.signal(Signal::Wakeup);
    story.granted(grant(1, 2));
    has_nothing_to_tidy(&mut story);
    story.pass(ms(749));
    assert_eq!(story.count("refresh"), 1);
    story.pass(ms(1));
    assert_eq!(story.count("refresh"), 2);
}

#[test]
fn a_signal_during_a_claim_that_is_granted_does_not_make_the_next_one_unheard() {
    let mut story = Story::of(config());
    story.signal(Signal::Wakeup);
    story.granted(grant(1, 1));
    story.activated();
    story.pass(ms(100));
    story.signal(Signal::Wakeup);
    story.pass(ms(650));
    assert_eq!(story.count("refresh"), 1);
}

#[test]
fn after_many_failures_a_signal_brings_the_next_claim_forward_but_not_at_once() {
    let mut story = Story::<Fence>::of(config());
    for _ in 0..7 {
        story.answer(Err(fault(false)));
        story.until_it_asks(s(20));
    }
    // This one is about the claim that fails now, and is over with it.
    story.signal(Signal::Wakeup);
    story.answer(Err(fault(false)));
    let since = story.now;
    story.signal(Signal::Wakeup);
    story.until_it_asks(s(1));
    let waited = story.now.since(since);
    assert!((ms(200)..ms(250)).contains(&waited), "{waited:?}");
}

#[test]
fn a_follower_that_hears_of_the_end_of_a_term_claims_soon() {
    let mut story = Story::<Fence>::of(config());
    story.denied(Some(other(1)));
    story.signal(Signal::Revoked { epoch: Epoch(1) });
    story.pass(ms(50));
    assert_eq!(story.count("claim"), 2);
}

#[test]
fn a_term_that_no_clock_ends_is_refreshed_by_its_timer_or_when_somebody_signals() {
    let forever = Grant { validity: Validity::UntilRevoked, ..grant(1, 1) };
    let mut story = leading(config(), forever.clone());
    story.pass(ms(2_999));
    assert_eq!(story.count("refresh"), 0);
    story.pass(ms(1));
    assert_eq!(story.count("refresh"), 1);
    let until = story.core.call.as_ref().map(|call| call.until);
    assert_eq!(until, Some(story.now + s(2)), "an answer is awaited for as long as any");
    story.granted(Grant { refresh_in: None, ..forever });
    has_nothing_to_tidy(&mut story);
    story.pass(s(60));
    assert_eq!(story.count("refresh"), 1);
    story.signal(Signal::Wakeup);
    story.pass(ms(50));
    assert_eq!(story.count("refresh"), 2);
}
