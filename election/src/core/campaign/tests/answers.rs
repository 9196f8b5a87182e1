//! Grants, denials and faults.

use super::{super::*, story::*};
use crate::{
    core::{campaign::status::Unusable, timing::Timing},
    oracle::{Denial, Fault, Reaction, Refusal, Signal, Validity, Verdict},
};

#[test]
fn c6_trust_is_counted_from_the_start_of_the_attempt() {
    let mut config = config();
    config.timing.lease = s(15);
    config.timing.margin = s(1);
    config.timing.stop_budget = Duration::ZERO;
    config.timing.drift_ppm = 0;
    config.timing.op_timeout = s(7);
    config.timing.refresh = s(5);
    let mut story = Story::of(config);
    story.pass(s(6));
    story.granted(Grant { validity: Validity::For(s(15)), ..grant(1, 1) });
    assert_eq!(story.trust_left(), s(8));
}

#[test]
fn c7_a_grant_that_comes_too_late_is_given_back_and_never_used() {
    let mut story = Story::of(config());
    // The process stood still: the answer waits when it goes on.
    story.pause(s(8));
    let length = story.log.len();
    story.granted(grant(1, 1));
    assert_eq!(story.told_since(length), ["abdicate"]);
    assert_eq!(story.events().last(), Some(&"campaign.late_grant"));
    story.abdicated(Ok(true));
    story.pass(s(1));
    assert_eq!(story.count("leading") + story.count("activate") + story.count("trust"), 0);
    // It goes on.
    story.until_it_asks(s(5));
    assert_eq!(story.count("claim"), 2);
}

#[test]
fn a_grant_too_short_for_the_timing_is_given_back_and_said() {
    let mut story = Story::of(config());
    story.granted(Grant { validity: Validity::For(s(2)), ..grant(1, 1) });
    let trouble = story.core.status(story.now).trouble;
    let why = Unusable::TooShort {
        validity: s(2),
        window: Duration::ZERO,
        margin: ms(500),
        stop_budget: s(2),
        needed: ms(20),
    };
    assert_eq!(trouble, Some(Trouble::Unusable(why)));
    assert_eq!(story.count("abdicate"), 1);
    assert_eq!(story.events(), ["campaign.unusable_grant"]);
    assert_eq!(story.count("activate") + story.count("leading") + story.count("trust"), 0);
}

/// A lease that is made shorter at run time does not cost the leader the seat: it asks more often.
#[test]
fn a_shorter_grant_is_refreshed_earlier() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    story.granted(Grant { validity: Validity::For(s(4)), refresh_in: Some(s(2)), ..grant(1, 2) });
    // 4 s - 4 ms - 500 ms - 2 s.
    assert_eq!(story.trust_left(), ms(1496));
    story.pass(ms(1496 / 2 + 1));
    assert_eq!(story.count("refresh"), 2, "one that fails after a third leaves time for another");
    story.granted(Grant { validity: Validity::For(s(4)), refresh_in: Some(s(2)), ..grant(1, 3) });
    assert_eq!(story.phase(), Phase::Leading);
}

#[test]
fn c8_a_refresh_is_given_up_when_trust_ends() {
    let mut config = config();
    config.timing.op_timeout = s(3);
    let mut story = leading(config, grant(1, 1));
    // The first refresh, at the latest, fails late; the next begins with less than 3 s left.
    let until = story.now + story.trust_left();
    while story.count("refresh") < 2 {
        let to_wake = story.core.wake_at().unwrap().since(story.now);
        story.pass(to_wake);
    }
    let left = until.since(story.now);
    assert!(left < s(2), "{left:?}");
    assert_eq!(story.core.call.as_ref().unwrap().until, story.now + left.min(s(3)).min(story.trust_left()));
    let length = story.log.len();
    story.pass(left);
    assert_eq!(story.now, until);
    assert_eq!(story.told_since(length), ["abandon", "lapse", "following", "deactivate"]);
    assert_eq!(story.phase(), Phase::Stopping);
    // Its answer, even if it is yes, does not count.
    let call = CallId(story.core.calls);
    let length = story.log.len();
    story.step(Input::Answered { call, answer: Ok(Verdict::Granted(grant(1, 2))) });
    assert_eq!(story.told_since(length), [""; 0]);
    assert_eq!(story.phase(), Phase::Stopping);
}

#[test]
fn c9_an_outage_within_the_window_is_survived_and_a_longer_one_ends_at_the_deadline() {
    // River's: trust for 14 s.
    let mut config = config();
    config.timing =
        Timing { margin: s(1), stop_budget: Duration::ZERO, drift_ppm: 0, ..Timing::for_lease(s(15)) };
    let granted = Grant { validity: Validity::For(s(15)), refresh_in: Some(s(5)), ..grant(1, 1) };
    let mut story = leading(config, granted.clone());
    let start = story.now;
    let down = |story: &mut Story, from: Duration, to: Duration| {
        while story.core.until().is_some() && story.now < start + to {
            if story.core.call.is_some() && story.now >= start + from {
                story.answer(Err(fault(false)));
            }
            story.pass(ms(10));
        }
    };
    down(&mut story, s(5), s(10));
    story.until_it_asks(s(4));
    story.granted(granted);
    assert_eq!(story.phase(), Phase::Leading);
    assert_eq!(story.count("activate"), 1, "the role was not started again");
    assert_eq!(story.count("following") + story.count("lapse"), 0);
    // Now it stays down.
    let refreshed = story.core.until().unwrap();
    down(&mut story, s(0), s(60));
    let lapsed = story.log.iter().find(|(_, effect)| *effect == Effect::Lapse).unwrap().0;
    assert_eq!(Until::At(lapsed), refreshed);
    assert_eq!(story.core.status(story.now).lost, Some(Lost::TrustLapsed));
    // It asked several times, and never without a pause.
    let asked: Vec<_> = story
        .log
        .iter()
        .filter(|(_, effect)| matches!(effect, Effect::Refresh { .. }))
        .map(|(at, _)| *at)
        .collect();
    assert!(asked.len() > 5, "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) >= story.core.config.timing.backoff));
}

#[test]
fn a_denied_refresh_is_immediate() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    let length = story.log.len();
    story.denied(Some(other(2)));
    assert_eq!(story.told_since(length), ["lapse", "following", "deactivate"]);
    assert_eq!(story.core.status(story.now).leader, Some(other(2)));
    story.role_stopped();
    assert_eq!(story.count("abdicate"), 0, "it is another's");
}

#[test]
fn an_unknown_outcome_is_asked_again_with_the_same_nonce_and_counted_from_the_first() {
    let mut story = Story::of(config());
    let start = story.now;
    story.pass(s(2));
    assert_eq!(story.events(), ["campaign.unknown_outcome"]);
    story.pass(ms(300));
    // Fails for certain: but the first may have been carried out.
    story.answer(Err(fault(false)));
    story.pass(s(1));
    let attempts = story.attempts();
    assert_eq!(attempts.len(), 3);
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]), "{attempts:?}");
    story.granted(grant(1, 1));
    assert_eq!(story.core.until(), Some(Until::At(start + Timing::default().trust())));
    // Known now: the next is another.
    story.activated();
    story.pass(s(3));
    assert_ne!(story.attempts().last(), Some(&attempts[0]));
}

#[test]
fn d17_an_unknown_refresh_does_not_lengthen_trust() {
    let mut story = leading(config(), grant(1, 1));
    let until = story.core.until();
    story.pass(s(3));
    story.answer(Err(fault(true)));
    assert_eq!(story.core.until(), until);
    story.pass(s(1));
    let attempts = story.attempts();
    assert_eq!(attempts[1], attempts[2], "it looks again before anything else");
}

#[test]
fn never_two_calls_at_once() {
    let mut story = Story::<Fence>::of(config());
    for _ in 0..5 {
        story.step(Input::Info);
        story.signal(Signal::Wakeup);
    }
    assert_eq!(story.count("claim") + story.count("inform"), 1);
    story.denied(None);
    assert_eq!(story.count("claim") + story.count("inform"), 2);
}

#[test]
fn c15_no_timer_ends_a_term_until_revoked() {
    let granted = Grant { validity: Validity::UntilRevoked, refresh_in: None, ..grant(1, 1) };
    let mut story = leading(config(), granted);
    assert_eq!(story.trust_left(), Duration::MAX);
    story.pass(s(1_000_000));
    assert_eq!(story.phase(), Phase::Leading);
    assert_eq!(story.core.wake_at(), None);
    // Of another epoch: not its own.
    story.signal(Signal::Revoked { epoch: Epoch(2) });
    assert_eq!(story.phase(), Phase::Leading);
    story.signal(Signal::Revoked { epoch: Epoch(1) });
    assert_eq!(story.phase(), Phase::Stopping);
}

#[test]
fn c15_a_term_that_no_clock_ends_needs_a_fence() {
    let mut story = Story::<()>::of(config());
    let Grant { term, .. } = grant(1, 1);
    story.granted(Grant { term, fence: (), validity: Validity::UntilRevoked, refresh_in: None });
    assert_eq!(story.count("activate") + story.count("leading") + story.count("trust"), 0);
    let trouble = story.core.status(story.now).trouble;
    assert_eq!(trouble, Some(Trouble::Unusable(Unusable::UnfencedForever)));
    assert_eq!(story.count("abdicate"), 1);
}

#[test]
fn j3_no_refresh_by_timer_where_the_oracle_wants_none() {
    let mut story = leading(config(), Grant { refresh_in: None, ..grant(1, 1) });
    let left = story.trust_left();
    story.pass(left);
    assert_eq!(story.count("refresh"), 0);
    assert_eq!(story.phase(), Phase::Stopping, "validity ends it nevertheless");
    // With its own cadence: that.
    let mut story = leading(config(), Grant { refresh_in: Some(s(1)), ..grant(1, 1) });
    story.pass(ms(999));
    assert_eq!(story.count("refresh"), 0);
    story.pass(ms(1));
    assert_eq!(story.count("refresh"), 1);
}

#[test]
fn j13_messages_drive_claim_and_release() {
    let mut story = Story::of(config());
    story.denied(None);
    let react = |story: &mut Story, reaction| {
        story.step(Input::Info);
        let call = story.call();
        story.step(Input::Reacted { call, reaction: Ok(reaction) });
    };
    react(&mut story, Reaction::Ignore);
    assert_eq!(story.phase(), Phase::Following);
    react(&mut story, Reaction::Verdict(Verdict::Granted(grant(1, 1))));
    story.activated();
    assert_eq!(story.phase(), Phase::Leading);
    react(&mut story, Reaction::Ignore);
    react(&mut story, Reaction::Verdict(Verdict::Granted(grant(1, 2))));
    assert_eq!(story.phase(), Phase::Leading);
    assert_eq!(story.core.status(story.now).grant, Some(grant(1, 2)));
    react(&mut story, Reaction::Verdict(Verdict::Denied(denial(None))));
    assert_eq!(story.phase(), Phase::Stopping);
    assert_eq!(story.core.status(story.now).lost, Some(Lost::Denied));
    // And brings the next question forward.
    story.role_stopped();
    let claims = story.count("claim");
    react(&mut story, Reaction::Poll);
    story.pass(ms(50));
    assert_eq!(story.count("claim"), claims + 1);
}

#[test]
fn a_grant_of_another_term_is_no_refresh() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    story.granted(grant(2, 2));
    assert_eq!(story.phase(), Phase::Stopping);
    story.role_stopped();
    let (_, last) = story.log.last().unwrap();
    assert!(matches!(last, Effect::Abdicate { held, .. } if held.term == term(2)), "{last:?}");
}

#[test]
fn a2_a_duplicate_identity_is_told() {
    let mut story = Story::<Fence>::of(config());
    let why = Refusal::DuplicateIdentity;
    story.answer(Ok(Verdict::Denied(Denial { why: why.clone(), ..denial(None) })));
    assert_eq!(story.events(), ["campaign.duplicate_identity"]);
    assert_eq!(story.core.status(story.now).trouble, Some(Trouble::Refused(why)));
}

#[test]
fn a_fatal_fault_is_asked_about_seldom_but_still() {
    let mut story = Story::<Fence>::of(config());
    story.answer(Err(Fault::Fatal("unreadable".to_owned())));
    story.pass(s(9));
    assert_eq!(story.count("claim"), 1);
    story.until_it_asks(s(4));
}

#[test]
fn j13_a_message_that_the_oracle_does_not_answer_is_given_up_and_the_next_one_is_handed_on() {
    let follower = || {
        let mut story = Story::<Fence>::of(config());
        story.denied(None);
        story
    };
    // A leader keeps time for its refresh.
    for (mut story, patience) in [(follower(), s(2)), (leading(config(), grant(1, 1)), s(1))] {
        story.step(Input::Info);
        story.step(Input::Info);
        let length = story.log.len();
        story.pass(patience.saturating_sub(ms(1)));
        assert_eq!((story.count("inform"), story.told_since(length)), (1, vec![]));
        story.pass(ms(1));
        assert_eq!(story.told_since(length), ["abandon", "inform"]);
        assert_eq!(story.events().last(), Some(&"campaign.unknown_outcome"));
        let trouble = story.core.status(story.now).trouble.expect("it is said");
        assert!(trouble.to_string().contains("no answer in time"), "{trouble}");
    }
}

#[test]
fn a2_a_leader_whose_id_another_process_has_is_told_so_and_gives_nothing_back() {
    for (why, is_told) in [(Refusal::DuplicateIdentity, true), (Refusal::Held, false)] {
        let mut story = leading(config(), grant(1, 1));
        story.pass(s(3));
        story.answer(Ok(Verdict::Denied(Denial { why, ..denial(None) })));
        assert_eq!(story.phase(), Phase::Stopping);
        assert_eq!(story.events().contains(&"campaign.duplicate_identity"), is_told);
        story.role_stopped();
        assert_eq!(story.count("abdicate"), 0, "it is another's");
    }
}
