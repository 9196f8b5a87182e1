//! The store, seen and touched from outside.

use std::time::Duration;

use callsign_elector::record::{Lock, LogEnd, MemberRow, SessionRecord, Term};
use callsign_store::{
    CommitOutcome, Key, Read, SharedStore, Transaction, Value,
    ids::{ClusterName, Incarnation, NodeName, Nonce, Position, RegistryName, SessionNumber},
    keys::{ClusterKeys, RegistryKeys, read_key},
    open,
    record::Record,
};
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::store::TestStore;

/// The store of a cluster.
#[derive(Debug)]
pub struct StoreView {
    runtime: Runtime,
    store: SharedStore,
    url: String,
    /// The keys that all registries share.
    pub cluster: ClusterKeys,
    /// The keys of the registry.
    pub keys: RegistryKeys,
}

/// A writer that keeps all others from writing, until it is dropped.
#[derive(Debug)]
pub struct WriteLock {
    _held: HeldLock,
}

/// Its drop rolls back.
#[derive(Debug)]
#[expect(dead_code)] // held, not used
enum HeldLock {
    Sqlite(Connection),
    Postgres(tokio_postgres::Client),
}

impl StoreView {
    /// Opens a store, for its cluster and the default registry.
    pub fn open(place: &TestStore) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let cluster = ClusterKeys::new(&ClusterName::new(&place.cluster).expect("a good name"));
        let keys = cluster.registry(&RegistryName::new("default").expect("a good name"));
        let store = open(&place.url).expect("the store opens");
        Self { runtime: runtime.expect("a runtime starts"), store, url: place.url.clone(), cluster, keys }
    }

    /// The bytes under a key.
    pub fn value(&self, key: Key) -> Option<Value> {
        let read = self.runtime.block_on(self.store.read(vec![read_key(key)]));
        read.expect("reads are answered whoever writes").value(0).cloned()
    }

    /// What one read finds.
    pub fn entries(&self, read: Read) -> Vec<(Key, Value)> {
        let read = self.runtime.block_on(self.store.read(vec![read]));
        read.expect("reads are answered whoever writes").entries(0).to_vec()
    }

    /// Makes the log longer: bytes that are no batches, up to this position, which becomes the last one.
    pub fn pad_log(&self, end: Position) {
        let from = self.commit().0 + 1;
        for first in (from..=end.0).step_by(100) {
            // As many as every store takes in one transaction.
            let positions = first..=end.0.min(first + 99);
            self.commit_all(positions.fold(Transaction::new(), |all, position| {
                all.put(self.keys.log(Position(position)), b"padding".to_vec())
            }));
        }
        self.put(self.keys.commit(), LogEnd { position: end, nonce: Nonce(0) }.to_value());
    }

    fn record<R: Record>(&self, key: Key) -> Option<R> {
        self.value(key).map(|bytes| R::from_value(&bytes).expect("nodes write records that can be read"))
    }

    /// Writes bytes under a key.
    pub fn put(&self, key: Key, value: Value) {
        self.commit_all(Transaction::new().put(key, value));
    }

    /// Appends bytes to the membership queue.
    pub fn enqueue(&self, value: Value) {
        self.commit_all(Transaction::new().append(self.keys.queue(), value));
    }

    fn commit_all(&self, transaction: Transaction) {
        let outcome = self.runtime.block_on(self.store.commit(transaction));
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }

    /// Who leads.
    pub fn term(&self) -> Term {
        self.record(self.keys.term()).unwrap_or_else(Term::vacant)
    }

    /// The name of who leads.
    pub fn leader(&self) -> Option<String> {
        self.term().leader.map(|leader| leader.node.as_str().to_owned())
    }

    /// The name of who leads, if the store says so within that time.
    pub fn leader_within(&self, wait: Duration) -> Option<String> {
        let read = self.store.read(vec![read_key(self.keys.term())]);
        let read = self.runtime.block_on(async { tokio::time::timeout(wait, read).await }).ok()?.ok()?;
        let term = Term::from_value(read.value(0)?).ok()?;
        term.leader.map(|leader| leader.node.as_str().to_owned())
    }

    /// The lock of a handoff.
    pub fn lock(&self) -> Option<Lock> {
        self.record(self.keys.lock())
    }

    /// The position of the last batch.
    pub fn commit(&self) -> Position {
        self.record(self.keys.commit()).map_or(Position(0), |end: LogEnd| end.position)
    }

    /// A node's session.
    pub fn session(&self, node: &str) -> Option<SessionRecord> {
        self.record(self.cluster.session(&node_name(node)))
    }

    /// The number of a node's session, if it is open and of that incarnation.
    pub fn open_session(&self, node: &str, incarnation: u64) -> Option<SessionNumber> {
        let record = self.session(node)?;
        (record.open && record.incarnation == Incarnation(incarnation)).then_some(record.number)
    }

    /// A member's row.
    pub fn member(&self, node: &str) -> Option<MemberRow> {
        self.record(self.keys.member(&node_name(node)))
    }

    /// Whether one can keep all others from writing to this store.
    pub fn can_lock(&self) -> bool {
        ["sqlite:", "postgres"].iter().any(|scheme| self.url.starts_with(scheme))
    }

    /// Takes the right to write, as another program that uses the store would; `None`: a writer has it, or nobody can have it.
    pub fn try_lock(&self) -> Option<WriteLock> {
        let held = match self.url.strip_prefix("sqlite:") {
            Some(path) => HeldLock::Sqlite(lock_file(path)?),
            None if self.can_lock() => HeldLock::Postgres(self.runtime.block_on(lock_database(&self.url))?),
            None => return None,
        };
        Some(WriteLock { _held: held })
    }
}

fn lock_file(path: &str) -> Option<Connection> {
    let connection = Connection::open(path.split('?').next().unwrap_or(path)).expect("the database opens");
    connection.busy_timeout(Duration::from_millis(100)).expect("a timeout can be set");
    connection.execute_batch("BEGIN IMMEDIATE").ok()?;
    Some(connection)
}

/// Takes the turn to commit.
async fn lock_database(url: &str) -> Option<tokio_postgres::Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the database can be reached");
    tokio::spawn(connection);
    let lock = "SET lock_timeout = '100ms'; BEGIN; LOCK TABLE callsign.turn IN EXCLUSIVE MODE";
    client.batch_execute(lock).await.ok()?;
    Some(client)
}

/// A node's name as its type.
pub(crate) fn node_name(node: &str) -> NodeName {
    NodeName::new(node).expect("a good name")
}
