//! What clients ask of a member, and what they are told.

use std::time::Duration;

use bytes::Bytes;
use callsign_store::ids::{NodeName, Position, SessionNumber};
use callsign_transport::Kind;
use serde::{Deserialize, Serialize};

use super::{Drained, OnLapse, OnTake};
use crate::{
    core::{entry::Entry, explained::Explained, group::GroupId, meta::Meta, name::Name},
    error::{
        ConsistentError, ExplainError, NotStarted, OfferError, RegisterError, TakeError, UnregisterError,
        UpdateError,
    },
};

/// Names one call of a client, so that its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// A registration, as its caller is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Granted {
    /// Where it is in the log: the fencing token.
    pub token: Position,
    /// Where the last change is.
    pub revision: Position,
    /// The session that it belongs to.
    pub session: SessionNumber,
    /// The call that the claim began with: an earlier one, if the actor held the name already.
    pub claim: CallId,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    Register {
        name: Name,
        actor: u64,
        kind: Kind,
        on_lapse: OnLapse,
        on_take: OnTake,
        meta: Option<Meta>,
    },
    /// To take a name from the actor that holds it under the token, if that gives it.
    Take {
        name: Name,
        token: Position,
        actor: u64,
        kind: Kind,
        on_lapse: OnLapse,
        on_take: OnTake,
    },
    /// To offer a name of this node to another one, which may take it.
    Offer {
        name: Name,
        to: NodeName,
    },
    /// To hold a name, and then start the actor that holds it: unless somebody else does. `limit`: how long that may take.
    /// `patience`: how long others may take.
    Start {
        name: Name,
        kind: Kind,
        on_lapse: OnLapse,
        on_take: OnTake,
        meta: Option<Meta>,
        limit: Duration,
        patience: Duration,
    },
    Unregister {
        name: Name,
    },
    /// To be a member of a group with an actor.
    Join {
        group: GroupId,
        actor: u64,
        kind: Kind,
        on_lapse: OnLapse,
        meta: Option<Meta>,
    },
    /// To give a name up, or a membership by the name of its row, if this node holds it under the token.
    Withdraw {
        name: Name,
        token: Position,
    },
    /// To give up what an actor takes, or took, from the registration of that token: the actor lives, and does not want it any more.
    Disown {
        name: Name,
        token: Position,
        actor: u64,
    },
    /// To replace the metadata of a name, if this node holds it under the token, and if it was changed last at the revision.
    Update {
        name: Name,
        token: Position,
        revision: Option<Position>,
        meta: Option<Meta>,
    },
    Consistent {
        name: Name,
    },
    WaitFor {
        position: Position,
    },
    /// What is known of a name here.
    Explain {
        name: Name,
    },
    Ready,
    /// The node is about to leave: it takes no new names, and hands over the seat if it has it. What became of that is
    /// answered after `wait` at the latest.
    Drain,
    /// The node leaves: when nothing is undecided, or after `wait`, its actors are stopped or told, and the member asks and
    /// decides nothing any more.
    Leave,
}

impl Call {
    /// Whether it is over when its caller waits no more: it changes nothing, and nobody else hears of it.
    pub fn only_waits(&self) -> bool {
        matches!(self, Self::Consistent { .. } | Self::WaitFor { .. } | Self::Ready)
    }

    /// What its caller is told if the member does not answer.
    pub fn silence(&self) -> Silence {
        match self {
            Self::Register { name, .. } => Silence::Register { name: name.clone() },
            Self::Join { group, .. } => Silence::Register { name: group.key().clone() },
            Self::Start { name, .. } => Silence::Start { name: name.clone() },
            Self::Take { name, .. } => Silence::Take { name: name.clone() },
            Self::Offer { name, .. } => Silence::Offer { name: name.clone() },
            Self::Unregister { name } | Self::Withdraw { name, .. } | Self::Disown { name, .. } => {
                Silence::Unregister { name: name.clone() }
            }
            Self::Update { name, .. } => Silence::Update { name: name.clone() },
            Self::Consistent { .. } => Silence::Consistent,
            Self::WaitFor { .. } => Silence::WaitFor,
            Self::Explain { .. } => Silence::Explain,
            Self::Ready => Silence::Ready,
            Self::Drain => Silence::Drain,
            Self::Leave => Silence::Leave,
        }
    }
}

/// A call that the member may not answer: what its caller is told then is made when that happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    Register { name: Name },
    Start { name: Name },
    Take { name: Name },
    Offer { name: Name },
    Unregister { name: Name },
    Update { name: Name },
    Consistent,
    WaitFor,
    Explain,
    Ready,
    Drain,
    Leave,
}

impl Silence {
    /// What a caller is told whose member has not answered: it may have heard the call, and may still act on it.
    pub fn answer(&self, waited: Duration, at: Position) -> Answer {
        let unknown = |name: &Name| RegisterError::Unknown { name: name.to_string(), waited };
        match self {
            Self::Register { name } => Answer::Registered(Err(unknown(name))),
            Self::Start { name } => Answer::Started(Err(unknown(name).into())),
            Self::Take { name } => Answer::Taken(Err(unknown(name).into())),
            Self::Offer { name } => {
                Answer::Offered(Err(OfferError::Unknown { name: name.to_string(), waited }))
            }
            Self::Unregister { name } => {
                Answer::Unregistered(Err(UnregisterError::Pending { name: name.to_string(), waited }))
            }
            Self::Update { name } => {
                Answer::Updated(Err(UpdateError::Unknown { name: name.to_string(), waited }))
            }
            Self::Consistent => Answer::Consistent(Err(ConsistentError::Unanswered { waited })),
            Self::WaitFor => Answer::Reached(Err(at)),
            Self::Explain => Answer::Explained(Err(ExplainError::Unanswered { waited })),
            Self::Ready => Answer::Ready(false),
            Self::Drain => Answer::Drained(Drained::TimedOut),
            // It is going to.
            Self::Leave => Answer::Left,
        }
    }
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    Registered(Result<Granted, RegisterError>),
    Started(Result<StartedAs, NotStarted>),
    Taken(Result<TakenAs, TakeError>),
    /// The token under which the other node holds it.
    Offered(Result<Position, OfferError>),
    Unregistered(Result<Position, UnregisterError>),
    /// The position of the change.
    Updated(Result<Position, UpdateError>),
    Consistent(Result<(Position, Option<Entry>), ConsistentError>),
    Reached(Result<(), Position>),
    /// Boxed: it is the largest, and the least frequent.
    Explained(Result<Box<Explained>, ExplainError>),
    Ready(bool),
    Drained(Drained),
    Left,
}

/// A name that was taken from another actor, and what that one had to say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TakenAs {
    pub granted: Granted,
    pub data: Bytes,
}

/// The holder of a name whose actor was to be started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StartedAs {
    /// The actor that was started for this call.
    Ours(Granted),
    /// Another one.
    Theirs(Entry),
}

/// What a start came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Yielded {
    /// An actor of this node that runs, and what it takes. No kind: other messages than its reference says.
    Actor { actor: u64, kind: Option<Kind> },
    /// An actor that has ended.
    Ended,
    /// An actor of another node, if it can be told which.
    Foreign { node: Option<NodeName> },
    /// An error, which says this.
    Failed { reason: String },
    /// A panic, which says this.
    Panicked { reason: String },
    /// It was not begun: nobody waits for it.
    Abandoned,
}

impl Yielded {
    /// The actor of this node that it started.
    pub fn actor(&self) -> Option<u64> {
        if let Self::Actor { actor, .. } = self { Some(*actor) } else { None }
    }
}
