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
mod decide;
mod flight;
mod memory;
mod takers;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callsign_elector::{elector::View, lineage::LineageNumber};
use callsign_store::{
    CommitOutcome, FENCE_AGE, OPERATION_TIMEOUT, ReadResult, StoreError, Time, Transaction, Value, Version,
    ids::{Epoch, NodeName, Nonce, Position, SessionId},
    keys::{RegistryKeys, read_key},
    planted,
    random::splitmix,
    record::Record,
};

use self::{decide::decide, takers::Takers};
use crate::core::{
    fence::{Conditions, Fence},
    group::Membership,
    input::{Effect, Event, OpId, Tell, Turn},
    log::{Batch, BatchBuilder, LEAST_BATCH_BYTES, ONE_OPERATION, Op},
    message::{MESSAGE_BYTES, Message, Request, Verdict, Wish},
    name::Name,
    permitted::Permitted,
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

/// How often a leader says where the log ends, also while it is busy: its members answer where they are.
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
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
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

    /// Takes the requests of a host.
    pub(crate) fn on_requests<T: Table>(
        &mut self,
        replica: &Replica<T>,
        session: Arc<SessionId>,
        acknowledged: RequestNumber,
        requests: Vec<Request>,
        view: &View,
        effects: &mut Vec<Effect>,
    ) {
        if self.closed.contains(&*session) {
            return;
        }
        let host = self.hosts.entry(SessionId::clone(&session)).or_insert_with(|| {
            let id = replica.sessions().get(&*session).map_or(session, |held| held.id.clone());
            HostState {
                is_open: planted!("session-not-read-open"),
                id,
                unread: Vec::new(),
                waiting: BTreeSet::new(),
                decided: BTreeMap::new(),
                acknowledged: RequestNumber(0),
            }
        });
        if acknowledged > host.acknowledged {
            host.acknowledged = acknowledged;
            host.decided = host.decided.split_off(&acknowledged);
        }
        host.is_open |= view.sessions.is_open(&host.id);
        let mut again: BTreeMap<Position, Vec<(RequestNumber, Verdict)>> = BTreeMap::new();
        for request in requests {
            // A number below is a late copy: its host knows the answer. One that waits is a copy, too.
            let is_copy = request.number < host.acknowledged || host.waiting.contains(&request.number);
            if is_copy && !planted!("request-not-deduplicated") {
                continue;
            }
            if let Some((position, verdict)) = host.decided.get(&request.number)
                && !planted!("request-not-deduplicated")
            {
                again.entry(*position).or_default().push((request.number, verdict.clone()));
                continue;
            }
            host.waiting.insert(request.number);
            let pending = Pending {
                session: host.id.clone(),
                number: request.number,
                name: request.name,
                wish: request.wish,
            };
            if !host.is_open {
                host.unread.push(pending);
            } else if let Some(pending) = self.takers.admit(pending, view) {
                self.queue.push_back(pending);
            }
        }
        let session = host.id.clone();
        let is_unread = !host.unread.is_empty() && !planted!("unread-session-not-read");
        let is_taker_unread = self.takers.is_waiting() && !planted!("unread-taker-not-read");
        if is_unread || is_taker_unread {
            self.name_concerned(view, replica, effects);
            effects.push(Effect::Tell(Tell::Refresh));
        }
        for (position, verdicts) in again {
            self.send_verdicts(&session, position, &verdicts, effects);
        }
    }

    /// Whether it knows that the session is open, or that it is closed.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read(&self, session: &SessionId) -> bool {
        self.closed.contains(session) || self.hosts.get(session).is_some_and(|host| host.is_open)
    }

    /// The same, of a session that a name is to go to.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read_taker(&self, session: &SessionId) -> bool {
        self.closed.contains(session) || self.takers.has_open(session)
    }

    /// Whether it knows that the session is closed: nobody waits for what it asks any more.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read_closed(&self, session: &SessionId) -> bool {
        self.closed.contains(session)
    }

    /// Whether a session's request has come before: it waits, or was decided.
    #[cfg(feature = "cores")]
    pub(crate) fn has_request(&self, session: &SessionId, number: RequestNumber) -> bool {
        let is_known =
            |host: &HostState| host.waiting.contains(&number) || host.decided.contains_key(&number);
        self.hosts.get(session).is_some_and(is_known)
    }

    /// Takes what the elector read: sessions that are open, and sessions that are closed.
    pub(crate) fn on_view<T: Table>(&mut self, view: &View, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let has_closed = |id: &SessionId| view.sessions.is_closed(id);
        for host in self.hosts.values_mut() {
            if !host.is_open && view.sessions.is_open(&host.id) {
                host.is_open = true;
                let takers = &mut self.takers;
                self.queue.extend(host.unread.drain(..).filter_map(|pending| takers.admit(pending, view)));
            }
        }
        self.takers.on_view(view, &mut self.queue, &mut self.closed);
        self.hosts.retain(|id, _| {
            let is_closed = has_closed(id);
            if is_closed {
                self.closed.insert(id.clone());
            }
            !is_closed
        });
        self.queue.retain(|pending| {
            !self.closed.contains(&*pending.session) || planted!("queue-of-closed-session-kept")
        });
        for id in replica.sessions().keys() {
            if has_closed(id) {
                self.closed.insert(id.clone());
            }
        }
        // Once a later session of the node is known, nobody can ask in an old one any more, and who asks for a node that is
        // not read any more has to be read open first; but what is in flight may yet give it a row.
        let has_rows = |id: &SessionId| replica.sessions().contains_key(id);
        let is_latest =
            |id: &SessionId| view.sessions.record(&id.node).is_some_and(|r| r.number == id.number);
        let is_settled = self.is_settled();
        self.closed.retain(|id| !is_settled || has_rows(id) || is_latest(id));
        self.name_concerned(view, replica, effects);
    }

    /// Names the nodes whose sessions decide here, and that are not read anyway: they ask, or have names, and are not
    /// members, or no longer.
    fn name_concerned<T: Table>(&mut self, view: &View, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let here = self.hosts.keys().chain(replica.sessions().keys()).chain(self.takers.sessions());
        let here = here.map(|id| &id.node);
        let concerned: BTreeSet<_> = here.filter(|node| !view.members.contains_key(*node)).cloned().collect();
        if concerned != self.concerned && !planted!("concerned-not-named") {
            self.concerned.clone_from(&concerned);
            effects.push(Effect::Tell(Tell::Concerned(concerned)));
        }
    }

    /// What a transaction of this leader's has to find: its term.
    pub(crate) fn fence(&self) -> (Vec<u8>, Value) {
        (self.keys.term(), self.fence.term.clone())
    }

    /// Begins what can begin. To be called when no more input waits, so that one batch takes all that came.
    pub(crate) fn proceed<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        permitted: &Permitted,
    ) {
        let now = turn.now;
        self.rests_until = self.rests_until.filter(|at| now < *at);
        if !self.is_open || !self.is_settled() || self.rests_until.is_some() {
            return;
        }
        // Names of a dead node wait for its one entry, and everybody else does not: the two take turns.
        let gone = self.closed.iter().find(|id| replica.sessions().contains_key(*id));
        let gone = gone.filter(|_| !planted!("host-gone-not-logged"));
        self.frees_after = self.frees_after.filter(|at| now < *at);
        let is_their_turn =
            if self.queue.is_empty() { self.frees_after.is_none() } else { !self.requests_first };
        if let Some(session) = gone.filter(|_| is_their_turn) {
            self.requests_first = true;
            let mut builder = BatchBuilder::default();
            let shared = replica.sessions().get(session).map(|held| held.id.clone());
            let index = builder.session(&shared.unwrap_or_else(|| Arc::new(session.clone())));
            builder.push(Op::HostGone { session: index });
            self.fly(turn, replica, builder, Vec::new(), Vec::new());
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        self.requests_first = gone.is_none();
        let mut builder = BatchBuilder::default();
        let mut decisions = Vec::new();
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut places: BTreeSet<String> = BTreeSet::new();
        let mut later = VecDeque::new();
        let position = self.next_position(replica.position());
        while let Some(pending) = self.queue.pop_front() {
            if builder.is_full(self.max_batch, pending.wish.weight(&pending.name)) {
                self.queue.push_front(pending);
                break;
            }
            // New places of one semaphore have positions of their own, so that those of its holders grow.
            let place = match &pending.wish {
                Wish::Register { .. } => Membership::of_place(&pending.name).map(|(group, _)| group),
                _ => None,
            };
            let is_second_place =
                place.is_some_and(|group| places.contains(group)) && !planted!("two-places-in-a-batch");
            let is_second = names.contains(&pending.name) && !planted!("two-operations-of-one-name");
            if is_second || is_second_place || self.is_of_the_dead(replica, &pending.name) {
                later.push_back(pending);
                continue;
            }
            let decided = decide(replica, permitted, &pending, position, &self.takers, &mut builder);
            let Some((op, verdict)) = decided else {
                // As if it had been lost on its way: its host asks again, and there is a link by then.
                if let Some(host) = self.hosts.get_mut(&*pending.session) {
                    host.waiting.remove(&pending.number);
                }
                continue;
            };
            if let Some(op) = op {
                names.insert(pending.name.clone());
                places.extend(place.map(str::to_owned));
                builder.push(op);
            }
            decisions.push(Decision { pending, verdict });
        }
        // What waits for a name of this batch comes before what came after it.
        while let Some(pending) = later.pop_back() {
            self.queue.push_front(pending);
        }
        if builder.is_empty() && decisions.is_empty() {
            // All of them wait for names of the dead.
            return self.proceed(turn, replica, permitted);
        }
        self.requests_first |= planted!("freeing-starves");
        if builder.is_empty() && planted!("rider-without-fence") {
            self.answer(replica.position(), decisions, turn.effects);
        } else if builder.is_empty() {
            let id = turn.read(Fence::reads(&self.keys));
            self.flight = Flight::Fence { id, since: now, riders: decisions };
        } else {
            self.fly(turn, replica, builder, decisions, Vec::new());
        }
    }

    fn next_position(&self, last: Position) -> Position {
        Position(self.lineage.after(last.0))
    }

    /// For a planted defect only: takes the sessions of a node for closed, because its link is down.
    pub(crate) fn presume_gone<T: Table>(&mut self, replica: &Replica<T>, node: &NodeName) {
        self.closed.extend(replica.sessions().keys().filter(|id| id.node == *node).cloned());
    }

    /// Whether a closed session still has the name in the table: its one entry frees it.
    fn is_of_the_dead<T: Table>(&self, replica: &Replica<T>, name: &str) -> bool {
        !self.closed.is_empty()
            && !planted!("host-gone-not-logged")
            && replica.row(name).is_some_and(|row| self.closed.contains(&*row.session))
    }

    /// A member was linked while the epoch is open: it is told so.
    pub(crate) fn welcome<T: Table>(
        &self,
        replica: &Replica<T>,
        member: &NodeName,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_open {
            let message = Message::Heartbeat { epoch: self.epoch, end: replica.end() };
            effects.push(Effect::send(member.clone(), message));
        }
    }

    /// Time has passed: what did not answer is tried again, and idle members are told where the log ends.
    pub(crate) fn on_wake<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        members: &[NodeName],
    ) {
        let now = turn.now;
        let is_over = |since: Time| now >= since + UNANSWERED_AFTER;
        match &mut self.flight {
            Flight::Batch(flight) => match flight.stage {
                Stage::Committing { since, .. } if is_over(since) && !planted!("commit-waited-for-ever") => {
                    self.seen = None;
                    self.commit(turn);
                }
                Stage::Settling { since, .. } if is_over(since) && !planted!("settling-waited-for-ever") => {
                    self.commit(turn);
                }
                Stage::Pausing { until } if now >= until => {
                    self.commit(turn);
                }
                _ => {}
            },
            Flight::Fence { id, since, .. } if is_over(*since) && !planted!("fence-waited-for-ever") => {
                *id = turn.read(Fence::reads(&self.keys));
                *since = now;
            }
            Flight::Fence { .. } | Flight::None => {}
        }
        if self.is_open && now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT;
            for member in members {
                let message = Message::Heartbeat { epoch: self.epoch, end: replica.end() };
                turn.effects.push(Effect::send(member.clone(), message));
            }
        }
    }

    /// When to be woken at the latest.
    pub(crate) fn wakes_at(&self) -> Option<Time> {
        let flight = match &self.flight {
            Flight::None => None,
            Flight::Fence { since, .. } => Some(*since + UNANSWERED_AFTER),
            Flight::Batch(flight) => Some(match flight.stage {
                Stage::Committing { since, .. } | Stage::Settling { since, .. } => since + UNANSWERED_AFTER,
                Stage::Pausing { until } => until,
            }),
        };
        let heartbeat = self.is_open.then_some(self.next_heartbeat);
        // What is in flight goes first, and ends in a step of its own.
        let may_free = self.is_settled() && !self.closed.is_empty();
        let frees = self.frees_after.filter(|_| may_free || planted!("freeing-wakes-in-vain"));
        flight.into_iter().chain(heartbeat).chain(frees).chain(self.rests_until).min()
    }
}

fn flight_conditions_failed(flight: &Flight) -> bool {
    matches!(flight, Flight::Batch(flight) if !flight.conditions.is_empty())
}
