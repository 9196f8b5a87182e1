//! A seat that was given up for somebody better, and others that are faster.

use std::time::Duration;

use super::{
    beds::{LEASE, Stores},
    people::{MS, Place, id, preempting, surely},
};
use crate::election::{ElectionConfig, Policy, conformance::denied, oracle::Refusal, policy::Replace};

fn asking_first(stores: Stores, grace: Duration) -> Stores {
    let policy = Policy { replace: Replace::HandOver { grace }, ..preempting() };
    let config = ElectionConfig { policy, ..stores.config.clone() };
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
    let config = ElectionConfig { policy: preempting(), lock_delay: delay, ..stores.config.clone() };
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
