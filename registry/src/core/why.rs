//! Why a name changed: what its host says when it gives the name up, and what whoever watches it is told.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a host gives up a name. The request says it, and the operation in the log carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GivenUp {
    /// Somebody asked for it, or nobody of the host claims the name.
    Unregistered,
    /// The actor has ended.
    ActorEnded,
    /// No actor was started for it: what went wrong, in at most 200 bytes.
    StartFailed { reason: String },
}

impl GivenUp {
    /// About how many bytes it takes beside an operation that says nothing.
    pub fn weight(&self) -> usize {
        if let Self::StartFailed { reason } = self { reason.len() + 16 } else { 0 }
    }
}

/// Why a name changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// An actor registered it.
    Registered,
    /// A node has it, and starts an actor for it.
    Starting,
    /// The actor that was started for it holds it.
    Bound,
    /// No actor could be started for it.
    StartFailed {
        /// What went wrong, in at most 200 bytes.
        reason: String,
    },
    /// Its holder said something else of itself.
    Updated,
    /// It was unregistered.
    Unregistered,
    /// Its actor ended.
    ActorEnded,
    /// The session of its node was closed.
    NodeGone,
    /// It went to another actor.
    Transferred,
    /// The registry began anew with no names.
    Reset,
    /// This node has not seen the change itself, only what came of it.
    Unknown,
}

impl Why {
    /// What it is, as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Starting => "starting",
            Self::Bound => "bound",
            Self::StartFailed { .. } => "start_failed",
            Self::Updated => "updated",
            Self::Unregistered => "unregistered",
            Self::ActorEnded => "actor_ended",
            Self::NodeGone => "node_gone",
            Self::Transferred => "transferred",
            Self::Reset => "reset",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartFailed { reason } => write!(f, "start failed: {reason}"),
            other => f.write_str(&other.as_str().replace('_', " ")),
        }
    }
}

impl From<&GivenUp> for Why {
    fn from(given_up: &GivenUp) -> Self {
        match given_up {
            GivenUp::Unregistered => Self::Unregistered,
            GivenUp::ActorEnded => Self::ActorEnded,
            GivenUp::StartFailed { reason } => Self::StartFailed { reason: reason.clone() },
        }
    }
}
