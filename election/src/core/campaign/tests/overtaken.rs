//! What comes before the answer that it is about, or instead of it.

use super::{super::*, story::*};
use crate::{
    core::timing::Timing,
    oracle::{Reaction, Signal, Verdict},
};

/// A message came, and this is what the oracle makes of it.
fn reacts(story: &mut Story, verdict: Verdict<Fence>) {
    story.step(Input::Info);
    let call = story.call();
    story.step(Input::Reacted { call, reaction: Ok(Reaction::Verdict(verdict)) });
}

#[test]
fn d13_a_term_that_is_asked_back_before_it_is_granted_is_one_that_was_won_and_lost() {
    let mut story = Story::of(config());
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(5)) });
    story.granted(grant(5, 5));
    assert_eq!(story.events(), ["campaign.claimed", "campaign.lost"]);
    let status = story.core.status(story.now);
    assert_eq!((status.lost, status.leader), (Some(Lost::ResignRequested), None));
    let length = story.log.len();
    story.abdicated(Ok(true));
    assert_eq!(story.told_since(length), ["rivals"], "others go first, as after any such request");
}

#[test]
fn a_term_whose_end_is_heard_of_before_its_grant_is_not_taken_up() {
    let mut story = Story::of(config());
    story.signal(Signal::Revoked { epoch: Epoch(5) });
    story.granted(grant(5, 5));
    assert_eq!(story.count("trust") + story.count("activate") + story.count("abdicate"), 0);
    assert_eq!((story.phase(), story.count("claim")), (Phase::Following, 1), "it does not ask at once");
    let since = story.now;
    story.until_it_asks(s(3));
    assert!(story.now.since(since) >= Timing::default().poll);
    // The end of another term: that is no end of this one.
    let mut story = Story::of(config());
    story.signal(Signal::Revoked { epoch: Epoch(4) });
    story.granted(grant(5, 5));
    assert_eq!(story.phase(), Phase::Activating);
}

#[test]
fn what_is_said_of_a_term_during_a_claim_that_is_denied_is_forgotten() {
    let epoch = Epoch(5);
    for signal in [Signal::Revoked { epoch }, Signal::ResignRequested { epoch: Some(epoch) }] {
        let mut story = Story::of(config());
        story.signal(signal);
        story.denied(None);
        story.until_it_asks(s(3));
        story.granted(grant(5, 5));
        assert_eq!(story.phase(), Phase::Activating, "{signal:?}");
    }
}

#[test]
fn a_message_that_denies_does_not_say_what_became_of_a_claim_and_one_that_grants_does() {
    let mut story = Story::of(config());
    story.answer(Err(fault(true)));
    reacts(&mut story, Verdict::Denied(denial(Some(other(2)))));
    story.until_it_asks(s(1));
    let attempts = story.attempts();
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0], attempts[1], "it may have been carried out");
    story.answer(Err(fault(true)));
    reacts(&mut story, Verdict::Granted(grant(3, 3)));
    story.activated();
    assert_eq!(story.core.status(story.now).trouble, None);
    story.until_it_asks(s(4));
    let attempts = story.attempts();
    assert_eq!(attempts.len(), 3);
    assert_ne!(attempts[1], attempts[2], "what became of the claim does not matter any more");
}

#[test]
fn a_refresh_that_was_unknown_when_its_term_ended_is_not_made_again_by_the_next_claim() {
    let mut story = leading(CoreConfig { cool_down: Duration::ZERO, ..config() }, grant(1, 1));
    story.pass(s(3));
    story.answer(Err(fault(true)));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.until_it_asks(s(4));
    let attempts = story.attempts();
    assert_eq!(attempts.len(), 3);
    assert_ne!(attempts[1], attempts[2]);
    let claimed = story.now;
    story.granted(grant(2, 3));
    let until = Until::At(claimed + Timing::default().trust());
    assert_eq!(story.core.until(), Some(until), "it is counted from the claim");
}
