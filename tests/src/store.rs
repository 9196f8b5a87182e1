//! The store that the clusters of the tests are over: what `CALLSIGN_TEST_STORE` says.
//!
//! Unset or `sqlite`: a fresh file for each cluster. `postgres`: a private server for each cluster, where Postgres is
//! installed; `postgres-ha`: a primary and its synchronous standby. `etcd`: three private servers for each cluster, where etcd is installed. Anything else is the URL of a store that is there already; each cluster has a name of its own in it.

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use callsign_store::testing::postgres::{Pair, Server};

use crate::{
    etcd::EtcdServers,
    wait::{TEST_DEADLINE, eventually},
};

#[allow(dead_code, clippy::unwrap_used)] // the store's own tests do more with it
/// Says over which store the tests run.
const STORE: &str = "CALLSIGN_TEST_STORE";
/// A store for one cluster.
pub struct TestStore {
    /// Where it is.
    pub url: String,
    /// The cluster's name in it.
    pub cluster: String,
    server: Option<PostgresServer>,
    pair: Option<Pair>,
    etcd: Option<EtcdServers>,
}

impl TestStore {
    /// What the environment says. Files are in `directory`.
    pub fn new(directory: &Path) -> Self {
        match std::env::var(STORE).as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::file(directory),
            Ok("postgres") => {
                let server = PostgresServer::start();
                let server =
                    server.unwrap_or_else(|| panic!("{STORE}=postgres, and Postgres is not installed"));
                let url = server.url();
                Self { server: Some(server), ..Self::plain(url) }
            }
            Ok("postgres-ha") => Self::postgres_pair()
                .unwrap_or_else(|| panic!("{STORE}=postgres-ha, and Postgres is not installed")),
            Ok("etcd") => Self::etcd().unwrap_or_else(|| panic!("{STORE}=etcd, and etcd is not installed")),
            Ok(url) => Self::at(url),
        }
    }

    /// A store that is there already, for a cluster with a name of its own in it.
    pub fn at(url: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let cluster = format!("test-{}-{count}-{:08x}", std::process::id(), nanos());
        Self { cluster, ..Self::plain(url.to_owned()) }
    }

    /// The same store and cluster, for others than those whose server it is.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { cluster: self.cluster.clone(), ..Self::plain(self.url.clone()) }
    }

    /// A file in a directory, whatever the environment says.
    pub fn file(directory: &Path) -> Self {
        Self::plain(format!("sqlite:{}", directory.join("store.db").display()))
    }

    fn plain(url: String) -> Self {
        Self { url, cluster: "default".to_owned(), server: None, pair: None, etcd: None }
    }

    /// A private Postgres server, whatever the environment says. `None`, with a line that says so, where it is not installed.
    pub fn postgres() -> Option<Self> {
        let server = PostgresServer::start()?;
        let url = server.url();
        Some(Self { server: Some(server), ..Self::plain(url) })
    }

    /// The same, with all that the server has below a directory.
    pub fn postgres_in(directory: &Path) -> Option<Self> {
        let server = PostgresServer(Server::start_in(directory, "")?, None);
        let url = server.url();
        Some(Self { server: Some(server), ..Self::plain(url) })
    }

    /// A private primary and its synchronous standby, whatever the environment says. `None`, with a line that says so, where Postgres is
    /// not installed.
    pub fn postgres_pair() -> Option<Self> {
        let pair = Pair::start()?;
        let url = pair.url(0, "postgres");
        Some(Self { pair: Some(pair), ..Self::plain(url) })
    }

    /// Three private etcd servers, whatever the environment says. `None`, with a line that says so, where it is not installed.
    pub fn etcd() -> Option<Self> {
        let etcd = EtcdServers::start()?;
        let url = etcd.url();
        Some(Self { etcd: Some(etcd), ..Self::plain(url) })
    }

    /// Whether it has a private server.
    pub fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// The private etcd servers, if it has some.
    pub fn etcd_servers(&mut self) -> Option<&mut EtcdServers> {
        self.etcd.as_mut()
    }

    /// The private primary and its standby, if it has them.
    pub fn pair(&mut self) -> Option<&mut Pair> {
        self.pair.as_mut()
    }

    /// Whether it has a private primary and its standby.
    pub fn has_pair(&self) -> bool {
        self.pair.is_some()
    }

    /// Whether it has private etcd servers.
    pub fn has_etcd(&self) -> bool {
        self.etcd.is_some()
    }

    /// The private server, if it has one.
    pub fn server(&mut self) -> Option<&mut PostgresServer> {
        self.server.as_mut()
    }
}

/// Tells apart runs whose process ids are equal.
fn nanos() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.subsec_nanos())
}

impl std::fmt::Debug for TestStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestStore")
            .field("url", &self.url)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A private Postgres server, gone when it is dropped, with a standby if it was given one.
pub struct PostgresServer(Server, Option<Server>);

impl PostgresServer {
    /// `None`, and a line that says so, where Postgres is not installed.
    pub fn start() -> Option<Self> {
        Server::start().map(|server| Self(server, None))
    }

    /// Its database, for its owner.
    pub fn url(&self) -> String {
        self.0.url("postgres")
    }

    /// Its database, for another role.
    pub fn url_as(&self, user: &str) -> String {
        self.0.url_as(user, "postgres")
    }

    /// Stops it: connections are closed, and nobody listens.
    pub fn stop(&mut self) {
        self.0.stop();
    }

    /// Starts it again so that it asks roles for their passwords, but its owner.
    pub fn demand_passwords(&mut self) {
        self.0.stop();
        self.0.write("data/pg_hba.conf", "local all postgres trust\nlocal all all scram-sha-256\n");
        self.0.resume();
    }

    /// Starts it again as the standby of nobody: it takes no writes.
    pub fn stand_by(&mut self) {
        self.0.stop();
        self.0.write("data/standby.signal", "");
        self.0.resume();
    }

    /// Stops it, keeps a copy of its data, and starts it again.
    pub fn save(&mut self) {
        self.0.stop();
        self.0.copy("data", "saved");
        self.0.resume();
    }

    /// Stops it and starts it again on the data that were kept: as a replica does that is promoted and was behind.
    pub fn put_back(&mut self) {
        self.0.stop();
        self.0.replace("data", "saved");
        self.0.resume();
    }

    /// Starts it again if it has ended by itself, and says whether it had.
    pub fn revive(&mut self) -> bool {
        let ended = !self.0.listens();
        if ended {
            // What is left of it.
            self.0.crash();
            self.0.resume();
        }
        ended
    }

    /// Starts it again, on the same data.
    pub fn resume(&mut self) {
        self.0.resume();
    }

    /// Gives it a standby that streams from it, asynchronously.
    pub fn replicate(&mut self) {
        self.1 = Some(self.0.standby());
    }

    /// Cuts its standby off: that has everything which was committed before, and gets nothing more.
    pub fn cut_standby_off(&self) {
        let standby = self.1.as_ref().expect("it has a standby");
        let end = self.0.ask("SELECT pg_current_wal_lsn()");
        let has_all = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        wait_for(standby, "the standby has all", &has_all);
        standby.ask("ALTER SYSTEM RESET primary_conninfo");
        standby.ask("SELECT pg_reload_conf()");
        wait_for(standby, "nothing streams", "SELECT count(*) = 0 FROM pg_stat_wal_receiver");
    }

    /// Kills it (SIGKILL), promotes its standby, and has that one take its place. Says which of these texts are in what the
    /// standby has.
    pub fn fail_over(&mut self, texts: &[&'static str]) -> Vec<&'static str> {
        let standby = self.1.as_ref().expect("it has a standby");
        self.0.kill();
        assert_eq!(standby.ask("SELECT pg_promote()"), "t", "it is promoted");
        let is_there = |text: &str| {
            let look =
                format!("SELECT count(*) > 0 FROM callsign.kv WHERE position('{text}'::bytea in value) > 0");
            standby.ask(&look) == "t"
        };
        let there = texts.iter().copied().filter(|text| is_there(text)).collect();
        standby.take_over_from(&self.0);
        there
    }
}

/// Waits until a statement is answered by "true".
fn wait_for(server: &Server, what: &str, statement: &str) {
    eventually(what, TEST_DEADLINE, || match server.ask(statement).as_str() {
        "t" => Ok(()),
        answer => Err(answer.to_owned()),
    });
}
