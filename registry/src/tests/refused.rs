//! Nodes and registries that may not be joined, and what is left of them; and leaving, whatever the store says.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_elector::session::{Obstacle, SessionFailure, SessionTiming};
use callsign_store::{
    CommitOutcome, Limits, SharedStore, Store, Transaction,
    ids::{ClusterName, NodeName},
    keys::ClusterKeys,
};
use futures::FutureExt;

use super::recorded::Limited;
use crate::{
    Config, JoinError, LeaveError, Registry,
    tests::driver::{Cluster, TEST_DEADLINE, until},
};

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_join_is_told_why() {
    let cluster = Cluster::new();
    let timing = SessionTiming::default().with(|timing| timing.lease = Duration::ZERO);
    let refused = Registry::join(cluster.config("a").session_timing(timing)).await.map(drop);
    assert!(matches!(refused, Err(JoinError::Timing(_))), "{refused:?}");

    let keys = ClusterKeys::new(&ClusterName::new("default").unwrap());
    let garbage = Transaction::new().put(keys.session(&NodeName::new("b").unwrap()), b"garbage".to_vec());
    assert!(matches!(cluster.store.commit(garbage).await, CommitOutcome::Committed(_)));
    let refused = Registry::join(cluster.config("b")).await.map(drop);
    assert!(matches!(refused, Err(JoinError::Corrupt(_))), "{refused:?}");

    let silent = Arc::new(cluster.store.connect("silent"));
    let store: SharedStore = silent.clone();
    let former = Registry::join(Config { store: store.into(), ..cluster.config("c") }).await.unwrap();
    // As good as dead: nothing proves that it is.
    silent.outage();
    let config = cluster.config("c").listen(Cluster::address("d")).join_timeout(Duration::from_secs(1));
    let refused = Registry::join(config).await.map(drop);
    let is_former = |error: &JoinError| matches!(error, JoinError::FormerOpen { incarnation, .. } if *incarnation == former.node.incarnation);
    assert!(refused.as_ref().is_err_and(is_former), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_was_not_joined_may_be_asked_for_again() {
    let cluster = Cluster::new();
    // What is begun for a registry looks at what a transaction may have.
    let looks = Arc::new(AtomicUsize::new(0));
    let counts = looks.clone();
    let limits = move |limits: Limits| -> Limits {
        counts.fetch_add(1, SeqCst);
        limits
    };
    let store: SharedStore = Arc::new(Limited { store: cluster.store.connect("a"), limits });
    let node = Registry::join(Config { store: store.into(), ..cluster.config("a") }).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    node.drain().await;
    let before = looks.load(SeqCst);
    for _ in 0..2 {
        let refused = node.join_beside("orders").await.map(drop);
        assert!(matches!(refused, Err(JoinError::Left)), "it is not joined already: {refused:?}");
    }
    assert_eq!(looks.load(SeqCst), before, "a node that leaves begins nothing");
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_is_being_joined_when_its_node_begins_to_leave_is_refused_and_ends() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let cluster = Cluster::new();
    let before = alive();
    let leaves = Arc::<Mutex<Option<Registry>>>::default();
    let begins = leaves.clone();
    // This is asked behind the look at whether the node leaves, and before the registry is one of its own.
    let limits = move |limits: Limits| -> Limits {
        let node = begins.lock().unwrap().take();
        if let Some(node) = node {
            assert!(node.leave().now_or_never().is_none(), "it has begun, and nobody waits for it");
        }
        limits
    };
    let store: SharedStore = Arc::new(Limited { store: cluster.store.connect("a"), limits });
    let node = Registry::join(Config { store: store.into(), ..cluster.config("a") }).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    // It does not leave in no time.
    cluster.store.connect("a").set_latency(Duration::from_millis(20));
    *leaves.lock().unwrap() = Some(node.clone());
    let refused = node.join_beside("orders").await.map(drop);
    assert!(matches!(refused, Err(JoinError::Left)), "{refused:?}");
    assert_eq!(node.leave().await, Ok(()), "the end of what was refused is no failure");
    drop(node);
    until("nothing runs", || alive() == before).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_does_not_answer_leaves_all_the_same_and_says_that_nothing_is_confirmed() {
    let cluster = Cluster::new();
    // The session itself would be waited for much longer.
    let timing = SessionTiming::for_lease(Duration::from_secs(60));
    let node = Registry::join(cluster.config("a").session_timing(timing)).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let _hold = cluster.store.connect("a").hold_commits();
    let left = node.leave().await;
    let unconfirmed = SessionFailure::LeaveUnconfirmed { obstacle: Obstacle::NoAnswer };
    assert_eq!(left, Err(LeaveError::StoreUnavailable(unconfirmed)));
}

#[tokio::test(start_paused = true)]
async fn each_node_has_an_incarnation_of_its_own_at_each_start() {
    let cluster = Cluster::new();
    let [first, other] = [cluster.node("a").await, cluster.node("b").await];
    let mut incarnations = BTreeSet::from([first.incarnation(), other.incarnation()]);
    first.leave().await.unwrap();
    let again = Registry::join(cluster.config("a").listen(Cluster::address("c"))).await.unwrap();
    incarnations.insert(again.incarnation());
    assert!(incarnations.len() == 3 && !incarnations.contains(&0), "{incarnations:?}");
}
