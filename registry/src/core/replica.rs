//! The replica: the log, applied in order.
//!
//! Takes as given: what a leader sends was committed. Not given: that it is complete, or that the leader still leads.
//!
//! Promises: the table is always the result of a prefix of the log (P5); it never goes back, and while a snapshot
//! arrives readers see the old content. A gap is noticed, by the next batch or the next heartbeat; closing it is
//! the business of [`catchup`](crate::core::catchup).

mod applying;
mod explain;
mod installing;
mod past;
#[cfg(test)]
mod tests;
mod touched;

use std::collections::BTreeMap;

use bytes::Bytes;
use callsign_elector::record::LogEnd;
use callsign_store::{
    Time,
    ids::{Epoch, NodeName, Position, SessionId},
    planted,
};

#[cfg(test)]
pub(crate) use self::past::MAX_ENDED;
pub use self::{applying::Applied, installing::Staged, touched::Touched};
use self::{installing::Installing, past::Past};
#[cfg(any(test, feature = "cores", feature = "fuzz"))]
use crate::core::name::Name;
use crate::core::{
    log::{Batch, CorruptBatch, Op},
    rows::{Held, Rows, Tour},
    table::{Row, Table},
    watch::Memory,
};

/// The most bytes of batches that wait for a gap to close. More are dropped, and fetched later.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// How many bytes of batches that waited are applied at a time: about a thousand names.
const APPLIED_BYTES: usize = 32 << 10;

/// A batch that came too early.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WaitingBatch {
    epoch: Epoch,
    batch: Batch,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica<T> {
    me: NodeName,
    rows: Rows<T>,
    epoch: Epoch,
    end: LogEnd,
    based: bool,
    installing: Option<Installing>,
    waiting: BTreeMap<Position, WaitingBatch>,
    waiting_bytes: usize,
    /// The latest changes, for whoever watches.
    memory: Memory,
    /// What has ended, for whoever asks why a name is free.
    past: Past,
    /// Names changed since the start of each snapshot that is being sent. One that has too many to remember is forgotten.
    pub touched: BTreeMap<(NodeName, u64), Touched>,
}

impl<T: Table> Replica<T> {
    pub fn new(me: NodeName, table: T) -> Self {
        let mut rows = Rows::new(table);
        rows.keep_swept(true);
        Self {
            me,
            rows,
            epoch: Epoch(0),
            end: LogEnd::default(),
            based: false,
            installing: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            memory: Memory::default(),
            past: Past::default(),
            touched: BTreeMap::new(),
        }
    }

    /// What changed lately.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Remembers what changes from here on.
    pub(crate) fn remember(&mut self) {
        self.memory.turn_on(self.based.then(|| self.position()));
    }

    /// Nobody wants to know any more.
    pub(crate) fn remember_nothing(&mut self) {
        self.memory.turn_off();
    }

    /// What is applied from here on is applied at this time.
    pub(crate) fn tick(&mut self, now: Time) {
        self.past.tick(now);
    }

    /// But what is applied until then was committed some time ago, and nobody here knows when.
    pub(crate) fn applies_late(&mut self) {
        self.past.is_late();
    }

    /// What comes is no continuation of what was.
    fn lose_memories(&mut self) {
        self.memory.lose();
        self.past.lose();
    }

    /// Remembers what was swept of that which is gone, and when all of it was.
    fn remember_swept(&mut self) {
        for (name, row) in self.rows.take_swept() {
            self.memory.swept(&name, &row);
            self.past.swept(&name, &row);
        }
        let rows = &self.rows;
        let is_swept = |session: &SessionId| rows.gone_below(session).is_none();
        if self.memory.is_sweeping() {
            self.memory.close_swept(is_swept);
        }
        self.past.close_swept(is_swept);
    }

    /// A walk over all names.
    pub(crate) fn tour(&self) -> Tour {
        self.rows.tour()
    }

    /// Who holds a name.
    pub fn row(&self, name: &str) -> Option<Row> {
        self.rows.row(name)
    }

    /// The limit of the semaphore that a name is a place in, if it is another one than the name says.
    pub(crate) fn other_limit(&self, name: &str) -> Option<u32> {
        self.rows.other_limit(name)
    }

    /// Whether a place of a semaphore holds what that is for. While a snapshot is put in its place, nobody can tell who stands before it.
    pub fn holds(&self, name: &str, position: Position) -> bool {
        self.based && self.rows.holds(name, position)
    }

    /// How many names there are. Cost: the number of sessions.
    pub fn count(&self) -> usize {
        self.rows.count()
    }

    /// Whether there is something to [`proceed`](Self::proceed) with.
    pub(crate) fn is_busy(&self) -> bool {
        self.rows.is_sweeping() || self.is_installing() || self.has_next()
    }

    /// Goes on with what is done a few names at a time: removes names that are gone, then puts those of a snapshot in their place, then
    /// applies the batches that waited for it.
    pub(crate) fn proceed(&mut self, names: usize) -> Proceeded {
        let mut proceeded = Proceeded::default();
        if self.rows.is_sweeping() {
            self.rows.sweep(names);
            self.remember_swept();
        } else {
            proceeded.installed = self.go_on_installing(names);
        }
        proceeded.applied = self.apply_waiting();
        proceeded
    }

    /// The last batch applied.
    pub fn position(&self) -> Position {
        self.end.position
    }

    /// The last batch whose names a lookup sees: none while a snapshot is being put in its place, since names of the former table are
    /// hidden then, and not all of the new one are there.
    pub(crate) fn visible(&self) -> Position {
        if self.is_installing() && !planted!("grant-while-installing") {
            Position(0)
        } else {
            self.position()
        }
    }

    /// The last batch applied, with its nonce: only what names it may follow.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// The greatest epoch of which something was applied.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the table is a prefix of the log, and not just nothing yet.
    pub fn is_based(&self) -> bool {
        self.based
    }

    /// Empties the table, and takes it for the prefix of no batch. Right only without a base, and if the log still has its
    /// first one.
    pub fn base_on_nothing(&mut self) {
        // Of a replica that has forgotten what it applied there may be rows left.
        self.rows.hide_all(Position(u64::MAX));
        self.installing = None;
        self.end = LogEnd::default();
        self.based = true;
        self.memory.begin_at(Position(0));
        self.past.forget();
        self.past.reset_at(Position(0));
    }

    /// The table is a prefix of the log that nobody can continue. Readers learn that it is not complete.
    pub fn give_up_base(&mut self) {
        self.based = false;
        self.lose_memories();
        self.installing = None;
        self.waiting.clear();
        self.waiting_bytes = 0;
        // Nor does it give others a base any more.
        self.touched.clear();
    }

    /// What was applied is of a store that went back. Only a batch that resets can be applied, or a snapshot installed.
    pub fn forget(&mut self) {
        self.give_up_base();
        self.past.forget();
        self.end = LogEnd::default();
        if !planted!("epoch-of-the-lost-log") {
            self.epoch = Epoch(0);
        }
    }

    /// Passes over the log up to its end. Right only without a base, and if the next batch resets.
    pub fn skip_to(&mut self, end: LogEnd) {
        self.end = end;
    }

    pub fn sessions(&self) -> &BTreeMap<SessionId, Held> {
        self.rows.sessions()
    }

    /// The first position of a batch that waits for a gap before it to close.
    pub fn gap_before(&self) -> Option<Position> {
        self.waiting.keys().next().copied()
    }

    /// Takes a committed batch that came from a leader: applies it if it is the next, keeps it if it is a later one.
    ///
    /// # Errors
    /// If it cannot be read, or is of another log than what was applied. Then nothing was changed.
    pub fn offer(
        &mut self,
        epoch: Epoch,
        position: Position,
        batch: &Bytes,
    ) -> Result<Applied, CorruptBatch> {
        let passed = self.installing.as_ref().map_or(self.position(), |it| it.end.position);
        if position < passed || epoch < self.epoch {
            return Ok(Applied::default());
        }
        let bytes = batch.len();
        let batch = Batch::decode_at(position, batch)?;
        if self.is_installing() || self.has_next() {
            // In its turn.
        } else if !self.based {
            // Without a base, the only batch that can be applied is one that needs none.
            if batch.ops.contains(&Op::Reset) && position > self.position() {
                let mut applied = self.apply(&batch);
                applied.merge(self.apply_waiting());
                return Ok(applied);
            }
        } else if self.is_next(&batch)? || planted!("no-gap-check") {
            let mut applied = self.apply(&batch);
            applied.merge(self.apply_waiting());
            return Ok(applied);
        }
        if position > self.position() && self.waiting_bytes + bytes <= MAX_WAITING_BYTES {
            self.waiting_bytes += bytes;
            if let Some(former) = self.waiting.insert(position, WaitingBatch { epoch, batch, bytes }) {
                self.waiting_bytes -= former.bytes;
            }
        }
        Ok(Applied::default())
    }

    /// Whether a batch follows the last one applied. An error: it is of another log.
    pub fn is_next(&self, batch: &Batch) -> Result<bool, CorruptBatch> {
        let shared = if batch.position == self.position() { batch.end() } else { batch.prev };
        // A batch that passes over where this replica is leaves out what is applied here.
        let passes_over = batch.position > self.position() && batch.prev.position < self.position();
        if passes_over || (shared.position == self.position() && shared != self.end) {
            return Err(CorruptBatch::Diverged { at: self.end });
        }
        Ok(batch.position > self.position() && batch.prev.position == self.position())
    }

    /// Whether a batch that waited can be applied, or dropped.
    pub(crate) fn has_next(&self) -> bool {
        let first = self.waiting.first_key_value();
        self.based && first.is_some_and(|(_, waiting)| waiting.batch.prev.position <= self.position())
    }

    /// Applies what waits, as far as it goes, and no more than takes a moment.
    fn apply_waiting(&mut self) -> Applied {
        let (mut all, mut bytes) = (Applied::default(), 0);
        while bytes < APPLIED_BYTES && self.has_next() {
            let Some((_, waiting)) = self.waiting.pop_first() else { break };
            self.waiting_bytes -= waiting.bytes;
            bytes += waiting.bytes;
            // What a newer leader's log passed over was never committed at this position.
            if self.is_next(&waiting.batch) == Ok(true) && waiting.epoch >= self.epoch {
                all.merge(self.apply(&waiting.batch));
            }
        }
        all
    }
}

/// What came of going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Proceeded {
    /// A snapshot is in its place: where it ends.
    pub(crate) installed: Option<Position>,
    /// What batches changed.
    pub(crate) applied: Applied,
}

/// For whoever judges a replica.
#[cfg(any(test, feature = "cores", feature = "fuzz"))]
impl Replica<BTreeMap<Name, Row>> {
    /// The names of the members of a group, in their order.
    #[cfg(feature = "cores")]
    pub fn members(&self, group: &str) -> Vec<Name> {
        self.rows.members(group)
    }

    /// All names and their rows.
    pub fn rows(&self) -> impl Iterator<Item = (&Name, &Row)> {
        self.rows.iter()
    }
}
