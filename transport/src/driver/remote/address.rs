//! Where actors of other nodes live.

use std::{sync::Arc, time::Duration};

use ractor::SpawnErr;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::core::{ends::End, frame::NotDelivered, held::NoReference, peer::PeerId};

/// Where an actor lives: what travels in place of an `ActorRef`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActorAddress {
    /// The node.
    pub node: Arc<str>,
    /// Its incarnation: a restarted node has other actors under the same numbers.
    pub incarnation: u64,
    /// The actor's number there.
    pub pid: u64,
    /// What messages it takes.
    pub kind: Kind,
}

impl ActorAddress {
    /// The actor with this number in an incarnation of a node, which takes messages of this kind.
    #[must_use]
    pub fn new(node: impl Into<Arc<str>>, incarnation: u64, pid: u64, kind: Kind) -> Self {
        Self { node: node.into(), incarnation, pid, kind }
    }
}

impl std::fmt::Display for ActorAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}/{}", self.node, self.incarnation, self.pid)
    }
}

/// Why an address did not become a reference.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No link to the node is up. The actor may be alive.
    #[error("no link to {node} is up")]
    NotLinked {
        /// The node.
        node: Arc<str>,
    },
    /// The actor does not run any more.
    #[error("the actor has ended")]
    Gone,
    /// The actor's node says that it is not for others: nobody gave its address away.
    #[error("the actor is not for other nodes")]
    NotExported,
    /// There are as many references as may be ([`LinkLimits::references`](crate::LinkLimits::references)), here or as its node
    /// counts them. The actor may be alive.
    #[error("there are {limit} references over the link, which is the limit")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The actor's node has not said in time whether the actor lives. Nothing is known.
    #[error("{node} has not said within {waited:?} whether the actor lives")]
    Unanswered {
        /// The node.
        node: Arc<str>,
        /// How long was waited.
        waited: Duration,
    },
    /// The actor takes other messages.
    #[error("the actor takes {}", other_messages(*found, *expected))]
    WrongType {
        /// Of the type asked for.
        expected: Kind,
        /// What the actor takes, as its address says. `None`: the address says what was asked for, and what the actor takes
        /// instead is not known.
        found: Option<Kind>,
    },
    /// The node is there in another incarnation; which of the two is newer is not known here.
    #[error("{linked} is linked, the address is of incarnation {wanted}")]
    OtherIncarnation {
        /// Of the address.
        wanted: u64,
        /// Who is there.
        linked: PeerId,
    },
    /// The proxy could not be started.
    #[error("the proxy did not start")]
    Proxy(#[from] SpawnErr),
}

fn other_messages(found: Option<Kind>, expected: Kind) -> String {
    match found {
        Some(found) => format!("messages of {found}, not of {expected}"),
        None => format!("other messages than those of {expected}"),
    }
}

impl From<NoReference> for ResolveError {
    fn from(why: NoReference) -> Self {
        match why {
            NoReference::Ended(_) => Self::Gone,
            NoReference::TooMany { limit } => Self::TooMany { limit },
        }
    }
}

impl ResolveError {
    /// What the node of an actor said.
    pub(super) fn said(end: &End, expected: Kind) -> Self {
        match end {
            End::Not(NotDelivered::NotExported) => Self::NotExported,
            // What it takes was not said.
            End::Not(NotDelivered::WrongKind) => Self::WrongType { expected, found: None },
            End::TooMany(limit) => Self::TooMany { limit: usize::try_from(*limit).unwrap_or(usize::MAX) },
            End::Stopped(_) | End::Failed(_) | End::Not(NotDelivered::Gone | NotDelivered::NoAnswer) => {
                Self::Gone
            }
        }
    }
}
