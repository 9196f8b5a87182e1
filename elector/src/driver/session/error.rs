//! Why a session is not opened or not closed, and how long that is waited for.

use std::time::Duration;

use callsign_store::{
    ids::{Incarnation, NodeName},
    record::CorruptRecord,
};

use crate::core::session::{
    event::{Obstacle, SessionFailure},
    timing::TimingError,
};

/// Why a session was not opened. None will be: an opening whose outcome is unknown is closed again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenSessionError {
    /// Another live process holds a session under this node's name: it was seen beating.
    #[error("node name {node} is in use by incarnation {incarnation}, which lives")]
    NameInUse {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// Another process holds a session under this node's name, and did not beat while this one waited. It may be
    /// dead: wait longer than its lease.
    #[error("node name {node} has an open session of incarnation {incarnation}, which may be dead")]
    FormerOpen {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// The store could not be reached in time.
    #[error("the session could not be opened in time")]
    StoreUnavailable(#[source] Obstacle),
    /// This node's own record cannot be read. It was left as it is.
    #[error("this node's session record is corrupt")]
    Corrupt(#[source] CorruptRecord),
    /// A session cannot be kept with these durations. Nothing was started.
    #[error(transparent)]
    Timing(TimingError),
    /// The session failed in another way.
    #[error(transparent)]
    Failed(SessionFailure),
    /// The driver has ended: it was stopped, or it panicked.
    #[error("the driver of the session has ended")]
    Ended,
}

/// Why leaving was not confirmed. The session is not trusted any more in any case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The session may be open or closed. If it is open, the other nodes close it after its lease.
    #[error(transparent)]
    Failed(SessionFailure),
    /// The driver has ended: it was stopped, or it panicked. The session is closed by others after its lease.
    #[error("the driver of the session has ended")]
    Ended,
}

/// How long an opening is waited for. A name that is held by a process that lives is never waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// At most so long, whatever is in the way.
    AtMost(Duration),
    /// So long for the store; and for a former incarnation that is silent as long as the lease of *its* record asks.
    ForFormer(Duration),
}

impl From<Duration> for Patience {
    fn from(most: Duration) -> Self {
        Self::AtMost(most)
    }
}

impl Patience {
    pub(super) fn usual(self) -> Duration {
        match self {
            Self::AtMost(most) | Self::ForFormer(most) => most,
        }
    }
}
