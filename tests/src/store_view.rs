//! The store, seen and touched from outside.

use std::path::{Path, PathBuf};

use callsign_elector::{
    ids::{ClusterName, Incarnation, NodeName, Position, RegistryName, SessionNumber},
    keys::{ClusterKeys, RegistryKeys, read_key},
    record::{Lock, MemberRow, PositionRecord, Record, SessionRecord, Term},
    store::{CommitOutcome, Key, SharedStore, Transaction, Value, open},
};
use rusqlite::Connection;
use tokio::runtime::Runtime;

/// The store of a cluster.
#[derive(Debug)]
pub struct StoreView {
    runtime: Runtime,
    store: SharedStore,
    path: PathBuf,
    /// The keys that all registries share.
    pub cluster: ClusterKeys,
    /// The keys of the registry.
    pub keys: RegistryKeys,
}

/// A writer that keeps all others from writing, until it is dropped.
#[derive(Debug)]
pub struct WriteLock {
    _connection: Connection,
}

impl StoreView {
    /// Opens the store at a path, for the default cluster and registry.
    pub fn open(path: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let cluster = ClusterKeys::new(&ClusterName::new("default").expect("a good name"));
        let keys = cluster.registry(&RegistryName::new("default").expect("a good name"));
        let store = open(&format!("sqlite:{}", path.display())).expect("the store opens");
        Self { runtime: runtime.expect("a runtime starts"), store, path: path.to_owned(), cluster, keys }
    }

    /// The bytes under a key.
    pub fn value(&self, key: Key) -> Option<Value> {
        let read = self.runtime.block_on(self.store.read(vec![read_key(key)]));
        read.expect("reads are answered whoever writes").value(0).cloned()
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

    /// The lock of a handoff.
    pub fn lock(&self) -> Option<Lock> {
        self.record(self.keys.lock())
    }

    /// The position of the last batch.
    pub fn commit(&self) -> Position {
        self.record(self.keys.commit()).map_or(Position(0), |PositionRecord(position)| position)
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

    /// Takes the right to write, as another program that uses the file would; `None`: a writer has it.
    pub fn try_lock(&self) -> Option<WriteLock> {
        let connection = Connection::open(&self.path).expect("the database opens");
        connection.busy_timeout(std::time::Duration::from_millis(100)).expect("a timeout can be set");
        connection.execute_batch("BEGIN IMMEDIATE").ok()?;
        // Its drop rolls back.
        Some(WriteLock { _connection: connection })
    }
}

/// A node's name as its type.
pub(crate) fn node_name(node: &str) -> NodeName {
    NodeName::new(node).expect("a good name")
}
