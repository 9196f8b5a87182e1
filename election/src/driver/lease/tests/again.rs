//! What a member does a second time, and what it remembers of the first. In memory only: it is the same on every store.

use std::{sync::Arc, time::Duration};

use callsign_store::{ids::Incarnation, memory::Fate};
use futures::{FutureExt, StreamExt};

use super::{
    beds::{LEASE, Stores, cluster},
    counting::Counting,
    people::{MS, Place, id, registration, surely},
};
use crate::{
    ElectionConfig, LeaseOptions, LeaseOracle, Policy,
    core::state::{Disable, SWEPT_AFTER},
    driver::conformance::{attempt, denied, granted},
    oracle::{Context, Fault, Init, Oracle, Reaction, Refusal, Signal, Validity},
    tests::stores::Faulty,
};

#[tokio::test]
async fn e4_a_member_that_is_evicted_twice_registers_again_twice() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    for _ in 0..2 {
        place.names().await;
        stores.pass(LEASE);
        assert_eq!(surely(async || place.admin.evict().await).await, 1);
        let held = a.win().await;
        assert!(a.abdicate(&held).await);
    }
}

#[tokio::test]
async fn e3_a_priority_is_said_once_and_does_not_undo_one_that_is_set_from_outside() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    assert_eq!(a.oracle.handle_info(5).await, Reaction::Poll);
    a.win().await;
    let listed = surely(async || place.admin.list().await).await;
    assert_eq!(listed[0].priority, 5);
    let incarnation = a.context.incarnation;
    surely(async || place.admin.heartbeat(&id("a"), incarnation, Some(9)).await).await;
    // So long that it is heard again.
    stores.pass(LEASE / 2);
    a.win().await;
    let heard = surely(async || place.admin.list().await).await;
    assert!(heard[0].last_seen > listed[0].last_seen);
    assert_eq!(heard[0].priority, 9);
}

/// As with refreshes: the answer that tells of the shorter lease may be lost.
#[tokio::test]
async fn h2_d16_a_cycle_leaves_its_holder_the_seat_for_as_long_as_it_was_granted_before() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = granted(a.oracle.run_cycle(attempt()).await.unwrap());
    let short = Duration::from_secs(2);
    place.config(&ElectionConfig { lease: short, ..stores.config.clone() }).await;
    let told = granted(a.oracle.run_cycle(attempt()).await.unwrap());
    assert_eq!((told.term, told.validity), (held.term, Validity::For(short)));
    assert_eq!(b.lose().await.why, Refusal::Held);
    stores.pass(LEASE - MS);
    assert_eq!(b.lose().await.why, Refusal::Held, "it may believe in the former grant");
    stores.pass(MS);
    b.win().await;
}

#[tokio::test]
async fn d10_a_leader_is_heard_with_a_refresh_when_that_is_due_and_not_before() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let counting = Counting::new(stores.store());
    let oracle = LeaseOracle::new(Arc::new(counting.clone()), &cluster(), stores.options());
    let mut a = place.bed.join(oracle, "a").await;
    let held = a.win().await;
    stores.pass(stores.config.candidate_timeout / 3 - MS);
    counting.take();
    let held = a.keep(&held).await;
    assert_eq!(counting.take(), (3, 1, 1), "the seat alone");
    stores.pass(MS);
    a.keep(&held).await;
    assert_eq!(counting.take(), (3, 2, 1), "the seat and its row");
}

#[tokio::test]
async fn e6_a_sweep_that_fails_is_made_again_after_the_time_in_which_a_candidate_is_heard_once() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let line = Faulty::over(&stores.store());
    let oracle = LeaseOracle::new(line.shared(), &cluster(), stores.options());
    let mut a = place.bed.join(oracle, "a").await;
    a.win().await;
    line.set_down(true);
    let failed = a.oracle.tidy().await;
    assert!(matches!(failed, Err(Fault::Transient { maybe_committed: false, .. })), "{failed:?}");
    line.set_down(false);
    assert_eq!(a.oracle.tidy().await, Ok(Some(stores.config.candidate_timeout / 3)));
}

#[tokio::test]
async fn e6_a_sweep_that_nobody_knows_of_is_not_made_again_at_once() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let line = Faulty::over(&stores.store());
    let oracle = LeaseOracle::new(line.shared(), &cluster(), stores.options());
    let mut a = place.bed.join(oracle, "a").await;
    surely(async || place.admin.register(&registration("b", 1)).await).await;
    let mut held = a.win().await;
    assert_eq!(a.oracle.tidy().await, Ok(Some(LEASE * SWEPT_AFTER)), "a first look");
    for _ in 0..SWEPT_AFTER {
        stores.pass(LEASE / 2);
        held = a.keep(&held).await;
        stores.pass(LEASE / 2);
        held = a.keep(&held).await;
    }
    line.lose(Fate::Applied);
    let swept = a.oracle.tidy().await;
    assert!(matches!(swept, Err(Fault::Transient { maybe_committed: true, .. })), "{swept:?}");
    assert_eq!(place.names().await, ["a"], "it was done");
}

#[tokio::test]
async fn a_member_that_is_prepared_again_goes_on_and_another_incarnation_of_it_does_not() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let held = a.win().await;
    assert_eq!(a.oracle.init(&a.context).await, Ok(Init::Ready));
    let held = a.keep(&held).await;
    let incarnation = Incarnation(a.context.incarnation.0 ^ 1);
    let other = Context { incarnation, ..a.context.clone() };
    assert_eq!(a.oracle.init(&other).await, Ok(Init::Ready));
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver);
}

#[tokio::test]
async fn d12_a_request_is_passed_on_once_however_often_the_leader_refreshes() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let mut a = place.with("a", LeaseOptions { watch: false, ..stores.options() }).await;
    let held = a.win().await;
    let mut signals = a.oracle.signals();
    surely(async || place.admin.request_resign(None).await).await;
    let held = a.keep(&held).await;
    let asked = Signal::ResignRequested { epoch: Some(held.term.epoch) };
    assert_eq!(signals.next().now_or_never(), Some(Some(asked)));
    a.keep(&held).await;
    assert_eq!(signals.next().now_or_never(), None);
}

#[tokio::test]
async fn whoever_leaves_an_election_that_nobody_has_initialised_leaves_nothing() {
    let stores = Stores::memory().unwrap();
    let place = Place::empty(&stores);
    let mut a = place.with("a", LeaseOptions { config: None, ..stores.options() }).await;
    assert_eq!(a.oracle.leave(None).await, Ok(false));
    assert!(place.rows().await.is_empty());
}

#[tokio::test]
async fn h2_c3_whoever_looks_while_an_election_is_disabled_has_watched_its_seat() {
    let stores = Stores::memory().unwrap();
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    a.win().await;
    surely(async || place.admin.disable(Disable::Drain).await).await;
    assert_eq!(b.lose().await.why, Refusal::Disabled);
    stores.pass(LEASE);
    surely(async || place.admin.enable().await).await;
    b.win().await;
}

#[tokio::test]
async fn d10_a_policy_that_ranks_all_costs_one_look_at_all_rows_for_each_claim() {
    let stores = Stores::memory().unwrap();
    let sticky = stores.config.clone();
    let stores = stores.with(ElectionConfig { policy: Policy::ranked(), ..sticky.clone() });
    let place = Place::new(&stores).await;
    let counting = Counting::new(stores.store());
    let options = LeaseOptions { priority: 9, ..stores.options() };
    let oracle = LeaseOracle::new(Arc::new(counting.clone()), &cluster(), options);
    let mut a = place.bed.join(oracle, "a").await;
    place.ranked("b", 1).await;
    let mut costs = async || {
        counting.take();
        a.win().await;
        counting.take().0
    };
    assert_eq!(costs().await, 3 + 3 + 2, "it learns that all are ranked");
    assert_eq!(costs().await, 3 + 2, "it knows");
    place.config(&sticky).await;
    assert_eq!(costs().await, 3 + 2, "it learns that they are not any more");
    assert_eq!(costs().await, 3);
}
