//! Larger clusters, in which most members rest: the dead are found in time, whoever dies.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::driver::{Cluster, counter, until};
use crate::{Registration, Registry};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// The default lease of a session, and how far observations and polls are apart.
const S: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);

/// Eight members, of which a leads, and b, c and d observe. Each holds a name. No store proves a death.
struct Many {
    cluster: Cluster,
    nodes: Vec<Registry>,
    held: Vec<Registration>,
}

impl Many {
    async fn new() -> Self {
        let cluster = Cluster::new();
        let (mut nodes, mut held) = (Vec::new(), Vec::new());
        for name in NAMES {
            let node = cluster.node(name).await;
            held.push(node.register(&format!("of/{name}"), &counter().await).await.unwrap());
            nodes.push(node);
        }
        cluster.store.stop_proving_deaths();
        assert!(nodes[0].status().leads);
        // By then whoever is not named rests.
        sleep(POLL * 3).await;
        Self { cluster, nodes, held }
    }

    /// From now on nobody hears of these nodes, not even by the store, if they are `dead`.
    fn part(&self, parted: &[&str], dead: bool) {
        for name in parted {
            if dead {
                self.cluster.store.connect(name).outage();
            }
            for other in NAMES.iter().filter(|other| dead || !parted.contains(other)) {
                if other != name {
                    self.cluster.network.cut(Cluster::address(name), Cluster::address(other));
                }
            }
        }
    }

    /// How long it takes until the last node knows that the names of these nodes are free.
    async fn freed_after(&self, dead: &[&str]) -> Duration {
        let (begin, last) = (Instant::now(), &self.nodes[7]);
        let is_free = |name: &&str| last.lookup(&format!("of/{name}")).is_ok_and(|entry| entry.is_none());
        until("the names are free", || dead.iter().all(is_free)).await;
        begin.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_is_found_within_a_lease_and_a_poll_if_it_rests_or_observes_or_leads() {
    for dead in ["g", "c", "a"] {
        let many = Many::new().await;
        many.part(&[dead], true);
        let found = many.freed_after(&[dead]).await;
        assert!(found <= S + POLL, "{dead}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_leader_dies_with_all_observers_the_others_find_all_of_them_within_two_leases_and_two_polls()
 {
    let many = Many::new().await;
    let dead = ["a", "b", "c", "d"];
    many.part(&dead, true);
    let found = many.freed_after(&dead).await;
    assert!(found <= S * 2 + POLL * 2, "{found:?}");
    let leads = many.nodes[4..].iter().filter(|node| node.status().leads).count();
    assert_eq!((leads, many.nodes[7].status().members.len()), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_leader_and_observers_that_only_the_store_hears_lose_the_seat_and_no_name() {
    let many = Many::new().await;
    many.part(&["a", "b", "c", "d"], false);
    until("another one leads", || many.nodes[4..].iter().any(|node| node.status().leads)).await;
    sleep(S * 3).await;
    for name in NAMES {
        let entry = many.nodes[7].lookup(&format!("of/{name}")).unwrap();
        assert_eq!(entry.map(|entry| entry.node.to_string()).as_deref(), Some(name));
    }
    assert!(many.held.iter().all(|held| held.check().is_ok()));
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_was_stopped_and_comes_back_counts_anew_and_closes_nobody_who_lives() {
    let many = Many::new().await;
    // For so long none of them could have seen a beat.
    let stores = ["a", "b", "c", "d"].map(|name| many.cluster.store.connect(name));
    for store in &stores {
        store.outage();
    }
    sleep(POLL * 8).await;
    for store in &stores {
        store.heal();
    }
    sleep(S * 2).await;
    assert_eq!(many.nodes[7].status().members.len(), 8);
    for (held, name) in many.held.iter().zip(NAMES).skip(4) {
        assert_eq!(held.check(), Ok(()), "{name}");
    }
}
