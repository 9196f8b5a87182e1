//! Stores to run on, and clocks that stand still unless a test moves them.

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use callsign_store::{
    Clock, Read, SharedStore,
    ids::{ClusterName, ElectionName, MemberId},
    keys::ClusterKeys,
    memory::MemoryStore,
    sqlite::SqliteStore,
};

use crate::{
    ElectionConfig,
    driver::{
        conformance::{Authority, Player},
        lease::{Election, LeaseOptions, LeaseOracle},
    },
    tests::{clock::SetClock, stores::Faulty},
};

pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// A store, and clocks that the test moves.
pub(crate) struct Stores {
    connect: Arc<dyn Fn() -> SharedStore + Send + Sync>,
    clocks: Mutex<Vec<SetClock>>,
    /// The connections of members that can be cut off.
    lines: Mutex<Vec<(ElectionName, MemberId, Faulty)>>,
    pub(crate) config: ElectionConfig,
    /// What has to live as long.
    kept: Arc<dyn Any + Send + Sync>,
}

impl Stores {
    fn new(connect: impl Fn() -> SharedStore + Send + Sync + 'static, kept: impl Any + Send + Sync) -> Self {
        let config = ElectionConfig { candidate_timeout: LEASE, ..ElectionConfig::default() };
        Self {
            connect: Arc::new(connect),
            clocks: Mutex::default(),
            lines: Mutex::default(),
            config,
            kept: Arc::new(kept),
        }
    }

    #[allow(clippy::unnecessary_wraps)] // as the others
    pub(crate) fn memory() -> Option<Self> {
        let store = MemoryStore::new();
        let count = AtomicU64::new(0);
        let connect =
            move || Arc::new(store.connect(&count.fetch_add(1, Ordering::SeqCst).to_string())) as SharedStore;
        Some(Self::new(connect, ()))
    }

    /// One file that several have open.
    #[allow(clippy::unnecessary_wraps)] // as the others
    pub(crate) fn sqlite() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("callsign.db");
        let options = callsign_store::sqlite::SqliteOptions {
            synchronous: callsign_store::sqlite::Synchronous::Normal,
            ..Default::default()
        };
        let stores: Vec<_> = (0..2).map(|_| SqliteStore::open(&path, options).unwrap()).collect();
        Some(Self::new(in_turn(stores), directory))
    }

    /// A server that all tests that run at one time share.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres() -> Option<Self> {
        use callsign_store::{postgres::PostgresStore, testing::postgres::Server};

        static SHARED: Mutex<std::sync::Weak<Server>> = Mutex::new(std::sync::Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let server = if let Some(server) = shared.upgrade() { server } else { Arc::new(Server::start()?) };
        *shared = Arc::downgrade(&server);
        let stores: Vec<_> = (0..2).map(|_| PostgresStore::open(&server.url("postgres")).unwrap()).collect();
        Some(Self::new(in_turn(stores), server))
    }

    /// A cluster that all tests that run at one time share.
    #[cfg(feature = "etcd")]
    pub(crate) fn etcd() -> Option<Self> {
        use callsign_store::{etcd::EtcdStore, testing::etcd::Cluster};

        static SHARED: Mutex<std::sync::Weak<Cluster>> = Mutex::new(std::sync::Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let cluster =
            if let Some(cluster) = shared.upgrade() { cluster } else { Arc::new(Cluster::start()?) };
        *shared = Arc::downgrade(&cluster);
        let stores: Vec<_> = (0..2).map(|_| EtcdStore::open(&cluster.url("test")).unwrap()).collect();
        Some(Self::new(in_turn(stores), cluster))
    }

    /// The cluster that the environment's `FDB_CLUSTER_FILE` names.
    #[cfg(feature = "any-fdb")]
    pub(crate) fn foundationdb() -> Option<Self> {
        let Ok(path) = std::env::var("FDB_CLUSTER_FILE") else {
            println!("skipped: elections on FoundationDB: FDB_CLUSTER_FILE is not set");
            return None;
        };
        let store = callsign_store::fdb::FdbStore::open(&format!("fdb:{path}")).unwrap();
        Some(Self::new(in_turn(vec![store]), ()))
    }

    pub(crate) fn with(self, config: ElectionConfig) -> Self {
        Self { config, ..self }
    }

    /// The same store, configured otherwise, with clocks of its own.
    pub(crate) fn also(&self, config: ElectionConfig) -> Self {
        let (connect, kept) = (self.connect.clone(), self.kept.clone());
        Self { connect, clocks: Mutex::default(), lines: Mutex::default(), config, kept }
    }

    /// A connection.
    pub(crate) fn store(&self) -> SharedStore {
        (self.connect)()
    }

    /// A clock of its own, some days from all others.
    pub(crate) fn clock(&self) -> Clock {
        self.clock_at(Duration::from_secs(rand::random_range(1..3 * 24 * 3600)))
    }

    /// A clock of its own that shows this now.
    pub(crate) fn clock_at(&self, time: Duration) -> Clock {
        let clock = SetClock::at(time);
        self.clocks.lock().unwrap().push(clock.clone());
        clock.clock()
    }

    /// Moves all clocks.
    pub(crate) fn pass(&self, time: Duration) {
        self.clocks.lock().unwrap().iter().for_each(|clock| clock.pass(time));
    }

    pub(crate) fn options(&self) -> LeaseOptions {
        LeaseOptions { config: Some(self.config.clone()), clock: self.clock(), ..LeaseOptions::default() }
    }

    pub(crate) fn oracle_with(&self, options: LeaseOptions) -> LeaseOracle {
        LeaseOracle::new(self.store(), &cluster(), options)
    }

    pub(crate) fn admin(&self, election: &ElectionName) -> Election {
        Election::new(self.store(), &cluster(), election, self.clock())
    }

    /// All rows of an election.
    pub(crate) async fn rows(&self, election: &ElectionName) -> Vec<(Vec<u8>, Vec<u8>)> {
        let range = ClusterKeys::new(&cluster()).election(election).all();
        loop {
            // Busy with others is not broken.
            if let Ok(read) =
                self.store().read(vec![Read::Range { range: range.clone(), limit: 10_000 }]).await
            {
                return read.entries(0).to_vec();
            }
        }
    }
}

fn in_turn<S: callsign_store::Store + Clone>(
    stores: Vec<S>,
) -> impl Fn() -> SharedStore + Send + Sync + 'static {
    let count = AtomicU64::new(0);
    move || {
        let turn = usize::try_from(count.fetch_add(1, Ordering::SeqCst)).unwrap();
        Arc::new(stores[turn % stores.len()].clone()) as SharedStore
    }
}

pub(crate) fn cluster() -> ClusterName {
    ClusterName::new("rows").unwrap()
}

impl Stores {
    /// A connection of a member, that can be cut off.
    pub(crate) fn line(&self, election: &ElectionName, member: &MemberId) -> SharedStore {
        let line = Faulty::over(&self.store());
        self.lines.lock().unwrap().push((election.clone(), member.clone(), line.clone()));
        line.shared()
    }

    pub(crate) fn set_cut(&self, election: &ElectionName, member: &MemberId, is_cut: bool) {
        for (of, who, line) in &*self.lines.lock().unwrap() {
            if (of, who) == (election, member) {
                line.set_down(is_cut);
            }
        }
    }
}

impl Authority for Stores {
    type Oracle = LeaseOracle;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<LeaseOracle> {
        let oracle = LeaseOracle::new(self.line(election, member), &cluster(), self.options());
        Player::new(oracle, election, member)
    }

    async fn pass(&self, time: Duration) {
        Stores::pass(self, time);
    }

    async fn cut(&self, election: &ElectionName, member: &MemberId) {
        self.set_cut(election, member, true);
    }

    async fn heal(&self, election: &ElectionName, member: &MemberId) {
        self.set_cut(election, member, false);
    }

    async fn stored(&self, election: &ElectionName) -> Option<Vec<u8>> {
        // Heartbeats are not part of what is decided.
        let seat = ClusterKeys::new(&cluster()).election(election).seat();
        let rows = self.rows(election).await;
        rows.into_iter().find(|(key, _)| *key == seat).map(|(_, value)| value)
    }
}
