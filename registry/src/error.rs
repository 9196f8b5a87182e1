//! What can go wrong, and what the caller may conclude from it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use callsign_elector::settings::{InForce, OutOfBounds};
use callsign_store::{
    OpenError,
    ids::{Incarnation, InvalidName, NodeName, Position},
    supervision::NodeFailure,
};
use callsign_transport::{ResolveError, StartError};

use crate::{
    core::{
        entry::Entry,
        meta::MetaError,
        name::BadName,
        taking::{Decline, TakeRefusal},
    },
    status::Status,
};

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A node, cluster or registry name breaks the rules. Nothing was opened.
    #[error(transparent)]
    BadName(#[from] InvalidName),
    /// The store's URL is wrong, or the store cannot be opened. Nothing was changed.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store did not answer in time. The session may have been opened; joining again continues or replaces it.
    #[error("the store is unavailable: {0}")]
    StoreUnavailable(String),
    /// The node cannot listen, or may not without a secret or certificates, or the certificate is not its own. Nothing was changed.
    #[error(transparent)]
    Transport(#[from] StartError),
    /// Another process runs under this node's name, and lives. Nothing was changed.
    #[error("a node {node} is alive already (incarnation {incarnation})")]
    NameInUse {
        /// The name that both have.
        node: NodeName,
        /// The one that was there first.
        incarnation: Incarnation,
    },
    /// A former process of this node's name left its session open, and may be dead. Nothing was changed. Waiting
    /// longer than its lease lets it be closed.
    #[error("the session of a former node {node} (incarnation {incarnation}) is still open")]
    FormerOpen {
        /// The name that both have.
        node: NodeName,
        /// The one that was there first.
        incarnation: Incarnation,
    },
    /// The timing leaves no room to beat twice. Nothing was changed.
    #[error("the timing cannot work: {0}")]
    Timing(String),
    /// A record in the store cannot be read. Nothing was changed.
    #[error("the store holds a record that cannot be read: {0}")]
    Corrupt(String),
    /// This node is a member of that registry already.
    #[error("this node has joined {registry} already")]
    AlreadyJoined {
        /// The registry.
        registry: String,
    },
    /// The node has left, or is leaving.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. Nothing was changed.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a start brought neither an actor of this call's nor one of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum NotStarted {
    /// The name was not asked for, or was asked for and it is not known what became of it: as when it is registered. After
    /// `Unknown` nothing is started any more, unless it was started before: then its actor may be bound to the name yet, and is
    /// given up or kept as any other.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Somebody else was starting it, and had not done so in time. Nothing was started by this call.
    #[error("somebody else has been starting {name:?} for {waited:?}")]
    StillStarting {
        /// The name asked for.
        name: String,
        /// The fencing token of that start.
        token: Position,
        /// How long was waited, from the beginning of the call.
        waited: Duration,
    },
    /// The function has failed. The name is given up.
    #[error("the start has failed: {reason}")]
    Failed {
        /// What its error says; 200 bytes of it.
        reason: String,
    },
    /// The function has panicked. The name is given up.
    #[error("the start has panicked: {reason}")]
    Panicked {
        /// What the panic says; 200 bytes of it.
        reason: String,
    },
    /// The actor ended before it held the name. The name is given up.
    #[error("the actor has ended before it held the name")]
    Ended,
    /// The function returned an actor of another node. The name is given up.
    #[error("the actor that was started runs on {}", of(node.as_ref()))]
    NotLocal {
        /// Where it runs, if that can be told.
        node: Option<NodeName>,
    },
    /// The function returned an actor that takes other messages than its reference says. It is stopped, and the name is given up.
    #[error("the actor takes other messages than its reference says")]
    OtherMessages,
    /// The function took too long. It goes on; the actor that it returns is stopped. The name is given up.
    #[error("the start took longer than {limit:?}")]
    TooSlow {
        /// How long it may take.
        limit: Duration,
    },
    /// The session lapsed, or the name was lost, while the actor was being started. It goes on; the actor that it returns is
    /// stopped.
    #[error("the name was lost while its actor was being started")]
    Lost,
    /// Nobody waited for the start when it could begin. Nothing was started, and the name is given up.
    #[error("nobody waited for the start any more")]
    Abandoned,
}

impl NotStarted {
    /// What is said of it to others.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Failed { reason } => reason.clone(),
            other => other.to_string(),
        }
    }
}

/// Why a name was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name breaks the rules. Nothing was sent.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// Another actor holds the name. It was so at a moment after the call began.
    #[error("{name:?} is held by an actor on {}", holder.node)]
    Taken {
        /// The name asked for.
        name: String,
        /// Who holds it.
        holder: Entry,
    },
    /// The actor has ended: before the name was asked for, or before it was granted. It holds nothing; what was granted
    /// meanwhile is given up.
    #[error("the actor has ended")]
    ActorEnded,
    /// The actor runs on another node, and only its own node can register it: nobody else hears when it ends. Nothing was
    /// sent.
    #[error("the actor runs on {}, and only its own node can register it", of(node.as_ref()))]
    NotLocal {
        /// Where it runs. `None`: the reference is not one of this node's links, or that link is down.
        node: Option<NodeName>,
    },
    /// This node's replica is not complete yet. Nothing was sent.
    #[error("this node is not synced yet")]
    NotSynced,
    /// No member leads at present, and none came to in time. Nothing was sent.
    #[error("no leader")]
    NoLeader,
    /// This node's session is not trusted, though the store can be reached again by now. Nothing was sent.
    #[error("this node's session has lapsed")]
    Lapsed,
    /// The store takes no commits from this node. Nothing was sent, so the name is not held by this call.
    #[error("the store has taken no commit for {lasting:?}")]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The semaphore has another limit while anybody is in it. So it was at a moment after the call began.
    #[error("the limit in force is {limit}")]
    OtherLimit {
        /// The limit in force.
        limit: u32,
    },
    /// By its certificate this node may not hold the name. So it was at a moment after the call began.
    #[error(
        "the certificate of this node does not let it hold {name:?}, but names that begin with {}",
        quoted(allowed)
    )]
    NotPermitted {
        /// The name asked for; of a membership, the name of the group.
        name: String,
        /// How the names begin that it may hold, as the leader knows.
        allowed: Vec<String>,
    },
    /// The session that asked was closed. The name is not, and will not be, held by this request's session.
    #[error("the session ended while {name:?} was being registered")]
    SessionLost {
        /// The name asked for.
        name: String,
    },
    /// The request was sent and no verdict came in time: the name may or may not be held by the caller, now or
    /// later. Registering the same actor again is safe, and finds out.
    #[error("the outcome of registering {name:?} is unknown after {waited:?}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Too many requests of this node are undecided. Nothing was sent.
    #[error("{pending} requests are undecided, try later")]
    Overloaded {
        /// How many.
        pending: usize,
    },
    /// This node is about to leave, and takes no new names. Nothing was sent: ask one of these.
    #[error("the node is about to leave; ask {}", nodes(ask))]
    Draining {
        /// Who serves and is not known to be about to leave: the leader first. Empty: this node knows of nobody.
        ask: Vec<Elsewhere>,
    },
    /// The node has left the registry. Nothing was sent.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. If anything was granted, it ends with the
    /// node's session.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a name was not taken from its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The name was not asked for, or was asked for and it is not known what became of it: as when it is registered. After `Unknown`
    /// the name may come to the actor yet; then what its holder handed over is lost.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The holder's node said no. The holder keeps the name, and this call will not get it.
    #[error("{name:?} was not given: {why}")]
    Refused {
        /// The name asked for.
        name: String,
        /// Why.
        why: TakeRefusal,
    },
    /// Nobody holds the name under that token, or not any more: it was given up, lost, or given to somebody else.
    #[error("{name:?} is not held under token {token} any more")]
    Gone {
        /// The name asked for.
        name: String,
        /// The token that was expected.
        token: Position,
    },
    /// This node's replica is not as far as the token. Nothing was asked.
    #[error("this node is at {at} after {waited:?}, and does not know the holder of {name:?} under {wanted}")]
    Behind {
        /// The name asked for.
        name: String,
        /// Where the replica is.
        at: Position,
        /// The token that was expected.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
}

/// Why a name did not go to the node that it was offered to. Its holder has it as before, except after `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The name cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// No actor of this node holds the name, or not any more.
    #[error("{name:?} is not held by this node")]
    NotHeldHere {
        /// The name.
        name: String,
        /// Who holds it, by this node's own replica.
        holder: Option<Entry>,
    },
    /// Its holder was registered without a policy that gives the name away.
    #[error("the holder of {name:?} gives it to nobody")]
    NotGiven {
        /// The name.
        name: String,
    },
    /// The name is on its way already, or something of it is undecided.
    #[error("{name:?} is on its way already, or something of it is undecided")]
    Busy {
        /// The name.
        name: String,
    },
    /// The registry has no member of that name, as this node last read.
    #[error("{node} is no member of the registry")]
    NoSuchMember {
        /// The node.
        node: NodeName,
    },
    /// The member could not have the name now: it is not linked to this node, does not have all names yet, or is about to leave.
    #[error("{node} cannot take {name:?} now: it is not linked, not synced, or about to leave")]
    NotReady {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
    },
    /// The member did not take the name.
    #[error("{node} did not take {name:?}: {why}")]
    Declined {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
        /// Why.
        why: Decline,
    },
    /// The member neither asked for the name nor declined it in time. If it asks yet, it may get the name.
    #[error("{node} neither took {name:?} nor declined it within {waited:?}")]
    Silent {
        /// The name.
        name: String,
        /// The member.
        node: NodeName,
        /// How long was waited for it.
        waited: Duration,
    },
    /// This node's session is not trusted. Nothing was offered.
    #[error("the session of this node is not trusted")]
    Lapsed,
    /// The name was offered, and it is not known what becomes of that: look the name up.
    #[error("it is not known after {waited:?} whether {name:?} has moved")]
    Unknown {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left, or is about to close its session.
    #[error("the node has left the registry")]
    Left,
    /// A part of the node has failed.
    #[error(transparent)]
    Failed(NodeFailure),
}

/// A node that can be asked in another's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Elsewhere {
    /// The node.
    pub node: NodeName,
    /// Where it listens for links, `host:port`.
    pub address: String,
}

fn of(node: Option<&NodeName>) -> String {
    node.map_or_else(|| "another node".to_owned(), |node| format!("node {node}"))
}

fn quoted(prefixes: &[String]) -> String {
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| format!("{prefix:?}")).collect();
    prefixes.join(" or ")
}

fn nodes(ask: &[Elsewhere]) -> String {
    let nodes: Vec<_> = ask.iter().map(|elsewhere| elsewhere.node.as_str()).collect();
    if nodes.is_empty() { "another one".to_owned() } else { nodes.join(", or ") }
}

/// Why a message was not sent to a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// This node cannot say now which members the group has. Nothing was sent.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The message cannot be sent to many. Nothing was sent.
    #[error(transparent)]
    NotSent(#[from] callsign_transport::BroadcastError),
}

/// Why a place in a semaphore was not had. Whatever was granted is given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The place was not granted. [`RegisterError::OtherLimit`] says which limit is in force.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A semaphore of no places was asked for. Nothing was sent.
    #[error("a semaphore must have a place")]
    NoPlaces,
    /// The actor of the guard was not started. Nothing was sent.
    #[error("the actor of the guard was not started: {0}")]
    NotStarted(String),
    /// The place was lost while others held: the session of this node was closed, or the node has left.
    #[error("the place was lost while others held")]
    Lost,
    /// Others held for so long. The place is given up.
    #[error("others held for {waited:?}")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
}

/// Why a name was not unregistered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum UnregisterError {
    /// The name breaks the rules. Nothing was sent.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// This node holds no such name. Only its host can give a name up.
    #[error("{name:?} is not held by this node")]
    NotHeldHere {
        /// The name.
        name: String,
        /// Who holds it, as this node's replica knows.
        holder: Option<Entry>,
    },
    /// This node has given the name up and will see it freed, but that is not done yet: no verdict came in time.
    #[error("{name:?} is given up, but not freed yet after {waited:?}")]
    Pending {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The store takes no commits from this node, and calls are to fail then
    /// ([`Config::on_outage`](crate::Config::on_outage)). Nothing was changed: the name is held as before.
    #[error("the store has taken no commit for {lasting:?}")]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The node has left the registry. Its session is closed, or will be, and frees all its names.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. The end of its session frees all its
    /// names.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why the metadata of a name was not replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The value cannot be metadata. Nothing was sent.
    #[error(transparent)]
    BadMeta(#[from] MetaError),
    /// The registration has ended, so it says nothing of itself any more. Nothing was changed.
    #[error("{name:?} is not held by this registration any more")]
    NotHeld {
        /// The name.
        name: String,
        /// Who holds it, as the log or this node's replica has it.
        holder: Option<Entry>,
    },
    /// The metadata was changed since the revision that was given. Nothing was changed. It was so at a moment after the call began.
    #[error("{name:?} was changed at {revision}, after the revision that was given")]
    Changed {
        /// The name.
        name: String,
        /// The position of the last change.
        revision: Position,
    },
    /// This node's replica is not complete yet. Nothing was sent.
    #[error("this node is not synced yet")]
    NotSynced,
    /// No member leads at present, and none came to in time. Nothing was sent.
    #[error("no leader")]
    NoLeader,
    /// This node's session is not trusted. Nothing was sent.
    #[error("this node's session has lapsed")]
    Lapsed,
    /// The store takes no commits from this node, and calls are to fail then
    /// ([`Config::on_outage`](crate::Config::on_outage)). Nothing was sent.
    #[error("the store has taken no commit for {lasting:?}")]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The session was closed, and with it the registration has ended. The update may have been seen for a moment.
    #[error("the session ended while {name:?} was being updated")]
    SessionLost {
        /// The name.
        name: String,
    },
    /// The request was sent and no verdict came in time: the metadata may be replaced now or later, or not at all. Reading the
    /// revision from the log ([`Registry::lookup_consistent`](crate::Registry::lookup_consistent)) tells whether it was so far.
    #[error("the outcome of updating {name:?} is unknown after {waited:?}")]
    Unknown {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Too many requests of this node are undecided, or they bring too much metadata. Nothing was sent.
    #[error("{pending} requests are undecided, try later")]
    Overloaded {
        /// How many.
        pending: usize,
    },
    /// The node has left the registry. Its session is closed, or will be, and frees all its names.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. The end of its session frees all its
    /// names.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a setting was not seen to be set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// A time cannot work. Nothing was asked.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// It was not seen to be set in time. It may be set yet: this node says so as soon as the store lets it. Or it was set, and
    /// another member has set something else since; or a member of a version that does not know settings has dropped it.
    #[error("after {waited:?} it is not known whether it is set")]
    Unknown {
        /// How long was waited.
        waited: Duration,
        /// What holds, as this node last read.
        in_force: InForce,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a local read did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The name breaks the rules, so nobody holds it.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// This node's replica is not complete yet: it does not know.
    #[error("this node is not synced yet")]
    NotSynced,
    /// This node's session is not trusted: it may be cut off, and the name may have moved on.
    #[error("this node's session has lapsed")]
    Lapsed {
        /// What the replica had last.
        last_known: Option<Entry>,
    },
    /// A part of the node has ended that nobody had asked to, so the whole node has: nothing is known here any more.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a name did not lead to an actor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhereisError {
    /// Nobody holds the name, as far as this node's complete replica goes.
    #[error("nobody holds {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The replica could not answer.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// An actor is being started for the name. It can be reached soon, by whoever then holds the name.
    #[error("an actor is being started for {name:?} on {node}")]
    Starting {
        /// The name.
        name: String,
        /// Where it is started.
        node: NodeName,
        /// The fencing token of the start.
        token: Position,
    },
    /// The name is held, but its actor cannot be reached from here in this way.
    #[error("{name:?} is held on {}, but cannot be reached: {source}", entry.node)]
    Unreachable {
        /// The name.
        name: String,
        /// Who holds it. Boxed, so that the errors of a lookup stay small.
        entry: Box<Entry>,
        /// Why.
        source: ResolveError,
    },
    /// The consistent read behind it did not answer.
    #[error(transparent)]
    Consistent(#[from] ConsistentError),
}

/// Why a replica did not come to a position in time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The replica is not there yet.
    #[error("the replica is at {at}, not yet at {wanted}, after {waited:?}")]
    Behind {
        /// Where the replica is.
        at: Position,
        /// Where it had to be.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why nothing is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// What is selected begins behind a name, or ends after some. A watch has no pages.
    #[error("a watch has no pages: `after` and `limit` mean nothing in it")]
    Paged,
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why waiting for a name came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// It did not happen in time.
    #[error("{name:?} did not come to that within {waited:?}")]
    TimedOut {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
        /// Why this node could not say at the end, if it could not.
        lacks: Option<LookupError>,
    },
    /// The name breaks the rules, or the node has failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The node has left, or has failed meanwhile.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// Why a node does not serve: what it lacked when the time was over. If it lacked several things, the first of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// The node is about to leave, and will not be ready again.
    #[error("the node is about to leave")]
    Draining,
    /// Its session is not trusted: the store does not answer it, or has closed the session.
    #[error("the node's session is not trusted, after {waited:?}")]
    NotTrusted {
        /// How long was waited.
        waited: Duration,
    },
    /// Its replica is not complete.
    #[error("the node is not synced yet, after {waited:?}")]
    NotSynced {
        /// How long was waited.
        waited: Duration,
    },
    /// Nobody leads, and no member may: its certificate says so, or its priority is 0. So it stays until a member comes that may.
    #[error(
        "no member of the registry may lead: by their certificates or priorities they never do (waited for {waited:?})"
    )]
    NobodyMayLead {
        /// How long was waited.
        waited: Duration,
    },
    /// No member leads that has opened its epoch and can be reached.
    #[error("no leader serves, after {waited:?}")]
    NoLeader {
        /// Who is elected, and does not serve this node yet.
        elected: Option<NodeName>,
        /// How long was waited.
        waited: Duration,
    },
    /// The node's member did not say in time that it serves, and nothing is known that it lacks: it hangs, is starved, or became
    /// ready just now.
    #[error("the node's member did not say within {waited:?} that it serves")]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
}

impl NotReady {
    /// What a node lacks by its status.
    pub(crate) fn of(status: &Status, is_trusted: bool, waited: Duration) -> Self {
        let serving = status.leader.as_ref().is_some_and(|leader| leader.serving);
        match status.failed.clone() {
            Some(failure) => Self::Failed(failure),
            None if status.draining => Self::Draining,
            None if !is_trusted => Self::NotTrusted { waited },
            None if status.nobody_may_lead() => Self::NobodyMayLead { waited },
            None if !status.synced => Self::NotSynced { waited },
            None if !serving => {
                let elected = status.leader.as_ref().map(|leader| leader.node.clone());
                Self::NoLeader { elected, waited }
            }
            None => Self::Unanswered { waited },
        }
    }
}

/// Why a consistent read did not answer. It never answers with something old instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ConsistentError {
    /// The name breaks the rules, so nobody holds it.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The store could not be read in time.
    #[error("the store did not answer within {waited:?}")]
    StoreUnavailable {
        /// How long was waited.
        waited: Duration,
    },
    /// The store was read, but this node's replica did not get there in time.
    #[error("the replica is at {at}, the registry at {wanted}, after {waited:?}")]
    Behind {
        /// Where the replica is.
        at: Position,
        /// Where it had to be.
        wanted: Position,
        /// How long was waited.
        waited: Duration,
    },
    /// This node's own member did not answer in time: it hangs, or is starved. Nothing is known.
    #[error("this node's member did not answer within {waited:?}")]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

/// Why a node did not leave in good order. It does not serve any more, whatever this says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The store could not be told in time: the session is closed by the others when its lease has run out.
    #[error("the store could not be told: {0}; the others free this node's names when its lease has run out")]
    StoreUnavailable(String),
    /// The node had failed before, and was closed then, or tried to be.
    #[error("the node has failed: {0}")]
    Failed(NodeFailure),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberInfo;

    #[test]
    fn a_node_that_does_not_serve_says_what_it_lacks_first() {
        let node = NodeName::new("b").unwrap();
        let waited = Duration::from_secs(1);
        let mut status = Status::joining(&NodeName::new("a").unwrap());
        let says = |status: &Status, is_trusted| NotReady::of(status, is_trusted, waited);
        assert_eq!(says(&status, false), NotReady::NotTrusted { waited });
        assert_eq!(says(&status, true), NotReady::NotSynced { waited });
        let member = |may_lead| MemberInfo {
            node: node.clone(),
            address: String::new(),
            admin: None,
            synced: true,
            session_open: true,
            leads: false,
            draining: false,
            may_lead,
            linked: true,
        };
        status.members = vec![member(false), member(false)];
        assert_eq!(says(&status, true), NotReady::NobodyMayLead { waited });
        status.members[1].may_lead = true;
        assert_eq!(says(&status, true), NotReady::NotSynced { waited });
        status.synced = true;
        assert_eq!(says(&status, true), NotReady::NoLeader { elected: None, waited });
        let epoch = callsign_store::ids::Epoch(1);
        status.leader = Some(crate::LeaderInfo { node: node.clone(), epoch, serving: false });
        assert_eq!(says(&status, true), NotReady::NoLeader { elected: Some(node.clone()), waited });
        status.leader = Some(crate::LeaderInfo { node, epoch, serving: true });
        assert_eq!(says(&status, true), NotReady::Unanswered { waited });
        status.draining = true;
        assert_eq!(says(&status, false), NotReady::Draining);
        let failure = NodeFailure { part: "a part".into(), reason: "panicked".into() };
        status.failed = Some(failure.clone());
        assert_eq!(says(&status, false), NotReady::Failed(failure));
    }

    #[test]
    fn who_may_not_hold_a_name_is_told_which_ones_it_may() {
        let allowed = vec!["jobs/".to_owned(), "shop/".to_owned()];
        let text = RegisterError::NotPermitted { name: "x".into(), allowed }.to_string();
        let said = "the certificate of this node does not let it hold \"x\", but names that begin with \"jobs/\" or \"shop/\"";
        assert_eq!(text, said);
    }

    #[test]
    fn who_may_not_register_here_is_told_where() {
        let at = |name: &str| Elsewhere { node: NodeName::new(name).unwrap(), address: "127.0.0.1:1".into() };
        let text = |ask| RegisterError::Draining { ask }.to_string();
        assert_eq!(text(vec![at("b"), at("c")]), "the node is about to leave; ask b, or c");
        assert_eq!(text(Vec::new()), "the node is about to leave; ask another one");
        let elsewhere = |node| RegisterError::NotLocal { node }.to_string();
        assert!(elsewhere(NodeName::new("b").ok()).starts_with("the actor runs on node b, "));
        assert!(elsewhere(None).starts_with("the actor runs on another node, "));
    }
}
