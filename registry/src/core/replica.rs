//! The replica: the log, applied in order.
//!
//! Takes as given: what a leader sends was committed. Not given: that it is complete, or that the leader still leads.
//!
//! Promises: the table is always the result of a prefix of the log (P5); it never goes back, and while a snapshot
//! arrives readers see the old content. A gap is noticed, by the next batch or the next heartbeat; closing it is
//! the business of [`catchup`](crate::core::catchup).

mod explain;
mod past;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use callsign_elector::record::LogEnd;
use callsign_store::{
    Time,
    ids::{Epoch, NodeName, Position, SessionId},
    planted,
};

#[cfg(test)]
pub(crate) use self::past::MAX_ENDED;
use self::past::Past;
use crate::core::{
    group::Membership,
    log::{Batch, CorruptBatch, Op},
    message::{Chunk, ChunkHeld},
    name::Name,
    rows::{Held, Rows, Tour},
    table::{More, Row, Slot, Table},
    watch::Memory,
    why::{GivenUp, Why},
};

/// The most bytes of batches that wait for a gap to close. More are dropped, and fetched later.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// How many bytes of batches that waited are applied at a time: about a thousand names.
const APPLIED_BYTES: usize = 32 << 10;

/// What a batch changed that others have to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Applied {
    /// Rows of this node that are gone.
    pub own_freed: Vec<(Name, Row)>,
    /// Sessions of this node all of whose names are gone.
    pub own_gone: Vec<SessionId>,
    /// Sessions all of whose names are gone, with their number.
    pub gone: Vec<(SessionId, u64)>,
    /// Names whose actor was being started, and is not any more: it was, or the name is free.
    pub starts: Vec<Name>,
    /// Names of this node that went to another actor, as this node held them, and the node and the token under which that one
    /// holds them.
    pub given: Vec<(Name, Row, NodeName, Position)>,
    /// Names that went to an actor of this node, as it holds them.
    pub taken: Vec<(Name, Row)>,
    /// Registrations that have ended, by their tokens.
    pub ended: Vec<(Name, Position)>,
    /// Any number of names may be free that none of the others names.
    pub is_of_many: bool,
    /// A place of a semaphore is free.
    pub frees_places: bool,
}

impl Applied {
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.own_freed.append(&mut other.own_freed);
        self.own_gone.append(&mut other.own_gone);
        self.gone.append(&mut other.gone);
        self.starts.append(&mut other.starts);
        self.given.append(&mut other.given);
        self.taken.append(&mut other.taken);
        self.ended.append(&mut other.ended);
        self.is_of_many |= other.is_of_many;
        self.frees_places |= other.frees_places;
    }
}

/// A batch that came too early.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
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
    waiting: BTreeMap<Position, Waiting>,
    waiting_bytes: usize,
    /// The latest changes, for whoever watches.
    memory: Memory,
    /// What has ended, for whoever asks why a name is free.
    past: Past,
    /// Names changed since the start of each snapshot that is being sent. One that has too many to remember is forgotten.
    pub touched: BTreeMap<(NodeName, u64), Touched>,
}

/// What was changed while a snapshot is being sent, since it was last sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touched {
    names: BTreeSet<Name>,
    /// Sessions whose rows below a position are gone.
    gone: BTreeMap<SessionId, Position>,
    limit: usize,
}

impl Touched {
    /// None yet, and so many in the end.
    pub fn at_most(limit: usize) -> Self {
        Self { names: BTreeSet::new(), gone: BTreeMap::new(), limit }
    }

    /// Adds one. False: it is one too many.
    fn insert(&mut self, name: &Name) -> bool {
        self.names.insert(name.clone());
        self.names.len() <= self.limit
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Those that are to be walked over anew.
    pub fn take(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.names).into_iter().collect()
    }

    /// The sessions whose rows are gone.
    pub fn take_gone(&mut self) -> BTreeMap<SessionId, Position> {
        std::mem::take(&mut self.gone)
    }
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
        if !self.memory.is_on() {
            self.memory.turn_on(self.based.then(|| self.position()));
        }
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

    /// Whether a snapshot is here, and not all of it is in its place.
    pub(crate) fn is_installing(&self) -> bool {
        self.installing.is_some()
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

    fn go_on_installing(&mut self, names: usize) -> Option<Position> {
        let Installing { rows, epoch, end } = self.installing.as_mut()?;
        for _ in 0..names {
            let Some((name, row)) = rows.pop() else {
                (self.epoch, self.end, self.based) = (self.epoch.max(*epoch), *end, true);
                self.installing = None;
                self.memory.begin_at(self.end.position);
                self.past.begin_at(self.end.position);
                return Some(self.end.position);
            };
            let session = self.rows.shared(&row.session);
            self.rows.put(&name, Row { session, ..row });
        }
        None
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

    /// Empties the table, and takes it for the prefix of no batch. Right only if the log still has its first one.
    pub fn base_on_nothing(&mut self) {
        // Of a replica that has forgotten what it applied there may be rows left.
        self.rows.hide_all(Position(u64::MAX));
        self.installing = None;
        self.end = LogEnd::default();
        self.based = true;
        self.memory.lose();
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

    /// Passes over the log up to its end. Right only if the next batch resets.
    pub fn skip_to(&mut self, end: LogEnd) {
        self.lose_memories();
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
            if let Some(former) = self.waiting.insert(position, Waiting { epoch, batch, bytes }) {
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

    /// Applies the next batch of the log.
    pub fn apply(&mut self, batch: &Batch) -> Applied {
        debug_assert!(batch.position > self.position(), "the log is applied forwards");
        let mut applied = Applied::default();
        let mut resets = false;
        let sessions: Vec<Arc<SessionId>> = batch.sessions.iter().map(|id| self.rows.shared(id)).collect();
        for op in &batch.ops {
            match op {
                Op::Register { name, session, request, actor, kind, meta } => {
                    let row = Row {
                        position: batch.position,
                        session: sessions[*session as usize].clone(),
                        request: *request,
                        actor: actor.unwrap_or(0),
                        kind: *kind,
                        more: More::of_actor(*actor, batch.position, batch.position, meta.clone()),
                        slot: Slot::default(),
                    };
                    self.put(name, row);
                }
                Op::Bind { name, position, request, actor, meta } => {
                    if let Some(row) = self.row(name).filter(|row| row.position == *position) {
                        let more = More::of(*position, batch.position, meta.clone());
                        self.touch(name);
                        applied.starts.extend(row.is_starting().then(|| name.clone()));
                        let was = self.memory.is_on().then(|| row.clone());
                        let now = Row { request: *request, actor: *actor, more, ..row };
                        self.changed(name, batch.position, (was.as_ref(), Some(&now)), || Why::Bound);
                        self.rows.change(name, now);
                    }
                }
                Op::Transfer { name, position, session, request, actor, kind } => {
                    if let Some(was) = self.row(name).filter(|row| row.position == *position) {
                        let meta = was.meta().filter(|_| !planted!("transfer-drops-metadata")).cloned();
                        let now = Row {
                            position: batch.position,
                            session: sessions[*session as usize].clone(),
                            request: *request,
                            actor: *actor,
                            kind: *kind,
                            more: More::of(batch.position, batch.position, meta),
                            slot: Slot::default(),
                        };
                        self.transfer(name, was, now, &mut applied);
                    }
                }
                Op::Update { name, position, request, meta } => {
                    if let Some(row) = self.row(name).filter(|row| row.position == *position) {
                        let more = More::of_actor(row.actor(), *position, batch.position, meta.clone());
                        self.touch(name);
                        let was = self.memory.is_on().then(|| row.clone());
                        let now = Row { request: *request, more, ..row };
                        self.changed(name, batch.position, (was.as_ref(), Some(&now)), || Why::Updated);
                        self.rows.change(name, now);
                    }
                }
                Op::Unregister { name, position, why } => {
                    if self.row(name).is_some_and(|row| row.position == *position) {
                        self.free(name, batch.position, why, &mut applied);
                    }
                }
                Op::HostGone { session } => {
                    let session = &sessions[*session as usize];
                    let gone = self.free_all_of(session, batch.position, &mut applied);
                    applied.gone.push((SessionId::clone(session), gone));
                }
                Op::Open => {}
                Op::Reset => {
                    // Rows of a log that was forgotten may be at positions after this one.
                    let is_kept = self.based || planted!("reset-spares-later-rows");
                    let last = if is_kept { batch.position } else { Position(u64::MAX - 1) };
                    let all: Vec<_> = self.rows.sessions().values().map(|held| held.id.clone()).collect();
                    for session in all {
                        self.free_all_of(&session, last, &mut applied);
                    }
                    (self.based, resets) = (true, true);
                }
            }
        }
        self.rows.forget_empty();
        self.remember_swept();
        self.epoch = self.epoch.max(batch.epoch);
        self.past.applied(self.position(), batch.position);
        self.end = batch.end();
        if resets {
            self.memory.lose();
            self.memory.begin_at(batch.position);
            self.past.reset_at(batch.position);
        }
        applied
    }

    fn put(&mut self, name: &Name, row: Row) {
        self.touch(name);
        let (position, is_starting) = (row.position, row.is_starting());
        let now = self.memory.is_on().then(|| row.clone());
        let former = self.rows.put(name, row);
        debug_assert!(former.is_none(), "the leader grants free names only");
        let why = || if is_starting { Why::Starting } else { Why::Registered };
        self.changed(name, position, (former.as_ref(), now.as_ref()), why);
    }

    /// A name goes from one holder to the next, and is free at no moment.
    fn transfer(&mut self, name: &Name, was: Row, now: Row, applied: &mut Applied) {
        self.touch(name);
        self.changed(name, now.position, (Some(&was), Some(&now)), || Why::Transferred);
        self.past.ended(name, &was, now.position, Why::Transferred);
        if planted!("transfer-frees-the-name") {
            self.rows.take(name);
            return;
        }
        self.rows.put(name, now.clone());
        applied.ended.push((name.clone(), was.position));
        if was.session.node == self.me {
            applied.given.push((name.clone(), was, now.session.node.clone(), now.position));
        }
        if now.session.node == self.me {
            applied.taken.push((name.clone(), now));
        }
    }

    fn free(&mut self, name: &Name, at: Position, why: &GivenUp, applied: &mut Applied) {
        let Some(row) = self.rows.take(name) else { return };
        self.touch(name);
        applied.starts.extend(row.is_starting().then(|| name.clone()));
        applied.frees_places |= Membership::of_place(name).is_some() && !planted!("freed-place-not-seen");
        self.changed(name, at, (Some(&row), None), || why.into());
        self.past.ended(name, &row, at, why.into());
        applied.ended.push((name.clone(), row.position));
        if row.session.node == self.me {
            applied.own_freed.push((name.clone(), row));
        }
    }

    /// Frees all names of a session up to a position, and returns how many they were. Cost: nothing for each name.
    fn free_all_of(&mut self, session: &SessionId, position: Position, applied: &mut Applied) -> u64 {
        let below = position.next();
        applied.is_of_many = true;
        if session.node == self.me {
            applied.own_gone.push(session.clone());
        }
        // Rows below that are gone already, and not by this.
        let from = self.rows.gone_below(session).unwrap_or_default();
        let gone = self.rows.hide(session, below);
        if gone > 0 && !planted!("host-gone-not-touched") {
            for touched in self.touched.values_mut() {
                touched.gone.insert(session.clone(), below);
            }
        }
        if gone > 0 && self.memory.is_on() {
            self.memory.hidden(position, session, from..below);
        }
        if gone > 0 {
            self.past.gone(session, from..below, position);
        }
        gone as u64
    }

    /// Puts a change into the memory that watches read.
    fn changed(
        &mut self,
        name: &Name,
        position: Position,
        (was, now): (Option<&Row>, Option<&Row>),
        why: impl FnOnce() -> Why,
    ) {
        if self.memory.is_on() {
            self.memory.changed(name, position, (was, now), why());
        }
    }

    fn touch(&mut self, name: &Name) {
        self.touched.retain(|_, touched| touched.insert(name));
    }

    /// Begins to put a complete snapshot in the table's place, unless the table is further already: then it returns false. The
    /// replica has no base until all of it is there.
    #[must_use]
    pub fn install(&mut self, snapshot: Staged, epoch: Epoch, end: LogEnd) -> bool {
        if self.based && end.position <= self.position() && !planted!("replica-goes-back") {
            return false;
        }
        self.rows.hide_all(Position(u64::MAX));
        self.based &= planted!("base-before-it-is-installed");
        self.installing = Some(Installing { rows: snapshot.rows, epoch, end });
        self.lose_memories();
        // What is being sent from here was begun on the former content.
        self.touched.clear();
        true
    }
}

/// A snapshot that is put in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Installing {
    /// What of it is not there yet.
    rows: Rows<BTreeMap<Name, Row>>,
    epoch: Epoch,
    end: LogEnd,
}

/// What came of going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Proceeded {
    /// A snapshot is in its place: where it ends.
    pub(crate) installed: Option<Position>,
    /// What batches changed.
    pub(crate) applied: Applied,
}

/// A snapshot that is still arriving. Nobody reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Staged {
    rows: Rows<BTreeMap<Name, Row>>,
}

impl Default for Staged {
    fn default() -> Self {
        Self { rows: Rows::new(BTreeMap::new()) }
    }
}

impl Staged {
    /// Takes one chunk: the state of some names, later than that of any chunk before.
    pub fn take(&mut self, chunk: Chunk) -> Result<(), CorruptBatch> {
        let shared: Vec<_> = chunk.sessions.iter().map(|id| self.rows.shared(id)).collect();
        let listed = |session: u32| {
            let found = shared.get(session as usize);
            found.ok_or_else(|| {
                CorruptBatch::Malformed("a chunk names a session that it does not list".into())
            })
        };
        for (session, below) in chunk.gone {
            self.rows.hide(listed(session)?, below);
        }
        for entry in chunk.rows {
            match entry.row {
                None => self.rows.take(&entry.name),
                Some(held) => {
                    let ChunkHeld { position, session, request, actor, kind, revision, meta } = held;
                    let session = listed(session)?.clone();
                    let more = More::of_actor(actor, position, revision.unwrap_or(position), meta);
                    let (actor, slot) = (actor.unwrap_or(0), Slot::default());
                    self.rows.put(&entry.name, Row { position, session, request, actor, kind, more, slot })
                }
            };
        }
        Ok(())
    }
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
