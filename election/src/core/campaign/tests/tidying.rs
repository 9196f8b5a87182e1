//! Tidying up: seldom, and never in the way of anything else.

use callsign_store::ids::Epoch;

use super::{super::*, story::*};
use crate::oracle::{Fault, Signal};

impl<F: Clone + PartialEq + std::fmt::Debug + 'static> Story<F> {
    fn tidied(&mut self, answer: Result<Option<Duration>, Fault>) {
        let call = self.call();
        self.step(Input::Tidied { call, answer });
    }

    fn is_tidying(&self) -> bool {
        self.core.is_tidying()
    }
}

/// It leads, and has refreshed once.
fn refreshed() -> Story {
    let mut story = leading(config(), grant(1, 1));
    assert_eq!(story.count("tidy"), 0, "a short term leaves it to the next");
    story.pass(s(3));
    assert_eq!(story.count("tidy"), 0, "the refresh first");
    story.granted(grant(1, 2));
    story
}

/// Refreshes succeed at once, for so long.
fn go_on(story: &mut Story, mut time: Duration) {
    while !time.is_zero() {
        let step = time.min(ms(500));
        story.pass(step);
        time -= step;
        if story.core.call.is_some() && !story.is_tidying() {
            story.granted(grant(1, 2));
        }
    }
}

#[test]
fn it_is_asked_after_the_first_refresh_and_then_when_the_oracle_wants() {
    let mut story = refreshed();
    assert!(story.is_tidying());
    story.tidied(Ok(Some(s(150))));
    go_on(&mut story, ms(149_500));
    assert_eq!(story.count("tidy"), 1);
    go_on(&mut story, s(4));
    assert_eq!(story.count("tidy"), 2);
    assert_eq!(story.phase(), Phase::Leading);
    // At its own time, and not with the next refresh.
    let mut story = refreshed();
    story.tidied(Ok(Some(ms(700))));
    story.pass(ms(700));
    assert!(story.is_tidying());
}

#[test]
fn an_oracle_with_nothing_to_tidy_is_asked_once_in_a_term() {
    let mut story = refreshed();
    story.tidied(Ok(None));
    go_on(&mut story, s(1_000));
    assert_eq!(story.count("tidy"), 1);
    assert_eq!(story.phase(), Phase::Leading);
}

#[test]
fn a_refresh_that_is_due_ends_it_and_it_is_asked_again_after_that() {
    let mut story = refreshed();
    // Somebody wakes it: the refresh comes early, while it tidies.
    story.signal(Signal::Wakeup);
    let length = story.log.len();
    let at = story.core.wake_at().unwrap();
    assert!(at.since(story.now) < s(2), "not only when its time is over");
    story.pass(at.since(story.now));
    assert_eq!(story.told_since(length), ["abandon", "refresh"]);
    // What comes late is not looked at.
    let (trust, call) = (story.trust_left(), CallId(story.core.calls - 1));
    story.step(Input::Tidied { call, answer: Ok(None) });
    assert_eq!(story.trust_left(), trust);
    story.granted(grant(1, 3));
    assert!(story.is_tidying());
    assert!(!story.events().contains(&"campaign.tidy_failed"));
}

#[test]
fn what_asks_for_nothing_does_not_end_it() {
    let mut story = refreshed();
    let length = story.log.len();
    story.pass(ms(100));
    story.step(Input::Wake);
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(7)) });
    assert_eq!(story.told_since(length), [""; 0]);
    assert!(story.is_tidying());
}

#[test]
fn a_message_for_the_oracle_goes_first() {
    let mut story = refreshed();
    let length = story.log.len();
    story.step(Input::Info);
    assert_eq!(story.told_since(length), ["abandon", "inform"]);
}

#[test]
fn no_answer_a_fault_or_a_panic_of_it_changes_nothing_but_when_it_is_asked_again() {
    for answer in [None, Some(fault(false)), Some(fault(true)), Some(Fault::Fatal("no".to_owned()))] {
        let mut story = refreshed();
        let (trusted, trouble) = (story.now + story.trust_left(), story.core.status(story.now).trouble);
        match answer {
            Some(fault) => story.tidied(Err(fault)),
            // As long as any answer is waited for.
            None => story.pass(s(2)),
        }
        assert!(!story.is_tidying());
        assert_eq!(story.events().last(), Some(&"campaign.tidy_failed"));
        assert_eq!(story.now + story.trust_left(), trusted);
        assert_eq!(story.core.status(story.now).trouble, trouble);
        let since = story.now;
        go_on(&mut story, s(9));
        assert_eq!(story.count("tidy"), 1);
        go_on(&mut story, s(2));
        assert_eq!(story.count("tidy"), 2, "a lease later");
        assert!(story.now.since(since) >= s(10));
        assert_eq!(story.phase(), Phase::Leading);
    }
}

#[test]
fn after_a_refresh_that_failed_nothing_but_the_next_one_is_asked() {
    let mut story = refreshed();
    story.tidied(Ok(Some(s(3))));
    story.until_it_asks(s(4));
    let length = story.log.len();
    story.answer(Err(fault(false)));
    story.pass(s(1));
    assert_eq!(story.told_since(length).first(), Some(&"refresh"), "although it was time to tidy up");
    story.granted(grant(1, 3));
    assert!(story.is_tidying());
}

#[test]
fn a_loss_ends_it() {
    let mut story = refreshed();
    let length = story.log.len();
    story.step(Input::Stop);
    assert_eq!(story.told_since(length), ["abandon", "lapse", "following", "deactivate"]);
    // Trust ends while it tidies: a process that stood still.
    let mut story = refreshed();
    let (length, left) = (story.log.len(), story.trust_left());
    story.pause(left);
    story.step(Input::Wake);
    assert!(story.told_since(length).starts_with(&["abandon", "lapse"]));
    // Another term begins anew.
    let mut story = refreshed();
    story.tidied(Ok(None));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.rivals(false);
    story.until_it_asks(s(20));
    story.granted(grant(2, 3));
    story.activated();
    story.until_it_asks(s(5));
    story.granted(grant(2, 4));
    assert!(story.is_tidying());
}

#[test]
fn a_failure_to_tidy_is_a_warning_only_if_it_will_fail_again() {
    let is_warning = |fault| CampaignEventKind::TidyFailed { fault }.is_warning();
    assert!(is_warning(Fault::Fatal("no".to_owned())));
    assert!(!is_warning(fault(false)) && !is_warning(fault(true)));
}
