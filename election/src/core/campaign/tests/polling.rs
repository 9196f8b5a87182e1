//! Polls, signals, and how they spread.

use super::{super::*, story::*};
use crate::{
    core::{campaign::event::CampaignEventKind, timing::Timing},
    oracle::{Denial, Signal, Verdict},
};

#[test]
fn h6_it_polls_without_any_signal() {
    let mut story = Story::<Fence>::of(config());
    for _ in 0..100 {
        story.denied(Some(other(1)));
        let since = story.now;
        let claims = story.count("claim");
        let timing = Timing::default();
        story.pass(timing.poll + timing.jitter);
        assert_eq!(story.count("claim"), claims + 1);
        let asked = *story.claims().last().unwrap();
        assert!(asked.since(since) >= timing.poll);
        story.now = asked;
    }
}

/// The leader's process lives, and its lease is over: nothing tells, and the next poll finds out.
#[test]
fn i11_it_polls_while_another_seems_to_lead() {
    let mut story = Story::of(config());
    story.denied(Some(other(1)));
    story.until_it_asks(s(3));
    story.denied(Some(other(1)));
    story.until_it_asks(s(3));
    story.granted(grant(2, 2));
    assert_eq!(story.count("activate"), 1);
    assert!(story.now.since(Time(s(1_000))) <= s(6));
}

#[test]
fn h7_a_hundred_followers_do_not_ask_together() {
    let mut slots = std::collections::BTreeMap::<u128, u32>::new();
    for seed in 0..100 {
        let mut story = Story::<Fence>::of(CoreConfig { seed, ..config() });
        story.denied(Some(other(1)));
        story.pass(s(3));
        assert_eq!(story.count("claim"), 2);
        *slots.entry(story.claims()[1].0.as_millis() / 50).or_default() += 1;
    }
    let most = slots.values().max().unwrap();
    assert!(*most <= 20, "{slots:?}");
}

#[test]
fn i1_a_signal_brings_the_claim_within_the_bound() {
    for seed in 0..50 {
        let mut story = Story::<Fence>::of(CoreConfig { seed, ..config() });
        story.denied(Some(other(1)));
        story.signal(Signal::Wakeup);
        let since = story.now;
        story.pass(ms(250));
        assert!(story.claims()[1].since(since) <= Timing::default().spread);
        // Without one: a poll.
        story.denied(Some(other(1)));
        let since = story.now;
        story.pass(s(4));
        assert!(story.claims()[2].since(since) <= Timing::default().poll + Timing::default().jitter);
    }
}

#[test]
fn i2_ten_thousand_wakeups_are_at_most_two_claims() {
    let mut story = Story::<Fence>::of(config());
    story.denied(Some(other(1)));
    for n in 0..10_000 {
        story.signal(Signal::Wakeup);
        if n % 10 == 0 {
            story.pass(Duration::from_micros(1));
        }
    }
    story.pass(ms(100));
    story.denied(Some(other(1)));
    story.pass(ms(500));
    assert_eq!(story.count("claim"), 2);
    // While one is in flight: one more after it.
    story.signal(Signal::Wakeup);
    story.pass(ms(50));
    for _ in 0..10_000 {
        story.signal(Signal::Wakeup);
    }
    story.denied(Some(other(1)));
    story.pass(ms(50));
    story.denied(Some(other(1)));
    story.pass(ms(500));
    assert_eq!(story.count("claim"), 4);
}

#[test]
fn i3_followers_that_are_woken_together_spread() {
    let mut claims: Vec<_> = (0..100)
        .map(|seed| {
            let mut story = Story::<Fence>::of(CoreConfig { seed, ..config() });
            story.denied(Some(other(1)));
            story.signal(Signal::Wakeup);
            story.pass(ms(50));
            story.claims()[1].since(Time(s(1_000)))
        })
        .collect();
    claims.sort();
    assert!(claims[99] < ms(50), "{claims:?}");
    for tenth in 0..10 {
        let (from, to) = (ms(tenth * 5), ms(tenth * 5 + 5));
        let within = claims.iter().filter(|at| (from..to).contains(at)).count();
        assert!((1..=25).contains(&within), "{within} from {from:?}: {claims:?}");
    }
}

#[test]
fn j5_no_claim_before_the_delay_and_a_clean_stop_within_it() {
    let config = CoreConfig { claim_delay: ms(200), ..config() };
    let mut story = Story::<Fence>::of(config.clone());
    story.signal(Signal::Wakeup);
    story.pass(ms(199));
    story.signal(Signal::Wakeup);
    assert_eq!(story.count("claim"), 0);
    story.pass(ms(1));
    assert_eq!(story.count("claim"), 1);
    let mut story = Story::<Fence>::of(config);
    story.pass(ms(100));
    story.step(Input::Stop);
    story.leaves();
    let (at, last) = story.log.last().unwrap();
    assert_eq!(*last, Effect::End(End { why: Lost::Shutdown, release: Release::NotHeld }));
    assert_eq!(at.since(Time(s(1_000))), ms(100));
    assert_eq!(story.count("claim"), 0);
}

#[test]
fn h8_an_outage_of_five_minutes_is_waited_for() {
    let mut story = Story::of(config());
    while story.now < Time(s(1_300)) {
        if story.core.call.is_some() {
            story.answer(Err(fault(false)));
        }
        story.pass(ms(10));
    }
    assert!(!story.core.is_over());
    let claims = story.claims();
    assert!(claims.len() < 60, "not a storm: {}", claims.len());
    // It resumes by itself, soon.
    story.until_it_asks(Timing::default().backoff_max * 5 / 4);
    story.granted(grant(1, 1));
    story.activated();
    assert_eq!(story.phase(), Phase::Leading);
}

#[test]
fn a_denial_may_say_when_to_ask_again() {
    let mut story = Story::<Fence>::of(config());
    let denial = Denial { retry_in: Some(s(7)), ..denial(None) };
    story.answer(Ok(Verdict::Denied(denial)));
    story.pass(ms(6_999));
    assert_eq!(story.count("claim"), 1);
    story.pass(s(1));
    assert_eq!(story.count("claim"), 2);
}

/// A watch on the leader's record wakes the leader at each of its own refreshes.
#[test]
fn its_own_refreshes_do_not_drive_it_round_in_circles() {
    let mut story = leading(config(), grant(1, 1));
    let start = story.now;
    let mut ballot = 1;
    while story.now < start + s(60) {
        story.pass(ms(10));
        if story.core.call.is_some() {
            ballot += 1;
            story.granted(grant(1, ballot));
            story.signal(Signal::Wakeup);
        }
    }
    let refreshes = story.count("refresh");
    assert!(refreshes <= 80, "{refreshes}");
}

#[test]
fn the_role_is_told_who_leads_when_that_changes() {
    let mut story = Story::<Fence>::of(config());
    for leader in [Some(other(1)), Some(other(1)), None, Some(other(2))] {
        story.denied(leader);
        story.pass(s(3));
    }
    let told: Vec<_> = story
        .log
        .iter()
        .filter_map(
            |(_, effect)| if let Effect::Follow { leader } = effect { Some(leader.clone()) } else { None },
        )
        .collect();
    assert_eq!(told, [Some(other(1)), None, Some(other(2))]);
    let rejected = |(_, effect): &&(Time, Effect<Fence>)| matches!(effect, Effect::Emit(event) if matches!(event.what, CampaignEventKind::Rejected { .. }));
    assert_eq!(story.log.iter().filter(rejected).count(), 4);
}
