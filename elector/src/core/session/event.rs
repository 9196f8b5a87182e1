//! What sessions tell, and what may be in their way.

use callsign_store::{
    Key, TooLarge,
    ids::{Incarnation, NodeName, SessionId},
    record::CorruptRecord,
    time::Time,
};
use serde::{Deserialize, Serialize};

use crate::core::lineage::LineageId;

/// What happened to this node's session, and to those of the others. In order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A session was opened, and is trusted.
    Opened {
        /// The session.
        session: SessionId,
    },
    /// Trust ran out: the node could not beat in time. The session may still be open; nothing may be done on it.
    Lapsed {
        /// The session.
        session: SessionId,
    },
    /// A beat found the session still open. It is trusted again, and everything registered in it is still held.
    Resumed {
        /// The session.
        session: SessionId,
    },
    /// The session is closed. What was registered in it is gone. The node opens another.
    Lost {
        /// The session.
        session: SessionId,
    },
    /// The store does not have what was committed: it went back behind what it acknowledged. All names of this node are lost.
    /// Once for each loss.
    StoreWentBack {
        /// The keys that showed it to this node. None: it is the lineage that says so.
        shown: Vec<Key>,
    },
    /// The node is in another lineage of the store, or begins anew in the same one: all that it knew of registries is not so
    /// any more.
    Lineage {
        /// Which one.
        lineage: LineageId,
        /// When the node first saw it.
        since: Time,
    },
    /// Another live process holds a session under this node's name. Repeated whenever it was seen beating.
    NameInUse {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// A session of another node, which this one saw open, is closed. Once for each.
    PeerClosed(SessionId),
    /// This node's own record cannot be read. It is left as it is, and read again until it is repaired; meanwhile
    /// the node cannot beat, so trust runs out.
    Unreadable {
        /// What is wrong with it.
        error: CorruptRecord,
    },
    /// The record of another node cannot be read. It counts neither as closed nor as absent.
    PeerUnreadable {
        /// The node.
        node: NodeName,
        /// What is wrong with it.
        error: CorruptRecord,
    },
    /// The node left, and its session is closed. The last event.
    Left,
    /// The session cannot be kept. The last event.
    Failed(SessionFailure),
}

/// Why a session cannot be kept. It is not trusted any more, and nothing more is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum SessionFailure {
    /// This node's own record could not be read when the node was started. It was left as it is.
    #[error("this node's session record is corrupt: {0}")]
    Corrupt(CorruptRecord),
    /// This node's own record has the greatest number there is.
    #[error("this node's session number or beat cannot grow any more")]
    Exhausted,
    /// The store does not take the record.
    #[error("the store does not take the session record: {0}")]
    TooLarge(TooLarge),
    /// The node left, but the closing of its session was not confirmed in time. It may be closed; if it is not, the
    /// other nodes close it after its lease.
    #[error("the closing of the session was not confirmed in time ({obstacle})")]
    LeaveUnconfirmed {
        /// What was in the way last.
        obstacle: Obstacle,
    },
}

/// What keeps a session from being opened, or closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing is known to be in the way; there was no time yet.
    #[error("nothing was answered yet")]
    Nothing,
    /// The store said that it is unavailable.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store did not answer in time, or could not say what became of a commit.
    #[error("the store does not answer in time")]
    NoAnswer,
    /// Another process holds a session under this node's name, and was seen beating.
    #[error("incarnation {incarnation} holds a session under this name, and lives")]
    NameInUse {
        /// The other process.
        incarnation: Incarnation,
    },
    /// Another process holds a session under this node's name. It was not seen beating yet: it may be dead.
    #[error("incarnation {incarnation} holds a session under this name, and may be dead")]
    FormerOpen {
        /// The other process.
        incarnation: Incarnation,
    },
}
