//! What happens in a registry, and what becomes of the seat of a node that drains.

use callsign_store::ids::{Epoch, NodeName, Position, SessionId};
use serde::{Deserialize, Serialize};

use crate::core::name::Name;

/// What happens in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// Another term began.
    Term {
        /// Its epoch.
        epoch: Epoch,
        /// Who leads, or nobody.
        leader: Option<NodeName>,
    },
    /// This member was elected and has opened its epoch: it serves.
    Serving {
        /// The epoch.
        epoch: Epoch,
        /// Where it begins in the log.
        position: Position,
    },
    /// This member leads no more.
    Deposed {
        /// The epoch that is over for it.
        epoch: Epoch,
    },
    /// The replica holds the end of the log.
    Synced {
        /// The end.
        position: Position,
    },
    /// This node is about to leave: it takes no new names.
    Draining,
    /// It may leave: what became of the seat is known, or was waited for for long enough.
    Drained {
        /// What became of it.
        drained: Drained,
    },
    /// A snapshot took the replica's place.
    SnapshotInstalled {
        /// Where it is exact.
        position: Position,
        /// How many names it has.
        names: usize,
    },
    /// All names of a closed session are freed.
    HostGone {
        /// The session.
        session: SessionId,
        /// How many names it had.
        names: u64,
    },
    /// A claim of this node is not in the log.
    ClaimLost {
        /// The name.
        name: Name,
    },
    /// A name of this node's session that nobody here claims is given up.
    Orphan {
        /// The name.
        name: Name,
    },
    /// A name of this node went to another actor.
    GivenAway {
        /// The name.
        name: Name,
    },
    /// A name of another actor came to this node.
    Taken {
        /// The name.
        name: Name,
        /// Its new fencing token.
        token: Position,
    },
    /// The store did not take a batch, for its size. What was asked for is decided anew, in smaller ones.
    BatchTooLarge {
        /// What the store said.
        reason: String,
        /// How many bytes the next ones have at most.
        tried_next: usize,
    },
    /// The log could not be read. Nothing of it was applied.
    Corrupt {
        /// What is wrong.
        reason: String,
    },
}

/// What became of the seat of a node that drains. In order: of several registries the last one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Drained {
    /// Another member leads, and was heard to serve. No registration has to wait for this node to be gone.
    Led {
        /// The member.
        by: NodeName,
    },
    /// No other member could have the seat: there is none that is synced, lives, and is not about to leave itself.
    Alone,
    /// It was not seen in time that another member serves, or what was asked here before was not decided: the store or
    /// the others are out of reach, or the seat passes to somebody who is dead. The others find out as they do when a node dies.
    TimedOut,
    /// The node has left already.
    Left,
}
