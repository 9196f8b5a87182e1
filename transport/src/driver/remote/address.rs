//! Where actors of other nodes live.

use std::sync::Arc;

use ractor::SpawnErr;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::core::peer::PeerId;

/// Where an actor lives: what travels in place of an `ActorRef`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// The actor takes other messages.
    #[error("the actor takes messages of {found}, not of {expected}")]
    WrongType {
        /// Of the type asked for.
        expected: Kind,
        /// Of the address, or of the actor that was found.
        found: Kind,
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
    #[error("the proxy did not start: {0}")]
    Proxy(#[from] SpawnErr),
}
