//! The records of the other nodes: seeing that one is silent, and closing it.

use std::collections::BTreeMap;
use std::time::Duration;

use callsign_planted::planted;

use super::{
    SessionEvent,
    core::{Effect, Phase, RequestId, Session},
    jitter::Jitter,
    timing::MIN_EVERY,
    watch::{Sight, Watch},
};
use crate::{
    ids::{Incarnation, NodeName, SessionId},
    keys::read_range,
    record::{Record, SessionRecord},
    store::{CommitOutcome, Key, ReadResult, StoreError, Transaction, Value, Version},
    time::Time,
};

/// How many records are read at once.
const PAGE: usize = 1000;

/// How long nodes that do not lead leave the closing to those that do, and how far they differ in that.
/// Shorter: they all commit the same closing, and all but one conflict. Longer: names are freed later when no leader
/// is left.
const AFTER_LEADERS: Duration = Duration::from_millis(200);
const APART: Duration = Duration::from_millis(300);

/// How soon to look again after a closing that did not commit.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What the node knows of the others' sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Observer {
    peers: BTreeMap<NodeName, Peer>,
    reading: Option<Reading>,
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
struct Reading {
    id: RequestId,
    deadline: Time,
    /// The version of the first page: nothing read is older.
    version: Option<Version>,
    entries: Vec<(Key, Value)>,
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
}

fn session(node: &NodeName, record: &SessionRecord) -> SessionId {
    SessionId { node: node.clone(), incarnation: record.incarnation, number: record.number }
}

impl Observer {
    pub(super) fn new(jitter: &mut Jitter) -> Self {
        Self {
            peers: BTreeMap::new(),
            reading: None,
            closing: BTreeMap::new(),
            due: Time::ZERO,
            unbroken: false,
            patience: AFTER_LEADERS + jitter.below(APART),
        }
    }

    /// The node is trusted from now on.
    pub(super) fn begin(&mut self, now: Time) {
        self.due = now;
    }

    /// The node is not trusted any more. It has to beat before it observes.
    pub(super) fn interrupt(&mut self) {
        self.reading = None;
        self.unbroken = false;
    }

    pub(super) fn is_closing(&self, id: RequestId) -> bool {
        self.closing.values().any(|c| c.id == id)
    }

    pub(super) fn closed_peers(&self) -> impl Iterator<Item = SessionId> {
        self.peers.iter().filter_map(|(node, peer)| {
            let record = peer.record.as_ref().filter(|r| !r.open)?;
            Some(session(node, record))
        })
    }

    /// The time to the next read: each open session must be read more often than S/4 apart, and that takes time too.
    fn every(&self, usual: Duration) -> Duration {
        let shortest = self.peers.values().filter_map(Peer::open).map(|r| r.lease / 5).min();
        shortest.map_or(usual, |shortest| shortest.min(usual)).max(MIN_EVERY)
    }
}

impl Session {
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
        let page = read.entries(0);
        reading.entries.extend_from_slice(page);
        let version = *reading.version.get_or_insert(read.version);
        if page.len() >= PAGE {
            self.read_peers(now, reading, effects);
            return;
        }
        let seen_at = if planted!("silence-from-start-of-read") {
            reading.deadline - self.config.timing.attempt()
        } else {
            now
        };
        self.observe(seen_at, version, reading.entries, effects);
    }

    /// Takes all records of the others, from a read that ended at `now`.
    fn observe(
        &mut self,
        now: Time,
        version: Version,
        entries: Vec<(Key, Value)>,
        effects: &mut Vec<Effect>,
    ) {
        let mut before = std::mem::take(&mut self.observer.peers);
        for (key, value) in entries {
            let Some(node) = self.keys.session_node(&key).filter(|n| *n != self.config.node) else {
                continue;
            };
            let peer = match before.remove(&node) {
                // Its closing was committed after this was read.
                Some(peer) if version < peer.version => peer,
                peer => self.see(now, version, &node, value, peer, effects),
            };
            self.observer.peers.insert(node, peer);
        }
        // Known from a later version than this was read at.
        self.observer.peers.extend(before.into_iter().filter(|(_, peer)| version < peer.version));
        self.observer.unbroken = true;
        let peers = &self.observer.peers;
        self.suspicions.retain(|node, incarnation| {
            peers.get(node).and_then(Peer::open).is_some_and(|r| r.incarnation == incarnation)
        });

        let patience = if self.leads { Duration::ZERO } else { self.observer.patience };
        let mut due = now + self.observer.every(self.config.timing.observe_every);
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
        } else {
            self.observer.due = now;
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
        let mut transaction =
            Transaction::new().check(key.clone(), Some(peer.watch.value.clone())).put(key, closed.to_value());
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
                self.observer.due = self.observer.due.min(now + LOOK_AGAIN);
            }
            // The next observation finds it as silent as before.
            CommitOutcome::Unavailable(_) | CommitOutcome::TooLarge(_) => {}
        }
    }

    /// Observes, if that is due. Only while trusted: a node beats before it observes.
    pub(super) fn act_observer(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.observer.closing.retain(|_, c| now < c.deadline);
        if self.observer.reading.take_if(|r| r.deadline <= now).is_some() {
            self.observer.due = now;
        }
        let may = self.phase == Phase::Open && self.is_trusted();
        if may && self.observer.reading.is_none() && self.observer.due <= now {
            let reading = Reading { id: RequestId(0), deadline: now, version: None, entries: Vec::new() };
            self.read_peers(now, reading, effects);
        }
    }

    /// Reads the next page.
    fn read_peers(&mut self, now: Time, reading: Reading, effects: &mut Vec<Effect>) {
        let mut range = self.keys.sessions();
        if let Some((last, _)) = reading.entries.last() {
            range.start = [last.as_slice(), &[0]].concat();
        }
        let id = self.next_id();
        let deadline = now + self.config.timing.attempt();
        self.observer.reading = Some(Reading { id, deadline, ..reading });
        effects.push(Effect::Read { id, reads: vec![read_range(range, PAGE)] });
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
