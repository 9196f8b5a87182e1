//! The replica: the log, applied in order.
//!
//! Takes as given: what a leader sends was committed. Not given: that it is complete, or that the leader still leads.
//!
//! Promises: the table is always the result of a prefix of the log (P5); it never goes back, and while a snapshot
//! arrives readers see the old content. A gap is noticed, by the next batch or the next heartbeat; closing it is
//! the business of [`catchup`](crate::catchup).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use callsign_elector::ids::{Epoch, NodeName, Position, SessionId};
use callsign_planted::planted;

use crate::{
    log::{Batch, CorruptBatch, Op},
    message::Chunk,
    name::Name,
    table::{Row, Table},
};

/// The most bytes of batches that wait for a gap to close. More are dropped, and fetched later.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// What the log says of one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The one copy of the id that all its rows share.
    pub id: Arc<SessionId>,
    /// How many names it has.
    pub names: u64,
    /// Combines all its (name, position), in no order.
    pub digest: u64,
}

/// Combines a name and a position into 64 bits (FNV-1a, Fowler, Noll and Vo). To compare, not to protect.
pub fn digest(name: &str, position: Position) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().chain(position.0.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, fold)
}

/// What a batch changed that others have to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Applied {
    /// Rows of this node that are gone.
    pub own_freed: Vec<(Name, Row)>,
    /// Sessions all of whose names are gone, with their number.
    pub gone: Vec<(SessionId, u64)>,
}

impl Applied {
    fn merge(&mut self, mut other: Self) {
        self.own_freed.append(&mut other.own_freed);
        self.gone.append(&mut other.gone);
    }
}

/// A batch that came too early.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    epoch: Epoch,
    prev: Position,
    batch: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica<T> {
    me: NodeName,
    table: T,
    sessions: BTreeMap<SessionId, Held>,
    epoch: Epoch,
    position: Position,
    based: bool,
    waiting: BTreeMap<Position, Waiting>,
    waiting_bytes: usize,
    /// Names changed since the start of each snapshot that is being sent.
    pub touched: BTreeMap<(NodeName, u64), BTreeSet<Name>>,
}

impl<T: Table> Replica<T> {
    pub fn new(me: NodeName, table: T) -> Self {
        Self {
            me,
            table,
            sessions: BTreeMap::new(),
            epoch: Epoch(0),
            position: Position(0),
            based: false,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            touched: BTreeMap::new(),
        }
    }

    pub fn table(&self) -> &T {
        &self.table
    }

    /// The last batch applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The greatest epoch of which something was applied.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the table is a prefix of the log, and not just nothing yet.
    pub fn is_based(&self) -> bool {
        self.based
    }

    /// Takes the empty table for the prefix of no batch. Right only if the log still has its first one.
    pub fn base_on_nothing(&mut self) {
        self.position = Position(0);
        self.based = true;
    }

    /// The table is a prefix of the log that nobody can continue. Readers learn that it is not complete.
    pub fn give_up_base(&mut self) {
        self.based = false;
        self.waiting.clear();
        self.waiting_bytes = 0;
        // Nor does it give others a base any more.
        self.touched.clear();
    }

    /// Passes over the log up to `position`. Right only if the next batch resets.
    pub fn skip_to(&mut self, position: Position) {
        self.position = self.position.max(position);
    }

    pub fn sessions(&self) -> &BTreeMap<SessionId, Held> {
        &self.sessions
    }

    /// The first position of a batch that waits for a gap before it to close.
    pub fn gap_before(&self) -> Option<Position> {
        self.waiting.keys().next().copied()
    }

    /// Takes a committed batch that came from a leader: applies it if it is the next, keeps it if it is a later one.
    pub fn offer(
        &mut self,
        epoch: Epoch,
        prev: Position,
        position: Position,
        batch: Bytes,
    ) -> Result<Applied, CorruptBatch> {
        if position <= self.position || epoch < self.epoch {
            return Ok(Applied::default());
        }
        if !self.based {
            // Without a base, the only batch that can be applied is one that needs none.
            let decoded = Batch::decode_at(position, &batch)?;
            if decoded.ops.contains(&Op::Reset) {
                let mut applied = self.apply(&decoded);
                applied.merge(self.apply_waiting());
                return Ok(applied);
            }
        } else if prev == self.position || planted!("no-gap-check") {
            let mut applied = self.apply(&Batch::decode_at(position, &batch)?);
            applied.merge(self.apply_waiting());
            return Ok(applied);
        }
        if self.waiting_bytes + batch.len() <= MAX_WAITING_BYTES {
            self.waiting_bytes += batch.len();
            if let Some(former) = self.waiting.insert(position, Waiting { epoch, prev, batch }) {
                self.waiting_bytes -= former.batch.len();
            }
        }
        Ok(Applied::default())
    }

    /// Applies what waits, as far as it goes. A batch that cannot be read is missing then: whoever brings it again is told.
    fn apply_waiting(&mut self) -> Applied {
        let mut all = Applied::default();
        while let Some((position, waiting)) = self.waiting.pop_first() {
            if waiting.prev > self.position {
                self.waiting.insert(position, waiting);
                break;
            }
            self.waiting_bytes -= waiting.batch.len();
            // What a newer leader's log passed over was never committed at this position.
            if waiting.prev == self.position && waiting.epoch >= self.epoch {
                let Ok(batch) = Batch::decode_at(position, &waiting.batch) else { break };
                all.merge(self.apply(&batch));
            }
        }
        all
    }

    /// Applies the next batch of the log.
    pub fn apply(&mut self, batch: &Batch) -> Applied {
        debug_assert!(batch.position > self.position, "the log is applied forwards");
        let mut applied = Applied::default();
        let sessions: Vec<Arc<SessionId>> = batch.sessions.iter().map(|id| self.shared(id)).collect();
        for op in &batch.ops {
            match op {
                Op::Register { name, session, request, actor, kind } => {
                    let row = Row {
                        position: batch.position,
                        session: sessions[*session as usize].clone(),
                        request: *request,
                        actor: *actor,
                        kind: *kind,
                    };
                    self.put(name, row);
                }
                Op::Unregister { name, position } => {
                    if self.table.row(name).is_some_and(|row| row.position == *position) {
                        self.free(name, &mut applied);
                    }
                }
                Op::HostGone { session } => {
                    let session = &sessions[*session as usize];
                    let gone = self.free_all_of(session, &mut applied);
                    applied.gone.push((SessionId::clone(session), gone));
                }
                Op::Open => {}
                Op::Reset => {
                    for name in self.table.names() {
                        self.free(&name, &mut applied);
                    }
                    self.based = true;
                }
            }
        }
        self.sessions.retain(|_, held| held.names > 0);
        self.epoch = self.epoch.max(batch.epoch);
        self.position = batch.position;
        applied
    }

    fn shared(&mut self, id: &Arc<SessionId>) -> Arc<SessionId> {
        let held = self.sessions.entry(SessionId::clone(id));
        held.or_insert_with(|| Held { id: id.clone(), names: 0, digest: 0 }).id.clone()
    }

    fn put(&mut self, name: &Name, row: Row) {
        count_in(&mut self.sessions, name, &row);
        self.touch(name);
        let former = self.table.put(name.clone(), row);
        debug_assert!(former.is_none(), "the leader grants free names only");
        if let Some(former) = former {
            count_out(&mut self.sessions, name, &former);
        }
    }

    fn free(&mut self, name: &Name, applied: &mut Applied) {
        let Some(row) = self.table.take(name) else { return };
        count_out(&mut self.sessions, name, &row);
        self.touch(name);
        if row.session.node == self.me {
            applied.own_freed.push((name.clone(), row));
        }
    }

    /// Frees all names of a session, in one pass, and returns how many they were.
    fn free_all_of(&mut self, session: &SessionId, applied: &mut Applied) -> u64 {
        let (touched, is_own) = (&mut self.touched, session.node == self.me);
        let mut gone = 0;
        self.table.free_all_of(session, |name, row| {
            gone += 1;
            for touched in touched.values_mut().filter(|_| !planted!("host-gone-not-touched")) {
                touched.insert(name.clone());
            }
            if is_own {
                applied.own_freed.push((name.clone(), row.clone()));
            }
        });
        // They were all that it had.
        if let Some(held) = self.sessions.get_mut(session) {
            (held.names, held.digest) = (0, 0);
        }
        gone
    }

    fn touch(&mut self, name: &Name) {
        for touched in self.touched.values_mut() {
            touched.insert(name.clone());
        }
    }

    /// Puts a complete snapshot in the table's place, unless the table is further already.
    pub fn install(&mut self, snapshot: Staged<T>, epoch: Epoch, position: Position) -> bool {
        if self.based && position <= self.position && !planted!("replica-goes-back") {
            return false;
        }
        self.table.switch_to(snapshot.table);
        self.sessions = snapshot.sessions;
        self.sessions.retain(|_, held| held.names > 0);
        self.epoch = self.epoch.max(epoch);
        self.position = position;
        self.based = true;
        // What is being sent from here was begun on the former content.
        self.touched.clear();
        self.apply_waiting();
        true
    }
}

fn count_in(sessions: &mut BTreeMap<SessionId, Held>, name: &str, row: &Row) {
    if let Some(held) = sessions.get_mut(&*row.session) {
        held.names += 1;
        held.digest ^= digest(name, row.position);
    }
}

fn count_out(sessions: &mut BTreeMap<SessionId, Held>, name: &str, row: &Row) {
    if let Some(held) = sessions.get_mut(&*row.session) {
        held.names -= 1;
        held.digest ^= digest(name, row.position);
    }
}

/// A snapshot that is still arriving. Nobody reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Staged<T> {
    table: T,
    sessions: BTreeMap<SessionId, Held>,
}

impl<T: Table> Staged<T> {
    pub fn new(like: &Replica<T>, names: usize) -> Self {
        Self { table: like.table.staged(names), sessions: BTreeMap::new() }
    }

    /// Takes one chunk: the state of some names, later than that of any chunk before.
    pub fn take(&mut self, chunk: Chunk) -> Result<(), CorruptBatch> {
        let mut shared = Vec::with_capacity(chunk.sessions.len());
        for id in chunk.sessions {
            let held = self.sessions.entry(SessionId::clone(&id));
            shared.push(held.or_insert_with(|| Held { id, names: 0, digest: 0 }).id.clone());
        }
        for entry in chunk.rows {
            let former = match entry.row {
                None => self.table.take(&entry.name),
                Some((position, session, request, actor, kind)) => {
                    let session = shared.get(session as usize).ok_or_else(|| {
                        CorruptBatch::Malformed("a chunk names a session that it does not list".into())
                    })?;
                    let row = Row { position, session: session.clone(), request, actor, kind };
                    count_in(&mut self.sessions, &entry.name, &row);
                    self.table.put(entry.name.clone(), row)
                }
            };
            if let Some(former) = former {
                count_out(&mut self.sessions, &entry.name, &former);
            }
        }
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.table.count()
    }
}
