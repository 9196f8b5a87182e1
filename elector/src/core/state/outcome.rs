//! What an entry of the queue did, or why it did nothing.

use callsign_store::ids::{NodeName, Token};
use serde::{Deserialize, Serialize};

use crate::core::settings::OutOfBounds;

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// A member joined, or joined again.
    Joined {
        /// The member.
        node: NodeName,
        /// Its new token.
        token: Token,
    },
    /// A member whose session is closed was removed.
    Removed {
        /// The member.
        node: NodeName,
    },
    /// A member left.
    Left {
        /// The member.
        node: NodeName,
    },
    /// A member calls the leader silent.
    Accused {
        /// The accuser.
        by: NodeName,
    },
    /// A member took its accusation back.
    Withdrawn {
        /// The accuser.
        by: NodeName,
    },
    /// A leader gave up the seat.
    Resigned {
        /// The leader of the epoch that ended.
        node: NodeName,
    },
    /// A member is about to leave.
    Drains {
        /// The member.
        node: NodeName,
    },
    /// A member's replica holds the log's end.
    Synced {
        /// The member.
        node: NodeName,
    },
    /// A member set something for all.
    Configured {
        /// The member.
        by: NodeName,
    },
    /// A member took the vacant seat without an entry.
    Filled,
}

/// Why an entry did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Dropped {
    /// The session that wants to join is not open.
    #[error("the session of its author is not open")]
    AuthorNotOpen,
    /// The member that it is about is none.
    #[error("it is about a node that is no member")]
    UnknownMember,
    /// The member that it is about has joined again since, or the join was applied already.
    #[error("it is about a join that is not the current one")]
    StaleToken,
    /// The author is not a member by the join that it quotes.
    #[error("its author is not a member by the join that it quotes")]
    StaleAuthor,
    /// It was said in another epoch.
    #[error("it was said in another epoch")]
    StaleEpoch,
    /// The session of the accused is not closed.
    #[error("the session of the accused is not closed")]
    NotClosed,
    /// It is about the leader, and the member that it names does not lead.
    #[error("it is about the leader, and names somebody else")]
    NotLeader,
    /// The log no longer has what the replica lacks.
    #[error("the log is cut behind what the replica holds")]
    BehindFloor,
    /// The registry has the most members that it may have.
    #[error("the registry has the most members that it may have")]
    Full,
    /// What it would set cannot work.
    #[error(transparent)]
    OutOfBounds(OutOfBounds),
    /// Everything that it says is so already.
    #[error("it says nothing new")]
    NothingNew,
}
