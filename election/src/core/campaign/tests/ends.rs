//! What a campaign says of the seat when it has ended.

use super::{super::*, story::*};
use crate::{
    core::campaign::OnLoss,
    oracle::{Denial, Fault, Refusal, Signal, Validity, Verdict},
};

/// How it ended. If it has no term, it has still to leave.
fn release(story: &mut Story) -> Release {
    if story.phase() == Phase::Leaving {
        story.leaves();
    }
    match story.log.last() {
        Some((_, Effect::End(End { release, .. }))) => release.clone(),
        other => panic!("it has not ended: {other:?}"),
    }
}

/// It led, nothing came through any more, and so its trust ended; giving the seat back failed as well.
fn after_an_outage() -> Story {
    let mut story = leading(config(), grant(1, 1));
    while story.phase() == Phase::Leading {
        if story.core.call.is_some() {
            story.answer(Err(fault(false)));
        } else {
            story.until_due();
        }
    }
    story.role_stopped();
    while story.phase() == Phase::Releasing {
        if story.core.call.is_some() {
            story.abdicated(Err(fault(false)));
        } else {
            let at = story.core.wake_at().unwrap();
            story.pass(at.since(story.now));
        }
    }
    assert_eq!(story.phase(), Phase::Following);
    assert_eq!(story.events().last(), Some(&"campaign.resign_failed"), "then, somebody was told");
    story
}

#[test]
fn d8_a_term_that_was_over_before_the_stop_is_not_said_to_stand_in_anybodys_way() {
    // Long after, and as soon as the tries are over.
    for after in [s(0), s(600)] {
        let mut story = after_an_outage();
        let end = story.now + after;
        while story.now < end {
            story.until_it_asks(s(60));
            story.answer(Err(fault(false)));
        }
        story.step(Input::Stop);
        assert_eq!(release(&mut story), Release::Expired(fault(false)), "{after:?}");
    }
    // The stop comes while it is given back, or while the role still stops: the tries go on, and do not change it.
    let mut story = leading(config(), grant(1, 1));
    let left = story.trust_left();
    story.pause(left);
    story.step(Input::Wake);
    story.step(Input::Stop);
    story.role_stopped();
    story.pass(s(20));
    let said = release(&mut story);
    assert!(matches!(said, Release::Expired(_)), "{said:?}");
    assert_eq!(story.count("abdicate") + story.count("leave"), 3);
    // A moment before the end of trust it is another matter.
    let mut story = leading(config(), grant(1, 1));
    story.pause(left.saturating_sub(Duration::from_nanos(1)));
    story.step(Input::Stop);
    story.role_stopped();
    story.pass(s(20));
    let said = release(&mut story);
    assert!(matches!(said, Release::Failed(_)), "{said:?}");
    // Of one that ends with its term it is said, too.
    let mut story = leading(CoreConfig { on_loss: OnLoss::Stop, ..config() }, grant(1, 1));
    story.pause(left);
    story.step(Input::Wake);
    story.role_stopped();
    story.pass(s(20));
    let said = release(&mut story);
    assert!(matches!(said, Release::Expired(_)), "{said:?}");
}

#[test]
fn d8_a_term_that_was_given_up_and_could_not_be_given_back_stands_in_the_way_while_it_would_be_trusted() {
    for (after, is_over) in [(s(0), false), (s(60), true)] {
        let mut story = leading(CoreConfig { cool_down: s(300), ..config() }, grant(1, 1));
        story.signal(Signal::ResignRequested { epoch: None });
        story.role_stopped();
        story.abdicated(Err(Fault::Fatal("no".to_owned())));
        story.rivals(true);
        story.pass(after);
        story.step(Input::Stop);
        let fault = Fault::Fatal("no".to_owned());
        let expected = if is_over { Release::Expired(fault) } else { Release::Failed(fault) };
        assert_eq!(release(&mut story), expected);
    }
    // No clock ends this one.
    let forever = Grant { validity: Validity::UntilRevoked, ..grant(1, 1) };
    let mut story = leading(CoreConfig { cool_down: s(300), ..config() }, forever);
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Err(fault(false)));
    story.pass(s(60));
    story.step(Input::Stop);
    let said = release(&mut story);
    assert!(matches!(said, Release::Failed(_)), "{said:?}");
}

#[test]
fn what_became_of_the_seat_is_said_of_the_last_term_and_not_of_one_before() {
    // Another has it.
    let mut story = leading(CoreConfig { cool_down: Duration::ZERO, ..config() }, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Err(Fault::Fatal("no".to_owned())));
    story.until_it_asks(s(5));
    story.denied(Some(other(2)));
    story.step(Input::Stop);
    assert_eq!(release(&mut story), Release::NotHeld);
    // It has it again, and gives it back.
    let mut story = after_an_outage();
    story.until_it_asks(s(60));
    story.granted(grant(2, 2));
    story.activated();
    story.step(Input::Stop);
    story.role_stopped();
    story.abdicated(Ok(true));
    assert_eq!(release(&mut story), Release::Released);
    // It has it again, and another takes it.
    let mut story = after_an_outage();
    story.until_it_asks(s(60));
    story.granted(grant(2, 2));
    story.activated();
    story.until_it_asks(s(60));
    story.denied(Some(other(3)));
    story.role_stopped();
    story.step(Input::Stop);
    assert_eq!(release(&mut story), Release::NotHeld);
    // It gave it back, and followed.
    let mut story = leading(CoreConfig { cool_down: Duration::ZERO, ..config() }, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.step(Input::Stop);
    assert_eq!(release(&mut story), Release::NotHeld);
    // A refusal for another reason does not say whose the seat is.
    let mut story = leading(CoreConfig { cool_down: Duration::ZERO, ..config() }, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Err(Fault::Fatal("no".to_owned())));
    story.until_it_asks(s(5));
    story.answer(Ok(Verdict::Denied(Denial { why: Refusal::Disabled, ..denial(None) })));
    story.step(Input::Stop);
    let said = release(&mut story);
    assert!(matches!(said, Release::Failed(_)), "{said:?}");
}

#[test]
fn a_release_that_may_have_been_carried_out_is_not_said_to_have_failed_for_certain() {
    for last in [fault(false), Fault::Fatal("no".to_owned())] {
        let mut story = leading(config(), grant(1, 1));
        story.step(Input::Stop);
        story.role_stopped();
        story.abdicated(Err(fault(true)));
        story.until_it_asks(s(5));
        story.abdicated(Err(last.clone()));
        if !story.core.is_over() {
            story.until_it_asks(s(5));
            story.abdicated(Err(last.clone()));
        }
        let said = release(&mut story);
        let is_unknown = matches!(said, Release::Failed(Fault::Transient { maybe_committed: true, .. }));
        assert!(is_unknown, "{last:?}: {said:?}");
    }
}

#[test]
fn a_claim_whose_outcome_is_never_known_is_not_said_to_have_got_no_seat() {
    for before_the_stop in [true, false] {
        let mut story = Story::<Fence>::of(config());
        if before_the_stop {
            story.answer(Err(fault(true)));
        }
        story.step(Input::Stop);
        story.pass(s(20));
        assert_eq!(release(&mut story), Release::Unknown);
    }
    // It failed for certain, or is known in the end.
    let mut story = Story::<Fence>::of(config());
    story.step(Input::Stop);
    story.answer(Err(fault(false)));
    assert_eq!(release(&mut story), Release::NotHeld);
    let mut story = Story::<Fence>::of(config());
    story.answer(Err(fault(true)));
    story.step(Input::Stop);
    story.denied(None);
    assert_eq!(release(&mut story), Release::NotHeld);
    // Also after a term that is over.
    let mut story = after_an_outage();
    story.until_it_asks(s(60));
    story.step(Input::Stop);
    story.pass(s(20));
    assert_eq!(release(&mut story), Release::Unknown);
}
