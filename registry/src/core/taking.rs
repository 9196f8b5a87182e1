//! What the node that takes a name, and the node that gives it, tell each other, and why a name is not given.
//!
//! ```text
//!  taker                                   holder
//!    | --Ask-------------------------------> |  asks the actor's policy, flags the claim, gets the data
//!    | <------------------------------Data-- |
//!    | --Received--------------------------> |  asks the leader: from here on the log decides
//!    | <---------------------------Refused-- |  at any time before that: for good
//!    | --Over------------------------------> |  the taker does not want it any more
//!
//!  before all that, where the holder begins
//!    | <-------------------------------Offer |  the holder's node drains, or somebody wants the name to go there
//!    | --Declined--------------------------> |  and it is not taken
//! ```

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callsign_store::ids::{Position, SessionId};
use callsign_transport::Kind;
use serde::{Deserialize, Serialize};

use crate::core::{name::Name, table::RequestNumber};

/// The most bytes of data that go with a name.
pub const MAX_HANDED_BYTES: usize = 1 << 20;

/// One request of a session for a name that somebody else holds. It is answered once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taker {
    pub session: Arc<SessionId>,
    pub number: RequestNumber,
}

/// A message between the two. Each may come late, or again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Taking {
    /// Taker to holder: the name that this session of yours holds under the token is wanted for this actor.
    Ask { taker: Taker, holder: Arc<SessionId>, name: Name, token: Position, actor: u64, kind: Kind },
    /// Holder to taker: it does not get the name by this request.
    Refused { taker: Taker, holder: Arc<SessionId>, why: TakeRefusal },
    /// Holder to taker: it gets the name if it says that it has these data. `consent` is the holder's own number.
    Data { taker: Taker, holder: Arc<SessionId>, consent: u64, data: Bytes },
    /// Taker to holder: it has the data of this consent.
    Received { taker: Taker, consent: u64 },
    /// Taker to holder: it has no such request, or not any more.
    Over { taker: Taker },
    /// Holder to whoever may take the name.
    Offer(Offered),
    /// The answer, unless the name is asked for: this offer of that session comes to nothing.
    Declined { holder: Arc<SessionId>, number: u64, why: Decline },
}

/// A name that its holder offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offered {
    pub holder: Arc<SessionId>,
    /// Of the offer: no two of a session have the same.
    pub number: u64,
    pub name: Name,
    pub token: Position,
    pub kind: Kind,
}

/// Why a node did not take a name that it was offered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Decline {
    /// No receiver is registered there for what its holder takes.
    #[error("no receiver is registered there for such actors")]
    NoReceiver,
    /// It is about to leave itself.
    #[error("it is about to leave itself")]
    Draining,
    /// Its session is not trusted, or it does not have all names yet.
    #[error("it is not ready")]
    NotReady,
    /// Its receiver made no actor, or the actor did not get the name.
    #[error("its receiver did not take it: {reason}")]
    Failed {
        /// Why; 200 bytes of it.
        reason: String,
    },
}

/// Why a name was not given. Its holder keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum TakeRefusal {
    /// The holder was registered without a policy that gives the name away.
    #[error("its holder gives it to nobody")]
    NotGiven,
    /// The node that was asked does not hold the name under that token, or not any more.
    #[error("its holder does not hold it any more")]
    NotHeld,
    /// Somebody else is taking the name, or something else of it is undecided.
    #[error("somebody else takes it, or changes it")]
    Busy,
    /// Its actor is being started.
    #[error("its actor is being started")]
    Starting,
    /// The actor that is to have it takes other messages than its holder.
    #[error("its holder takes other messages")]
    OtherMessages,
    /// The function for the data failed, or said no.
    #[error("its holder refuses: {reason}")]
    Failed {
        /// What it says; 200 bytes of it.
        reason: String,
    },
    /// The data are too large.
    #[error("its holder hands over {bytes} bytes, and {MAX_HANDED_BYTES} are allowed")]
    TooLarge {
        /// How many bytes they have.
        bytes: usize,
    },
    /// The holder's node keeps too many data for others already.
    #[error("the node of its holder hands over too much at once")]
    Overloaded,
    /// The function for the data, or whoever was to have the name, took too long.
    #[error("the hand-over took longer than {limit:?}")]
    TooSlow {
        /// How long it may take.
        limit: Duration,
    },
    /// The link to whoever was to have the name was lost.
    #[error("the link between the nodes was lost")]
    LinkLost,
    /// Whoever was to have the name has lost its session, or does not want it any more.
    #[error("whoever was to have it is gone")]
    TakerGone,
    /// By its certificate, the node that was to have it may hold names only that begin with these.
    #[error("by its certificate the node may hold only names that begin with {}", .allowed.join(" or "))]
    NotPermitted {
        /// The beginnings.
        allowed: Vec<String>,
    },
}
