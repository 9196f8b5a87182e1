//! Sweeping away closed records, so that names that never come back cost nothing.
//!
//! A sweep checks each record as it was read, and the floor; it removes the records and raises the floor to the greatest
//! of their numbers. From then on "no record, and at most the floor" says "closed".

use callsign_store::{
    CommitOutcome, ReadResult, StoreError, Transaction,
    keys::{read_key, read_range},
    planted,
    record::Record,
    time::Time,
};

use super::{Effect, Phase, RequestId, Session, own::floor_of};
use crate::core::{
    record::{SessionFloor, SessionRecord},
    sweep::Walk,
};

/// How much longer nodes that do not lead leave the sweeping to those that do.
const OTHERS: u32 = 4;

/// The first walk begins this part of the age after the node was trusted: a node that is gone soon does not walk.
const SETTLED: u32 = 8;

/// The walk of a node over all session records, and what it is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sweeper {
    walk: Walk,
    /// The read or the commit under way, and until when its answer is waited for.
    doing: Option<(RequestId, Time)>,
}

impl Sweeper {
    /// The node is trusted.
    pub(super) fn begin(&mut self, now: Time, age: std::time::Duration) {
        self.walk.begin(now, age / SETTLED);
    }

    /// What it has seen is of another lineage.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_asking(&self, id: RequestId) -> bool {
        self.doing.is_some_and(|(asked, _)| asked == id)
    }
}

impl Session {
    /// Reads the next page, if that is due. Only while trusted, as for observations.
    pub(super) fn act_sweeper(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.sweeper.doing.take_if(|(_, deadline)| *deadline <= now).is_some() {
            self.sweeper.walk.put_off(now, self.config.timing.sweep_after);
        }
        let is_due = self.sweeper.walk.due().is_some_and(|due| due <= now);
        if !is_due || self.sweeper.doing.is_some() || self.phase != Phase::Open || !self.is_trusted() {
            return;
        }
        let id = self.next_id();
        self.sweeper.doing = Some((id, now + self.config.timing.lease));
        let page = read_range(self.sweeper.walk.next(self.keys.sessions()), self.sweep_page());
        effects.push(Effect::Read { id, reads: vec![read_key(self.keys.session_floor()), page] });
    }

    /// Takes a page: looks at what is open without a mark, and sweeps what was closed for long enough.
    pub(super) fn on_swept_page(
        &mut self,
        now: Time,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        self.sweeper.doing = None;
        let age = self.config.timing.sweep_after;
        // What cannot be read is neither swept nor taken for open, and a floor that cannot be read is not raised.
        let (Ok(read), true) = (result, self.phase == Phase::Open && self.is_trusted()) else {
            return self.sweeper.walk.put_off(now, age);
        };
        let Ok(floor) = floor_of(read.value(0)) else {
            return self.sweeper.walk.put_off(now, age);
        };
        let page = read.entries(1);
        for (key, value) in page {
            let is_open = SessionRecord::from_value(value).is_ok_and(|record| record.open);
            let node = self.keys.session_node(key).filter(|node| is_open && *node != self.config.node);
            if let Some(node) = node {
                self.observer.look_at(node);
            }
        }
        let own = self.keys.session(&self.config.node);
        let is_closed = |key: &Vec<u8>, value: &Vec<u8>| {
            let record = SessionRecord::from_value(value);
            *key != own && record.is_ok_and(|r| !r.open || planted!("sweeps-open-sessions"))
        };
        let age = if self.leads { age } else { age * OTHERS };
        let limit = self.sweep_page();
        let old = self.sweeper.walk.take(now, age, (page, limit), is_closed);
        let number = |value| SessionRecord::from_value(value).map(|record| record.number).unwrap_or_default();
        let Some(greatest) = old.iter().map(|(_, value)| number(value)).max() else { return };

        let mut transaction = self.check_lineage(Transaction::new());
        if !planted!("sweep-without-floor-check") {
            transaction = transaction.check(self.keys.session_floor(), read.value(0).cloned());
        }
        for (key, value) in old {
            if !planted!("sweep-without-record-check") {
                transaction = transaction.check(key.clone(), Some(value.clone()));
            }
            transaction = transaction.clear(key.clone());
        }
        let raises = greatest > floor && !planted!("session-floor-not-raised");
        if raises || planted!("session-floor-lowered") {
            transaction = transaction.put(self.keys.session_floor(), SessionFloor(greatest).to_value());
        }
        let id = self.next_id();
        self.sweeper.doing = Some((id, now + self.config.timing.lease));
        effects.push(Effect::Commit { id, transaction });
    }

    /// How many records are read at once.
    fn sweep_page(&self) -> usize {
        self.config.timing.sweep_page.max(1)
    }

    /// A sweep ended. What it did not take away is looked at again: one record of many has changed, say.
    pub(super) fn on_sweep_done(&mut self, now: Time, outcome: &CommitOutcome) {
        self.sweeper.doing = None;
        if !matches!(outcome, CommitOutcome::Committed(_)) {
            self.sweeper.walk.again(now, self.config.timing.sweep_after);
        }
    }

    pub(super) fn sweeper_wake_at(&self) -> Option<Time> {
        let may = self.phase == Phase::Open && self.is_trusted();
        match self.sweeper.doing {
            Some((_, deadline)) => Some(deadline),
            None => self.sweeper.walk.due().filter(|_| may),
        }
    }
}
