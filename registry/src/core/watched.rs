//! What a watch gives: changes of names, and what is said of them.

use std::sync::Arc;

use callsign_store::ids::Position;
use serde::{Deserialize, Serialize};

use crate::core::{entry::Entry, name::Name, why::Why};

/// Names a watch among those of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchId(pub u64);

/// One change of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// The name.
    pub name: Name,
    /// Where it is in the registry's log.
    pub position: Position,
    /// The holder before.
    pub was: Option<Entry>,
    /// The holder from then on.
    pub now: Option<Entry>,
    /// Why it changed.
    pub why: Why,
}

/// What a watch gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WatchEvent {
    /// A name that is held, as part of the present state. Names come in any order, and changes may come between them; what comes last of
    /// a name is how it is.
    Present {
        /// The name.
        name: Name,
        /// Its holder.
        entry: Entry,
    },
    /// The present state is complete, as it is at this position.
    Current {
        /// The position.
        position: Position,
    },
    /// A name has changed.
    Change(Arc<Change>),
    /// Everything up to this position was given. Said from time to time when nothing is, so that a watch can be continued from there.
    Bookmark {
        /// The position.
        position: Position,
    },
    /// This reader was too slow for what this node remembers. Of each name that it missed the last state follows, as one change, whose
    /// `why` is [`Why::Unknown`].
    Lagged,
    /// Nothing that was given before counts: forget it. The present state follows, and then [`Current`](Self::Current).
    Reset,
    /// The session of this node is not trusted: what comes may come late.
    Lapsed,
    /// It is trusted again.
    Resumed,
}

/// An event for a reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Given {
    /// The event.
    pub event: WatchEvent,
    /// With it everything up to this position was given.
    pub passes: Option<Position>,
}
