//! Larger clusters, in which most members rest: the dead are found in time, whoever dies.

use std::time::Duration;

use callsign_elector::record::SessionRecord;
use callsign_store::{
    ids::{ClusterName, NodeName},
    keys::ClusterKeys,
    record::Record,
};
use tokio::time::Instant;

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
        let many = Self { cluster, nodes, held };
        until("the others rest", || ["e", "f", "g", "h"].iter().all(|name| many.rests(name))).await;
        many
    }

    /// Whether a node observes the leader, and no other member.
    fn rests(&self, name: &str) -> bool {
        let node = &self.nodes[NAMES.iter().position(|known| *known == name).unwrap()];
        let observes = |of: &str| {
            let entry = node.lookup(&format!("of/{of}")).unwrap().unwrap();
            node.node.sight_of(&entry.session_id()).is_some()
        };
        observes("a") && NAMES[1..].iter().all(|of| *of == name || !observes(of))
    }

    /// The last beat of a node, as the store has it. There are five in a lease.
    fn beat(&self, name: &str) -> u64 {
        let cluster = ClusterKeys::new(&ClusterName::new("default").unwrap());
        let data = self.cluster.store.data();
        SessionRecord::from_value(data.get(&cluster.session(&NodeName::new(name).unwrap())).unwrap())
            .unwrap()
            .beat
            .0
    }

    /// Waits until a node has beaten as often as it does in so many leases.
    async fn beats_for(&self, name: &str, leases: u64) {
        let last = self.beat(name) + 5 * leases;
        until("it beats", || self.beat(name) >= last).await;
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
    many.beats_for("h", 3).await;
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
    // Not quite as long as their sessions are open.
    let last = many.beat("h") + 4;
    until("the others beat", || many.beat("h") >= last).await;
    for store in &stores {
        store.heal();
    }
    many.beats_for("h", 2).await;
    assert_eq!(many.nodes[7].status().members.len(), 8);
    for (held, name) in many.held.iter().zip(NAMES).skip(4) {
        assert_eq!(held.check(), Ok(()), "{name}");
    }
}
