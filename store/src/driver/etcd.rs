//! A store in an etcd cluster, shared by nodes on any machines.
//!
//! ```text
//! commit --> one Txn: comparisons, then puts and removals --> the answer, or nobody knows
//! read   --> one Txn of ranges, at one revision
//! watch  --> its keeper: one stream with a watch of etcd's for each key, and a slow look below it
//! ```
//!
//! **Order.** Our versions are etcd's revisions, which count the transactions that changed something. A transaction is
//! answered with its revision, and a read with the one that it saw. Reads ask the leader, through whichever member, so
//! they see what was answered before.
//!
//! **Appends.** etcd gives a commit no stamp. So an entry's place is a counter: one row for the whole store, which the
//! transaction compares and raises. A writer that is overtaken is told so by the same answer, and takes the next place. The row is
//! never removed.
//!
//! **Unknown.** Nothing is sent twice unless etcd said that it did nothing; see `trouble` for the list. A stream that is
//! reset, an answer that does not come within 2 s, and an error that is not known here leave the outcome unknown. "No space" is
//! one of these: etcd says it also of a transaction that it has just applied.
//!
//! **Which store.** Each transaction compares one row, the identity of the store, and each read looks at it: so what
//! stands in its place one day is told from it.
//!
//! **Members.** The first of the URL that serves is used until it fails, with one connection for everything. Each request says
//! that it wants a leader, so that a member without one refuses it at once.
//!
//! **Busy.** A commit waits up to 1 s for a connection, then it is `Unavailable`.
//!
//! **Deaths** are not proven. A lease of etcd's ends also when only the connection of its owner broke.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use super::{
    failures::Failures,
    lock::lock,
    own_thread::{self, OwnThread, thread_is_gone},
};
use crate::{
    contract::{LifeGuard, OPERATION_TIMEOUT, Proof, Store},
    core::{
        ids::{Incarnation, NodeName},
        transaction::{CommitOutcome, Key, Limits, Read, ReadResult, Transaction, Version},
    },
    driver::supervision::Supervisor,
    error::{OpenError, StoreError},
};

mod address;
mod commit;
mod examine;
mod layout;
mod line;
mod member;
mod plan;
mod read;
mod space;
mod trouble;
mod watches;
mod wire;

pub(super) use address::EtcdAddress;
use commit::Places;
pub(super) use examine::examine;
use line::EtcdLine;
use member::EtcdPlace;
use watches::{EtcdKeeper, Event};

/// How long a commit waits for a connection and for those before it.
const BUSY: Duration = Duration::from_secs(1);
/// How long a member may take to answer a commit: longer than etcd needs for another leader, shorter than a lease.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take for a read, before another member is asked.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks below the watches.
const SLOW_LOOK: Duration = Duration::from_secs(2);

/// The most operations of one transaction, by etcd's default (`--max-txn-ops`).
const MOST_OPERATIONS: usize = 128;
/// The most bytes of one request, by etcd's default (`--max-request-bytes`, 1.5 MiB), less what etcd adds to it.
const MOST_REQUEST: usize = (3 << 19) - 2048;

/// What keys and values may have together, so that with prefixes and framing it is no larger request.
const LIMITS: Limits = Limits { transaction: 1_450_000, ..Limits::FOUNDATIONDB };

/// A store in an etcd cluster. Clones share its thread and its connection, which end with the last of them.
#[derive(Clone)]
pub struct EtcdStore {
    shared: Arc<EtcdShared>,
}

struct EtcdShared {
    /// Starts tasks in the runtime of the store's own thread: the connection outlives whichever runtime asks.
    supervisor: Supervisor,
    line: EtcdLine,
    places: Places,
    failures: Mutex<Failures>,
    events: mpsc::UnboundedSender<Event>,
    described: String,
    limits: Limits,
    _thread: OwnThread,
}

impl EtcdStore {
    /// Opens the store that a URL names, and notes in it what is missing; see [`open`](crate::open()) for the URLs. Blocks
    /// until a member has answered, at most some seconds.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        let address = EtcdAddress::parse(url)?;
        let (described, limits) = (address.describe(), address.limits());
        let open = || async move {
            let identity = layout::prepare(&address).await?;
            Ok(start(&Arc::new(EtcdPlace::new(address, identity))))
        };
        let (thread, started) = OwnThread::start("etcd", &described, open)?;
        let EtcdStarted { supervisor, line, events } = started;
        let (places, failures) = (Places::default(), Mutex::default());
        let shared =
            EtcdShared { supervisor, line, places, failures, events, described, limits, _thread: thread };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Starts what keeps the connection up, and what keeps the watches. Call it inside the store's runtime.
fn start(place: &Arc<EtcdPlace>) -> EtcdStarted {
    let (events, incoming) = mpsc::unbounded_channel();
    let line = EtcdLine::start(place.clone(), events.clone());
    let keeper = EtcdKeeper::new(place.address.space.clone(), events.clone());
    place.supervisor.task("the watches in etcd", keeper.run(incoming));
    EtcdStarted { supervisor: place.supervisor.clone(), line, events }
}

/// What runs in the store's runtime.
struct EtcdStarted {
    supervisor: Supervisor,
    line: EtcdLine,
    events: mpsc::UnboundedSender<Event>,
}

impl EtcdShared {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        // What is noted of them is whole between any two lines.
        lock(&self.failures)
    }

    /// Runs work on the store's thread; `None` if that ended before the work did.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        own_thread::run(&self.supervisor, "a request to etcd", work).await
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.shared.described).finish()
    }
}

impl Store for EtcdStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let shared = self.shared.clone();
        async move {
            let deadline = Instant::now() + OPERATION_TIMEOUT;
            let work = {
                let shared = shared.clone();
                async move { read::read(&shared, &reads, deadline).await }
            };
            shared.run(work).await.ok_or_else(thread_is_gone)?
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let shared = self.shared.clone();
        async move {
            let deadline = Instant::now() + BUSY;
            let work = {
                let shared = shared.clone();
                async move { commit::commit(&shared, &transaction, deadline).await }
            };
            // Taken and not answered: the thread ended somewhere in between.
            shared.run(work).await.unwrap_or(CommitOutcome::Unknown)
        }
        .boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let shared = self.shared.clone();
        async move {
            let (ended, waiting) = oneshot::channel();
            shared.events.send(Event::Watch(key, since, ended)).map_err(|_| thread_is_gone())?;
            waiting.await.map_err(|_| thread_is_gone())?
        }
        .boxed()
    }

    fn limits(&self) -> Limits {
        self.shared.limits
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
        let supervisor = self.shared.supervisor.clone();
        async move { supervisor.failed().await.to_string() }.boxed()
    }
}

#[cfg(test)]
mod tests;
