//! What a member asks of its driver, and what it tells its elector.

use std::collections::BTreeSet;

use callsign_elector::{
    elector::{self, ViewDelta},
    lineage::LineageNumber,
    record::LogEnd,
    session::Observed,
};
use callsign_store::{
    Key, Read, Transaction, Value,
    ids::{Epoch, Incarnation, NodeName, Position},
};
use serde::{Deserialize, Serialize};

use super::{Answer, CallId, Event, Granted, Notice, OpId};
use crate::core::{
    message::Message,
    name::Name,
    taking::Offered,
    watched::{Given, WatchId},
};

/// What a member tells its elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tell {
    /// A message of the leader's member of this epoch arrived.
    LeaderContact(Epoch),
    LinkUp {
        node: NodeName,
        may_lead: bool,
    },
    LinkDown(NodeName),
    /// The replica holds the end of the log.
    Synced(Epoch, Position),
    /// The epoch is open.
    HandoffDone(Epoch),
    /// The replica has applied this batch: it was committed.
    Applied(LogEnd),
    /// The log in the store has this, and it does not follow what was applied.
    Contradicted {
        lineage: LineageNumber,
        key: Key,
        value: Value,
    },
    /// Look again: a session may have closed.
    Refresh,
    /// What is read of the store has to show the sessions of these nodes, too.
    Concerned(BTreeSet<NodeName>),
    /// What the leader has read of the members.
    Delta(ViewDelta),
    /// Say that this member is about to leave, and give up the seat.
    Drain,
    /// Leave: nothing is claimed here any more.
    Leave,
    /// Join again. `empty`: this member has no base and no claims.
    Rejoin {
        empty: bool,
    },
}

impl From<Tell> for elector::Notice {
    fn from(tell: Tell) -> Self {
        match tell {
            Tell::LeaderContact(epoch) => Self::LeaderContact { epoch },
            Tell::LinkUp { node, may_lead } => Self::LinkUp { node, may_lead },
            Tell::LinkDown(node) => Self::LinkDown { node },
            Tell::Synced(epoch, position) => Self::Synced { epoch, position },
            Tell::HandoffDone(epoch) => Self::HandoffDone { epoch },
            Tell::Applied(end) => Self::Applied { end },
            Tell::Contradicted { lineage, key, value } => Self::Contradicted { lineage, key, value },
            Tell::Refresh => Self::Changed,
            Tell::Concerned(nodes) => Self::Concerned { nodes },
            Tell::Delta(delta) => Self::Delta(delta),
            Tell::Drain => Self::Drain,
            Tell::Leave => Self::Leave,
            Tell::Rejoin { empty } => Self::Rejoin { empty },
        }
    }
}

/// What a member asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// Queue a message on a link, if it is still up: over another one it would come to another process, or out of turn.
    /// `None` only within a step.
    Send { to: NodeName, link: Option<u64>, message: Message },
    /// From now on the node is to observe these sessions, as far as this registry is concerned. Its elector rests unless they are all.
    Observe(Observed),
    /// Read.
    Read { id: OpId, reads: Vec<Read> },
    /// Commit. At most one batch is in flight.
    Commit { id: OpId, transaction: Transaction },
    /// Answer a client.
    Answer { call: CallId, answer: Answer },
    /// Have the actor of this name started, and say what came of it: once.
    Start { name: Name, granted: Granted },
    /// Give events to whoever watches: it has room for them.
    Given { watch: WatchId, events: Vec<Given> },
    /// Say when this actor ends.
    Watch { actor: u64 },
    /// It holds no name any more.
    Unwatch { actor: u64 },
    /// Stop an actor: its session lapsed, or its claim is lost.
    Stop { actor: u64 },
    /// Tell an actor, by the listeners of these claims of it: each of them once.
    Notify { actor: u64, claims: Vec<CallId>, notice: Notice },
    /// The claim that began with this call ends. Nobody may act on it from here on, so this comes before whatever else ends it.
    Flag { claim: CallId },
    /// The name of the claim may be another's soon. Nobody may act on the claim, unless this is taken back.
    Suspend { claim: CallId },
    /// The name stays where it is: whoever has the claim may act on it.
    Unflag { claim: CallId },
    /// Have the holder of this name say what goes with it, to an actor of that node: once.
    Give { name: Name, claim: CallId, consent: u64, to: NodeName },
    /// Have the application make an actor that takes this name, or say why it does not: once.
    Offered(Offered),
    /// The second call found what it asked for held by the claim of the first: whoever listens for it listens for that one.
    Same { claim: CallId, again: CallId },
    /// The claim that began with this call, of a place in a semaphore, holds it from here on, until it ends.
    Holds { claim: CallId },
    /// Nothing more will be said of the claim that this call began, or asked for in vain.
    Forget { claim: CallId },
    /// Tell the elector.
    Tell(Tell),
    /// The link to a node closed: if its session can be proven dead, close it.
    Suspect { node: NodeName, incarnation: Incarnation },
    /// Something happened that people and programs may want to know.
    Event(Event),
}

impl Effect {
    /// A message for a node. The member says over which link, when the step ends.
    pub(crate) fn send(to: NodeName, message: Message) -> Self {
        Self::Send { to, link: None, message }
    }
}
