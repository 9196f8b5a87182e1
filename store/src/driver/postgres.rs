//! A store in a Postgres database, shared by nodes on any machines.
//!
//! ```text
//! commit --> one connection: BEGIN, turn, checks, writes, NOTIFY, COMMIT in one flight --> answer
//! read   --> another, many at once: each one snapshot of the version and the keys
//! watch  --> its keeper: a look at once, one at each notification that may be meant, one a second anyway
//! listen --> a third: LISTEN
//! ```
//!
//! **Order.** Every transaction that writes first takes a table lock, its *turn*, then its snapshot, then raises the one
//! row that counts versions. The server gives the lock back after the commit has become visible, so versions become
//! visible in their order: who sees 8 sees 7. `LOCK TABLE` is used as it takes no snapshot: a snapshot from before the
//! wait would end every contended commit as a serialization failure. Transactions are serializable nevertheless, and
//! are run again after 40001 and 40P01: that is for the SQL of others, which takes no turn.
//!
//! **One flight.** All statements of a transaction travel together, its COMMIT too: one round trip, and a process that
//! stops (SIGSTOP) between them has nothing left to send that others would wait for. What its checks refuse does
//! nothing: the other statements look for a nonce that only the first one sets. And that one does nothing in any
//! transaction but the one that was begun for it, so that a BEGIN that was refused leaves nothing to the statements behind it.
//!
//! **Unknown.** As the COMMIT is on its way from the start, a connection that breaks before the answer leaves the outcome
//! unknown. What the server *said* is known: an error before the COMMIT means that nothing was changed.
//!
//! **Busy.** A commit waits up to 1 s for its turn, then it is `Unavailable`. In the server, a statement may take 3 s and
//! a pause inside a transaction 2 s, so that a stopped process does not hold its turn for longer. A connection that
//! answers nothing for 5 s is given up: the largest transaction, 10 MB, has to get through in that time.
//!
//! **No pool.** Writers take turns in the server, so that a second connection would only wait there, and what a pool
//! does for reads, pipelining does on one. Three connections per process also leave room below `max_connections`.
//!
//! **Durability** is the server's. The default loses nothing that was answered; `synchronous_commit` is raised to `on`
//! where the database or the role has less, unless the URL itself asks for less. `fsync=off` loses anything. Failover to
//! a replica that lags loses the last commits: versions, epochs, positions and fencing tokens go back then, and an error
//! is logged when it is noticed. Use synchronous replicas. A commit whose wait for one is cancelled is unknown: see `standbys`.
//!
//! **Standbys** are never used, not for reads either: they lag. Of several hosts the primary is found by its timeline, and an old primary is
//! left: see `timeline`, `hosts` and `successors`.
//!
//! **Deaths** are not proven. The server frees the locks of a session also when only its connection broke, so a
//! session-level advisory lock that is free says nothing about the process that held it.
//!
//! **Poolers** that hand out connections per transaction (pgbouncer in transaction mode) know neither LISTEN nor the
//! prepared statements: connect past them.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use super::own_thread::{self, OwnThread, thread_is_gone};
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
mod host;
mod hosts;
mod line;
mod not_connected;
mod notice;
mod pipeline;
mod read;
mod schema;
mod sql;
mod standbys;
mod successors;
mod timeline;
mod tls;
mod trouble;
mod turn;
mod waiting;
mod watches;

pub(super) use address::Address;
pub(super) use examine::examine;
/// What a lease in a table keeps its connection with. Not for programs.
#[doc(hidden)]
pub mod connection {
    pub use super::super::pauses::Pauses;
    pub use super::{
        ANSWER_TIMEOUT,
        address::Address,
        hosts::{Connected, Driven, Standing, connect_and_listen},
        line::AbortOnDrop,
        not_connected::NotConnected,
        schema::CREATING,
        trouble::in_words,
    };
}

use line::{Line, Place, Role};
use notice::{Event, PostgresWatch};
use turn::CommitTurn;
use watches::Keeper;

/// How long a request waits for a connection, for those before it, and for its turn. Shorter refuses commits when many
/// write at once, longer hides that one of them hangs.
const BUSY: Duration = Duration::from_secs(1);
/// How long a connection may take to answer before it counts as broken. Longer than the server's own limits, so that
/// the server, which knows what became of a commit, speaks first.
pub const ANSWER_TIMEOUT: Duration = OPERATION_TIMEOUT;

/// The limits of the other backends, but for keys: an entry of an index has to fit into a third of a page.
const LIMITS: Limits = Limits { key: 2_500, ..Limits::FOUNDATIONDB };

/// A store in a Postgres database. Clones share its thread and its connections, which end with the last of them.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<PostgresShared>,
}

struct PostgresShared {
    /// Starts tasks in the runtime of the store's own thread: connections outlive whichever runtime asks.
    supervisor: Supervisor,
    commits: Line,
    reads: Line,
    /// One transaction of the server at a time: what waits for it can still be refused as "not done".
    turn: CommitTurn,
    events: mpsc::UnboundedSender<Event>,
    described: String,
    _thread: OwnThread,
}

impl PostgresStore {
    /// Opens the database that a URL names, and creates in it what is missing; see [`open`](crate::open()) for the URLs.
    /// Blocks until the database has answered, at most some seconds.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        let address = Address::parse(url)?;
        let described = address.describe();
        let open = || async move {
            let identity = schema::prepare(&address).await?;
            Ok(start(&Arc::new(Place::new(address, identity))))
        };
        let (thread, started) = OwnThread::start("postgres", &described, open)?;
        let Started { supervisor, commits, reads, events } = started;
        let turn = CommitTurn::default();
        let shared = PostgresShared { supervisor, commits, reads, turn, events, described, _thread: thread };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Starts what keeps the connections up, and what keeps the watches. Call it inside the store's runtime.
fn start(place: &Arc<Place>) -> Started {
    let (events, incoming) = mpsc::unbounded_channel();
    let line = |role| Line::start(place.clone(), role);
    let (commits, reads) = (line(Role::Commits), line(Role::Reads));
    // Kept up by its own task, and heard through the channel.
    line(Role::Listens(events.clone()));
    successors::look_for_them(place);
    place.supervisor.task("the watches in Postgres", Keeper::new(reads.clone()).run(incoming));
    Started { supervisor: place.supervisor.clone(), commits, reads, events }
}

/// What runs in the store's runtime.
struct Started {
    supervisor: Supervisor,
    commits: Line,
    reads: Line,
    events: mpsc::UnboundedSender<Event>,
}

impl PostgresShared {
    /// Runs work on the store's thread; `None` if that ended before the work did.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        own_thread::run(&self.supervisor, "a request to Postgres", work).await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.shared.described).finish()
    }
}

impl Store for PostgresStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let shared = self.shared.clone();
        async move {
            let line = shared.reads.clone();
            let deadline = Instant::now() + BUSY;
            let read = shared.run(async move { read::read(&line, &reads, deadline).await });
            read.await.ok_or_else(thread_is_gone)?
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let shared = self.shared.clone();
        async move {
            if let Some(broken) = LIMITS.broken_by(&transaction) {
                return CommitOutcome::TooLarge(broken);
            }
            let deadline = Instant::now() + BUSY;
            let work = {
                let shared = shared.clone();
                async move {
                    if transaction.writes.is_empty() {
                        return commit::only_check(&shared.reads, &transaction, deadline).await;
                    }
                    shared.turn.commit(&shared.commits, transaction, deadline).await
                }
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
            let sent = shared.events.send(Event::Watch(PostgresWatch::new(key, since, ended)));
            sent.map_err(|_| thread_is_gone())?;
            waiting.await.map_err(|_| thread_is_gone())?
        }
        .boxed()
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
        let supervisor = self.shared.supervisor.clone();
        async move { supervisor.failed().await.to_string() }.boxed()
    }
}

#[cfg(test)]
mod tests;
