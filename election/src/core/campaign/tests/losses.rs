//! Losing a term, and giving it back.

use callsign_store::ids::MemberId;

use super::{super::*, story::*};
use crate::{
    core::{campaign::OnLoss, timing::Timing},
    oracle::{Denial, Fault, Refusal, Signal, Verdict},
};

/// Leads, and loses its term in each way there is.
fn every_loss() -> Vec<(Lost, Story)> {
    let mut losses = Vec::new();
    let lead = || {
        let mut story = leading(config(), grant(1, 1));
        story.pass(s(3));
        story
    };
    let mut story = lead();
    let why = Refusal::Outranked;
    story.answer(Ok(Verdict::Denied(Denial { why, ..denial(None) })));
    losses.push((Lost::Denied, story));
    let mut story = lead();
    let left = story.trust_left();
    story.pass(left);
    losses.push((Lost::TrustLapsed, story));
    let mut story = lead();
    story.signal(Signal::ResignRequested { epoch: None });
    losses.push((Lost::ResignRequested, story));
    let mut story = lead();
    story.step(Input::Stop);
    losses.push((Lost::Shutdown, story));
    let mut story = lead();
    let run = story.run();
    story.step(Input::Exited { run, reason: "it ended".to_owned() });
    losses.push((Lost::RoleFailed, story));
    losses
}

#[test]
fn d9_the_seat_is_given_back_after_the_role_has_stopped_whatever_the_loss() {
    for (why, mut story) in every_loss() {
        assert_eq!(story.core.status(story.now).lost, Some(why));
        let lapse = story.log.iter().position(|(_, effect)| *effect == Effect::Lapse).unwrap();
        assert_eq!(story.told_since(lapse), ["lapse", "following", "deactivate"], "{why:?}");
        // It needs all of its time.
        story.pass(ms(1_999));
        assert_eq!(story.count("abdicate") + story.count("leave"), 0, "{why:?}");
        story.role_stopped();
        let last = if why == Lost::Shutdown { "leave" } else { "abdicate" };
        assert_eq!(story.told_since(lapse), ["lapse", "following", "deactivate", last], "{why:?}");
        let (_, last) = story.log.last().unwrap();
        let (Effect::Abdicate { held, .. } | Effect::Leave { held: Some(held), .. }) = last else {
            panic!("{last:?}");
        };
        assert_eq!(held.term, term(1));
    }
}

#[test]
fn j16_a_role_that_does_not_stop_is_aborted_before_the_lease_can_end() {
    for (why, mut story) in every_loss() {
        let ends = Time(s(1_000)) + s(10);
        let lapse = story.log.len();
        story.pass(s(2));
        assert_eq!(story.told_since(lapse), ["abort"], "{why:?}");
        assert!(story.now < ends, "{why:?}: by {:?}", ends.since(story.now));
        // Not before it was.
        story.role_stopped();
        assert_eq!(story.count("abdicate") + story.count("leave"), 0);
        let run = story.run();
        story.step(Input::Aborted { run });
        let last = if why == Lost::Shutdown { "leave" } else { "abdicate" };
        assert_eq!(story.told_since(lapse), ["abort", last], "{why:?}");
        assert!(story.events().contains(&"role.aborted"));
    }
}

/// The loop noticed the end late: what it took is not the role's.
#[test]
fn a_late_notice_comes_off_the_stop_budget() {
    let mut story = leading(config(), grant(1, 1));
    story.pass(s(3));
    let left = story.trust_left();
    story.pause(left + ms(1_500));
    story.step(Input::Wake);
    let budgets: Vec<_> = story
        .log
        .iter()
        .filter_map(|(_, effect)| match effect {
            Effect::Deactivate { budget, .. } => Some(*budget),
            _ => None,
        })
        .collect();
    assert_eq!(budgets, [ms(500)]);
    // Much later: at once.
    let mut story = leading(config(), grant(1, 1));
    story.pause(s(60));
    let length = story.log.len();
    story.step(Input::Wake);
    assert_eq!(story.told_since(length), ["lapse", "following", "deactivate", "abort"]);
}

#[test]
fn d8_a_stop_with_a_dead_authority_ends_within_its_tries() {
    let mut story = leading(config(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    let start = story.now;
    story.pass(s(20));
    let (at, last) = story.log.last().unwrap();
    assert!(
        matches!(last, Effect::End(End { why: Lost::Shutdown, release: Release::Failed(_) })),
        "{last:?}"
    );
    assert!(at.since(start) <= s(6), "{:?}", at.since(start));
    let tries: Vec<_> = story
        .log
        .iter()
        .filter(|(_, effect)| matches!(effect, Effect::Leave { .. }))
        .map(|(at, _)| at.since(start).as_secs())
        .collect();
    assert_eq!(tries, [0, 1, 3]);
    assert!(story.core.is_over());
}

#[test]
fn a_stop_gives_back_what_a_claim_in_flight_brings() {
    let mut story = Story::of(config());
    story.step(Input::Stop);
    assert_eq!(story.count("end"), 0);
    story.granted(grant(1, 1));
    story.abdicated(Ok(true));
    assert_eq!(story.count("leading") + story.count("activate"), 0);
    let (_, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::Shutdown, release: Release::Released }));
    // Of unknown outcome: it looks once more, and no longer than a try.
    let mut story = Story::<Fence>::of(config());
    story.answer(Err(fault(true)));
    story.step(Input::Stop);
    let start = story.now;
    let attempts = story.attempts();
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0], attempts[1]);
    story.pass(s(5));
    assert!(story.core.is_over());
    let leaves = story.log.iter().find(|(_, effect)| matches!(effect, Effect::Leave { .. })).unwrap();
    assert_eq!(leaves.0.since(start), s(1), "then it leaves, for as long as another try");
    assert_eq!(story.log.last().unwrap().0.since(start), s(2));
}

#[test]
fn a_role_that_cannot_be_aborted_keeps_the_seat_from_being_given_back() {
    let mut story = leading(config(), grant(1, 1));
    story.step(Input::Stop);
    story.pass(s(60));
    assert_eq!(story.count("abdicate") + story.count("leave"), 0);
    let (at, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::Shutdown, release: Release::RoleStuck }));
    assert_eq!(at.since(Time(s(1_000))), s(4));
}

#[test]
fn one_that_ends_with_its_term_ends_though_its_role_cannot_be_aborted() {
    let mut story = leading(CoreConfig { on_loss: OnLoss::Stop, ..config() }, grant(1, 1));
    story.pass(s(60));
    let (_, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::TrustLapsed, release: Release::RoleStuck }));
}

#[test]
fn d12_a_leader_resigns_when_asked_and_five_requests_are_one() {
    let mut story = leading(config(), grant(1, 1));
    let length = story.log.len();
    for _ in 0..5 {
        story.signal(Signal::ResignRequested { epoch: None });
    }
    assert_eq!(story.told_since(length), ["lapse", "following", "deactivate"], "at once");
    story.role_stopped();
    story.abdicated(Ok(true));
    assert_eq!(story.count("abdicate"), 1);
    // Who does not lead ignores it.
    let mut story = Story::of(config());
    story.signal(Signal::ResignRequested { epoch: None });
    story.granted(grant(1, 1));
    story.activated();
    assert_eq!(story.phase(), Phase::Leading);
}

#[test]
fn d13_a_request_for_another_epoch_is_ignored() {
    let mut story = leading(config(), grant(8, 8));
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(7)) });
    assert_eq!(story.phase(), Phase::Leading);
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(8)) });
    assert_eq!(story.phase(), Phase::Stopping);
}

/// The seat can be seen as taken before the one that has it knows.
#[test]
fn d13_a_request_that_overtakes_the_grant_is_heard() {
    let mut story = Story::of(config());
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(5)) });
    story.granted(grant(5, 5));
    assert_eq!(story.count("leading") + story.count("activate"), 0);
    assert_eq!(story.count("abdicate"), 1);
    // Another: not.
    let mut story = Story::of(config());
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(4)) });
    story.granted(grant(5, 5));
    assert_eq!(story.count("activate"), 1);
}

#[test]
fn d14_a_request_dies_with_its_term() {
    let mut config = config();
    config.cool_down = Duration::ZERO;
    let mut story = leading(config, grant(1, 1));
    story.pass(s(3));
    // Both at once, in either order.
    story.signal(Signal::ResignRequested { epoch: None });
    story.signal(Signal::Revoked { epoch: Epoch(1) });
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.signal(Signal::ResignRequested { epoch: None });
    story.abdicated(Ok(false));
    story.until_it_asks(s(4));
    story.granted(grant(2, 2));
    story.activated();
    story.pass(s(1));
    assert_eq!(story.phase(), Phase::Leading);
}

#[test]
fn d15_after_a_forced_resignation_others_go_first() {
    for others in [true, false] {
        let mut story = leading(config(), grant(1, 1));
        story.signal(Signal::ResignRequested { epoch: None });
        story.role_stopped();
        story.abdicated(Ok(true));
        story.rivals(others);
        let since = story.now;
        story.signal(Signal::Wakeup);
        story.pass(s(4));
        story.signal(Signal::Wakeup);
        story.pass(ms(100));
        assert_eq!(story.count("claim"), if others { 1 } else { 2 }, "others: {others}");
        if others {
            story.pass(s(6));
            let again = story.claims()[1];
            assert!(again.since(since) >= s(10) && again.since(since) <= s(11), "{again:?}");
        }
    }
    // In doubt, others go first.
    let mut story = leading(config(), grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.pass(s(11));
    assert_eq!(story.count("claim"), 1);
}

#[test]
fn g10_a_role_that_fails_three_times_resigns() {
    let mut story = Story::of(config());
    story.granted(grant(1, 1));
    story.activate_failed();
    story.pass(s(1));
    story.activate_failed();
    story.pass(s(1));
    assert_eq!(story.phase(), Phase::Activating);
    story.activate_failed();
    assert_eq!(story.count("activate"), 3);
    assert_eq!(story.count("leading") + story.count("following"), 0, "nobody was told anything");
    assert_eq!(story.phase(), Phase::Stopping);
    assert_eq!(story.core.status(story.now).lost, Some(Lost::RoleFailed));
    story.role_stopped();
    story.abdicated(Ok(true));
    // Another gets its chance.
    story.rivals(true);
    story.pass(s(9));
    assert_eq!(story.count("claim"), 1);
    // One that hangs fails as well.
    let mut story = Story::of(config());
    story.granted(Grant { validity: crate::oracle::Validity::UntilRevoked, ..grant(1, 1) });
    story.pass(s(100));
    assert_eq!((story.count("activate"), story.phase()), (3, Phase::Stopping));
}

#[test]
fn g11_a_stale_activation_does_not_touch_a_newer_term() {
    let mut story = Story::of(config());
    story.granted(grant(5, 5));
    let stale = story.run();
    story.signal(Signal::Revoked { epoch: Epoch(5) });
    story.role_stopped();
    story.until_it_asks(s(4));
    story.granted(grant(7, 7));
    story.activated();
    let before = story.core.clone();
    let length = story.log.len();
    story.step(Input::Activated { run: stale, answer: Ok(()) });
    story.step(Input::Activated { run: stale, answer: Err(crate::role::Abort("late".to_owned())) });
    story.step(Input::Stopped { run: stale });
    story.step(Input::Aborted { run: stale });
    story.step(Input::Exited { run: stale, reason: "late".to_owned() });
    assert_eq!(story.log.len(), length);
    assert_eq!(story.core, before);
}

#[test]
fn leading_is_published_only_after_the_role_is_active_and_while_trusted() {
    let mut story = Story::of(config());
    story.granted(grant(1, 1));
    assert_eq!(story.told_since(1), ["trust", "activate"]);
    // Trust ends, and the role says yes at the same moment.
    let left = story.trust_left();
    story.pause(left);
    story.activated();
    assert_eq!(story.count("leading"), 0);
    assert_eq!(story.phase(), Phase::Stopping);
}

#[test]
fn j9_a_loss_makes_a_follower_or_ends_the_campaign() {
    for on_loss in [OnLoss::Follow, OnLoss::Stop] {
        let mut story = leading(CoreConfig { on_loss, ..config() }, grant(1, 1));
        story.pass(s(3));
        story.denied(Some(other(2)));
        story.role_stopped();
        match on_loss {
            OnLoss::Follow => {
                let (_, last) = story.log.last().unwrap();
                assert_eq!(*last, Effect::Follow { leader: Some(other(2)) });
                story.pass(s(4));
                assert_eq!(story.count("claim"), 2);
            }
            OnLoss::Stop => {
                story.leaves();
                let (_, last) = story.log.last().unwrap();
                assert_eq!(*last, Effect::End(End { why: Lost::Denied, release: Release::NotHeld }));
            }
        }
    }
}

#[test]
fn i4_an_own_resignation_does_not_wake() {
    let mut config = config();
    config.cool_down = Duration::ZERO;
    let mut story = leading(config, grant(1, 1));
    story.signal(Signal::ResignRequested { epoch: None });
    story.role_stopped();
    story.abdicated(Ok(true));
    let since = story.now;
    story.signal(Signal::Wakeup);
    story.pass(s(1));
    assert_eq!(story.count("claim"), 1);
    story.pass(s(3));
    assert!(story.claims()[1].since(since) >= Timing::default().poll);
    // At shutdown: never again.
    let mut story = leading(super::story::config(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    story.abdicated(Ok(true));
    story.signal(Signal::Wakeup);
    story.pass(s(100));
    assert_eq!(story.count("claim"), 1);
    assert_eq!(story.core.wake_at(), None);
}

#[test]
fn a_fatal_answer_to_the_abdication_is_not_repeated() {
    let mut story = leading(config(), grant(1, 1));
    story.step(Input::Stop);
    story.role_stopped();
    story.abdicated(Err(Fault::Fatal("gone".to_owned())));
    assert!(story.core.is_over());
    assert_eq!(story.count("leave"), 1);
}

/// Every event of a life, once, in order, with what it is about.
#[test]
fn h10_events_come_once_in_order_with_their_fields() {
    let mut config = config();
    config.cool_down = Duration::ZERO;
    let mut story = Story::of(config);
    story.denied(Some(other(1)));
    story.until_it_asks(s(3));
    story.answer(Err(fault(true)));
    story.until_it_asks(s(1));
    story.granted(grant(2, 2));
    story.activate_failed();
    story.pass(s(1));
    story.activated();
    story.until_it_asks(s(3));
    story.granted(grant(2, 3));
    story.signal(Signal::ResignRequested { epoch: Some(Epoch(2)) });
    story.role_stopped();
    story.abdicated(Ok(true));
    story.until_it_asks(s(3));
    story.pause(s(9));
    story.granted(grant(3, 4));
    story.abdicated(Ok(true));
    story.until_it_asks(s(3));
    story.granted(grant(4, 5));
    story.activated();
    let run = story.run();
    story.step(Input::Exited { run, reason: "it ended".to_owned() });
    story.pass(s(2));
    story.step(Input::Aborted { run });
    story.abdicated(Err(Fault::Fatal("no".to_owned())));
    assert_eq!(
        story.events(),
        [
            "campaign.rejected",
            "campaign.unknown_outcome",
            "campaign.claimed",
            "role.activating",
            "role.activate_failed",
            "role.activating",
            "role.active",
            "campaign.refreshed",
            "campaign.lost",
            "role.stopping",
            "role.stopped",
            "campaign.resigned",
            "campaign.late_grant",
            "campaign.resigned",
            "campaign.claimed",
            "role.activating",
            "role.active",
            "role.exited",
            "campaign.lost",
            "role.stopping",
            "role.aborted",
            "campaign.resign_failed",
        ]
    );
    let events: Vec<_> = story
        .log
        .iter()
        .filter_map(|(_, effect)| if let Effect::Emit(event) = effect { Some(&**event) } else { None })
        .collect();
    for event in &events {
        assert_eq!((event.election.as_str(), event.member.as_str(), event.incarnation.0), ("e", "a", 1));
        let has_term = !matches!(
            event.what,
            CampaignEventKind::Rejected { .. } | CampaignEventKind::UnknownOutcome { .. }
        );
        assert_eq!(event.epoch.is_some(), has_term, "{event:?}");
        assert_eq!(event.ballot.is_some(), has_term, "{event:?}");
        let leads = matches!(event.phase, Phase::Leading | Phase::Activating);
        assert_eq!(event.trust_left > Duration::ZERO, leads, "{event:?}");
    }
    let refreshed = events.iter().find(|event| event.what == CampaignEventKind::Refreshed).unwrap();
    assert_eq!((refreshed.epoch, refreshed.ballot), (Some(Epoch(2)), Some(Ballot(3))));
    assert_eq!(refreshed.leader.as_ref().map(MemberId::as_str), Some("a"));
    let rejected = events[0];
    assert_eq!(rejected.leader.as_ref().map(MemberId::as_str), Some("b"));
}

#[test]
fn another_leader_of_the_same_or_a_later_epoch_is_reported() {
    let mut story = Story::of(config());
    story.denied(Some(other(5)));
    story.until_it_asks(s(4));
    story.granted(grant(5, 6));
    assert!(story.events().contains(&"campaign.duplicate_leader"));
}
