//! A primary and its synchronous standby, for failovers: the primary ends or is cut off, the standby is promoted, and the old primary comes
//! back, as it should or as a second primary.

use std::time::{Duration, Instant};

use super::{START_DEADLINE, Server};

/// Old primaries are rewound, standbys that were away find what they missed, and nothing that is asked of one is cancelled for what it
/// replays.
const SETTINGS: &str = "wal_log_hints = on\nwal_keep_size = 512MB\nmax_standby_streaming_delay = -1\n";

/// A primary and its standby. Each server has a number, which it keeps whatever it is.
pub struct Pair {
    servers: [Server; 2],
    primary: usize,
}

impl Pair {
    /// `None`, and a line that says so, where Postgres is not installed. The server 0 is the primary.
    pub fn start() -> Option<Self> {
        let first = Server::start_with(SETTINGS)?;
        let second = first.standby();
        let pair = Self { servers: [first, second], primary: 0 };
        pair.wait_for_standby();
        Some(pair)
    }

    /// Which server is the primary: the one that was promoted last.
    pub fn primary(&self) -> usize {
        self.primary
    }

    /// The server that is not the primary.
    pub fn other(&self) -> usize {
        1 - self.primary
    }

    /// The server that is not the primary, for what is asked of it meanwhile.
    pub fn old(&self) -> &Server {
        &self.servers[self.other()]
    }

    /// One of them.
    pub fn server(&mut self, nth: usize) -> &mut Server {
        &mut self.servers[nth]
    }

    /// The URL of a database with both as hosts, this one first.
    pub fn url(&self, first: usize, database: &str) -> String {
        let hosts = [first, 1 - first].map(|nth| self.servers[nth].host());
        format!("postgres://postgres@{}/{database}", hosts.join(","))
    }

    /// From now on the primary answers no commit before its standby has it.
    fn wait_for_standby(&self) {
        let primary = &self.servers[self.primary];
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.ask("SELECT pg_reload_conf()");
        let follows = "SELECT current_setting('synchronous_standby_names') = '*' AND count(*) = 1
            FROM pg_stat_replication WHERE sync_state = 'sync'";
        until("the standby does not follow", || primary.ask(follows) == "t");
        // One process tells the others whether to wait, and it takes its new settings before it makes a checkpoint.
        primary.ask("CHECKPOINT");
    }

    /// Makes the standby a primary, whatever the old one does. Nothing streams to it, so it waits for nobody.
    pub fn promote(&mut self) {
        let standby = self.other();
        let server = &self.servers[standby];
        server.ask("ALTER SYSTEM RESET synchronous_standby_names");
        server.ask("SELECT pg_reload_conf()");
        server.ask("SELECT pg_promote(false)");
        until("it is not promoted", || server.ask("SELECT pg_is_in_recovery()") == "f");
        self.primary = standby;
    }

    /// What has been committed to the old primary and waits for no standby, as text that differs after each commit of a store.
    pub fn old_rows(&self) -> String {
        self.old().ask(
            "SELECT s.version, s.nonce, count(k.*), sum(k.version)
            FROM callsign.store s, callsign.kv k GROUP BY s.version, s.nonce",
        )
    }

    /// From now on the old primary answers commits without a standby, also those that wait.
    pub fn old_waits_for_nobody(&self) {
        let old = self.old();
        old.ask("ALTER SYSTEM SET synchronous_standby_names = ''");
        old.ask("SELECT pg_reload_conf()");
        let nobody_waits = "SELECT current_setting('synchronous_standby_names') = '' AND count(*) = 0
            FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        until("commits wait for a standby", || old.ask(nobody_waits) == "t");
    }

    /// Kills both at once.
    pub fn crash(&mut self) {
        self.servers.iter_mut().for_each(Server::destroy);
    }

    /// Starts those that do not run, each as what it is.
    pub fn resume(&mut self) {
        let order = [self.primary, self.other()];
        for server in order {
            if !self.servers[server].runs() {
                self.servers[server].resume();
            }
        }
    }

    /// Makes the old primary, as it is, a synchronous standby of the new one: what the new one does not have is taken back.
    pub fn follow(&mut self) {
        let other = self.other();
        self.servers[other].destroy();
        // By this it says that it was promoted.
        self.servers[self.primary].ask("CHECKPOINT");
        let [first, second] = &mut self.servers;
        let (old, new) = if other == 0 { (first, &*second) } else { (second, &*first) };
        old.rewind(new);
        old.resume();
        self.wait_for_standby();
    }
}

fn until(not: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + START_DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{not}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
