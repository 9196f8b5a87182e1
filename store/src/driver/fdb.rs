//! A store in a `FoundationDB` cluster, shared by nodes on any machines.
//!
//! ```text
//! read   --> read version, then all keys at it
//! commit --> keys at a read version, compared --> conflict ranges and writes --> the answer
//!            fenced by an own commit: conflict ranges and writes --> the answer, one round trip
//! watch  --> the key as the caller saw it, kept by the client until it differs
//! ```
//!
//! **Order.** `FoundationDB` gives a commit a version and a place among those that share it. Both together are our
//! [`Version`], and the stamp of an appended entry, so both sort by commit; see `version`.
//!
//! **One round trip.** A transaction all of whose checks say at which version the value was seen is sent with that
//! version as its read version, and its keys as read conflicts: the resolvers refuse it if one was written since. What
//! has to be done so that this is exact where commits share a version, and does not conflict with the author's own
//! former commit, is in `fence`. A version of more than 4 s is not used, as the cluster remembers writes for 5 s. Whatever
//! was refused that way is read and compared before anybody is told "conflict".
//!
//! **Unknown.** Only what the client documents as "not committed" counts as that. Everything else that comes instead of an
//! answer to a commit is unknown, an error that is not known here too.
//!
//! **Busy.** A read or a commit may take 5 s. A read is tried again for that time, a commit as long as none of its attempts
//! may have been done.
//!
//! **Watches** are the client's, at most 1000 at a time. They compare values: a key that was rewritten with an equal
//! value, or that went away and came back, may not be noticed.
//!
//! **The client library** has one network thread for the process; see `network`. It follows the cluster file when
//! coordinators change, and rewrites it.
//!
//! **Deaths** are not proven.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicUsize},
    time::Instant,
};

use foundationdb::{Database, FdbError, FdbResult, options::TransactionOption};
use futures::{FutureExt, future::BoxFuture};

use super::failures::Failures;
use crate::{
    contract::{LifeGuard, OPERATION_TIMEOUT, Proof, Store},
    core::{
        ids::{Incarnation, NodeName},
        transaction::{CommitOutcome, Key, Limits, Read, ReadResult, Transaction, Version},
    },
    driver::lock::lock,
    error::{OpenError, StoreError},
};

mod commit;
mod fence;
mod layout;
mod network;
mod read;
mod trouble;
mod version;
mod watch;

pub use network::leave_network_to_application;
use version::Recent;

/// The most watches of one store at a time, far below the 10 000 that the client allows.
const WATCHES: usize = 1_000;
/// Marks all transactions, for an operator who looks for who causes the load, or limits it.
const TAG: &str = "callsign";

/// `FoundationDB`'s own limits, less what conflict ranges take; see `fence`.
const LIMITS: Limits = Limits { key: 9_900, transaction: 9_500_000, ..Limits::FOUNDATIONDB };

/// A store in a `FoundationDB` cluster. Clones share its connections.
#[derive(Clone)]
pub struct FdbStore {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    recent: Recent,
    /// How many there are now.
    watches: AtomicUsize,
    failures: Mutex<Failures>,
    described: String,
}

impl FdbStore {
    /// Opens the cluster that a cluster file names; see [`open`](crate::open()) for the URLs. Blocks until the cluster has
    /// answered, at most some seconds. The first call in a process starts the client library's network thread, which ends
    /// with the process.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        let path = url.strip_prefix("fdb:").unwrap_or(url);
        let refused = |cause| OpenError::FoundationDbClient { url: url.to_owned(), cause };
        if path.contains('\0') {
            return Err(refused("a path has no NUL".to_owned()));
        }
        let client = |error| refused(trouble::in_words(error));
        network::boot().map_err(client)?;
        // Without a path, the client looks where everybody does: `FDB_CLUSTER_FILE`, then /etc.
        let database = Database::new((!path.is_empty()).then_some(path));
        let database = database.inspect_err(|_| network::stop_at_exit()).map_err(client)?;
        let store = Self {
            shared: Arc::new(Shared {
                database,
                recent: Recent::default(),
                watches: AtomicUsize::new(0),
                failures: Mutex::default(),
                described: url.to_owned(),
            }),
        };
        let prepared = layout::prepare(&store);
        network::stop_at_exit();
        prepared.map(|()| store)
    }
}

impl Shared {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        // What is noted of them is whole between any two lines.
        lock(&self.failures)
    }

    /// A transaction that ends at the deadline.
    fn begin(&self, deadline: Instant) -> FdbResult<foundationdb::Transaction> {
        let begun = self.database.create_trx()?;
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        // Zero would be "for ever".
        let left = i32::try_from(left.max(1)).unwrap_or(i32::MAX);
        begun.set_option(TransactionOption::Timeout(left))?;
        begun.set_option(TransactionOption::Tag(TAG.to_owned()))?;
        Ok(begun)
    }

    /// Waits as long as the client holds for right after an error that came before anything was sent for commit; says what
    /// is wrong if waiting does not help, or takes too long.
    async fn pause(&self, error: FdbError, deadline: Instant) -> Result<(), String> {
        let why = || trouble::in_words(error);
        if Instant::now() >= deadline || !trouble::is_passing(error) {
            return Err(why());
        }
        let begun = self.begin(deadline).map_err(|_| why())?;
        begun.on_error(error).await.map(drop).map_err(|_| why())
    }
}

impl fmt::Debug for FdbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FdbStore").field(&self.shared.described).finish()
    }
}

impl Store for FdbStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let shared = self.shared.clone();
        async move { read::read(&shared, &reads).await }.boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let shared = self.shared.clone();
        async move { commit::commit(&shared, transaction).await }.boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let shared = self.shared.clone();
        async move { watch::watch(&shared, &key, since).await }.boxed()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn describe(&self) -> String {
        self.shared.described.clone()
    }

    fn guard_life(&self, _: &NodeName, _: Incarnation) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        Ok(None)
    }

    fn proof_of_death(&self, _: &NodeName, _: Incarnation) -> BoxFuture<'static, Proof> {
        std::future::ready(Proof::None).boxed()
    }

    fn broken(&self) -> BoxFuture<'static, String> {
        network::broken().boxed()
    }
}

#[cfg(test)]
mod tests;
