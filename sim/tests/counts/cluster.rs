//! Nodes of one process over a store and a network in memory, all of which is counted.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use allocation_counter::measure;
use callsign::{Clock, Config, Entropy, MemoryNetwork, Network, Position, Registry, SharedStore};
use callsign_sim::{
    histories::acting::Act,
    nodes::{self, life::Life, trace::RunTrace},
};
use callsign_store::memory::MemoryStore;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout},
};

use crate::counts::{Counting, Counts, Recorder, Tally};

/// Within this all is there that a script waits for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// How long a cluster rests before it is counted, so that nothing of its beginning is left.
const REST: Duration = Duration::from_millis(20_500);
/// In this time all comes to its end that waits for no timer, and for a slow store.
const MOMENT: Duration = Duration::from_millis(1);

/// Three nodes, of which `a` leads.
pub(crate) struct Cluster {
    pub(crate) a: Registry,
    pub(crate) b: Registry,
    pub(crate) c: Registry,
    store: MemoryStore,
    network: MemoryNetwork,
    counts: Counts,
    /// Of `a`, if it may die.
    life: Option<Arc<Life>>,
}

impl Cluster {
    async fn new(counts: &Counts, leader: Leader) -> Self {
        let (store, network) = (MemoryStore::new(), MemoryNetwork::new());
        let life = || {
            let (trace, counts) = (RunTrace::new(false), nodes::counts::NodeCounts::default());
            Life::new("a", 1, Instant::now(), 1, &trace, &counts)
        };
        let life = (leader == Leader::MayDie).then(life);
        let node = |name, life| node(name, &store, &network, counts, life);
        let (a, b, c) = (node("a", life.clone()).await, node("b", None).await, node("c", None).await);
        assert!(a.status().leads, "the first one leads");
        Self { a, b, c, store, network, counts: counts.clone(), life }
    }

    /// Another node joins, and serves when this returns.
    pub(crate) async fn join(&self, name: &'static str) -> Registry {
        node(name, &self.store, &self.network, &self.counts, None).await
    }

    /// The leader dies, as a process does that is killed.
    pub(crate) fn kill_the_leader(&self) {
        self.life.as_ref().expect("the script says that it may die").die();
    }

    /// Waits until all of these nodes know so many members with a link to each, and nothing more happens but by the clock.
    pub(crate) async fn settled_among(nodes: &[&Registry]) {
        let knows_all = |node: &Registry| {
            let members = node.members();
            members.len() == nodes.len() && members.iter().all(|member| member.linked && member.synced)
        };
        eventually("all know each other", async || nodes.iter().all(|node| knows_all(node))).await;
        sleep(MOMENT).await;
    }

    /// Every read and every commit takes so long from now on.
    pub(crate) fn slow_store(&self, takes: Duration) {
        for node in ["a", "b", "c"] {
            self.store.connect(node).set_latency(takes);
        }
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> [&Registry; 3] {
        [&self.a, &self.b, &self.c]
    }

    /// Waits until all nodes have all up to this position, and nothing more happens but by the clock.
    pub(crate) async fn settled(&self, position: Position) {
        for node in self.nodes() {
            node.wait_for(position, DEADLINE).await.unwrap();
        }
        sleep(MOMENT).await;
    }

    /// Waits until all nodes know of so many names, and nothing more happens but by the clock.
    pub(crate) async fn settled_with(&self, names: usize) {
        for node in self.nodes() {
            while node.count().unwrap() != names {
                sleep(MOMENT).await;
            }
        }
        sleep(MOMENT).await;
    }
}

/// Waits for a condition, and fails if it does not come true in time.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(MOMENT).await;
        }
    };
    timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

/// Whether the first leader may die. One that may is a little more to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    Lives,
    MayDie,
}

async fn node(
    name: &'static str,
    store: &MemoryStore,
    network: &MemoryNetwork,
    counts: &Counts,
    life: Option<Arc<Life>>,
) -> Registry {
    let number = name.as_bytes()[0];
    let counting = Counting { store: store.connect(name), node: name, counts: counts.clone() };
    let store: SharedStore = Arc::new(counting);
    let mut config = Config::new(name, store)
        .listen(SocketAddr::from(([127, 0, 0, 1], 7000 + u16::from(number))))
        .network(Network::Memory(network.clone()))
        .clock(Clock::runtime())
        .entropy(Entropy::seeded(u64::from(number)));
    if let Some(life) = life {
        config = config.turns(life);
    }
    let registry = Registry::join(config).await.unwrap();
    registry.ready(DEADLINE).await.unwrap();
    registry
}

/// An actor that does nothing.
struct Sits;

impl Actor for Sits {
    type Msg = Act;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Act>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Starts an actor that does nothing.
pub(crate) async fn actor() -> ActorRef<Act> {
    Actor::spawn(None, Sits, ()).await.unwrap().0
}

/// Prepares a cluster, lets it rest, and counts what a script does there.
pub(crate) fn counted<S>(
    prepare: impl AsyncFnOnce(&Cluster) -> S,
    script: impl AsyncFnOnce(&Cluster, S),
) -> Tally {
    counted_with(Leader::Lives, prepare, script)
}

/// As [`counted`], with such a leader.
pub(crate) fn counted_with<S>(
    leader: Leader,
    prepare: impl AsyncFnOnce(&Cluster) -> S,
    script: impl AsyncFnOnce(&Cluster, S),
) -> Tally {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let counts = Counts::default();
    metrics::with_local_recorder(&Recorder(counts.clone()), || {
        let (cluster, prepared) = runtime.block_on(async {
            let cluster = Cluster::new(&counts, leader).await;
            let prepared = prepare(&cluster).await;
            sleep(REST).await;
            (cluster, prepared)
        });
        let before = cluster.network.traffic();
        drop(counts.take());
        let allocated = measure(|| runtime.block_on(script(&cluster, prepared)));
        let mut tally = counts.take();
        let after = cluster.network.traffic();
        for (what, count) in [
            ("allocations", allocated.count_total),
            ("allocations: bytes", allocated.bytes_total),
            ("links: writes", after.writes - before.writes),
            ("links: reads", after.reads - before.reads),
            ("links: bytes", after.bytes - before.bytes),
        ] {
            tally.insert(what.to_owned(), count);
        }
        tally
    })
}
