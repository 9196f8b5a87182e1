//! How a node is set up.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use callsign_elector::{elector::ElectorTiming, session::SessionTiming};
use callsign_store::{Clock, Entropy, SharedStore, supervision::Turns};
use callsign_transport::{Keys, LinkLimits, LinkTiming, Network, Secret, Tls};

use crate::core::{caller::OnOutage, tuning::Tuning};

/// How long [`Registry::join`](crate::Registry::join) waits for the store, unless it is [told](Config::join_timeout).
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Where the cluster keeps what it agrees on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreSource {
    /// A URL: `sqlite:PATH`, `postgres://USER@HOST/DATABASE` (feature `postgres`), `etcd://HOST/PREFIX` (feature `etcd`),
    /// `fdb:CLUSTER_FILE` (feature `fdb`), or `memory:` for a store of this node alone.
    Url(String),
    /// A store that is open already.
    Open(SharedStore),
}

impl From<&str> for StoreSource {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for StoreSource {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

impl From<SharedStore> for StoreSource {
    fn from(store: SharedStore) -> Self {
        Self::Open(store)
    }
}

/// What a node is started with. `node` and `store` are all that is needed on one machine.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) store: StoreSource,
    pub(crate) node: String,
    pub(crate) cluster: String,
    pub(crate) registry: String,
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<String>,
    pub(crate) admin: Option<String>,
    pub(crate) ordered: bool,
    pub(crate) keys: Keys,
    pub(crate) priority: u32,
    pub(crate) request_timeout: Duration,
    pub(crate) join_timeout: Option<Duration>,
    pub(crate) drain_timeout: Duration,
    pub(crate) on_outage: OnOutage,
    pub(crate) session: SessionTiming,
    pub(crate) elector: ElectorTiming,
    pub(crate) link: LinkTiming,
    pub(crate) limits: LinkLimits,
    pub(crate) snapshot_chunk: usize,
    pub(crate) observers: usize,
    pub(crate) watch_room: usize,
    pub(crate) watch_memory: usize,
    pub(crate) network: Network,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) turns: Option<Arc<dyn Turns>>,
    pub(crate) record: Option<PathBuf>,
}

impl Config {
    /// A node with this name, over this store. Everything else has a default.
    ///
    /// The name is 1 to 100 of `A-Z a-z 0-9 . _ -`, and stable: a node that is started again under its name takes
    /// the place of its former self. Two that are alive at once are refused.
    pub fn new(node: impl Into<String>, store: impl Into<StoreSource>) -> Self {
        Self {
            store: store.into(),
            node: node.into(),
            cluster: "default".into(),
            registry: "default".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            admin: None,
            ordered: false,
            keys: Keys::default(),
            priority: 1,
            request_timeout: Duration::from_secs(5),
            join_timeout: None,
            drain_timeout: Duration::from_secs(5),
            on_outage: OnOutage::Wait,
            session: SessionTiming::default(),
            elector: ElectorTiming::default(),
            link: LinkTiming::default(),
            limits: LinkLimits::default(),
            snapshot_chunk: Tuning::default().chunk_names,
            observers: Tuning::default().observers,
            watch_room: 1024,
            watch_memory: Tuning::default().watch_bytes,
            network: Network::Tcp,
            clock: Clock::boot(),
            entropy: Entropy::system(),
            turns: None,
            record: None,
        }
    }

    /// The cluster. Nodes of different clusters refuse each other and share no key. Default `default`.
    #[must_use]
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// The registry to join. Default `default`; more with [`Registry::join_beside`](crate::Registry::join_beside).
    #[must_use]
    pub fn registry(mut self, registry: impl Into<String>) -> Self {
        self.registry = registry.into();
        self
    }

    /// Where to listen for links. Default `127.0.0.1:0`, a free port. Anything but a loopback address needs a secret or
    /// certificates.
    #[must_use]
    pub fn listen(mut self, listen: SocketAddr) -> Self {
        self.listen = listen;
        self
    }

    /// Where the other nodes reach this one, `host:port`. Default: where it listens. Wrong: no links.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Where whoever administers this node can ask it, such as an HTTP endpoint of the application's. All members see it
    /// ([`MemberInfo::admin`](crate::MemberInfo)), and Callsign does nothing else with it. Default: none.
    #[must_use]
    pub fn admin_address(mut self, address: impl Into<String>) -> Self {
        self.admin = Some(address.into());
        self
    }

    /// The cluster's secret: links are encrypted, and peers without it refused. Default: none, and then, without
    /// [`tls`](Self::tls), loopback only.
    #[must_use]
    pub fn secret(self, secret: Secret) -> Self {
        self.secrets(vec![secret])
    }

    /// Several secrets that are valid at once, at most [`MAX_SECRETS`](crate::MAX_SECRETS): the first is shown to others, each
    /// is accepted from them. While a node runs, [`Registry::set_keys`](crate::Registry::set_keys) changes them.
    #[must_use]
    pub fn secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.keys.secrets = secrets;
        self
    }

    /// This node's certificate, for `callsign://CLUSTER/NODE`, and the authorities whose certificates it believes: links are
    /// encrypted by TLS, and peers are the nodes that their certificates name, or refused. With a secret too, both are
    /// asked for. All nodes of a cluster have the same of the two. Default: none.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.keys.tls = Some(tls);
        self
    }

    /// 0: this node never leads. Default 1.
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// How long a call waits for its verdict. Shorter: a failover ends calls as unknown. Longer: callers wait for a
    /// leader that does not come. Default 5 s.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long [`Registry::join`](crate::Registry::join) waits for the store and the node's session at most, whatever is in its way.
    /// Shorter than the lease that its former self had: a node that is started again after it died without proof is
    /// refused. Default: 15 s for the store, and for a former self that is silent as long as its own lease asks. A name
    /// that another process holds, and lives, is refused at once.
    #[must_use]
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = Some(timeout);
        self
    }

    /// Keeps the names in their order, too, beside the map by which they are found. A [`select`](crate::Registry::select) then looks at the
    /// names of its prefix only, from `after` on, and stops when a page is full. It costs memory for each name, and time for each
    /// change: `docs/figures.md` has both. Default: no; a select looks at all names.
    #[must_use]
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// How long a node that is to leave waits for another to serve in its place, and for what was asked of it to be decided.
    /// Shorter: a seat that passes to somebody slow is found vacant. Longer: what a store that is out of reach costs whoever
    /// waits for the node to be gone. See [`Registry::drain`](crate::Registry::drain). Default 5 s.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// What calls that write do while the store takes no commits: wait, for at most their
    /// [`request_timeout`](Self::request_timeout), or fail at once with `StoreUnavailable`. What was sent before that was
    /// noticed, some seconds into the outage at most, ends as unknown in either case. Default: they wait.
    #[must_use]
    pub fn on_outage(mut self, on_outage: OnOutage) -> Self {
        self.on_outage = on_outage;
        self
    }

    /// How the session is kept. See [`SessionTiming`].
    #[must_use]
    pub fn session_timing(mut self, timing: SessionTiming) -> Self {
        self.session = timing;
        self
    }

    /// How members and leader are found out about. See [`ElectorTiming`].
    #[must_use]
    pub fn elector_timing(mut self, timing: ElectorTiming) -> Self {
        self.elector = timing;
        self
    }

    /// Deadlines of links. See [`LinkTiming`].
    #[must_use]
    pub fn link_timing(mut self, timing: LinkTiming) -> Self {
        self.link = timing;
        self
    }

    /// Bounds of links. See [`LinkLimits`].
    #[must_use]
    pub fn link_limits(mut self, limits: LinkLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How many names a chunk of a snapshot has at most, when a member that joins is sent the table. Default 1024. Fewer: it takes
    /// more round trips, so that simulations get to what happens between two of them with few names.
    #[must_use]
    pub fn snapshot_chunk(mut self, names: usize) -> Self {
        self.snapshot_chunk = names.max(1);
        self
    }

    /// How many members this node has observe the sessions of all while it leads, beside itself. Default 3. The others read little of the
    /// store while they hear the leader. Fewer: if they die with the leader, the others find it later. More: each reads as much as there are
    /// members.
    #[must_use]
    pub fn observers(mut self, members: usize) -> Self {
        self.observers = members;
        self
    }

    /// How many events of a [`Watch`](crate::Watch) wait for its reader at most, beside what the node remembers. Default 1024, at least 2.
    /// More: a reader that sleeps holds more memory.
    #[must_use]
    pub fn watch_room(mut self, events: usize) -> Self {
        self.watch_room = events.max(2);
        self
    }

    /// How many bytes of changes each registry of the node remembers while somebody watches, for readers that are slow or come back. Default
    /// 4 MiB. Fewer: a reader is told earlier that it was too slow ([`WatchEvent::Lagged`](crate::WatchEvent::Lagged)), or gets everything
    /// anew ([`WatchEvent::Reset`](crate::WatchEvent::Reset)). As much again, and 256 KiB at most, is for the names that one
    /// reader has missed.
    #[must_use]
    pub fn watch_memory(mut self, bytes: usize) -> Self {
        self.watch_memory = bytes;
        self
    }

    /// The network: TCP, or one in memory for several nodes in one process. Default TCP.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// The sessions of the application's own `NodeServer` carry the links (feature `node-server`). All nodes of a cluster
    /// do so, or none. Replaces [`Config::network`]. See [`NodeServerNetwork`](crate::NodeServerNetwork) for how the
    /// `NodeServer` must be set up.
    #[cfg(feature = "node-server")]
    #[must_use]
    pub fn node_server(mut self, server: impl Into<crate::NodeServerNetwork>) -> Self {
        self.network = Network::NodeServer(server.into());
        self
    }

    /// The clock. Default: the machine's boot-time clock. [`Clock::runtime`] for tests under paused time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where the node draws its incarnation, nonces, the seeds of its jitter and the keys of its handshakes. Default: the
    /// operating system's. [`Entropy::seeded`] for simulations only: whoever knows the seed knows all of it.
    ///
    /// Two things are drawn from the operating system nevertheless: the keys of handshakes with certificates, which the library for TLS
    /// makes itself, and the pauses and nonces of connections to Postgres, whose server is not the same twice.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// When the parts of the node may run: for simulations, in which parts starve and nodes die at any await. Default: always.
    #[must_use]
    pub fn turns(mut self, turns: Arc<dyn Turns>) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Where to record what the node's session, electors and members are told and do, for `callsign-sim
    /// check-recordings`: one file each, `NODE-INCARNATION-session.rec` and so on. They grow without a bound, and hold
    /// every name that passes. Recording never fails the node. Default: nothing is recorded.
    #[must_use]
    pub fn record(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }
}
