//! Getting the seat, and losing it.

use callsign_store::ids::MemberId;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::{Instant, sleep};

use super::toy::*;
use crate::{
    core::timing::Timing,
    driver::campaign::{Lapsed, Phase},
    role::Lost,
    tests::clock::SetClock,
};

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_the_other_takes_over() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    let first = a.leads().await;
    let mut b = member(&authority, "b").await;
    assert_eq!(a.campaign.leadership().check(), Ok(first.fence));
    sleep(s(60)).await;
    assert_eq!(a.campaign.leadership().check().unwrap().epoch, first.term.epoch, "it keeps the seat");
    assert!(a.campaign.leadership().check().unwrap().ballot > first.fence.ballot);
    assert_eq!(b.campaign.leadership().check(), Err(Lapsed));
    assert_eq!(b.journal.lines(), ["follow"], "j6: denied, it never starts");
    assert_eq!(b.campaign.status().leader.map(|term| term.leader), Some(MemberId::new("a").unwrap()));
    // i1: a clean stop frees the seat, and the other hears of it.
    a.campaign.stop().await.unwrap();
    let stopped = Instant::now();
    let second = b.leads().await;
    assert!(stopped.elapsed() < ms(250), "{:?}", stopped.elapsed());
    assert!(second.term.epoch > first.term.epoch);
}

#[tokio::test(start_paused = true)]
async fn i1_i12_h6_without_signals_a_follower_leads_within_a_poll() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    let deaf = Toy { listens: false, ..Toy::new(&authority) };
    let mut b = member_with(deaf, settings("b"), Journal::default()).await;
    sleep(s(7)).await;
    a.campaign.stop().await.unwrap();
    let stopped = Instant::now();
    b.leads().await;
    let timing = Timing::default();
    assert!(stopped.elapsed() <= timing.poll + timing.jitter, "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c8_a_refresh_that_hangs_does_not_hold_up_the_end() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    authority.lock().silent = true;
    let left = a.campaign.leadership().remaining();
    let since = Instant::now();
    a.follows().await;
    assert!(since.elapsed().abs_diff(left) <= ms(50), "{:?}, {left:?}", since.elapsed());
    let abandoned = "election=e,call=refresh,outcome=abandoned";
    let abandoned = callsign_golden::Seen::by(&counted).get("callsign_election_calls_total", abandoned);
    assert!(abandoned >= 1, "it is counted as given up");
}

/// A clock that goes on while nothing runs and no timer fires: a stopped process, a suspended machine.
#[tokio::test(start_paused = true)]
async fn c11_c14_the_handle_lapses_by_the_clock_alone() {
    let authority = Authority::default();
    let clock = SetClock::at(std::time::Duration::from_secs(1000));
    let mut settings = settings("a");
    settings.clock = clock.clock();
    let mut a = member_with(Toy::new(&authority), settings, Journal::default()).await;
    a.leads().await;
    let leadership = a.campaign.leadership();
    assert!(leadership.check().is_ok());
    let left = leadership.remaining();
    let go = |by| clock.pass(by);
    // Nothing else runs from here: this does not await.
    go(left.saturating_sub(ms(1)));
    assert!(leadership.check().is_ok());
    go(ms(1));
    assert_eq!(leadership.check(), Err(Lapsed));
    assert_eq!(leadership.remaining(), std::time::Duration::ZERO);
    assert_eq!(a.campaign.status().trust_left, std::time::Duration::ZERO);
    assert_eq!(a.campaign.status().phase, Phase::Leading, "nobody has noticed yet");
    go(s(60));
    // The loop looks at the clock soon, although its own timer has long to go.
    let since = Instant::now();
    a.follows().await;
    assert!(since.elapsed() <= s(1), "{:?}", since.elapsed());
    assert_eq!(a.campaign.status().lost, Some(Lost::TrustLapsed));
    // Its time to stop is long over: aborted, at once.
    until(|| a.journal.lines().contains(&"abort")).await;
}

#[tokio::test(start_paused = true)]
async fn d15_a_leader_that_was_asked_to_go_lets_others_go_first() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    let b = member_with(Toy::new(&authority), settings("b"), Journal::default()).await;
    a.campaign.request_resign(None);
    a.follows().await;
    until(|| authority.holder() == Some(MemberId::new("b").unwrap())).await;
    b.campaign.stop().await.unwrap();
    // The seat is free, and it has to wait.
    let stopped = Instant::now();
    a.leads().await;
    assert!(stopped.elapsed() > s(5), "{:?}", stopped.elapsed());
    // Alone it may.
    a.campaign.request_resign(None);
    a.follows().await;
    let since = Instant::now();
    a.leads().await;
    assert!(since.elapsed() < s(4), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn g10_a_role_that_never_starts_lets_another_have_its_chance() {
    let authority = Authority::default();
    let journal = Journal::default();
    journal.lock().fails = usize::MAX;
    let a = member_with(Toy::new(&authority), settings("a"), journal).await;
    let mut b = member(&authority, "b").await;
    b.leads().await;
    assert_eq!(a.journal.lines().iter().filter(|line| **line == "activate").count(), 3);
    assert!(!a.journal.lines().contains(&"active"));
}

#[tokio::test(start_paused = true)]
async fn h8_an_authority_that_is_down_at_boot_and_later_is_waited_for() {
    let authority = Authority::default();
    authority.lock().down = true;
    let mut a = member(&authority, "a").await;
    sleep(s(300)).await;
    assert!(authority.lock().calls < 100, "{}", authority.lock().calls);
    authority.lock().down = false;
    a.leads().await;
    authority.lock().down = true;
    sleep(s(300)).await;
    authority.lock().down = false;
    a.follows().await;
    a.leads().await;
    // Its signals are heard, although it was prepared late.
    assert_eq!(authority.lock().watchers.len(), 1);
}
