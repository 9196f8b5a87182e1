//! How long a campaign lets others go first after a term in which its role failed.

use super::{super::*, story::*};
use crate::oracle::{Signal, Validity};

/// The term has ended, and another could lead: how long it does not claim. A claim is in flight then.
fn rests(story: &mut Story) -> Duration {
    story.role_stopped();
    story.abdicated(Ok(true));
    story.rivals(true);
    let since = story.now;
    story.until_it_asks(s(100));
    story.now.since(since)
}

/// The claim in flight is granted, and the role does not take up the term.
fn rests_after_a_failure(story: &mut Story, epoch: u64) -> Duration {
    story.granted(grant(epoch, epoch));
    for _ in 0..2 {
        story.activate_failed();
        story.pass(s(1));
    }
    story.activate_failed();
    rests(story)
}

#[test]
fn g10_a_role_that_fails_term_after_term_lets_others_go_first_for_longer_each_time() {
    let mut story = Story::of(config());
    let rested: Vec<_> = (1..=6).map(|epoch| rests_after_a_failure(&mut story, epoch)).collect();
    assert_eq!(rested, [10, 20, 40, 80, 80, 80].map(s));
}

#[test]
fn g10_a_role_that_was_active_for_a_lease_is_sound_again() {
    for (active, expected) in [(ms(9_999), s(40)), (s(10), s(10))] {
        let mut story = Story::of(config());
        assert_eq!(rests_after_a_failure(&mut story, 1), s(10));
        assert_eq!(rests_after_a_failure(&mut story, 2), s(20));
        // It needs no refresh.
        story.granted(Grant { validity: Validity::UntilRevoked, refresh_in: None, ..grant(3, 3) });
        story.activated();
        story.pass(active);
        let run = story.run();
        story.step(Input::Exited { run, reason: "it ended".to_owned() });
        assert_eq!(rests(&mut story), expected, "active for {active:?}");
    }
}

#[test]
fn d15_a_request_to_resign_costs_one_cool_down_and_does_not_excuse_the_role() {
    let mut story = Story::of(config());
    assert_eq!(rests_after_a_failure(&mut story, 1), s(10));
    assert_eq!(rests_after_a_failure(&mut story, 2), s(20));
    story.granted(grant(3, 3));
    story.activated();
    story.signal(Signal::ResignRequested { epoch: None });
    assert_eq!(rests(&mut story), s(10));
    assert_eq!(rests_after_a_failure(&mut story, 4), s(40));
}
