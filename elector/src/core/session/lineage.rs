//! A store that went back: looking into it, raising the lineage or going along with another's, and beginning anew.
//!
//! ```text
//!  something known is not shown --> lapse, read it again --> shown after all: go on
//!                                                       |--> greater lineage: it is this node's from now on
//!                                                       '--> still gone: write a greater one, if what shows it stays so
//! ```

use std::time::Duration;

use callsign_store::{
    Key, ReadResult, Transaction, Value,
    ids::Nonce,
    planted,
    random::SplitMix64,
    record::{CorruptRecord, Record},
    time::Time,
};

use super::{Effect, Phase, RequestId, Session};
use crate::core::{
    lineage::{self, LineageId},
    past::Fact,
    record::{Lineage, SessionRecord},
    session::event::SessionEvent,
};

/// Where the lineage is among what is read with the own record, and the first of what is doubted.
const LINEAGE: usize = 2;
const DOUBTED: usize = 3;

/// The most that is doubted at once: one fact that is gone is enough.
const MOST_DOUBTS: usize = 16;

/// What the node knows of the store that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    /// The record, as it was last read or written.
    raw: Option<Value>,
    /// The lineage that the node is in. `None` while the store has no record and none was seen.
    ours: Option<LineageId>,
    /// When it was first seen.
    since: Time,
    /// Whether the node has begun anew since it was started.
    begun_anew: bool,
    /// The longest lease of all records that were seen.
    greatest: Duration,
    /// Facts that are said to be gone. Nothing is trusted until a read has shown them, or the node has begun anew.
    doubted: Vec<(Key, Fact)>,
    /// Whether a read has shown a loss that is not settled yet.
    is_lost: bool,
    /// The keys that show it.
    shown: Vec<Key>,
    /// Until when a session of this node was trusted last.
    trusted_until: Option<Time>,
}

/// What a read says of the store.
pub(super) enum Finding {
    /// It has all that is known, as far as was asked.
    Whole,
    /// It went back, and somebody has said so: its lineage is greater.
    Greater(Lineage),
    /// It went back. What shows it: keys and what they have.
    Gone(Vec<(Key, Option<Value>)>),
}

impl Standing {
    /// Whether the store may have gone back: nothing is trusted meanwhile.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_lost || !self.doubted.is_empty()
    }

    pub(super) fn raw(&self) -> Option<&Value> {
        self.raw.as_ref()
    }

    /// The number after `last` in this lineage.
    pub(super) fn after(&self, last: u64) -> u64 {
        self.ours.unwrap_or_default().number.after(last)
    }

    /// The lineage and since when the node is in it, if the store ever went back.
    pub(super) fn event(&self) -> Option<SessionEvent> {
        let lineage = self.ours.filter(|id| id.number.0 > 0 || self.begun_anew)?;
        Some(SessionEvent::Lineage { lineage, since: self.since })
    }

    /// Notes until when a session is trusted.
    pub(super) fn trusted(&mut self, until: Time) {
        self.trusted_until = Some(until);
    }

    /// Nothing is in doubt any more. Returns the keys that showed a loss.
    fn settle(&mut self) -> Vec<Key> {
        (self.is_lost, self.doubted) = (false, Vec::new());
        std::mem::take(&mut self.shown)
    }

    fn take(&mut self, raw: Option<Value>, record: Lineage, now: Time) {
        if raw.is_some() && self.ours.is_none_or(|ours| ours != record.id) {
            self.ours = Some(record.id);
            self.since = now;
        }
        self.greatest = self.greatest.max(record.greatest_lease);
        self.raw = raw;
    }
}

impl Session {
    /// The node is told that something is gone that it knew to be committed, or that another lineage was seen.
    pub(super) fn doubt(
        &mut self,
        now: Time,
        since: Option<Time>,
        facts: Vec<(Key, Fact)>,
        effects: &mut Vec<Effect>,
    ) {
        let standing = &self.own.standing;
        // The elector that says it has not heard yet that the node began anew.
        let is_late = standing.begun_anew && since != Some(standing.since);
        if is_late || !self.may_begin_anew() {
            return;
        }
        let doubted = &mut self.own.standing.doubted;
        for fact in facts {
            if !doubted.contains(&fact) && doubted.len() < MOST_DOUBTS {
                doubted.push(fact);
            }
        }
        if self.own.standing.is_in_doubt() {
            self.lapse(now, effects);
        }
        self.own.stale = true;
        self.own.due = self.own.due.min(now);
    }

    /// What is read to know the store, beside the own record and the floor.
    pub(super) fn lineage_keys(&self) -> Vec<Key> {
        let doubted = self.own.standing.doubted.iter().map(|(key, _)| key.clone());
        std::iter::once(self.keys.lineage()).chain(doubted).collect()
    }

    /// What is doubted now: the read that is begun asks for it.
    pub(super) fn doubted(&self) -> Vec<(Key, Fact)> {
        self.own.standing.doubted.clone()
    }

    /// Judges the store by a read of the own record. `asked` is what was doubted when it was begun; `is_fresh` says that it was
    /// begun after the own record was last known.
    pub(super) fn judge(
        &mut self,
        now: Time,
        read: &ReadResult,
        record: Option<&SessionRecord>,
        asked: &[(Key, Fact)],
        is_fresh: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<Finding, CorruptRecord> {
        let raw = read.value(LINEAGE);
        let theirs = raw.map_or(Ok(Lineage::default()), |value| Lineage::from_value(value))?;
        let known = self.own.standing.ours;
        let ours = known.unwrap_or(theirs.id);
        if !self.may_begin_anew() {
            // Whatever became of the store: what is open there of this node is to be closed, and nothing more is asked.
            self.own.standing.raw = raw.cloned();
            if !planted!("doubts-while-leaving") {
                self.own.standing.settle();
            }
            return Ok(Finding::Whole);
        }
        if theirs.id.number > ours.number {
            return Ok(Finding::Greater(theirs));
        }
        if theirs.id != ours {
            return Ok(Finding::Gone(Vec::new()));
        }
        self.take_lineage(now, raw.cloned(), theirs, effects);
        let mut gone: Vec<(Key, Option<Value>)> = Vec::new();
        for (nth, (key, fact)) in asked.iter().enumerate() {
            let value = read.value(DOUBTED + nth);
            if fact.is_gone(value) {
                gone.push((key.clone(), value.cloned()));
            }
        }
        if is_fresh && self.own_is_gone(record) {
            gone.push((self.keys.session(&self.config.node), read.value(0).cloned()));
        }
        if !gone.is_empty() {
            return Ok(Finding::Gone(gone));
        }
        // What was said since the read was begun is looked at by the next one.
        let standing = &mut self.own.standing;
        standing.doubted.retain(|fact| !asked.contains(fact));
        standing.is_lost = false;
        standing.shown.clear();
        Ok(Finding::Whole)
    }

    /// The store went back, and no lineage says so yet.
    pub(super) fn on_gone(
        &mut self,
        now: Time,
        read: &ReadResult,
        gone: Vec<(Key, Option<Value>)>,
        effects: &mut Vec<Effect>,
    ) {
        let theirs = LineageId::of(read.value(LINEAGE)).unwrap_or_default();
        self.own.standing.is_lost = true;
        self.own.standing.shown = gone.iter().map(|(key, _)| key.clone()).collect();
        self.lapse(now, effects);
        self.own.due = now + self.pause();
        let standing = &self.own.standing;
        let is_recent = standing.trusted_until.is_some_and(|until| now < until + standing.greatest);
        let ours = standing.ours.unwrap_or_default();
        if !is_recent && !planted!("raises-a-day-late") {
            // Nobody trusts what this node lost any more, and what the others have since is not to be taken from them.
            let record = read.value(LINEAGE).map(|value| Lineage::from_value(value));
            let record = record.and_then(Result::ok).unwrap_or_default();
            return self.begin_anew(now, read.value(LINEAGE).cloned(), record, effects);
        }
        let Some(number) = ours.number.max(theirs.number).next() else { return };
        let nonce = Nonce(SplitMix64::new(self.config.seed ^ self.last_id().0.rotate_left(32)).draw());
        let greatest_lease = standing.greatest.max(self.config.timing.lease);
        let lineage = Lineage { id: LineageId { number, nonce }, greatest_lease };
        let mut transaction = Transaction::new().check(self.keys.lineage(), read.value(LINEAGE).cloned());
        for (key, value) in gone {
            transaction = transaction.check(key, value);
        }
        self.write_lineage(now, lineage, transaction.put(self.keys.lineage(), lineage.to_value()), effects);
    }

    /// The node is in this lineage from now on. What it held is lost, and what it knew is not so any more.
    pub(super) fn begin_anew(
        &mut self,
        now: Time,
        raw: Option<Value>,
        record: Lineage,
        effects: &mut Vec<Effect>,
    ) {
        self.lapse(now, effects);
        let standing = &mut self.own.standing;
        let shown = standing.settle();
        standing.ours = None;
        standing.take(raw, record, now);
        (standing.since, standing.begun_anew) = (now, true);
        effects.push(Effect::Emit(SessionEvent::StoreWentBack { shown }));
        self.lose(now, effects);
        effects.push(Effect::Emit(SessionEvent::Lineage { lineage: record.id, since: now }));
        self.forget_own(now);
        self.observer.forget();
        self.sweeper.forget();
    }

    /// A greater lineage was written by this node.
    pub(super) fn on_raised(&mut self, now: Time, lineage: Lineage, effects: &mut Vec<Effect>) {
        if self.may_begin_anew() || planted!("raised-while-leaving") {
            self.begin_anew(now, Some(lineage.to_value()), lineage, effects);
        } else {
            self.own.standing.raw = Some(lineage.to_value());
        }
    }

    /// Whether the node may open another session: a node that leaves must not.
    fn may_begin_anew(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Open)
    }

    /// The record of the lineage that an opening writes: where there is none, and where its lease is longer than any before.
    pub(super) fn lineage_to_open(&self) -> Option<Lineage> {
        let lease = self.config.timing.lease;
        let present = self.own.standing.raw.as_ref().map(|value| Lineage::from_value(value));
        match present {
            None => {
                let nonce = Nonce(SplitMix64::new(!self.config.seed).draw());
                Some(Lineage { id: LineageId { nonce, ..LineageId::default() }, greatest_lease: lease })
            }
            Some(Ok(record)) if record.greatest_lease < lease => {
                Some(Lineage { greatest_lease: lease, ..record })
            }
            Some(_) => None,
        }
    }

    /// An opening has written the record of the lineage.
    pub(super) fn on_lineage_opened(&mut self, now: Time, lineage: Lineage, effects: &mut Vec<Effect>) {
        self.take_lineage(now, Some(lineage.to_value()), lineage, effects);
    }

    /// Takes the record of the lineage that the node is in. A node that began anew while there was none has told its others of none.
    fn take_lineage(&mut self, now: Time, raw: Option<Value>, record: Lineage, effects: &mut Vec<Effect>) {
        let standing = &mut self.own.standing;
        let before = standing.ours;
        standing.take(raw, record, now);
        if standing.begun_anew && standing.ours != before {
            effects.extend(standing.event().map(Effect::Emit));
        }
    }

    /// Adds the check that the lineage is the one that the node knows.
    pub(super) fn check_lineage(&self, transaction: Transaction) -> Transaction {
        lineage::check(transaction, &self.keys, self.own.standing.raw())
    }

    /// Another read than that of the own record has shown the lineage: if it is another one, the own record is read at once.
    pub(super) fn compare_lineage(&mut self, now: Time, value: Option<&Value>) {
        if self.own.standing.raw() != value && self.phase == Phase::Open {
            self.own.stale = true;
            self.own.due = self.own.due.min(now);
        }
    }

    fn write_lineage(
        &mut self,
        now: Time,
        lineage: Lineage,
        transaction: Transaction,
        effects: &mut Vec<Effect>,
    ) {
        let id: RequestId = self.next_id();
        self.own.stale = true;
        self.ask_raise(now, id, lineage);
        effects.push(Effect::Commit { id, transaction });
    }
}
