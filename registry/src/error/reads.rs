//! Why a read says nothing.

use std::time::Duration;

use callsign_store::{
    ids::{NodeName, Position},
    supervision::NodeFailure,
};
use callsign_transport::ResolveError;
use serde::{Deserialize, Serialize};

use super::shown;
use crate::core::{entry::Entry, name::BadName};

/// Why a local read did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The name breaks the rules, so nobody holds it.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// This node's replica is not complete yet: it does not know.
    #[error("this node is not synced yet")]
    NotSynced,
    /// This node's session is not trusted: it may be cut off, and the name may have moved on.
    #[error("this node's session has lapsed")]
    Lapsed {
        /// What the replica had last.
        last_known: Option<Entry>,
    },
    /// A part of the node has ended that nobody had asked to, so the whole node has: nothing is known here any more.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why a name did not lead to an actor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhereisError {
    /// Nobody holds the name, as far as this node's complete replica goes.
    #[error("nobody holds {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The replica could not answer.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// An actor is being started for the name. It can be reached soon, by whoever then holds the name.
    #[error("an actor is being started for {name:?} on {node}")]
    Starting {
        /// The name.
        name: String,
        /// Where it is started.
        node: NodeName,
        /// The fencing token of the start.
        token: Position,
    },
    /// The name is held, but its actor cannot be reached from here in this way.
    #[error("{name:?} is held on {}, but cannot be reached", entry.node)]
    Unreachable {
        /// The name.
        name: String,
        /// The holder. Boxed, so that the errors of a lookup stay small.
        entry: Box<Entry>,
        /// Why.
        source: ResolveError,
    },
    /// The consistent read behind it did not answer.
    #[error(transparent)]
    Consistent(#[from] ConsistentError),
}

/// Why a replica did not come to a position in time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The replica is not there yet.
    #[error("the replica is at {at}, not yet at {wanted}, after {}", shown(*waited))]
    Behind {
        /// Where the replica is.
        at: Position,
        /// Where it had to be.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why a node says nothing of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The name breaks the rules, so nobody holds it.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// This node's own member did not answer in time: it hangs, or is starved. Nothing is known.
    #[error("this node's member did not answer within {}", shown(*waited))]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why nothing is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// What is selected begins behind a name, or ends after some. A watch has no pages.
    #[error("a watch has no pages: `after` and `limit` mean nothing in it")]
    Paged,
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why waiting for a name came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// It did not happen in time.
    #[error("{name:?} did not come to that within {}", shown(*waited))]
    TimedOut {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
        /// Why this node could not say at the end, if it could not.
        lacks: Option<LookupError>,
    },
    /// The name breaks the rules, or the node has failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The node has left, or has failed meanwhile.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// Why a consistent read did not answer. It never answers with something old instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ConsistentError {
    /// The name breaks the rules, so nobody holds it.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The store could not be read in time.
    #[error("the store did not answer within {}", shown(*waited))]
    StoreUnavailable {
        /// How long was waited.
        waited: Duration,
    },
    /// The store was read, but this node's replica did not get there in time.
    #[error("the replica is at {at}, the registry at {wanted}, after {}", shown(*waited))]
    Behind {
        /// Where the replica is.
        at: Position,
        /// Where it had to be.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
    /// This node's own member did not answer in time: it hangs, or is starved. Nothing is known.
    #[error("this node's member did not answer within {}", shown(*waited))]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}
