//! What a store does.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use crate::core::{
    ids::{Incarnation, NodeName},
    transaction::{CommitOutcome, Key, Limits, Read, ReadResult, Transaction, Version},
};

/// What a store can say about whether an incarnation still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Proof {
    /// Its process has ended. Proven, not inferred from silence.
    Dead,
    /// Nothing is proven: it may live, or it may be dead.
    None,
}

/// Kept for as long as the process lives; the kernel drops what it stands for when the process ends.
pub trait LifeGuard: Send + Sync + fmt::Debug {}

/// A transactional store, chosen at run time.
///
/// Its futures do not borrow it, so that a driver can spawn them. Dropping a commit's future does not take the
/// transaction back: its outcome is unknown then.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Reads at one version, at which every transaction is visible that was answered `Committed` before the call.
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>>;

    /// Commits a transaction, or not.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome>;

    /// Ends once the key was written or cleared by a commit later than `since`; at once if it already was.
    ///
    /// May end without cause, and, where a notification was lost, may not end at all: poll as well.
    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>>;

    /// What the store takes.
    fn limits(&self) -> Limits;

    /// What it is, for people: `sqlite:/var/lib/callsign.db`.
    fn describe(&self) -> String;

    /// Lays down, before the session is opened, what later proves that this incarnation ended. `None` where the
    /// store cannot prove a death.
    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError>;

    /// Whether [`guard_life`](Self::guard_life) touches neither files nor sockets, so that it need not be called from a thread
    /// that may block. Not so by default.
    fn guards_at_once(&self) -> bool {
        false
    }

    /// Asks whether an incarnation is proven dead.
    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof>;

    /// Ends, saying how, once a thread or task of this store has ended that nobody had asked to: it answers nothing any
    /// more, and a node that uses it has failed. By default there is none, and it never ends.
    fn broken(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }
}

/// How long a backend takes for an operation before it says that it does not know, and how long drivers wait for one. As long as
/// `FoundationDB` keeps the version that a transaction reads at. Whoever asks again by a rule of its own does so sooner.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A store that many share.
pub type SharedStore = Arc<dyn Store>;
