//! Several registries of one node: joined at any state of its session, with members of their own; and how the node leaves.

use std::{net::SocketAddr, time::Duration};

use crate::{
    JoinError, LookupError, NotReady, OnOutage, RegisterError, Registry,
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

const SHORT_WAIT: Duration = Duration::from_secs(1);

/// A node that leaves, and whose commits are held, is closing its session by then.
const CLOSING: Duration = Duration::from_secs(9);

impl Cluster {
    /// A node of another registry than the default one.
    async fn node_of(&self, registry: &str, node: &str) -> Registry {
        let registry = Registry::join(self.config(node).registry(registry)).await.unwrap();
        assert!(registry.ready(TEST_DEADLINE).await.is_ok(), "{node} is ready: {:?}", registry.status());
        registry
    }
}

async fn lapsed(node: &Registry) {
    until("it has lapsed", || matches!(node.lookup("x"), Err(LookupError::Lapsed { .. }))).await;
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_is_joined_while_the_session_is_lapsed_serves_once_it_is_trusted_again() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    cluster.store.outage_for_all();
    lapsed(&node).await;
    let orders = node.join_beside("orders").await.unwrap();
    assert_eq!(orders.ready(SHORT_WAIT).await, Err(NotReady::NotTrusted { waited: SHORT_WAIT }));
    cluster.store.heal_all();
    assert!(orders.ready(TEST_DEADLINE).await.is_ok(), "{:?}", orders.status());
    // No more waiting: ready is what a registration needs.
    let registered = orders.register("x", &counter().await).await;
    assert_eq!(registered.unwrap().check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_registry_is_not_ready_while_a_registration_would_be_told_of_a_lapse() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let fails = crate::RegisterOptions { on_outage: Some(OnOutage::Fail), ..Default::default() };
    let orders = node.join_beside("orders").await.unwrap();
    for round in 0..3 {
        cluster.store.outage_for_all();
        lapsed(&node).await;
        let more = node.join_beside(&format!("more-{round}")).await.unwrap();
        cluster.store.heal_all();
        for registry in [&orders, &more] {
            assert!(registry.ready(TEST_DEADLINE).await.is_ok());
            let registered = registry.register_with("x", &counter().await, fails.clone()).await;
            let refused = matches!(registered, Err(RegisterError::Lapsed));
            assert!(!refused, "it was ready, and told {registered:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_is_joined_while_the_session_is_lost_serves_in_the_next_one() {
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("a").await, cluster.node("b").await];
    let store = cluster.store.connect("a");
    store.outage();
    let is_closed = || other.members().iter().all(|member| member.node.as_str() != "a");
    until("the others have closed its session", is_closed).await;
    // It learns of the loss, and cannot open the next one yet.
    let hold = store.hold_commits();
    store.heal();
    until("its session is lost", || node.node.session.session().is_none()).await;
    let orders = node.join_beside("orders").await.expect("a node that lost its session has not left");
    assert_eq!(orders.ready(SHORT_WAIT).await, Err(NotReady::NotTrusted { waited: SHORT_WAIT }));
    drop(hold);
    assert!(orders.ready(TEST_DEADLINE).await.is_ok(), "{:?}", orders.status());
    assert!(orders.register("x", &counter().await).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn leaving_again_says_what_came_of_it_the_first_time() {
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("a").await, cluster.node("b").await];
    let (once, at_the_same_time) = tokio::join!(node.leave(), node.leave());
    assert_eq!((once, at_the_same_time), (Ok(()), Ok(())));
    assert_eq!(node.leave().await, Ok(()), "the session is closed, and stays so");
    assert!(matches!(node.join_beside("orders").await, Err(JoinError::Left)));

    cluster.store.outage_for_all();
    let first = other.leave().await;
    assert!(first.is_err(), "nobody could be told");
    assert!(other.leave().await.is_err(), "and still nobody has been");
}

#[tokio::test(start_paused = true)]
async fn leaving_that_was_given_up_half_way_is_done_by_the_next_call() {
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("a").await, cluster.node("b").await];
    let actor = counter().await;
    let token = node.register("x", &actor).await.unwrap().token();
    other.wait_for(token, TEST_DEADLINE).await.unwrap();
    let hold = cluster.store.connect("a").hold_commits();
    assert!(tokio::time::timeout(CLOSING, node.leave()).await.is_err(), "it waits");
    drop(hold);
    node.leave().await.unwrap();
    until("its name is free", || other.lookup("x") == Ok(None)).await;
    assert!(node.shared.has_ended(), "its member runs no more");
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_links_to_the_members_of_all_its_registries() {
    let cluster = Cluster::new();
    // The greater of two names dials: both registries depend on whom `z` knows.
    let here = cluster.node("z").await;
    let there = here.join_beside("orders").await.unwrap();
    let [_a, _b] = [cluster.node("a").await, cluster.node_of("orders", "b").await];
    let is_linked = |registry: &Registry, node: &str| {
        registry.members().iter().any(|member| member.node.as_str() == node && member.linked)
    };
    for (registry, node) in [(&here, "a"), (&there, "b"), (&here, "a")] {
        until("linked", || is_linked(registry, node)).await;
        let way: [SocketAddr; 2] = [Cluster::address("z"), Cluster::address(node)];
        cluster.network.cut(way[0], way[1]);
        until("not linked", || !is_linked(registry, node)).await;
        cluster.network.heal(way[0], way[1]);
        until("linked again", || is_linked(registry, node)).await;
    }
}
