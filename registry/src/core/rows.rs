//! The rows of a replica, by name and by session.
//!
//! Each session has a list of its names, and each row says where in that list its name stands. So whatever goes over many names
//! goes over a few of them at a time, whatever their number: a snapshot that is sent, or the names of a session that is gone. Such
//! rows count as gone at once, and [`Rows::sweep`] removes them.

mod groups;
mod names;
#[cfg(test)]
mod tests;
mod tour;

use std::{collections::BTreeMap, hash::BuildHasher, sync::Arc};

use callsign_store::{
    ids::{Position, SessionId},
    planted,
};
use foldhash::quality::FixedState;

pub use self::names::Names;
pub(crate) use self::tour::Tour;
use crate::core::{
    name::Name,
    table::{Row, Slot, Table},
};

/// What the log says of one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The one copy of the id that all its rows share.
    pub id: Arc<SessionId>,
    /// Its names.
    pub names: Names,
    /// Combines all its (name, position), in no order.
    pub digest: u64,
}

/// Combines a name and a position into 64 bits. To compare within a process: another version may have another function.
pub fn digest(name: &str, position: Position) -> u64 {
    FixedState::with_seed(0).hash_one((name, position.0))
}

/// Rows of a session that are gone, and may still be in the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gone {
    /// Those below this position are.
    below: Position,
    /// Their names, and maybe others that have been taken again since.
    names: Names,
}

/// The rows of a replica: see the top of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rows<T> {
    table: T,
    sessions: BTreeMap<SessionId, Held>,
    gone: BTreeMap<SessionId, Gone>,
    /// Rows that were gone and are not in the table any more, if somebody wants to know them.
    swept: Option<Vec<(Name, Row)>>,
}

impl<T: Table> Rows<T> {
    /// None yet.
    pub(crate) fn new(table: T) -> Self {
        Self { table, sessions: BTreeMap::new(), gone: BTreeMap::new(), swept: None }
    }

    pub(crate) fn sessions(&self) -> &BTreeMap<SessionId, Held> {
        &self.sessions
    }

    /// A walk over all names.
    pub(crate) fn tour(&self) -> Tour {
        Tour::over(&self.sessions)
    }

    /// Whether rows that are gone are kept when they leave the table, to be [taken](Self::take_swept).
    pub(crate) fn keep_swept(&mut self, keeps: bool) {
        self.swept = keeps.then(Vec::new);
    }

    /// Rows that were gone, and have left the table.
    pub(crate) fn take_swept(&mut self) -> Vec<(Name, Row)> {
        self.swept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Rows of this session below a position are gone and may be in the table. None: there are none.
    pub(crate) fn gone_below(&self, session: &SessionId) -> Option<Position> {
        self.gone.get(session).map(|gone| gone.below)
    }

    /// How many names there are. Cost: the number of sessions.
    pub(crate) fn count(&self) -> usize {
        let held: usize = self.sessions.values().map(|held| held.names.len()).sum();
        if planted!("gone-names-counted") {
            return held + self.gone.values().map(|gone| gone.names.len()).sum::<usize>();
        }
        held
    }

    /// Whether a row of the table is not gone.
    pub(crate) fn is_there(&self, row: &Row) -> bool {
        self.is_there_of(&row.session, row.position)
    }

    fn is_there_of(&self, session: &SessionId, position: Position) -> bool {
        self.gone.is_empty()
            || self.gone.get(session).is_none_or(|gone| position >= gone.below)
            || planted!("gone-rows-are-read")
    }

    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        self.table.row(name).filter(|row| self.is_there(row))
    }

    /// The row of a name that is gone, and still in the table.
    pub(crate) fn gone_row(&self, name: &str) -> Option<Row> {
        self.table.row(name).filter(|row| !self.is_there(row))
    }

    /// The one copy of a session's id.
    pub(crate) fn shared(&mut self, id: &Arc<SessionId>) -> Arc<SessionId> {
        self.held(id).id.clone()
    }

    fn held(&mut self, id: &Arc<SessionId>) -> &mut Held {
        let held = self.sessions.entry(SessionId::clone(id));
        held.or_insert_with(|| Held { id: id.clone(), names: Names::default(), digest: 0 })
    }

    /// Sets the row of a name; returns the former one.
    pub(crate) fn put(&mut self, name: &Name, mut row: Row) -> Option<Row> {
        // Told apart from those that are gone by its position only.
        while !self.is_there(&row) {
            self.sweep_session(&row.session.clone(), usize::MAX);
        }
        let held = match self.sessions.get_mut(&*row.session) {
            Some(held) => held,
            None => self.held(&row.session),
        };
        row.slot = Slot(u32::try_from(held.names.len()).unwrap_or(u32::MAX));
        held.names.push(name.clone());
        held.digest ^= digest(name, row.position);
        let former = self.table.put(name.clone(), row)?;
        if self.is_there(&former) {
            self.unlist(name, &former);
            return Some(former);
        }
        if !planted!("watch-misses-what-is-taken-again") {
            self.swept.iter_mut().for_each(|swept| swept.push((name.clone(), former.clone())));
        }
        None
    }

    /// Replaces the row of a name by another one of the same registration.
    pub(crate) fn change(&mut self, name: &Name, row: Row) {
        self.table.put(name.clone(), row);
    }

    /// Removes a name; returns its row.
    pub(crate) fn take(&mut self, name: &str) -> Option<Row> {
        let row = self.table.take(name).filter(|row| self.is_there(row))?;
        self.unlist(name, &row);
        Some(row)
    }

    fn unlist(&mut self, name: &str, row: &Row) {
        let Some(held) = self.sessions.get_mut(&*row.session) else { return };
        held.digest ^= digest(name, row.position);
        let at = row.slot.0 as usize;
        held.names.remove(at);
        if let Some(moved) = held.names.get(at) {
            self.table.set_slot(moved, row.slot);
        }
    }

    /// Forgets the sessions that have no names.
    pub(crate) fn forget_empty(&mut self) {
        self.sessions.retain(|_, held| !held.names.is_empty());
    }

    /// All names of a session below a position are gone. Returns how many they are.
    pub(crate) fn hide(&mut self, session: &SessionId, below: Position) -> usize {
        let Some(Held { mut names, .. }) = self.sessions.remove(session) else { return 0 };
        let count = names.len();
        if count > 0 {
            self.table.hide(session, below, count);
            let gone = self.gone.entry(session.clone()).or_insert(Gone { below, names: Names::default() });
            gone.below = gone.below.max(below);
            // The longer list stays where it is.
            if gone.names.len() < count {
                std::mem::swap(&mut gone.names, &mut names);
            }
            while let Some(name) = names.pop() {
                gone.names.push(name);
            }
        }
        count
    }

    /// Whether rows that are gone are in the table.
    pub(crate) fn is_sweeping(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Removes so many rows that are gone.
    pub(crate) fn sweep(&mut self, at_most: usize) {
        let mut left = at_most;
        while left > 0
            && let Some(session) = self.gone.keys().next().cloned()
        {
            left -= self.sweep_session(&session, left).max(1);
        }
    }

    /// Removes so many rows of a session that are gone. Returns how many names it looked at.
    fn sweep_session(&mut self, session: &SessionId, at_most: usize) -> usize {
        let Some(gone) = self.gone.get_mut(session) else { return 0 };
        let (below, mut looked_at) = (gone.below, 0);
        while looked_at < at_most
            && let Some(name) = gone.names.pop()
        {
            looked_at += 1;
            // It may have been taken again since.
            let is_gone = |row: &Row| {
                (row.position < below && *row.session == *session) || planted!("sweep-takes-what-is-new")
            };
            if self.table.row(&name).as_ref().is_some_and(is_gone) {
                let row = self.table.take(&name);
                if let (Some(swept), Some(row)) = (&mut self.swept, row) {
                    swept.push((name, row));
                }
            }
        }
        if gone.names.is_empty() {
            self.gone.remove(session);
            self.table.unhide(session);
        }
        looked_at
    }

    /// All names of all sessions are gone.
    pub(crate) fn hide_all(&mut self, below: Position) {
        let all: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for session in all {
            self.hide(&session, below);
        }
    }

    /// Takes out any name and its row.
    pub(crate) fn pop(&mut self) -> Option<(Name, Row)> {
        loop {
            let mut session = self.sessions.last_entry()?;
            let Some(name) = session.get_mut().names.pop() else {
                session.remove();
                continue;
            };
            if let Some(row) = self.table.take(&name) {
                return Some((name, row));
            }
        }
    }
}

/// For whoever judges a replica.
#[cfg(any(test, feature = "cores", feature = "fuzz"))]
impl Rows<BTreeMap<Name, Row>> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Row)> {
        self.table.iter().filter(|(_, row)| self.is_there(row))
    }
}
