//! A store in one file, shared by the processes of one machine.
//!
//! `SQLite` with a write-ahead log. Its locks need a local file system: never put the file on a network share.
//!
//! ```text
//! commits --> writer thread --> BEGIN IMMEDIATE, checks, writes, COMMIT --> answers --> PATH-notify
//! read    --> reader thread --> one snapshot                                              |
//! watch   --> reader thread <-- at most one look per millisecond <-- inotify, own commits-+
//! ```
//!
//! **Together.** Commits that wait at the same time share a transaction of the file, and wait for the disk once. Each has a version
//! of its own, and finds what those before it wrote. What one of them meets before the end costs the others nothing.
//!
//! **Runtime.** In a tokio runtime, its I/O driver has to be on: whoever waits for a thread is woken through a socket.
//!
//! **Durability.** By default a commit is on the disk before it is answered. With `synchronous=normal`, a power loss
//! or a crash of the *system* may take back the last commits, though answered: epochs and positions go back then, and
//! fencing tokens are given out twice. A crash of a process takes back nothing in either mode.
//!
//! **Busy.** One process writes at a time. A commit waits for the others up to 1 s, then it is `Unavailable` and
//! nothing was changed. A process that is stopped (SIGSTOP) inside its commit, a fraction of a millisecond, keeps the
//! others from committing until it goes on or is killed; reads go on. One stopped inside a read keeps the log from
//! being cut, so that the file grows.
//!
//! **Unknown.** A commit whose last step fails (the disk is full, or broken) may be in the log whole, and a later
//! recovery may bring it back. Any earlier failure is `Unavailable`.
//!
//! **Watches** may be lost: a process killed between its commit and the notifier has told nobody, nor does one after somebody
//! cut or emptied the notifier's file. Where the notifier cannot be heard (no inotify instance left, the file removed), or
//! cannot be told what is watched, the reader looks four times a second instead. A commit rings only if somebody watches a
//! key that it changed.
//!
//! **Files.** `PATH`, `PATH-wal` and `PATH-shm` are the database: they belong together, also in a copy. `PATH-notify` and
//! `PATH-lives` may be removed when nobody has the store open; what is replaced or removed while nodes run proves no death
//! of theirs any more. A database that is removed or replaced while it is open
//! is not followed: its users get `Unavailable`.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::{oneshot, watch};

use super::failures::Failures;
use crate::{
    contract::{LifeGuard, Proof, Store},
    core::{
        ids::{Incarnation, NodeName},
        transaction::{CommitOutcome, Key, Limits, Read, ReadResult, Transaction, Version},
    },
    driver::supervision::text,
    error::{OpenError, StoreError},
};

mod attempt;
mod examine;
mod file;
mod life;
mod looks;
mod marks;
mod notifier;
#[cfg(test)]
mod raced;
mod reader;
mod requests;
mod wake;
mod watches;
mod writer;

mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

pub(super) use examine::examine;
use file::DatabaseFile;
use life::Lives;
use notifier::{Listener, Notifier};
use reader::Reader;
use requests::{Looks, ReaderRequest};
use wake::Sockets;
use watches::Watch;
use writer::Writer;

/// What a power loss may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Synchronous {
    /// Nothing that was answered `Committed`. Each commit waits for the disk.
    #[default]
    Full,
    /// The last commits, though answered: versions, epochs, positions and fencing tokens go back with them.
    Normal,
}

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// What a power loss may take. [`Synchronous::Full`] by default.
    pub synchronous: Synchronous,
    /// How long to wait for other processes before answering `Unavailable`; 1 s by default. Shorter refuses commits
    /// when many processes write at once, longer hides that one of them hangs.
    pub busy: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, busy: Duration::from_secs(1) }
    }
}

/// Longer than anybody waits, and short enough for a clock.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl SqliteOptions {
    fn deadline(&self) -> Instant {
        Instant::now() + self.busy.min(FOREVER)
    }
}

/// A store in one file. Clones share its two threads, which end with the last of them.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<SqliteShared>,
    url: Arc<str>,
}

struct SqliteShared {
    commits: mpsc::Sender<writer::Job>,
    requests: mpsc::Sender<ReaderRequest>,
    sockets: Sockets,
    lives: Lives,
    options: SqliteOptions,
    broken: watch::Receiver<Option<String>>,
    _listener: Listener,
}

impl SqliteStore {
    /// Opens a file, or creates it in a directory that exists. Blocks for as long as the files take; under
    /// contention for up to a few times [`SqliteOptions::busy`].
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        let (file, writing) = DatabaseFile::open(path, options)?;
        let refused = |cause: &dyn fmt::Display| OpenError::Database {
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        let reading = file.connect().map_err(|trouble| refused(&trouble))?;
        let lives = Lives::new(file.beside("-lives"));
        lives.sweep();

        let (commits, jobs) = mpsc::channel();
        let (requests, incoming) = mpsc::channel();
        let state = Arc::default();
        let looks = Looks::new(requests.clone(), Arc::clone(&state));
        let notify_path = file.beside("-notify");
        let notifier = Notifier::open(&notify_path);
        let (breaks, broken) = watch::channel(None);
        let listener = Listener::listen(&notify_path, &looks, &breaks);
        let reader = Reader::new(file.clone(), reading, Notifier::open(&notify_path), state);
        let writer =
            Writer { file, connection: Some(writing), notifier, looks, failures: Failures::default() };
        spawn("sqlite-reader", &breaks, move || reader.run(&incoming)).map_err(|error| refused(&error))?;
        spawn("sqlite-writer", &breaks, move || writer.run(&jobs)).map_err(|error| refused(&error))?;

        let url = format!("sqlite:{}", path.display()).into();
        Ok(Self {
            shared: Arc::new(SqliteShared {
                commits,
                requests,
                sockets: Sockets::default(),
                lives,
                options,
                broken,
                _listener: listener,
            }),
            url,
        })
    }

    /// The same store under the URL that it was opened by.
    pub(super) fn described_as(self, url: &str) -> Self {
        Self { url: url.into(), ..self }
    }
}

/// Is told of the first thread of the store that panics.
type Breaks = watch::Sender<Option<String>>;

/// Starts a thread of a store. If it panics, `breaks` is told.
fn spawn(name: &'static str, breaks: &Breaks, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let breaks = breaks.clone();
    let work = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            breaks.send_replace(Some(format!("the thread {name} panicked: {}", text(&*panic))));
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.url).finish()
    }
}

/// Its thread panicked: a bug, and the message of the panic is in the log.
fn thread_is_gone() -> StoreError {
    StoreError::Unavailable("the store's thread has ended".to_owned())
}

impl Store for SqliteStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let shared = self.shared.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            let (wakes, waits) = shared.sockets.pair();
            let deadline = shared.options.deadline();
            let sent = shared.requests.send(ReaderRequest::Read { reads, deadline, reply, wakes });
            sent.map_err(|_| thread_is_gone())?;
            waits.woken().await;
            answer.await.map_err(|_| thread_is_gone())?
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let shared = self.shared.clone();
        async move {
            if let Some(broken) = Limits::FOUNDATIONDB.broken_by(&transaction) {
                return CommitOutcome::TooLarge(broken);
            }
            // A node beats, so it notices soon.
            shared.lives.look_after();
            let (reply, outcome) = oneshot::channel();
            let (wakes, waits) = shared.sockets.pair();
            let deadline = shared.options.deadline();
            if shared.commits.send(writer::Job { transaction, deadline, reply, wakes }).is_err() {
                return CommitOutcome::Unavailable(thread_is_gone().to_string());
            }
            waits.woken().await;
            // Taken and not answered: the thread ended somewhere in between.
            outcome.await.unwrap_or(CommitOutcome::Unknown)
        }
        .boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let shared = self.shared.clone();
        async move {
            let (ended, waiting) = oneshot::channel();
            let deadline = shared.options.deadline();
            let watch = Watch { key, since, ended };
            let sent = shared.requests.send(ReaderRequest::Watch { watch, deadline });
            sent.map_err(|_| thread_is_gone())?;
            waiting.await.map_err(|_| thread_is_gone())?
        }
        .boxed()
    }

    fn limits(&self) -> Limits {
        Limits::FOUNDATIONDB
    }

    fn describe(&self) -> String {
        self.url.to_string()
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        let guarded = self.shared.lives.guard(node, incarnation);
        guarded.map_err(|error| StoreError::Unavailable(format!("{}-lives: {error}", self.url)))
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        let (lives, node) = (self.shared.lives.clone(), node.clone());
        // One open and one lock that does not wait: some microseconds, not worth a thread.
        async move { lives.proof(&node, incarnation) }.boxed()
    }

    fn broken(&self) -> BoxFuture<'static, String> {
        let mut broken = self.shared.broken.clone();
        async move {
            let said = broken.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
            match said {
                Some(how) => how,
                // Both threads have ended well: the store is closed.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod processes;
mod sql;
#[cfg(test)]
mod tests;
