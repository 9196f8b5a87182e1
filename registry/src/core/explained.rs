//! What a member knows of one name: who holds it, or why it is free.

use std::{fmt, time::Duration};

use callsign_store::ids::Position;
use serde::{Deserialize, Serialize};

use crate::core::{entry::Entry, name::Name, watched::Change, why::Why};

/// How many changes of a name are told at most.
pub(crate) const MAX_TOLD: usize = 32;

/// A change that a node remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastChange {
    /// The change. The former holder is shown with its metadata only if somebody watches on this node.
    pub change: Change,
    /// How long ago this node applied it, to about a second. `None`: it does not know, as of what was in the log before the node came.
    pub ago: Option<Duration>,
}

/// How a name is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NameState {
    /// It is held, or an actor [is being started](Entry::is_starting) for it.
    Held {
        /// The holder.
        entry: Entry,
        /// How long ago this node applied its registration, to about a second. `None`: it does not know.
        ago: Option<Duration>,
        /// How long ago this node applied its last change. `None`: it does not know.
        changed_ago: Option<Duration>,
    },
    /// Nobody holds it.
    Free(WhyFree),
    /// This node does not know: its replica is no complete prefix of the log.
    Unknown,
}

/// Why nobody holds a name, as far as a node remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WhyFree {
    /// The last registration under it has ended by this change.
    Ended(PastChange),
    /// The registry began with no names at this position, for the first time or anew, and nobody has held this one since.
    Reset {
        /// Where in the log that is.
        position: Position,
        /// How long ago this node applied it, to about a second. `None`: it does not know.
        ago: Option<Duration>,
    },
    /// Nobody has held it since this position. What was before, this node does not remember: somebody may have held it.
    NotRemembered {
        /// From where on this node remembers all changes.
        since: Position,
    },
}

/// What a member answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Explained {
    pub state: NameState,
    /// Whether the session of the holder is open, as far as this member has read.
    pub is_open: Option<bool>,
    /// The last ones, oldest first.
    pub changes: Vec<PastChange>,
    pub remembers_from: Option<Position>,
    /// Up to where the log was applied.
    pub position: Position,
}

impl NameState {
    /// The holder of the name.
    pub fn entry(&self) -> Option<&Entry> {
        if let Self::Held { entry, .. } = self { Some(entry) } else { None }
    }

    /// As a sentence about a name.
    pub(crate) fn of<'a>(&'a self, name: &'a Name) -> impl fmt::Display + 'a {
        Sentence { name, state: self }
    }
}

struct Sentence<'a> {
    name: &'a Name,
    state: &'a NameState,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.state {
            NameState::Held { entry, ago, changed_ago } => {
                let (token, revision, node) = (entry.token, entry.revision, &entry.node);
                let since = Ago(*ago);
                if entry.is_starting() {
                    return write!(
                        f,
                        "an actor is being started for {name} on {node}, since position {token}{since}"
                    );
                }
                write!(
                    f,
                    "{name} is held on {node}: registered at position {token}{since}, which is its token"
                )?;
                if token == revision {
                    return Ok(());
                }
                write!(f, ", and changed at {revision}{}", Ago(*changed_ago))
            }
            NameState::Free(why) => write!(f, "nobody holds {name}: {why}"),
            NameState::Unknown => {
                write!(f, "this node does not know who holds {name}: its replica is not complete")
            }
        }
    }
}

impl fmt::Display for WhyFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(PastChange { change: Change { position, was, why, .. }, ago }) => {
                let ago = Ago(*ago);
                let node = was.as_ref().map(|was| &was.node);
                let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
                match why {
                    Why::Unregistered => {
                        write!(f, "it was unregistered{on} at position {position}{ago}")
                    }
                    Why::ActorEnded => write!(f, "its actor{on} ended at position {position}{ago}"),
                    Why::StartFailed { reason } => {
                        write!(
                            f,
                            "no actor could be started for it{on} at position {position}{ago}: {reason}"
                        )
                    }
                    Why::NodeGone => {
                        let of = node.map(|node| format!(", {node},")).unwrap_or_default();
                        write!(f, "the session of its node{of} was closed at position {position}{ago}")
                    }
                    other => write!(f, "{other} at position {position}{ago}"),
                }
            }
            Self::Reset { position, ago } => {
                let ago = Ago(*ago);
                write!(
                    f,
                    "the registry began with no names at position {position}{ago}, and nobody has held it since"
                )
            }
            Self::NotRemembered { since } => {
                write!(f, "this node remembers changes from position {since} on, and none of this name")
            }
        }
    }
}

/// How long ago something was, in brackets; nothing, if that is not known.
struct Ago(Option<Duration>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(seconds) = self.0.map(|ago| ago.as_secs()) else { return Ok(()) };
        match seconds {
            ..120 => write!(f, " ({seconds} s ago)"),
            120..7_200 => write!(f, " ({} min ago)", seconds / 60),
            7_200..172_800 => write!(f, " ({} h ago)", seconds / 3_600),
            _ => write!(f, " ({} days ago)", seconds / 86_400),
        }
    }
}

#[cfg(test)]
mod tests;
