//! The leader: decides who holds a name, one batch at a time.
//!
//! Takes as given: a term that names this member, and that was committed before this began. Not given: that it is
//! still the term; every batch is committed only if it is.
//!
//! Promises: nothing is applied, sent or answered before it is committed (P2); a request that was decided gets the
//! same answer again (exactly one verdict); an answer without an entry of its own waits for a commit or a read of
//! the fence that was begun after the request arrived (P4).
//!
//! ```text
//!  requests --> queue --(nothing in flight)--> batch --commit--> apply, replicate, answer
//!                 ^                              |  conflict: read the fence: mine? deposed? written already?
//!                 '--- one op per name and batch |  unknown:  the same batch again, with the same nonce
//! ```

mod answering;
mod batches;
mod decide;
mod flight;
mod memory;
mod requests;
mod takers;
#[cfg(test)]
mod tests;
mod waking;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callsign_elector::lineage::LineageNumber;
use callsign_store::{
    CommitOutcome, FENCE_AGE, OPERATION_TIMEOUT, ReadResult, StoreError, Time, Transaction, Value, Version,
    ids::{Epoch, NodeName, Nonce, Position, SessionId},
    keys::{RegistryKeys, read_key},
    random::splitmix,
    record::Record,
};

use self::takers::Takers;
use crate::core::{
    fence::{Conditions, Fence},
    input::{Effect, Event, OpId, Turn},
    log::{Batch, BatchBuilder, LEAST_BATCH_BYTES, ONE_OPERATION, Op},
    message::{MESSAGE_BYTES, Message, Verdict, Wish},
    name::Name,
    replica::{Applied, Replica},
    table::{RequestNumber, Table},
    tuning::Tuning,
};

/// A store that is not available is tried again after so long, and after twice as long each time. Shorter: it is hammered;
/// longer: it is found late.
const STORE_RETRY: Duration = Duration::from_millis(50);

/// The longest pause before a commit is tried again. Shorter: a store whose disk is full is hammered. Longer: it is found
/// late that it takes commits again.
const LONGEST_COMMIT_PAUSE: Duration = Duration::from_millis(400);

/// A commit or read that has not answered for so long is taken for unknown and tried again. It may still be answered.
const UNANSWERED_AFTER: Duration = Duration::from_secs(3);
const _: () = assert!(UNANSWERED_AFTER.as_millis() < OPERATION_TIMEOUT.as_millis());

/// How often a leader says where the log ends, also while it is busy: its members answer where they are, if that is new.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

/// How long after the opening hosts have asked again what was undecided: that goes before the freeing of a dead
/// node's names, which keeps every replica busy for a moment. Shorter: a failover takes longer the more names the dead
/// had. Longer: these are free later.
const ASKED_AGAIN: Duration = Duration::from_millis(5);

/// A request that waits to be decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending {
    session: Arc<SessionId>,
    number: RequestNumber,
    name: Name,
    wish: Wish,
}

/// A request that a flight decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Decision {
    pending: Pending,
    verdict: Verdict,
}

/// What the leader knows of a host's session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HostState {
    id: Arc<SessionId>,
    /// It was read open since the term was committed.
    is_open: bool,
    /// Requests that wait until it is.
    unread: Vec<Pending>,
    /// Requests that wait to be decided, by number.
    waiting: BTreeSet<RequestNumber>,
    /// What was decided, until the host has acknowledged it, and where it holds.
    decided: BTreeMap<RequestNumber, (Position, Verdict)>,
    /// All below are decided and known to the host. A request below it is a late copy.
    acknowledged: RequestNumber,
}

/// What is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Flight {
    None,
    /// A batch is being committed.
    Batch(Box<BatchFlight>),
    /// The fence is being read, for answers that need no entry.
    Fence {
        id: OpId,
        since: Time,
        riders: Vec<Decision>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BatchFlight {
    batch: Batch,
    bytes: Bytes,
    decisions: Vec<Decision>,
    /// Checks beyond the fence, of a batch that resets.
    conditions: Conditions,
    stage: FlightStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FlightStage {
    Committing {
        id: OpId,
        since: Time,
    },
    /// A conflict: the fence is read to find out whose it is.
    Settling {
        id: OpId,
        since: Time,
    },
    /// The store was not available.
    Pausing {
        until: Time,
    },
}

/// What the leader knows of a member's replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Follower {
    position: Position,
}

/// What became of leading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outcome {
    /// A batch was committed and applied.
    pub(crate) applied: Applied,
    /// The opening batch was committed: the epoch is open.
    pub(crate) opened: bool,
    /// Another leads, or the log is another's: stop.
    pub(crate) deposed: bool,
}

/// A leader in its epoch, from the opening batch on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    me: NodeName,
    keys: RegistryKeys,
    epoch: Epoch,
    /// Positions are counted in it.
    lineage: LineageNumber,
    fence: Fence,
    /// A version at which the term and the end of the log were as this leader knows them, and when.
    seen: Option<(Version, Time)>,
    nonces: u64,
    is_open: bool,
    queue: VecDeque<Pending>,
    hosts: BTreeMap<SessionId, HostState>,
    closed: BTreeSet<SessionId>,
    /// Sessions that names are to go to.
    takers: Takers,
    /// The nodes that the elector was told of, so that it reads their sessions.
    concerned: BTreeSet<NodeName>,
    flight: Flight,
    memory: VecDeque<(Position, Bytes)>,
    memory_bytes: usize,
    /// How many bytes of the log are kept to close members' gaps without the store.
    memory_limit: usize,
    /// The size of each batch of the log since this leader began, also of those that memory has not any more.
    sizes: VecDeque<(Position, usize)>,
    followers: BTreeMap<NodeName, Follower>,
    next_heartbeat: Time,
    max_batch: usize,
    /// How many commits in a row were not known to be done.
    failures: u32,
    /// No batch is begun before: the store refused the last one.
    rests_until: Option<Time>,
    /// Where halving ends: smaller batches have one operation.
    least_batch: usize,
    /// Whether requests go before the entry for a closed session, the next time.
    requests_first: bool,
    /// Until when names of the dead are not freed unless somebody asks for one.
    frees_after: Option<Time>,
}

impl Leader {
    /// Begins to lead: nothing is decided until [`open`](Self::open)'s batch is committed.
    pub(crate) fn new(
        me: NodeName,
        keys: RegistryKeys,
        (lineage, epoch): (LineageNumber, Epoch),
        fence: Fence,
        seed: u64,
        tuning: Tuning,
    ) -> Self {
        Self {
            me,
            keys,
            epoch,
            lineage,
            fence,
            seen: None,
            nonces: seed,
            is_open: false,
            queue: VecDeque::new(),
            hosts: BTreeMap::new(),
            closed: BTreeSet::new(),
            takers: Takers::default(),
            concerned: BTreeSet::new(),
            flight: Flight::None,
            memory: VecDeque::new(),
            memory_bytes: 0,
            memory_limit: tuning.memory_bytes,
            sizes: VecDeque::new(),
            followers: BTreeMap::new(),
            next_heartbeat: Time::ZERO,
            max_batch: tuning.batch_bytes,
            least_batch: (tuning.batch_bytes / 2).min(LEAST_BATCH_BYTES),
            failures: 0,
            rests_until: None,
            requests_first: true,
            frees_after: None,
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.flight, Flight::None)
    }

    /// Commits the opening batch. `conditions` are what must hold besides the fence, if it resets.
    pub(crate) fn open<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        resets: bool,
        conditions: Conditions,
    ) {
        let mut builder = BatchBuilder::default();
        if resets {
            builder.push(Op::Reset);
        }
        builder.push(Op::Open);
        self.fly(turn, replica, builder, Vec::new(), conditions);
    }

    /// What a transaction of this leader's has to find: its term.
    pub(crate) fn fence(&self) -> (Vec<u8>, Value) {
        (self.keys.term(), self.fence.term.clone())
    }
}

fn flight_conditions_failed(flight: &Flight) -> bool {
    matches!(flight, Flight::Batch(flight) if !flight.conditions.is_empty())
}
