//! A seat that was given up for somebody better, and others that are faster.

use std::time::Duration;

use super::{
    beds::{LEASE, Stores},
    people::{MS, PATIENT, Place, id, preempting, surely},
};
use crate::{
    ElectionConfig, Policy, Verdict, core::policy::Replace, driver::conformance::denied, oracle::Refusal,
};

fn asking_first(stores: Stores, grace: Duration) -> Stores {
    let policy = Policy { replace: Replace::HandOver { grace }, ..preempting() };
    let config = ElectionConfig { policy, candidate_timeout: PATIENT, ..stores.config.clone() };
    stores.with(config)
}

/// Whoever is faster and of lower priority would have to go in its turn, and so on without end.
pub(super) async fn e11_e13_a_seat_that_was_given_up_for_a_better_one_is_left_to_it(stores: Stores) {
    let stores = asking_first(stores, Duration::from_secs(3));
    let place = Place::new(&stores).await;
    let (mut low, mut fast) = (place.ranked("low", 5).await, place.ranked("fast", 6).await);
    let mut high = place.ranked("high", 9).await;
    let held = low.win().await;
    assert_eq!(high.lose().await.why, Refusal::Held, "the leader is asked");
    assert!(low.abdicate(&held).await);
    for other in [&mut fast, &mut low] {
        let denial = other.lose().await;
        assert_eq!((denial.why, denial.retry_in), (Refusal::TooEarly, Some(LEASE)));
    }
    let held = high.win().await;
    assert_eq!(fast.lose().await.why, Refusal::Held);
    // Given up for nobody: whoever asks has it.
    assert!(high.abdicate(&held).await);
    let held = low.win().await;
    surely(async || place.admin.request_resign(None).await).await;
    assert!(low.abdicate(&held).await);
    fast.win().await;
}

/// The better one may have died.
pub(super) async fn e11_e13_a_seat_that_was_given_up_for_one_that_died_is_free_a_lease_later(stores: Stores) {
    let stores = asking_first(stores, LEASE);
    let place = Place::new(&stores).await;
    let (mut low, mut fast) = (place.ranked("low", 5).await, place.ranked("fast", 6).await);
    let mut high = place.ranked("high", 9).await;
    let held = low.win().await;
    high.lose().await;
    surely(async || place.admin.unregister(&id("low"), low.context.incarnation).await).await;
    denied(low.refresh(&held).await);
    assert_eq!(fast.lose().await.why, Refusal::TooEarly, "also of one that did not resign itself");
    stores.pass(LEASE - MS);
    assert_eq!(fast.lose().await.retry_in, Some(MS));
    stores.pass(MS);
    let held = fast.win().await;
    // It was for that time only.
    assert!(fast.abdicate(&held).await);
    low.win().await;
}

pub(super) async fn e11_b9_a_holder_that_is_deposed_leaves_the_seat_to_the_better_one_after_the_lock_delay(
    stores: Stores,
) {
    let delay = Duration::from_secs(2);
    let config = ElectionConfig {
        policy: preempting(),
        lock_delay: delay,
        candidate_timeout: PATIENT,
        ..stores.config.clone()
    };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut low, mut fast) = (place.ranked("low", 5).await, place.ranked("fast", 6).await);
    let (mut high, mut peer) = (place.ranked("high", 9).await, place.ranked("peer", 9).await);
    let held = low.win().await;
    assert_eq!(high.lose().await.retry_in, Some(LEASE + delay), "it is deposed");
    denied(low.refresh(&held).await);
    for (other, wait) in [(&mut fast, LEASE * 2 + delay), (&mut peer, LEASE + delay)] {
        let denial = other.lose().await;
        assert_eq!((denial.why, denial.retry_in), (Refusal::TooEarly, Some(wait)));
    }
    stores.pass(LEASE + delay);
    assert_eq!(fast.lose().await.retry_in, Some(LEASE));
    // Equals do not replace each other: it rests with any of them.
    peer.win().await;
    assert_eq!(high.lose().await.why, Refusal::Held);
}

/// The best waits longer than it may be silent. Were it not heard meanwhile, the next would take the seat, and have to go
/// again: without end, and with a lease and a delay without a leader each time.
pub(super) async fn e10_e11_whoever_waits_for_the_seat_that_it_vacated_is_heard_and_not_passed_over(
    stores: Stores,
) {
    let policy = Policy::ranked();
    let config = ElectionConfig { policy, lock_delay: LEASE, ..stores.config.clone() };
    assert!(config.candidate_timeout < config.lease + config.lock_delay);
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let mut low = place.ranked("low", 5).await;
    low.win().await;
    let mut top = place.ranked("top", 9).await;
    // It asks again when it is told to, and no earlier. The other asks all the time, and first.
    let (second, mut waited) = (Duration::from_secs(1), Duration::ZERO);
    let mut next = top.lose().await.retry_in.unwrap();
    loop {
        let denial = low.lose().await;
        assert!(matches!(denial.why, Refusal::TooEarly | Refusal::Outranked), "{waited:?}: {denial:?}");
        if waited >= next {
            match top.claim().await {
                Verdict::Granted(_) => break,
                Verdict::Denied(denial) => next = waited + denial.retry_in.unwrap(),
            }
        }
        stores.pass(second);
        waited += second;
    }
    assert!((LEASE * 2..LEASE * 2 + second).contains(&waited), "as soon as it may be had: {waited:?}");
}

/// It is told to ask when its heartbeat is due, or when the seat is free: whichever is first.
pub(super) async fn e10_whoever_waits_is_told_to_ask_in_time_for_its_heartbeat(stores: Stores) {
    let config = ElectionConfig { lock_delay: LEASE, ..stores.config.clone() };
    let beat = config.candidate_timeout / 3;
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    a.win().await;
    b.lose().await;
    stores.pass(LEASE);
    assert_eq!(b.lose().await.retry_in, Some(beat), "it was heard just now");
    stores.pass(beat - MS);
    assert_eq!(b.lose().await.retry_in, Some(MS * 5), "soon, and not again and again");
    stores.pass(MS);
    assert_eq!(b.lose().await.retry_in, Some(beat), "it was heard again");
    stores.pass(LEASE - beat - MS);
    assert_eq!(b.lose().await.retry_in, Some(MS), "the seat is free before that");
    stores.pass(MS);
    b.win().await;
}
