//! What one node sets of the elections holds for all, and who asks is told what is known.

use std::time::Duration;

use crate::{
    ConfigureError, ElectorTiming, Limit, OutOfBounds, Preset, Registry, Settings,
    tests::driver::{Cluster, TEST_DEADLINE, until},
};

fn silence(seconds: u64) -> Settings {
    Settings::default().silence(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn what_one_node_sets_all_nodes_show() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    assert_eq!(nodes[0].status().settings.set, Settings::default());
    for (node, change) in nodes.iter().zip([
        silence(4),
        Settings::default().policy(Preset::Ranked),
        Settings::default().lock_timeout(Duration::from_secs(7)),
    ]) {
        let in_force = node.configure(change, TEST_DEADLINE).await.unwrap();
        assert!(in_force.set.has(&change), "{in_force:?}");
    }
    let all = |node: &crate::Registry| {
        let now = node.status().settings;
        (now.silence, now.policy, now.lock_timeout)
            == (Duration::from_secs(4), Preset::Ranked, Duration::from_secs(7))
    };
    until("all show all of it", || nodes.iter().all(all)).await;
    // Who joins later reads it; the same again is done already.
    let late = cluster.node("d").await;
    assert!(all(&late), "{:?}", late.status());
    assert!(late.configure(silence(4), Duration::ZERO).await.is_ok());
    // Another registry has its own.
    let orders = nodes[0].join_beside("orders").await.unwrap();
    assert!(orders.ready(TEST_DEADLINE).await.is_ok());
    assert_eq!(orders.status().settings.set, Settings::default());
}

#[tokio::test(start_paused = true)]
async fn a_leader_may_be_given_all_the_time_that_there_is() {
    let cluster = Cluster::new();
    let all = ElectorTiming::default()
        .with(|timing| (timing.silence, timing.lock) = (Duration::MAX, Duration::MAX));
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        let node = Registry::join(cluster.config(name).elector_timing(all)).await.unwrap();
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        nodes.push(node);
    }
    assert_eq!(nodes[1].drain().await, crate::Drained::Led { by: nodes[0].status().node });
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_what_cannot_work_and_what_is_not_known() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let value = Duration::from_millis(10);
    let refused = node.configure(Settings::default().silence(value), TEST_DEADLINE).await;
    let why = OutOfBounds { what: Limit::Silence, value };
    assert_eq!(refused, Err(ConfigureError::OutOfBounds(why)));
    cluster.store.outage_for_all();
    let wait = Duration::from_secs(1);
    let unknown = node.configure(silence(4), wait).await;
    assert!(matches!(unknown, Err(ConfigureError::Unknown { waited, .. }) if waited == wait), "{unknown:?}");
    assert_eq!(node.status().settings.set, Settings::default());
    // It may be set yet.
    cluster.store.heal_all();
    until("it is set", || node.status().settings.set == silence(4)).await;
    node.leave().await.unwrap();
    assert_eq!(node.configure(silence(5), TEST_DEADLINE).await, Err(ConfigureError::Left));
}
