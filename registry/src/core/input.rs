//! What can happen to a member, and what a member asks of its driver.

mod calls;
mod effects;
mod events;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use callsign_elector::{elector::View, lineage::LineageId};
use callsign_store::{
    CommitOutcome, Read, ReadResult, StoreError, Time, Transaction,
    ids::{Epoch, Incarnation, NodeName, Position, SessionId, SessionNumber},
    keys::RegistryKeys,
};
use callsign_transport::{Kind, Permits};

pub use self::{
    calls::{Answer, Call, CallId, Granted, StartedAs, TakenAs, Yielded},
    effects::{Effect, Tell},
    events::{Drained, Event},
};
use crate::core::{message::Message, name::Name, select::Select, taking::Decline, watched::WatchId};

/// A reading of the node's clock, and of its session at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Now {
    pub time: Time,
    /// The session that is trusted, if one is.
    pub trusted: Option<SessionNumber>,
}

/// Names one read or commit, so that a late completion is not taken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u64);

/// What a part of a member is handed when it may ask the store.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    pub(crate) keys: &'a RegistryKeys,
    next_op: &'a mut u64,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<'a> Turn<'a> {
    /// `next_op` counts what the member asks of the store.
    pub(crate) fn new(
        now: Time,
        keys: &'a RegistryKeys,
        next_op: &'a mut u64,
        effects: &'a mut Vec<Effect>,
    ) -> Self {
        Self { now, keys, next_op, effects }
    }

    /// Asks for a read.
    pub(crate) fn read(&mut self, reads: Vec<Read>) -> OpId {
        let id = OpId::next(self.next_op);
        self.effects.push(Effect::Read { id, reads });
        id
    }

    /// Asks for a commit.
    pub(crate) fn commit(&mut self, transaction: Transaction) -> OpId {
        let id = OpId::next(self.next_op);
        self.effects.push(Effect::Commit { id, transaction });
        id
    }
}

impl OpId {
    /// The next of a member.
    pub(crate) fn next(count: &mut u64) -> Self {
        *count += 1;
        Self(*count)
    }
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    /// The elector saw a new state of the registry.
    View(Arc<View>),
    /// The node's session was opened, or opened anew.
    SessionOpened(SessionId),
    /// The node's session is not trusted. A registry that was joined meanwhile hears of the session by this.
    SessionLapsed(SessionId),
    /// It is trusted again.
    SessionResumed(SessionId),
    /// It was closed. Its names are lost.
    SessionLost,
    /// The node is in another lineage of the store from now on, or has lost what it knew of this one.
    Lineage(LineageId),
    /// A link to a node is up. `link` is the transport's number for it: no two links of a process have the same.
    /// `permits`: what the node may do, by the certificate that it showed.
    LinkUp { node: NodeName, incarnation: Incarnation, link: u64, permits: Permits },
    /// What this node may do, by its own certificate. Until this is said, everything.
    Permits(Permits),
    /// The link is down. Everything that came over it came before this.
    LinkDown { node: NodeName, incarnation: Incarnation },
    /// A message came over the link that is up.
    Message { from: NodeName, message: Message },
    /// A message could not be queued on the link.
    SendFailed { to: NodeName },
    /// A read ended.
    ReadDone { id: OpId, result: Result<ReadResult, StoreError> },
    /// A commit ended.
    CommitDone { id: OpId, outcome: CommitOutcome },
    /// The own elector sees a lock: the handoff of this epoch is to be run, here or at its leader.
    RunHandoff { leader: NodeName, epoch: Epoch },
    /// A client called.
    Call { id: CallId, call: Call, wait: Duration },
    /// Nobody waits for the answer to this call any more. Only what was asked in order to wait ends by it.
    GiveUp { call: CallId },
    /// What this node started for a name, by this claim, came to this.
    StartEnded { name: Name, claim: CallId, yielded: Yielded },
    /// What goes with a name that is to be given away, by this consent; or why it is not given.
    Given { name: Name, consent: u64, data: Result<Bytes, String> },
    /// The application takes names of this kind from other nodes, or does not any more.
    Receives { kind: Kind, does: bool },
    /// It has not taken what a session offered by this number.
    Declined { holder: Arc<SessionId>, number: u64, why: Decline },
    /// Somebody looks at the links of the cluster: the other members are asked for theirs.
    AskForLinks,
    /// A watched actor has ended.
    ActorEnded { actor: u64 },
    /// Somebody watches, and has room for so many events.
    OpenWatch { id: WatchId, select: Select, from: Option<Position>, room: usize },
    /// It has taken so many of them.
    ReadWatch { id: WatchId, events: usize },
    /// It watches no more.
    CloseWatch { id: WatchId },
    /// A time asked for has come.
    Wake,
    /// For now, nothing more is waiting: what was collected is to be sent.
    Idle,
}

/// What becomes of a registered actor when its session is not trusted any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnLapse {
    /// It is stopped. Its names are given up when the session resumes, or freed when it is closed.
    #[default]
    Stop,
    /// It is told, and has to hold still until it is told that trust resumed.
    Suspend,
}

/// Whether a name is given to an actor that asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnTake {
    /// It is not.
    #[default]
    Refuse,
    /// It is, with data.
    Give,
    /// It is, and it is offered to others when the node drains.
    Offer,
}

/// What an actor that asked to be told is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Notice {
    /// The session is not trusted: hold still. Another node may take the names soon.
    Lapsed,
    /// The session is trusted again, with all its names.
    Resumed,
    /// The name is another actor's, which has taken it as the policy of the registration allows.
    Transferred,
    /// The names are lost: the session was closed, or the log does not have them.
    Lost,
    /// The node is about to leave. The names are held as before, and lost soon: time to give them up, and to leave them to
    /// somebody else.
    Draining,
}
