//! What a grant is worth, to the nanosecond, and what becomes of one that is of no use.

use super::{super::*, story::*};
use crate::{
    core::{campaign::status::Unusable, timing::Timing},
    oracle::{Fault, Validity},
};

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn a_grant_of_the_least_validity_is_used_and_a_shorter_one_is_given_back() {
    let mut config = config();
    config.timing.drift_ppm = 0;
    // The margin, the time to stop, and the least window.
    let least = ms(500 + 2_000 + 20);
    for (validity, phase) in
        [(least, Phase::Activating), (least.saturating_sub(NANOSECOND), Phase::Releasing)]
    {
        let mut story = Story::of(config.clone());
        story.granted(Grant { validity: Validity::For(validity), refresh_in: None, ..grant(1, 1) });
        assert_eq!(story.phase(), phase, "{validity:?}");
    }
}

#[test]
fn a_grant_that_comes_at_the_end_of_its_window_is_late() {
    let window = Timing::default().trust();
    for (after, event) in
        [(window.saturating_sub(NANOSECOND), "role.activating"), (window, "campaign.late_grant")]
    {
        let mut story = Story::of(config());
        story.pause(after);
        story.granted(grant(1, 1));
        assert_eq!(story.events().last(), Some(&event), "{after:?}");
    }
}

#[test]
fn a_refresh_that_is_too_short_for_any_use_ends_the_term_at_once() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    let length = story.log.len();
    story.granted(Grant { validity: Validity::For(s(2)), ..grant(1, 2) });
    assert_eq!(story.told_since(length), ["lapse", "following", "deactivate"]);
    assert!(story.events().contains(&"campaign.unusable_grant"));
    let status = story.core.status(story.now);
    assert_eq!(status.lost, Some(Lost::TrustLapsed));
    let is_said = matches!(status.trouble, Some(Trouble::Unusable(Unusable::TooShort { .. })));
    assert!(is_said, "{:?}", status.trouble);
    // What it gives back is the last grant, and nobody has to wait for it if that fails.
    story.step(Input::Stop);
    story.role_stopped();
    let Some((_, Effect::Leave { held: Some(held), .. })) = story.log.last() else {
        panic!("it gives nothing back: {:?}", story.log.last())
    };
    assert_eq!(held.fence.ballot, Ballot(2));
    let fault = Fault::Fatal("no".to_owned());
    story.abdicated(Err(fault.clone()));
    let (_, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::TrustLapsed, release: Release::Expired(fault) }));
}

#[test]
fn a_grant_of_another_term_in_place_of_a_refresh_is_trouble_that_is_said() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    story.granted(grant(2, 2));
    let trouble = story.core.status(story.now).trouble;
    assert_eq!(trouble, Some(Trouble::Unusable(Unusable::OtherTerm)));
    assert!(story.events().contains(&"campaign.unusable_grant"));
}

#[test]
fn a_late_grant_of_a_campaign_that_stops_is_given_back_and_it_ends_because_it_was_stopped() {
    let mut story = Story::of(config());
    story.step(Input::Stop);
    story.pause(s(8));
    story.granted(grant(1, 1));
    assert_eq!(story.events().last(), Some(&"campaign.late_grant"));
    story.abdicated(Ok(true));
    let (_, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::Shutdown, release: Release::Released }));
}
