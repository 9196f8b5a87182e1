//! What callers are told who wait for what does not come, or ask a node that serves no more.

use std::{pin::pin, time::Duration};

use callsign_store::ids::{NodeName, Position};
use futures::FutureExt;
use tokio::time::timeout;

use crate::{
    NotStarted, OfferError, OnOutage, RegisterError, RegisterOptions, Registry, StartOptions, TakeError,
    TakeOptions, UnregisterError, UpdateError, WaitError,
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_position_that_does_not_come_says_how_far_the_replica_is() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let at = node.register("x", &counter().await).await.unwrap().token();
    let (wanted, waited) = (Position(at.0 + 7), Duration::from_secs(2));
    assert_eq!(node.wait_for(wanted, waited).await, Err(WaitError::Behind { at, wanted, waited }));
    assert_eq!(node.wait_for(at, waited).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_until_the_session_is_trusted_hears_that_the_node_fails() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let actor = counter().await;
    cluster.store.outage_for_all();
    until("the session has lapsed", || node.lookup("x").is_err()).await;
    let options = RegisterOptions::default().wait(10 * TEST_DEADLINE);
    let mut waits = pin!(node.register_with("x", &actor, options));
    assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err(), "nothing is trusted");
    node.node.supervisor.fail("a part", "it says so".to_owned());
    let told = timeout(TEST_DEADLINE, waits).await.expect("it is told");
    assert!(matches!(told, Err(RegisterError::Failed(_))), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_drain_of_a_node_ends_also_if_the_node_fails() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let waits = tokio::spawn({
        let node = node.clone();
        async move { node.drain_started().await }
    });
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    node.node.supervisor.fail("a part", "it says so".to_owned());
    timeout(TEST_DEADLINE, waits).await.expect("it ends").unwrap();
    timeout(TEST_DEADLINE, node.drain_started()).await.expect("so does one that begins later");
}

#[tokio::test(start_paused = true)]
async fn each_call_says_whether_it_waits_for_a_store_that_is_gone_and_otherwise_its_node_does() {
    for of_node in [OnOutage::Wait, OnOutage::Fail] {
        let cluster = Cluster::new();
        let node = Registry::join(cluster.config("a").on_outage(of_node)).await.unwrap();
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        let actor = counter().await;
        cluster.store.outage_for_all();
        until("the outage is noticed", || node.shared.calls.outage.lasting().is_some()).await;
        for of_call in [None, Some(OnOutage::Wait), Some(OnOutage::Fail)] {
            let mut registers = RegisterOptions::default();
            let (mut starts, mut takes) = (StartOptions::default(), TakeOptions::default());
            if let Some(said) = of_call {
                registers = registers.on_outage(said);
                (starts, takes) = (starts.on_outage(said), takes.on_outage(said));
            }
            let registered = node.register_with("x", &actor, registers).now_or_never();
            let started = node.start_with("y", starts, |_| async { Ok(counter().await) }).now_or_never();
            let taken = node.take_with("z", &actor, Position(1), TEST_DEADLINE, takes).now_or_never();
            if of_call.unwrap_or(of_node) == OnOutage::Wait {
                assert!(registered.is_none() && started.is_none() && taken.is_none(), "{of_call:?}");
                continue;
            }
            let Some(Err(registered)) = registered else { panic!("{registered:?}") };
            let Some(Err(NotStarted::Register(started))) = started else { panic!("{started:?}") };
            let Some(Err(TakeError::Register(taken))) = taken else { panic!("{taken:?}") };
            for error in [registered, started, taken] {
                assert!(matches!(error, RegisterError::StoreUnavailable { .. }), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_left_is_told_from_one_that_has_failed_by_all_that_is_asked_of_it() {
    for fails in [false, true] {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let (actor, room) = (counter().await, node.group::<Counter>("room"));
        let told = || RegisterOptions::default().tell(|_| ());
        let held = node.register_with("x", &actor, told()).await.unwrap();
        let member = room.join_with(&actor, told()).await.unwrap();
        if fails {
            node.node.supervisor.fail("a part", "it says so".to_owned());
        } else {
            node.leave().await.unwrap();
            until("its member has ended", || node.shared.has_ended()).await;
        }
        let updated = held.update(None, None).await.unwrap_err();
        let parted = room.leave(&member).await.unwrap_err();
        let offered = node.offer("x", &NodeName::new("b").unwrap(), TEST_DEADLINE).await.unwrap_err();
        if fails {
            assert!(matches!(updated, UpdateError::Failed(_)), "{updated}");
            assert!(matches!(parted, UnregisterError::Failed(_)), "{parted}");
            assert!(matches!(offered, OfferError::Failed(_)), "{offered}");
        } else {
            let left = (UpdateError::Left, UnregisterError::Left, OfferError::Left);
            assert_eq!((updated, parted, offered), left);
        }
    }
}
