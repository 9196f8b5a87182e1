//! The records of the other nodes: seeing that one is silent, and closing it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_store::{
    CommitOutcome, Key, ReadResult, StoreError, Transaction, Value, Version,
    ids::{Incarnation, NodeName, SessionId, SessionNumber},
    keys::{read_key, read_range},
    planted,
    random::SplitMix64,
    record::Record,
    time::Time,
};
use serde::{Deserialize, Serialize};

use super::{
    Effect, Phase, RequestId, Session,
    own::floor_of,
    watch::{Sight, Watch},
};
use crate::core::{
    record::SessionRecord,
    session::{event::SessionEvent, timing::MIN_EVERY},
};

/// How many marks of open sessions are read at once.
const SESSIONS_PAGE: usize = 1000;

/// How long nodes that do not lead leave the closing to those that do, and how far they differ in that.
/// Shorter: they all commit the same closing, and all but one conflict. Longer: names are freed later when no leader
/// is left.
const AFTER_LEADERS: Duration = Duration::from_millis(200);
const CLOSINGS_APART: Duration = Duration::from_millis(300);

/// How soon to look again after a closing that did not commit.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What a node has seen of an open session: of its own, or of another node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSight {
    /// Of its own: whether it is trusted. Of others only they know that.
    pub trusted: Option<bool>,
    /// How long ago the last beat was begun, if it is its own and trusted; how long ago it was first read, if it is another's.
    pub last_beat: Option<Duration>,
    /// For how long it may be silent.
    pub lease: Duration,
}

/// Whose sessions a node observes, beside its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Observed {
    /// Those of all nodes.
    #[default]
    All,
    /// Those of these nodes: others see to the rest.
    Only(BTreeSet<NodeName>),
}

/// What the node knows of the others' sessions: of the open ones. A session that is over is reported and forgotten, so that
/// nodes that are no more cost nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Observer {
    observed: Observed,
    peers: BTreeMap<NodeName, Peer>,
    /// Nodes to look at, although no mark says that their sessions are open.
    unmarked: BTreeSet<NodeName>,
    reading: Option<PeersReading>,
    /// Closings under way, each of another key, so that none waits for another.
    closing: BTreeMap<NodeName, Closing>,
    /// When to read next.
    due: Time,
    /// Whether the node was trusted all the time since its last observation. A store that did not let it beat may
    /// not have let the others beat either.
    unbroken: bool,
    /// How long this node leaves closings to leaders.
    patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    watch: Watch,
    /// The version at which `watch` was last seen to be right.
    version: Version,
    /// The last record that could be read.
    record: Option<SessionRecord>,
    /// Whether the present value can be read.
    is_readable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PeersReading {
    id: RequestId,
    deadline: Time,
    /// When the first read was asked for.
    began: Time,
    /// The version of the first read: nothing read is older.
    version: Option<Version>,
    /// Where the marks go on behind those that were read. `None`: all were.
    marks_from: Option<Key>,
    /// The nodes whose records are being read.
    asked: Vec<NodeName>,
    shown: BTreeMap<NodeName, Shown>,
}

/// What a read showed of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shown {
    value: Option<Value>,
    /// The floor at the same version; 0 if it cannot be read.
    floor: SessionNumber,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Closing {
    id: RequestId,
    deadline: Time,
    closed: SessionRecord,
}

impl Peer {
    /// The record, if it can be read and is open.
    fn open(&self) -> Option<&SessionRecord> {
        self.record.as_ref().filter(|r| self.is_readable && r.open)
    }

    /// Whether the record can be read and is closed.
    fn is_over(&self) -> bool {
        self.is_readable && self.record.as_ref().is_some_and(|r| !r.open)
    }
}

fn session(node: &NodeName, record: &SessionRecord) -> SessionId {
    SessionId { node: node.clone(), incarnation: record.incarnation, number: record.number }
}

impl Observer {
    pub(super) fn new(jitter: &mut SplitMix64) -> Self {
        Self {
            observed: Observed::All,
            peers: BTreeMap::new(),
            unmarked: BTreeSet::new(),
            reading: None,
            closing: BTreeMap::new(),
            due: Time::ZERO,
            unbroken: false,
            patience: AFTER_LEADERS + jitter.below(CLOSINGS_APART),
        }
    }

    /// The node is trusted from now on.
    pub(super) fn begin(&mut self, now: Time) {
        let has_observed = self.due > Time::ZERO;
        let is_over = has_observed && planted!("observes-no-more-after-a-lapse");
        self.due = if is_over { now + Duration::from_secs(24 * 3600) } else { now };
    }

    /// The node is not trusted any more. It has to beat before it observes.
    pub(super) fn interrupt(&mut self) {
        self.reading = None;
        self.unbroken &= planted!("own-lapse-counts-as-silence");
    }

    /// From now on it observes these. Of whom it did not observe before it knows nothing, and counts from the first read on.
    pub(super) fn turn_to(&mut self, now: Time, observed: Observed) {
        let is_more = observed == Observed::All;
        if self.observed == observed || (is_more && planted!("observes-few-for-ever")) {
            return;
        }
        self.observed = observed;
        // What is being read was asked for by who was to be observed then.
        self.reading = None;
        self.due = now;
    }

    /// Whose records are read first. The marks show who else is open, if all are to be observed.
    fn asked(&self) -> Vec<NodeName> {
        let known: Box<dyn Iterator<Item = &NodeName>> = match &self.observed {
            Observed::All => Box::new(self.peers.keys()),
            Observed::Only(nodes) => Box::new(nodes.iter().filter(|node| !self.unmarked.contains(*node))),
        };
        known.chain(&self.unmarked).cloned().collect()
    }

    /// What it has seen is of a store that went back: all counts begin again.
    pub(super) fn forget(&mut self) {
        self.peers.clear();
        self.closing.clear();
        self.interrupt();
    }

    /// Versions went back: what is known is compared with what is read next, whatever its version.
    pub(super) fn forget_versions(&mut self) {
        for peer in self.peers.values_mut() {
            peer.version = Version(0);
        }
        self.interrupt();
        self.unbroken = false;
    }

    pub(super) fn is_closing(&self, id: RequestId) -> bool {
        self.closing.values().any(|c| c.id == id)
    }

    /// Looks at a node whose record is open without a mark that says so.
    pub(super) fn look_at(&mut self, node: NodeName) {
        if self.observed == Observed::All && !self.peers.contains_key(&node) {
            self.unmarked.insert(node);
        }
    }

    /// Looks at a node once more, although it is not one of those that are observed.
    fn look_again_at(&mut self, node: NodeName) {
        if matches!(&self.observed, Observed::Only(nodes) if !nodes.contains(&node)) {
            self.unmarked.insert(node);
        }
    }

    /// The time to the next read: each open session must be read more often than S/4 apart, and that takes time too.
    fn every(&self, usual: Duration) -> Duration {
        let shortest = self.peers.values().filter_map(Peer::open).map(|r| r.lease / 5).min();
        shortest.map_or(usual, |shortest| shortest.min(usual)).max(MIN_EVERY)
    }
}

impl Session {
    /// What this node has seen of a session. `None`: it does not know it to be open.
    pub fn sight_of(&self, now: Time, session: &SessionId) -> Option<SessionSight> {
        let timing = &self.config.timing;
        if self.session().as_ref() == Some(session) {
            let until = self.trusted_until().filter(|until| now < *until);
            let last_beat = until.map(|until| now.since(until - timing.trust_window()));
            return Some(SessionSight { trusted: Some(until.is_some()), last_beat, lease: timing.lease });
        }
        let peer = self.observer.peers.get(&session.node)?;
        let record = peer.open().filter(|record| record.is_open_as(session))?;
        let last_beat = Some(peer.watch.unmoved_for(now));
        Some(SessionSight { trusted: None, last_beat, lease: record.lease })
    }

    /// Takes the answer to a read of the others' records.
    pub(super) fn on_observed(
        &mut self,
        now: Time,
        id: RequestId,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut reading) = self.observer.reading.take_if(|r| r.id == id) else { return };
        let Ok(read) = result else {
            self.observer.due = now + self.pause();
            return;
        };
        let version = *reading.version.get_or_insert(read.version);
        let floor = floor_of(read.value(0)).unwrap_or_default();
        for (nth, node) in std::mem::take(&mut reading.asked).into_iter().enumerate() {
            reading.shown.insert(node, Shown { value: read.value(3 + nth).cloned(), floor });
        }
        self.compare_lineage(now, read.value(2));
        let marks = read.entries(1);
        let last = marks.last().filter(|_| marks.len() >= SESSIONS_PAGE);
        reading.marks_from = last.map(|(key, _)| [key.as_slice(), &[0]].concat());
        let marked = marks.iter().filter_map(|(key, _)| self.keys.open_node(key));
        let is_new = |node: &NodeName| {
            let is_known = reading.shown.contains_key(node) || planted!("marks-not-read");
            *node != self.config.node && !is_known
        };
        reading.asked = marked.filter(is_new).collect();
        if !reading.asked.is_empty() || reading.marks_from.is_some() {
            self.read_peers(now, reading, effects);
            return;
        }
        let seen_at = if planted!("silence-from-start-of-read") {
            reading.deadline - self.config.timing.attempt()
        } else {
            now
        };
        self.observe(seen_at, reading.began, version, reading.shown, effects);
    }

    /// Takes all open records of the others, and those that were open, from reads that began and ended then.
    fn observe(
        &mut self,
        now: Time,
        began: Time,
        version: Version,
        shown: BTreeMap<NodeName, Shown>,
        effects: &mut Vec<Effect>,
    ) {
        // A read that was begun after another had ended, and shows less: nobody here misses anything, but versions went back.
        let is_older = |peer: &Peer| version < peer.version && peer.watch.last < began;
        if self.observer.peers.values().any(is_older) && !planted!("versions-kept") {
            self.observer.forget_versions();
        }
        // Of whom it was asked for during the read, the next one shows more.
        self.observer.unmarked.retain(|node| !shown.contains_key(node));
        let mut before = std::mem::take(&mut self.observer.peers);
        for (node, Shown { value, floor }) in shown {
            let peer = match (before.remove(&node), value) {
                // Its closing was committed after this was read.
                (Some(peer), _) if version < peer.version => Some(peer),
                (peer, Some(value)) => Some(self.see(now, version, &node, value, peer, effects)),
                (Some(peer), None) => {
                    peer.report_swept(&node, floor, effects);
                    None
                }
                (None, None) => None,
            };
            // What is over was reported.
            if let Some(peer) = peer.filter(|peer| !peer.is_over() || version < peer.version) {
                self.observer.peers.insert(node, peer);
            }
        }
        self.observer.unbroken = true;
        let Observer { peers, unmarked, .. } = &self.observer;
        self.suspicions.retain(|node, incarnation| {
            let open = peers.get(node).and_then(Peer::open);
            unmarked.contains(node) || open.is_some_and(|r| r.incarnation == incarnation)
        });

        let left_to_leaders = if planted!("closing-left-to-leaders") {
            Duration::from_secs(24 * 3600)
        } else {
            self.observer.patience
        };
        let patience = if self.leads { Duration::ZERO } else { left_to_leaders };
        // From the start of the read: else a store that is slow makes each gap too long, and the count begins anew for ever.
        let from = if planted!("gaps-grow-with-reads") { now } else { began };
        let mut every = self.observer.every(self.config.timing.observe_every);
        if !self.leads && planted!("observes-seldom-unless-it-leads") {
            every = self.config.timing.lease / 3;
        }
        let mut due = (from + every).max(now + MIN_EVERY);
        let mut silent = Vec::new();
        for (node, peer) in &self.observer.peers {
            let Some(record) = peer.open() else { continue };
            let close_at = peer.watch.overdue_at() + patience;
            if self.suspicions.is_dead(node, record.incarnation)
                || (peer.watch.is_overdue() && close_at <= now)
            {
                silent.push(node.clone());
            } else if now < close_at {
                // A read decides, not the clock alone: it gives a late beat its chance.
                due = due.min(close_at);
            }
        }
        self.observer.due = due;
        for node in silent {
            self.close(now, &node, effects);
        }
    }

    /// Compares a record with what was known of it, and reports what is over.
    fn see(
        &mut self,
        now: Time,
        version: Version,
        node: &NodeName,
        value: Value,
        peer: Option<Peer>,
        effects: &mut Vec<Effect>,
    ) -> Peer {
        let record = SessionRecord::from_value(&value);
        // What cannot be read has no lease; it is never closed anyway.
        let lease = record.as_ref().map_or(Duration::ZERO, |r| r.lease);
        let (mut peer, sight) = match peer {
            None => {
                let watch = Watch::new(now, value, lease);
                (Peer { watch, version, record: None, is_readable: true }, Sight::Moved)
            }
            Some(mut peer) => {
                let sight = peer.watch.see(now, &value, lease, self.observer.unbroken);
                (peer, sight)
            }
        };
        peer.version = version;
        match record {
            Err(error) => {
                peer.is_readable = false;
                if sight == Sight::Moved {
                    let node = node.clone();
                    effects.push(Effect::Emit(SessionEvent::PeerUnreadable { node, error }));
                }
            }
            Ok(record) => {
                peer.is_readable = true;
                self.suspect_if_unmoved(now, node, &record, &peer.watch, sight);
                peer.report(node, &record, effects);
            }
        }
        peer
    }

    fn suspect_if_unmoved(
        &mut self,
        now: Time,
        node: &NodeName,
        record: &SessionRecord,
        watch: &Watch,
        sight: Sight,
    ) {
        if !record.open {
            return;
        }
        let incarnation = record.incarnation;
        if sight == Sight::Moved {
            self.suspicions.acquit(node, incarnation);
        } else if watch.unmoved_for(now) > self.config.timing.beat_every * 2
            || self.suspicions.is_idle(node, incarnation)
        {
            self.suspicions.ask(now, node, incarnation);
        }
    }

    /// Closes the session of an incarnation that is proven dead.
    pub(super) fn close_the_dead(
        &mut self,
        now: Time,
        node: &NodeName,
        incarnation: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.observer.peers.get(node).and_then(Peer::open);
        if !self.is_trusted() {
            // When it is trusted again, it reads first.
        } else if known
            .is_some_and(|r| r.incarnation == incarnation || planted!("proof-of-another-incarnation"))
        {
            self.close(now, node, effects);
        } else if self.observer.observed == Observed::All {
            self.observer.due = now;
        } else {
            // Those who observe it may not have the proof. They go first, so that not all nodes close it at the same time.
            self.observer.look_again_at(node.clone());
            self.observer.due = self.observer.due.min(now + self.observer.patience);
        }
    }

    /// Commits "closed, if still that beat".
    fn close(&mut self, now: Time, node: &NodeName, effects: &mut Vec<Effect>) {
        let Some(peer) = self.observer.peers.get(node).filter(|_| !self.observer.closing.contains_key(node))
        else {
            return;
        };
        let Some(record) = peer.open() else { return };
        let closed = SessionRecord { open: false, ..record.clone() };
        let key = self.keys.session(node);
        let mut transaction = self
            .check_lineage(Transaction::new())
            .check(key.clone(), Some(peer.watch.value.clone()))
            .put(key, closed.to_value())
            .clear(self.keys.open_mark(node));
        if planted!("close-not-conditional") {
            transaction.checks.clear();
        }
        let id = self.next_id();
        let deadline = now + self.config.timing.attempt();
        self.observer.closing.insert(node.clone(), Closing { id, deadline, closed });
        effects.push(Effect::Commit { id, transaction });
    }

    pub(super) fn on_close_done(
        &mut self,
        now: Time,
        id: RequestId,
        outcome: &CommitOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let node = self.observer.closing.iter().find(|(_, c)| c.id == id).map(|(node, _)| node.clone());
        let Some((node, closing)) = node.and_then(|node| self.observer.closing.remove_entry(&node)) else {
            return;
        };
        match outcome {
            CommitOutcome::Committed(version) => {
                if let Some(peer) = self.observer.peers.get_mut(&node) {
                    peer.watch = Watch::new(now, closing.closed.to_value(), closing.closed.lease);
                    peer.version = *version;
                    peer.report(&node, &closing.closed, effects);
                }
            }
            CommitOutcome::Conflict | CommitOutcome::Unknown => {
                self.observer.look_again_at(node);
                self.observer.due = self.observer.due.min(now + LOOK_AGAIN);
            }
            // The next observation finds it as silent as before.
            CommitOutcome::Unavailable(_) | CommitOutcome::TooLarge(_) => {}
        }
    }

    /// Observes, if that is due. Only while trusted: a node beats before it observes.
    pub(super) fn act_observer(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.observer.closing.retain(|_, c| now < c.deadline || planted!("closing-waited-for-ever"));
        let is_over = |r: &mut PeersReading| r.deadline <= now && !planted!("observing-waited-for-ever");
        if self.observer.reading.take_if(is_over).is_some() {
            self.observer.due = now;
        }
        let may = self.phase == Phase::Open && self.is_trusted();
        if may && self.observer.reading.is_none() && self.observer.due <= now {
            let is_all = self.observer.observed == Observed::All;
            let marks_from = is_all.then(|| self.keys.open_marks().start);
            let (asked, shown) = (self.observer.asked(), BTreeMap::new());
            let reading = PeersReading {
                id: RequestId(0),
                deadline: now,
                began: now,
                version: None,
                marks_from,
                asked,
                shown,
            };
            self.read_peers(now, reading, effects);
        }
    }

    /// Reads the records that are asked for, and the next marks.
    fn read_peers(&mut self, now: Time, reading: PeersReading, effects: &mut Vec<Effect>) {
        let end = self.keys.open_marks().end;
        let marks = reading.marks_from.clone().unwrap_or_else(|| end.clone())..end;
        let mut reads = vec![read_key(self.keys.session_floor()), read_range(marks, SESSIONS_PAGE)];
        reads.push(read_key(self.keys.lineage()));
        reads.extend(reading.asked.iter().map(|node| read_key(self.keys.session(node))));
        let id = self.next_id();
        let deadline = now + self.config.timing.attempt();
        self.observer.reading = Some(PeersReading { id, deadline, ..reading });
        effects.push(Effect::Read { id, reads });
    }

    pub(super) fn observer_wake_at(&self) -> Option<Time> {
        let reading = match &self.observer.reading {
            Some(reading) => Some(reading.deadline),
            None if self.phase == Phase::Open && self.is_trusted() => Some(self.observer.due),
            None => None,
        };
        let closing = self.observer.closing.values().map(|c| c.deadline);
        reading.into_iter().chain(closing).min()
    }
}

impl Peer {
    /// Reports the session if it was closed and swept away since it was seen. That a record is not there proves nothing
    /// above the floor.
    fn report_swept(&self, node: &NodeName, floor: SessionNumber, effects: &mut Vec<Effect>) {
        let open = self.record.as_ref().filter(|record| record.open && record.number <= floor);
        let closed = open.map(|record| SessionEvent::PeerClosed(session(node, record)));
        effects.extend(closed.map(Effect::Emit));
    }

    /// Takes the record as it is now, and reports each session that it shows to be closed for the first time.
    fn report(&mut self, node: &NodeName, record: &SessionRecord, effects: &mut Vec<Effect>) {
        let former = self.record.replace(record.clone());
        let now = session(node, record);
        let mut closed = Vec::new();
        if let Some(former) = former.as_ref().filter(|f| f.open).map(|f| session(node, f))
            && record.has_closed(&former)
        {
            closed.push(former);
        }
        let was_known = former.is_some_and(|f| session(node, &f) == now);
        if !record.open && !was_known {
            closed.push(now);
        }
        effects.extend(closed.into_iter().map(|session| Effect::Emit(SessionEvent::PeerClosed(session))));
    }
}
