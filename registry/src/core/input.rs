//! What can happen to a member, and what a member asks of its driver.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use callsign_elector::{
    elector::{self, View},
    lineage::{LineageId, LineageNumber},
    record::LogEnd,
};
use callsign_store::{
    CommitOutcome, Key, Read, ReadResult, StoreError, Time, Transaction, Value,
    ids::{Epoch, Incarnation, NodeName, Position, SessionId, SessionNumber},
    keys::RegistryKeys,
};
use callsign_transport::{Kind, Permits};

use crate::{
    core::{
        entry::Entry,
        explained::Explained,
        group::GroupId,
        host::OnTake,
        message::Message,
        meta::Meta,
        name::Name,
        select::Select,
        taking::{Decline, Offered},
        watch::{Given, WatchId},
    },
    error::{
        ConsistentError, ExplainError, NotStarted, OfferError, RegisterError, TakeError, UnregisterError,
        UpdateError,
    },
};

/// A reading of the node's clock, and of its session at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Now {
    pub time: Time,
    /// The session that is trusted, if one is.
    pub trusted: Option<SessionNumber>,
}

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

/// What becomes of a registered actor when its session is not trusted any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnLapse {
    /// It is stopped. Its names are given up when the session resumes, or freed when it is closed.
    #[default]
    Stop,
    /// It is told, and has to hold still until it is told that trust resumed.
    Suspend,
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
    /// To give a membership up, by the name of its row, if this node holds it under the token.
    Withdraw {
        name: Name,
        token: Position,
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
    /// What its caller is told if the member does not answer.
    pub fn silence(&self) -> Silence {
        match self {
            Self::Register { name, .. } => Silence::Register { name: name.clone() },
            Self::Join { group, .. } => Silence::Register { name: group.key().clone() },
            Self::Start { name, .. } => Silence::Start { name: name.clone() },
            Self::Take { name, .. } => Silence::Take { name: name.clone() },
            Self::Offer { name, .. } => Silence::Offer { name: name.clone() },
            Self::Unregister { name } | Self::Withdraw { name, .. } => {
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
    /// What this node started for a name, by this claim, came to this.
    StartEnded { name: Name, claim: CallId, yielded: Yielded },
    /// What goes with a name that is to be given away, by this consent; or why it is not given.
    Given { name: Name, consent: u64, data: Result<Bytes, String> },
    /// The application takes names of this kind from other nodes, or does not any more.
    Receives { kind: Kind, does: bool },
    /// It has not taken what a session offered by this number.
    Declined { holder: Arc<SessionId>, number: u64, why: Decline },
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

/// What happens in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// Another term began.
    Term {
        /// Its epoch.
        epoch: Epoch,
        /// Who leads, or nobody.
        leader: Option<NodeName>,
    },
    /// This member was elected and has opened its epoch: it serves.
    Serving {
        /// The epoch.
        epoch: Epoch,
        /// Where it begins in the log.
        position: Position,
    },
    /// This member leads no more.
    Deposed {
        /// The epoch that is over for it.
        epoch: Epoch,
    },
    /// The replica holds the end of the log.
    Synced {
        /// The end.
        position: Position,
    },
    /// This node is about to leave: it takes no new names.
    Draining,
    /// It may leave: what became of the seat is known, or was waited for for long enough.
    Drained {
        /// What became of it.
        drained: Drained,
    },
    /// A snapshot took the replica's place.
    SnapshotInstalled {
        /// Where it is exact.
        position: Position,
        /// How many names it has.
        names: usize,
    },
    /// All names of a closed session are freed.
    HostGone {
        /// The session.
        session: SessionId,
        /// How many names it had.
        names: u64,
    },
    /// A claim of this node is not in the log.
    ClaimLost {
        /// The name.
        name: Name,
    },
    /// A name of this node's session that nobody here claims is given up.
    Orphan {
        /// The name.
        name: Name,
    },
    /// A name of this node went to another actor.
    GivenAway {
        /// The name.
        name: Name,
    },
    /// A name of another actor came to this node.
    Taken {
        /// The name.
        name: Name,
        /// Its new fencing token.
        token: Position,
    },
    /// The store did not take a batch, for its size. What was asked for is decided anew, in smaller ones.
    BatchTooLarge {
        /// What the store said.
        reason: String,
        /// How many bytes the next ones have at most.
        tried_next: usize,
    },
    /// The log could not be read. Nothing of it was applied.
    Corrupt {
        /// What is wrong.
        reason: String,
    },
}

/// What became of the seat of a node that drains. In order: of several registries the last one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Drained {
    /// Another member leads, and was heard to serve. No registration has to wait for this node to be gone.
    Led {
        /// The member.
        by: NodeName,
    },
    /// No other member could have the seat: there is none that is synced, lives, and is not about to leave itself.
    Alone,
    /// It was not seen in time that another member serves, or what was asked here before was not decided: the store or
    /// the others are out of reach, or the seat passes to somebody who is dead. The others find out as they do when a node dies.
    TimedOut,
    /// The node has left already.
    Left,
}
