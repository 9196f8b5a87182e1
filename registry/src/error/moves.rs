//! Why a name does not move to another actor.

use std::time::Duration;

use callsign_store::{
    ids::{NodeName, Position},
    supervision::NodeFailure,
};
use serde::{Deserialize, Serialize};

use super::shown;
use crate::{
    core::{
        entry::Entry,
        name::BadName,
        taking::{Decline, TakeRefusal},
    },
    error::RegisterError,
};

/// Why a name was not taken from its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The name was not asked for, or was asked for and it is not known what became of it: as when it is registered. After `Unknown`
    /// the name may come to the actor yet; then what its holder handed over is lost.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The holder's node said no. The holder keeps the name, and this call will not get it.
    #[error("{name:?} was not given")]
    Refused {
        /// The name asked for.
        name: String,
        /// Why.
        #[source]
        why: TakeRefusal,
    },
    /// Nobody holds the name under that token, or not any more: it was given up, lost, or given to somebody else.
    #[error("{name:?} is not held under token {token} any more")]
    Gone {
        /// The name asked for.
        name: String,
        /// The token that was expected.
        token: Position,
    },
    /// This node's replica is not as far as the token. Nothing was asked.
    #[error("this node is at {at} after {}, and does not know the holder of {name:?} under {wanted}", shown(*waited))]
    Behind {
        /// The name asked for.
        name: String,
        /// Where the replica is.
        at: Position,
        /// The token that was expected.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
}

/// Why a name did not go to the node that it was offered to. Its holder has it as before, except after `Unknown`
/// and `Silent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The name cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// No actor of this node holds the name, or not any more.
    #[error("{name:?} is not held by this node")]
    NotHeldHere {
        /// The name.
        name: String,
        /// The holder, by this node's own replica.
        holder: Option<Entry>,
    },
    /// Its holder was registered without a policy that gives the name away.
    #[error("the holder of {name:?} gives it to nobody")]
    NotGiven {
        /// The name.
        name: String,
    },
    /// The name is on its way already, or something of it is undecided.
    #[error("{name:?} is on its way already, or something of it is undecided")]
    Busy {
        /// The name.
        name: String,
    },
    /// The registry has no member of that name, as this node last read.
    #[error("{node} is no member of the registry")]
    NoSuchMember {
        /// The node.
        node: NodeName,
    },
    /// The member could not have the name now: it is not linked to this node, does not have all names yet, or is about to leave.
    #[error("{node} cannot take {name:?} now: it is not linked, not synced, or about to leave")]
    NotReady {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
    },
    /// The member did not take the name.
    #[error("{node} did not take {name:?}")]
    Declined {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
        /// Why.
        #[source]
        why: Decline,
    },
    /// The member neither asked for the name nor declined it in time. If it asks yet, it may get the name.
    #[error("{node} neither took {name:?} nor declined it within {}", shown(*waited))]
    Silent {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
        /// How long was waited for it.
        waited: Duration,
    },
    /// This node's session is not trusted, or the time was over before anything was offered. Nothing was offered.
    #[error("the session of this node is not trusted, or the time was over before anything was offered")]
    Lapsed,
    /// The name was offered, and it is not known what becomes of that: look the name up.
    #[error("it is not known after {} whether {name:?} has moved", shown(*waited))]
    Unknown {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left, or is about to close its session.
    #[error("the node has left the registry")]
    Left,
    /// A part of the node has failed.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}
