//! A snapshot: how it arrives, and how it is put in the place of a table.

use std::collections::BTreeMap;

use callsign_elector::record::LogEnd;
use callsign_store::{
    ids::{Epoch, Position},
    planted,
};

use super::Replica;
use crate::core::{
    log::CorruptBatch,
    message::{Chunk, ChunkHeld},
    name::Name,
    rows::Rows,
    table::{More, Row, Slot, Table},
};

/// A snapshot that is put in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Installing {
    /// What of it is not there yet.
    rows: Rows<BTreeMap<Name, Row>>,
    epoch: Epoch,
    pub(super) end: LogEnd,
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

impl<T: Table> Replica<T> {
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

    pub(super) fn go_on_installing(&mut self, names: usize) -> Option<Position> {
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

    /// Whether a snapshot is here, and not all of it is in its place.
    pub(crate) fn is_installing(&self) -> bool {
        self.installing.is_some()
    }
}
