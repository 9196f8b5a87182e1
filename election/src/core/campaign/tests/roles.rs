//! Roles that fail, and what is said and asked then.

use super::{super::*, story::*};
use crate::oracle::{Fault, Signal, Validity};

fn trouble(story: &Story) -> Option<Trouble> {
    story.core.status(story.now).trouble
}

#[test]
fn g10_a_role_that_fails_is_asked_again_after_a_pause_that_doubles_and_its_reason_is_said() {
    let mut story = Story::of(config());
    story.granted(grant(1, 1));
    for (pause, attempts) in [(ms(200), 1), (ms(400), 2)] {
        story.activate_failed();
        assert_eq!(trouble(&story), Some(Trouble::Role("no".to_owned())));
        story.pass(pause.saturating_sub(ms(1)));
        assert_eq!(story.count("activate"), attempts);
        story.pass(ms(1));
        assert_eq!(story.count("activate"), attempts + 1, "after {pause:?}");
    }
}

#[test]
fn g10_a_role_that_takes_too_long_to_begin_is_aborted_and_that_is_said() {
    let mut story = Story::of(config());
    story.granted(Grant { validity: Validity::UntilRevoked, refresh_in: None, ..grant(1, 1) });
    let length = story.log.len();
    story.pass(ms(29_999));
    assert_eq!(story.told_since(length), [""; 0]);
    story.pass(ms(1));
    assert_eq!(story.told_since(length), ["abort"]);
    assert_eq!(trouble(&story), Some(Trouble::Role("it took too long".to_owned())));
    assert_eq!(story.events().last(), Some(&"role.activate_failed"));
}

#[test]
fn j8_the_trouble_is_why_the_role_ended_and_then_why_the_seat_was_not_given_back() {
    let mut story = leading(config(), grant(1, 1));
    let run = story.run();
    story.step(Input::Exited { run, reason: "it ended".to_owned() });
    assert_eq!(trouble(&story), Some(Trouble::Role("it ended".to_owned())));
    story.role_stopped();
    story.abdicated(Err(Fault::Fatal("gone".to_owned())));
    let said = trouble(&story);
    assert!(matches!(&said, Some(Trouble::NotReleased(why)) if why.contains("gone")), "{said:?}");
}

#[test]
fn j9_whoever_ends_with_its_term_does_not_ask_who_else_could_lead() {
    let mut story = leading(CoreConfig { on_loss: OnLoss::Stop, ..config() }, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    let length = story.log.len();
    story.abdicated(Ok(true));
    assert_eq!(story.told_since(length), ["end"]);
    let (_, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::ResignRequested, release: Release::Released }));
}

#[test]
fn the_role_is_told_again_who_leads_after_a_term_of_its_own() {
    let mut story = Story::of(CoreConfig { cool_down: Duration::ZERO, ..config() });
    story.denied(None);
    assert_eq!(story.count("follow"), 1, "nobody does");
    story.until_it_asks(s(3));
    story.granted(grant(1, 1));
    story.activated();
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    assert_eq!(story.count("follow"), 2, "nobody does, once more");
}
