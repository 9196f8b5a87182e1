//! What goes into an elector, and what comes out.

use std::{collections::BTreeSet, sync::Arc};

use callsign_store::{
    CommitOutcome, Key, Read, ReadResult, StoreError, Time, TooLarge, Transaction, Value, Version,
    ids::{ClusterName, Epoch, NodeName, Position, RegistryName, SessionId},
};
use serde::{Deserialize, Serialize};

use super::{delta::ViewDelta, timing::ElectorTiming, view::View};
use crate::core::{
    lineage::{LineageId, LineageNumber},
    past::Fact,
    record::{Lock, LogEnd, QueueEntry},
    settings::Settings,
    state::{Change, Dropped, Seat},
};

/// What an elector is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectorConfig {
    /// The registry.
    pub registry: RegistryName,
    /// The cluster that it belongs to.
    pub cluster: ClusterName,
    /// The own node.
    pub node: NodeName,
    /// Where the own node listens for links: `host:port`.
    pub address: String,
    /// Where the own node answers whoever administers it: what the other members are told.
    pub admin: Option<String>,
    /// 0 is ineligible.
    pub priority: u32,
    /// The times.
    pub timing: ElectorTiming,
    /// Where jitter and nonces come from. Drawn afresh at each start: a lock of a former self must not look like one's
    /// own.
    pub seed: u64,
    /// The most checks that a transaction of the store may have: what the store's
    /// [limits](callsign_store::Limits::checks) say. A registry has no more members than that leaves room for. `None`: any
    /// number. Left out then, as versions before it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_checks: Option<usize>,
}

/// Identifies an operation of the store to the elector that asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u64);

/// What the node tells its elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// The node's open session; `None` while it has none that it trusts. Without one an elector only looks.
    Session(Option<SessionId>),
    /// Something in the store may have changed: a session was seen to close, say. One too many costs a read. An elector that rests
    /// looks at what changes with everything else.
    Changed,
    /// A message of the leader's member of that epoch arrived.
    LeaderContact {
        /// The epoch that the message carries.
        epoch: Epoch,
    },
    /// The link to a node closed.
    LinkDown {
        /// The other node.
        node: NodeName,
    },
    /// The link to a node opened.
    LinkUp {
        /// The other node.
        node: NodeName,
        /// Whether it may lead, by the certificate that it showed.
        may_lead: bool,
    },
    /// Whether the own node may lead, by its certificate. Until this is said, it may.
    MayLead(bool),
    /// The own replica holds the log's end. Counts in the epoch it names only: to be said again while the
    /// [`View`] shows another epoch and the own row unsynced.
    Synced {
        /// The epoch that the view showed.
        epoch: Epoch,
        /// What the replica has applied.
        position: Position,
    },
    /// The handoff that [`ElectorEvent::RunHandoff`] asked for is done.
    HandoffDone {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// The handoff that [`ElectorEvent::RunHandoff`] asked for failed, or its leader cannot be reached.
    HandoffFailed {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// The own member started again, or wants back in after it left. It joins under a new token.
    Rejoin {
        /// Whether it has no base and no claims.
        empty: bool,
    },
    /// The own member wants to leave; [`ElectorEvent::Left`] tells when it has.
    Leave,
    /// The own member is about to leave: it is to give up the seat as soon as another can take it, and to take none while
    /// another can. It stays a member until [`Notice::Leave`]. There is no way back.
    Drain,
    /// The nodes whose sessions the own member has to know of, beside those of members and of who waits in the queue.
    /// Replaces the ones named before.
    Concerned {
        /// The nodes.
        nodes: BTreeSet<NodeName>,
    },
    /// Whether others look after the registry: then the elector reads the rest of the store only if what it looks at has changed. At first
    /// it does not rest.
    Rests(bool),
    /// What the leader has read of the members, and this elector has not, if it rests.
    Delta(ViewDelta),
    /// The own member wants this to be set for all members. It is said once, as soon as the own node is a member; the
    /// [`View`] shows what came of it. What was asked for before, and not said yet, is said with it.
    Configure(Settings),
    /// The own replica has applied this batch: it was committed.
    Applied {
        /// The batch.
        end: LogEnd,
    },
    /// The own member read this in the store, and it does not follow what its replica has applied.
    Contradicted {
        /// The lineage in which its replica was counted.
        lineage: LineageNumber,
        /// Where it is.
        key: Key,
        /// What is there.
        value: Value,
    },
    /// The node is in another lineage of the store from now on, or has lost what it knew of this one: it begins anew.
    Lineage {
        /// Which one.
        lineage: LineageId,
        /// When the node first saw it.
        since: Time,
    },
    /// The own member wants to give up the seat and stay a member. Ignored unless it leads in that epoch.
    Resign {
        /// The epoch in which it leads.
        epoch: Epoch,
    },
    /// The watch that was asked for last cannot be had, or has failed. The next look asks for another.
    WatchFailed,
}

/// What can happen to an elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    /// The node has something to say.
    Notice(Notice),
    /// The time asked for by [`Effect::WakeAt`] has come.
    Wake,
    /// A read ended.
    ReadDone {
        /// Which.
        id: OpId,
        /// What it saw.
        result: Result<ReadResult, StoreError>,
    },
    /// A commit ended, or was given up as [`CommitOutcome::Unknown`].
    CommitDone {
        /// Which.
        id: OpId,
        /// What became of it.
        outcome: CommitOutcome,
    },
}

/// What an elector asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// Read, and answer with `ReadDone`, always.
    Read {
        /// To be quoted in the answer.
        id: OpId,
        /// What to read.
        reads: Vec<Read>,
    },
    /// Commit, and answer with `CommitDone`, always.
    Commit {
        /// To be quoted in the answer.
        id: OpId,
        /// What to commit.
        transaction: Transaction,
    },
    /// Send `Changed` once one of the keys was written later than `since`, or `WatchFailed` if nothing can tell that.
    /// Replaces the watch before it, and is kept until then.
    Watch {
        /// The keys.
        keys: Vec<Key>,
        /// Since when.
        since: Version,
    },
    /// Send `Wake` at this time. Replaces the one before it; one too many does no harm.
    WakeAt(Time),
    /// Tell the node.
    Emit(ElectorEvent),
}

/// What an elector tells its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ElectorEvent {
    /// What the store shows has changed.
    View(Arc<View>),
    /// Ask the leader's member, which may be the own one, to run or to finish its handoff of that epoch. To be answered
    /// with `HandoffDone` or `HandoffFailed`. May come again: handoff is idempotent.
    RunHandoff {
        /// The leader.
        leader: NodeName,
        /// The epoch.
        epoch: Epoch,
    },
    /// This elector applied an entry.
    Applied {
        /// The entry.
        entry: QueueEntry,
        /// What it did.
        change: Change,
        /// What became of the seat.
        seat: Seat,
    },
    /// This elector dropped an entry.
    Dropped {
        /// The entry.
        entry: QueueEntry,
        /// Why.
        reason: Dropped,
    },
    /// This elector's member took the vacant seat.
    Filled {
        /// What became of the seat.
        seat: Seat,
    },
    /// This elector removed an entry that cannot be understood.
    Undecodable {
        /// Where it was.
        key: Key,
        /// Why it cannot be understood.
        error: String,
    },
    /// A record cannot be understood. Nothing is decided while it lasts, unless it is about a single node's session or
    /// the own author record; told once.
    Corrupt {
        /// Where it is.
        key: Key,
        /// Why it cannot be understood.
        error: String,
    },
    /// This elector took the lock of an owner that did not move.
    LockBroken {
        /// The lock that it replaced.
        lock: Lock,
    },
    /// This elector cleared a lock although the leader did not answer.
    LockGivenUp {
        /// The epoch whose handoff is open.
        epoch: Epoch,
    },
    /// The store is not the one that the node knows: it is of another lineage, or shows less than was known to be committed. The
    /// session is to look into it. Repeated while it lasts; nothing is done meanwhile.
    Missing {
        /// Since when the node is in its lineage, if the elector was told.
        since: Option<Time>,
        /// What was known, and is not shown: with the keys that have to show it.
        facts: Vec<(Key, Fact)>,
    },
    /// The own member has left.
    Left,
    /// The store cannot be reached. Told once per outage.
    Unavailable {
        /// What the store says.
        reason: String,
    },
    /// The store refuses a transaction of the elector, and always will.
    TooLarge(TooLarge),
}

impl ElectorEvent {
    /// Whether it tells that an entry was taken off the queue.
    pub(super) fn is_about_entry(&self) -> bool {
        matches!(self, Self::Applied { .. } | Self::Dropped { .. } | Self::Undecodable { .. })
    }
}
