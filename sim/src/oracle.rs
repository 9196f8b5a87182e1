//! Watches everything that happens in a world, and says what must not.
//!
//! It sees true time, every commit, every answer and every core, which nobody in the world does, and it keeps what a state
//! alone does not show: what was told to clients, what the log was at each position, who committed in which epoch. Each
//! check counts how often its premise held: a check that was never exercised proves nothing.

mod answers;
mod certificates;
mod commits;
mod counts;
mod deaths;
mod draining;
mod duties;
mod elections;
mod explained;
mod groups;
mod history;
mod losses;
mod moves;
mod offers;
mod referring;
mod requests;
mod states;
mod told;
mod views;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use callsign::{
    Meta,
    cores::{CallId, RequestNumber},
};
use callsign_elector::record::{LogEnd, MemberRow, SessionRecord};
use callsign_store::{
    CommitOutcome, Key, Read,
    ids::{Epoch, Incarnation, NodeName, Nonce, Position, Sequence, SessionId, SessionNumber, Token},
    keys::RegistryKeys,
};
use callsign_transport::Permits;

pub(crate) use self::duties::owed;
pub use self::watches::Judged;
pub use self::{
    answers::{ActorNumber, Outcome, Told},
    counts::{Check, CheckCounts},
};
use crate::world::{Action, CallerRegistration, CoreId, NameId, NodeId, Violation, World};

/// A core of a process.
type ProcessCore = (NodeId, Incarnation, CoreId);

/// With its token: who holds a name whose actor is being started.
const STARTING: u64 = 1 << 63;

/// Who holds a name, as the log says.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) token: Position,
    pub(crate) session: Arc<SessionId>,
    pub(crate) actor: u64,
    pub(crate) revision: Position,
    /// The request that registered it.
    pub(crate) request: u64,
    /// What it says of itself.
    pub(crate) meta: Option<Meta>,
    /// It is being started; until it is bound, `actor` is a number that no actor has.
    pub(crate) is_starting: bool,
}

impl Holder {
    /// The actor, or 0 while it is being started.
    pub(crate) fn known_actor(&self) -> u64 {
        if self.is_starting { 0 } else { self.actor }
    }
}

/// From where to where in the log a registration was there.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: NameId,
    pub(crate) holder: Holder,
    pub(crate) to: Option<Position>,
    /// When its host gave it up.
    pub(crate) given_up: Option<u64>,
}

/// What was seen of a process last.
#[derive(Clone, Debug, Default)]
struct ProcessSeen {
    incarnation: Option<Incarnation>,
    position: Position,
    is_based: bool,
    epoch: Epoch,
    looked_up: Position,
}

/// What kind of thing was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A message arrived.
    Message,
    /// A transaction was committed.
    Commit,
    /// Something was done to the cluster.
    Fault,
    /// A core or a client had something to say.
    Event,
}

/// Something worth drawing.
#[derive(Clone, Debug)]
pub struct Note {
    /// Its kind.
    pub kind: NoteKind,
    /// After how many actions.
    pub step: u64,
    /// When.
    pub at: Duration,
    /// At which node; none: in the store.
    pub node: Option<NodeId>,
    /// Who sent it.
    pub from: Option<NodeId>,
    /// What.
    pub what: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    keys: Arc<Keys>,
    pub(crate) counts: CheckCounts,
    pub(crate) violation: Option<Violation>,
    notes: Option<Vec<Note>>,
    may_trust_the_closed: bool,
    pub(crate) step: u64,
    now: Duration,

    position: Position,
    end: LogEnd,
    truth: BTreeMap<NameId, Holder>,
    digests: losses::Digests,
    spans: Vec<Span>,
    /// Each update of a registration: its name, its token, and its revision from then on.
    updates: Vec<(NameId, Position, Position)>,
    /// Of these, the ones by which an actor that was started came to hold a name.
    binds: Vec<(NameId, Position, Position)>,
    moved: moves::Moves,
    watched: watches::Watched,
    requests: BTreeSet<(SessionId, u64)>,
    committers: BTreeMap<Epoch, (NodeId, Incarnation)>,
    last_epoch: Epoch,
    consumed: BTreeSet<Vec<u8>>,
    tokens: BTreeMap<NodeName, Token>,
    sessions: BTreeMap<NodeName, SessionRecord>,
    /// Sessions that were closed, and at which step.
    closed: BTreeMap<SessionId, u64>,

    losses: losses::Losses,
    /// Calls that were open when the registry began anew: whatever they are told is beside the history.
    voided: BTreeSet<CallId>,
    /// For which actors they asked.
    voided_of: BTreeSet<u64>,

    seen: Vec<ProcessSeen>,
    /// The rows of the others that the elector of each node showed last.
    viewed: BTreeMap<NodeId, BTreeMap<NodeName, MemberRow>>,
    pub(crate) told: Vec<Told>,
    open_calls: BTreeMap<CallId, usize>,
    /// Actors that ended, and at which step.
    ended: BTreeMap<u64, u64>,
    /// Processes that began to drain, and at which step.
    drains: BTreeMap<Incarnation, u64>,
    /// Whose members have heard that they drain, and at which step.
    turns_away: BTreeMap<Incarnation, u64>,
    /// Which have said that they drained.
    drained: BTreeSet<Incarnation>,
    /// Processes that began to leave, and at which step.
    left: BTreeMap<Incarnation, u64>,

    /// For each epoch, at which step its term was written, and where the log has to be held from to be synced.
    epochs: BTreeMap<Epoch, (u64, Position)>,
    authored: BTreeMap<NodeName, Sequence>,
    /// The floor of session numbers, and of authors' sequences.
    numbers: (SessionNumber, Sequence),
    /// Nodes whose session records were swept away, and that did not come back.
    swept: BTreeSet<NodeName>,
    floor: Position,
    /// Where the log began anew.
    reset_at: Position,
    /// Where each `Reset` is in the log.
    resets: Vec<Position>,
    /// Locks that were taken from their owners.
    taken: BTreeSet<Nonce>,
    lock_since: Duration,
    /// The leader's session is closed, and its seat has waited for this long.
    dead_leader: Option<Duration>,
    deaths: deaths::Deaths,
    /// Requests that arrived at another node, and the epoch that they were addressed to.
    delivered: BTreeSet<(Incarnation, SessionNumber, RequestNumber, Epoch)>,
    /// The batch that a node asked the store to commit last.
    flown: BTreeMap<NodeId, (Epoch, Nonce)>,
    /// Those of all batches that anybody asked the store to commit.
    nonces: BTreeSet<Nonce>,
    /// The incarnations of a node that a process was linked to, or told of; and which of them last.
    linked: BTreeMap<(Incarnation, NodeName), (u64, BTreeSet<u64>)>,
    /// How many commits in a row were not done for a core, by the first key that they write, and since when.
    refused: BTreeMap<ProcessCore, BTreeMap<Option<Key>, (u32, Duration)>>,
    /// What each process's session asked for last, how often in a row, and since when.
    read: BTreeMap<Incarnation, (Arc<Vec<Read>>, u32, Duration)>,
    /// Processes whose members have left.
    retired: BTreeMap<Incarnation, Duration>,
    /// The latest join of a process of which was said that it drains.
    drain_said: BTreeMap<Incarnation, Token>,
    /// Since when, by its own clock, a node's session is trusted without a break.
    trusted_since: BTreeMap<NodeId, Duration>,
    /// When the member of each process was last through with all of its callers, by its clock.
    looked: BTreeMap<NodeId, (Incarnation, Duration)>,
    /// When each core was woken last, and how often at that time.
    woken: BTreeMap<(NodeId, CoreId), (Duration, u32)>,
    /// How many batches in a row a leader asked the store for while names of the dead waited.
    passed_over: BTreeMap<NodeId, u32>,
    /// The certificates that a node has had, if any restricts it.
    permits: BTreeMap<NodeName, Vec<Permits>>,
    /// The actors of each node that are to be stopped or told.
    to_tell: BTreeMap<NodeId, told::ToTell>,
}

#[derive(Debug)]
struct Keys {
    all: RegistryKeys,
    term: Vec<u8>,
    lock: Vec<u8>,
    floor: Vec<u8>,
}

/// See the [module](self). Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Oracle(Option<Arc<Inner>>);

impl Oracle {
    pub(crate) fn new(nodes: usize, keys: &RegistryKeys) -> Self {
        let known = Keys { all: keys.clone(), term: keys.term(), lock: keys.lock(), floor: keys.floor() };
        Self(Some(Arc::new(Inner {
            keys: Arc::new(known),
            counts: CheckCounts::default(),
            violation: None,
            notes: None,
            may_trust_the_closed: false,
            step: 0,
            now: Duration::ZERO,
            position: Position(0),
            end: LogEnd::default(),
            truth: BTreeMap::new(),
            digests: losses::Digests::default(),
            spans: Vec::new(),
            updates: Vec::new(),
            binds: Vec::new(),
            moved: moves::Moves::default(),
            watched: watches::Watched::default(),
            requests: BTreeSet::new(),
            committers: BTreeMap::new(),
            last_epoch: Epoch(0),
            consumed: BTreeSet::new(),
            tokens: BTreeMap::new(),
            sessions: BTreeMap::new(),
            closed: BTreeMap::new(),
            losses: losses::Losses::default(),
            voided: BTreeSet::new(),
            voided_of: BTreeSet::new(),
            seen: vec![ProcessSeen::default(); nodes],
            viewed: BTreeMap::new(),
            told: Vec::new(),
            open_calls: BTreeMap::new(),
            ended: BTreeMap::new(),
            drains: BTreeMap::new(),
            turns_away: BTreeMap::new(),
            drained: BTreeSet::new(),
            left: BTreeMap::new(),
            epochs: BTreeMap::new(),
            authored: BTreeMap::new(),
            numbers: <(SessionNumber, Sequence)>::default(),
            swept: BTreeSet::new(),
            floor: Position(0),
            reset_at: Position(0),
            resets: Vec::new(),
            taken: BTreeSet::new(),
            lock_since: Duration::ZERO,
            dead_leader: None,
            deaths: deaths::Deaths::default(),
            delivered: BTreeSet::new(),
            flown: BTreeMap::new(),
            nonces: BTreeSet::new(),
            linked: BTreeMap::new(),
            refused: BTreeMap::new(),
            read: BTreeMap::new(),
            retired: BTreeMap::new(),
            drain_said: BTreeMap::new(),
            trusted_since: BTreeMap::new(),
            looked: BTreeMap::new(),
            woken: BTreeMap::new(),
            passed_over: BTreeMap::new(),
            permits: BTreeMap::new(),
            to_tell: BTreeMap::new(),
        })))
    }

    fn inner(&self) -> Option<&Inner> {
        self.0.as_deref()
    }

    fn edit(&mut self) -> Option<&mut Inner> {
        self.0.as_mut().map(Arc::make_mut)
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.inner()?.violation.as_ref()
    }

    /// How often each check was exercised.
    pub fn counts(&self) -> CheckCounts {
        self.inner().map(|inner| inner.counts.clone()).unwrap_or_default()
    }

    /// Forgets what was exercised so far.
    pub(crate) fn forget_counts(&mut self) {
        if let Some(inner) = self.edit() {
            inner.counts = CheckCounts::default();
        }
    }

    /// Clocks drift beyond what was promised: that a closed session is trusted is what is wanted then, and what comes of it.
    pub(crate) fn let_trust_the_closed(&mut self) {
        if let Some(inner) = self.edit() {
            inner.may_trust_the_closed = true;
        }
    }

    /// Begins to take notes for a drawing.
    pub fn take_notes(&mut self) {
        if let Some(inner) = self.edit() {
            inner.notes = Some(Vec::new());
        }
    }

    /// What was noted.
    pub fn notes(&self) -> &[Note] {
        self.inner().and_then(|inner| inner.notes.as_deref()).unwrap_or_default()
    }

    /// How many actions were done.
    pub fn step(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.step)
    }

    pub(crate) fn note(&mut self, node: NodeId, what: impl FnOnce() -> String) {
        self.note_as(NoteKind::Event, Some(node), None, what);
    }

    pub(crate) fn note_message(&mut self, from: NodeId, to: NodeId, what: impl FnOnce() -> String) {
        self.note_as(NoteKind::Message, Some(to), Some(from), what);
    }

    pub(crate) fn note_fault(&mut self, action: &Action) {
        if action.is_fault() {
            self.note_as(NoteKind::Fault, None, None, || format!("{action:?}"));
        }
    }

    fn note_as(
        &mut self,
        kind: NoteKind,
        node: Option<NodeId>,
        from: Option<NodeId>,
        what: impl FnOnce() -> String,
    ) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.notes.is_some()) else { return };
        let note = Note { kind, step: inner.step, at: inner.now, node, from, what: what() };
        if let Some(notes) = self.edit().and_then(|inner| inner.notes.as_mut()) {
            notes.push(note);
        }
    }

    pub(crate) fn started(&mut self, node: NodeId) {
        self.note(node, || "starts".to_owned());
    }

    pub(crate) fn crashed(&mut self, node: NodeId) {
        self.note(node, || "is gone".to_owned());
        if let Some(inner) = self.edit() {
            inner.lose_calls_of(node);
            inner.trusted_since.remove(&node);
            inner.passed_over.remove(&node);
            inner.to_tell.remove(&node);
        }
    }

    pub(crate) fn landed(&mut self, outcome: &CommitOutcome) {
        self.note_as(NoteKind::Commit, None, None, || format!("a transaction given up lands: {outcome:?}"));
        if matches!(outcome, CommitOutcome::Committed(_)) {
            self.count(Check::OrphanLanded);
        }
    }

    pub(crate) fn count(&mut self, check: Check) {
        if let Some(inner) = self.edit() {
            inner.counts.add(check, 1);
        }
    }

    pub(crate) fn not_sent(&mut self) {
        self.count(Check::QueueFull);
    }

    /// A chunk of a snapshot is sent. With it, so many of this snapshot are on their way.
    pub(crate) fn sends_chunk(&mut self, on_their_way: usize, window: u64) {
        self.count(Check::InWindow);
        if on_their_way as u64 > window {
            self.fail(Check::InWindow, || {
                format!("{on_their_way} chunks of a snapshot are on their way, and {window} may be")
            });
        }
    }

    /// An actor that is to be stopped or told must be watched.
    pub(crate) fn told(&mut self, is_watched: bool, node: NodeId, actor: u64) {
        self.count(Check::LapseTold);
        if !is_watched {
            self.fail(Check::LapseTold, || {
                format!("actor {actor} of node {node} is to be told, and is not watched")
            });
        }
    }

    /// A node gives up a name, or all; `acting` is a registration of it whose check passes.
    pub(crate) fn gives_up(&mut self, node: NodeId, acting: Option<&CallerRegistration>) {
        self.count(Check::FlaggedFirst);
        if let Some(acting) = acting {
            self.fail(Check::FlaggedFirst, || {
                format!("node {node} gives up what may be acted on: {acting:?}")
            });
        }
    }

    pub(crate) fn fail(&mut self, check: Check, what: impl FnOnce() -> String) {
        if let Some(inner) = self.edit() {
            inner.fail(check, what());
        }
    }

    /// A process gives up all its names, and leaves.
    pub(crate) fn leaves(&mut self, incarnation: Incarnation) {
        if let Some(inner) = self.edit() {
            let step = inner.step;
            inner.left.entry(incarnation).or_insert(step);
            if inner.drains.contains_key(&incarnation) && !inner.drained.contains(&incarnation) {
                let what = format!("{incarnation:?} drops its names before it has drained");
                inner.fail(Check::NamesLast, what);
            }
        }
    }

    pub(crate) fn actor_ended(&mut self, actor: u64) {
        if let Some(inner) = self.edit() {
            let step = inner.step;
            inner.ended.entry(actor).or_insert(step);
        }
    }

    /// After each action: what must hold of the state, and what must only grow.
    pub(crate) fn after(&mut self, world: &World, action: &Action) {
        let Some(inner) = self.edit() else { return };
        inner.step += 1;
        inner.now = world.now;
        if action.is_fault() {
            inner.dead_leader = inner.dead_leader.map(|_| Duration::ZERO);
            inner.deaths.begin_anew();
        }
        if let Action::Wake { node, core } = action {
            inner.check_spin(*node, *core);
            if *core == CoreId::Member {
                inner.check_in_time(world, *node);
            }
        }
        inner.look_at_losses();
        inner.check_states(world, action);
        if world.setup.references {
            inner.check_references(world);
        }
    }
}

impl Inner {
    pub(crate) fn fail(&mut self, check: Check, what: String) {
        if self.violation.is_none() && !self.losses.excuses(check, self.now) {
            self.violation = Some(Violation { check: check.name(), what });
        }
    }

    /// The registration of a name at a position of the log.
    pub(crate) fn held_at(&self, name: NameId, at: Position) -> Option<&Span> {
        self.spans
            .iter()
            .find(|span| span.name == name && span.holder.token <= at && span.to.is_none_or(|to| to > at))
    }
}
