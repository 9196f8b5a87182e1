//! The suite of all oracles, over registries: whoever holds a name, and whoever leads a registry. Each member is a node,
//! with its driver, links and a store in memory, under a paused clock.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use callsign_election::{
    Fence, Oracle,
    conformance::{Authority, Player, Promise, Withheld},
    election_rows,
};
use callsign_elector::record;
use callsign_store::{
    Clock, Read, SharedStore, Store,
    ids::{ElectionName, Incarnation, MemberId},
    memory::MemoryStore,
    record::Record,
};
use callsign_transport::{MemoryNetwork, Network};

use super::{ChecksFence, MonitorSettings, Monitored, QueueOracle, RegistryOracle};
use crate::{Config, JoinError, Registry};

const TEST_DEADLINE: Duration = Duration::from_secs(60);

/// Which oracle, and which cluster its nodes are in.
trait Kind: Send + Sync + 'static {
    type Oracle: Oracle<Fence = Fence>;
    /// Whether a member is cut off from other nodes, too, or from the store only.
    const CUTS_LINKS: bool;

    fn cluster(election: &ElectionName) -> String;
    fn oracle(registry: &Registry, election: &ElectionName) -> Self::Oracle;
    fn withholds() -> Vec<(Promise, &'static str)>;
}

/// Whoever holds a name. All elections are names of one registry, and a node takes part in many.
struct ByName;

const BALLOT_IS_EPOCH: &str =
    "a refresh writes nothing: the ballot is the position of the registration in the log";
const LOG_IS_SHARED: &str = "all names are in one log; who holds one is in every denial, with its token";

impl Kind for ByName {
    type Oracle = RegistryOracle;
    const CUTS_LINKS: bool = true;

    fn cluster(_: &ElectionName) -> String {
        "names".into()
    }

    fn oracle(registry: &Registry, election: &ElectionName) -> RegistryOracle {
        RegistryOracle::new(registry, election.as_str()).unwrap()
    }

    fn withholds() -> Vec<(Promise, &'static str)> {
        vec![
            (Promise::BallotPerRefresh, BALLOT_IS_EPOCH),
            (
                Promise::Expires,
                "a session that nobody has closed goes on, with its names: nobody had them meanwhile",
            ),
            (Promise::Record, LOG_IS_SHARED),
        ]
    }
}

/// The same, watched: a follower of a leader that is gone claims at once.
struct ByWatchedName;

impl Kind for ByWatchedName {
    type Oracle = Monitored<RegistryOracle>;
    const CUTS_LINKS: bool = true;

    fn cluster(election: &ElectionName) -> String {
        ByName::cluster(election)
    }

    fn oracle(registry: &Registry, election: &ElectionName) -> Self::Oracle {
        let settings = MonitorSettings::default();
        Monitored::new(ByName::oracle(registry, election), registry, election.as_str(), settings).unwrap()
    }

    fn withholds() -> Vec<(Promise, &'static str)> {
        ByName::withholds()
    }
}

/// Whoever leads a registry: each election is a cluster of its own.
struct BySeat;

/// A sink that checks the fence, by promise.
struct FencedLedger;
impl ChecksFence for FencedLedger {}

impl Kind for BySeat {
    type Oracle = QueueOracle;
    /// A leader that others do not hear is deposed at once, for its silence: that is how this election goes.
    const CUTS_LINKS: bool = false;

    fn cluster(election: &ElectionName) -> String {
        election.to_string()
    }

    fn oracle(registry: &Registry, _: &ElectionName) -> QueueOracle {
        QueueOracle::new(registry, &FencedLedger)
    }

    fn withholds() -> Vec<(Promise, &'static str)> {
        vec![
            (Promise::FirstCome, "the registry elects its leader by itself, and a claim only looks"),
            (Promise::EndsByTime, "no clock ends a term: it is for sinks that check the fence, see c15"),
            (Promise::Expires, "no clock ends a term"),
            (Promise::BallotPerRefresh, "a refresh only looks"),
            (
                Promise::Namesakes,
                "campaigns of one node follow one seat, in one term; a second node of its name does not join, see \
                 two_nodes_of_one_name_are_refused_and_the_first_stays",
            ),
        ]
    }
}

/// A node, and its ways to the others.
#[derive(Clone)]
struct Site {
    registry: Registry,
    line: MemoryStore,
    address: SocketAddr,
    is_cut: bool,
}

/// Nodes by cluster and name, the last process of each name last.
type Sites = BTreeMap<(String, MemberId), Vec<Site>>;

struct Nodes<K> {
    store: MemoryStore,
    network: MemoryNetwork,
    clock: Clock,
    sites: Mutex<Sites>,
    port: AtomicU16,
    kind: PhantomData<K>,
}

impl<K: Kind> Nodes<K> {
    fn new() -> Self {
        let store = MemoryStore::new();
        // So that a node that is cut off is gone by the end of its lease only.
        store.stop_proving_deaths();
        Self {
            store,
            network: MemoryNetwork::new(),
            clock: Clock::runtime(),
            sites: Mutex::default(),
            port: AtomicU16::new(7000),
            kind: PhantomData,
        }
    }

    /// The node, if it is there.
    fn site(&self, cluster: &str, member: &MemberId) -> Option<Site> {
        let sites = self.sites.lock().unwrap();
        sites.get(&(cluster.to_owned(), member.clone())).and_then(|processes| processes.last()).cloned()
    }

    /// Starts a process of the node, and waits until it serves.
    async fn join(&self, cluster: &str, member: &MemberId) -> Registry {
        let port = self.port.fetch_add(1, Ordering::SeqCst);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let line = self.store.connect(&format!("{member}:{port}"));
        for cut in self.sites.lock().unwrap().values().flatten().filter(|site| site.is_cut) {
            self.network.cut(address, cut.address);
        }
        let config = || {
            let store: SharedStore = Arc::new(line.clone());
            Config::new(member.as_str(), store)
                .cluster(cluster)
                .listen(address)
                .network(Network::Memory(self.network.clone()))
                .clock(self.clock.clone())
        };
        let registry = loop {
            match Registry::join(config()).await {
                Ok(registry) => break registry,
                Err(JoinError::FormerOpen { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert!(registry.ready(TEST_DEADLINE).await.is_ok(), "{member} is ready: {:?}", registry.status());
        let site = Site { registry: registry.clone(), line, address, is_cut: false };
        self.sites.lock().unwrap().entry((cluster.to_owned(), member.clone())).or_default().push(site);
        registry
    }

    fn player(
        registry: &Registry,
        election: &ElectionName,
        member: &MemberId,
    ) -> Player<<K as Kind>::Oracle> {
        let incarnation = Incarnation(registry.incarnation());
        Player::with_incarnation(K::oracle(registry, election), election, member, incarnation)
    }

    /// Cuts off all processes of a node, or no longer.
    fn set_cut(&self, cluster: &str, member: &MemberId, is_cut: bool, links: bool) {
        let key = (cluster.to_owned(), member.clone());
        let mut sites = self.sites.lock().unwrap();
        let others: Vec<_> = sites
            .iter()
            .filter(|(other, _)| **other != key)
            .flat_map(|(_, processes)| processes)
            .filter(|site| !site.is_cut)
            .map(|site| site.address)
            .collect();
        for site in sites.get_mut(&key).into_iter().flatten() {
            site.is_cut = is_cut && links;
            if is_cut {
                site.line.outage();
            } else {
                site.line.heal();
            }
            for other in others.iter().filter(|_| links) {
                if is_cut {
                    self.network.cut(site.address, *other);
                } else {
                    self.network.heal(site.address, *other);
                }
            }
        }
    }
}

impl<K: Kind> Authority for Nodes<K> {
    type Oracle = K::Oracle;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<K::Oracle> {
        let cluster = K::cluster(election);
        let registry = match self.site(&cluster, member) {
            Some(site) => site.registry,
            None => self.join(&cluster, member).await,
        };
        Self::player(&registry, election, member)
    }

    async fn restart(&self, election: &ElectionName, member: &MemberId) -> Player<K::Oracle> {
        // It goes on where nothing of it reaches anybody, for ever.
        let cluster = K::cluster(election);
        self.set_cut(&cluster, member, true, true);
        let registry = self.join(&cluster, member).await;
        Self::player(&registry, election, member)
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The lease of a session, once more for whoever watches it, and an election.
    fn takeover(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn cut(&self, election: &ElectionName, member: &MemberId) {
        self.set_cut(&K::cluster(election), member, true, K::CUTS_LINKS);
    }

    async fn heal(&self, election: &ElectionName, member: &MemberId) {
        self.set_cut(&K::cluster(election), member, false, K::CUTS_LINKS);
    }

    fn crowd(&self) -> usize {
        5 // nodes, each linked to each
    }

    async fn stored(&self, election: &ElectionName) -> Option<Vec<u8>> {
        if K::withholds().iter().any(|(promise, _)| *promise == Promise::Record) {
            return None;
        }
        let cluster = K::cluster(election);
        let key = {
            let sites = self.sites.lock().unwrap();
            let (_, processes) = sites.iter().find(|((of, _), _)| *of == cluster)?;
            processes.first()?.registry.shared.keys.term()
        };
        let read = self.store.connect("looks").read(vec![Read::Key(key)]).await.unwrap();
        let term = record::Term::from_value(read.value(0)?).unwrap();
        Some(format!("{:?} {:?}", term.leader, term.epoch).into_bytes())
    }

    fn withholds(&self) -> Vec<Withheld> {
        K::withholds().into_iter().map(|(promise, because)| Withheld { promise, because }).collect()
    }
}

mod by_name {
    use super::*;
    election_rows!((start_paused = true) { Some(Nodes::<ByName>::new()) });
}

mod by_name_and_watched {
    use super::*;
    election_rows!((start_paused = true) { Some(Nodes::<ByWatchedName>::new()) });
}

mod by_seat {
    use super::*;
    election_rows!((start_paused = true) { Some(Nodes::<BySeat>::new()) });
}
