//! The table of names: what a replica holds.
//!
//! A core writes it through [`Table`], so that the same core runs over a plain map in a simulation and over the
//! map that everyone on the node reads.

use std::{collections::BTreeMap, sync::Arc};

use callsign_store::ids::{Position, SessionId, deserialize_count};
use callsign_transport::Kind;

use crate::core::{entry::Entry, name::Name};

/// A request's number among those of its session.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RequestNumber(#[serde(deserialize_with = "deserialize_count")] pub u64);

/// Who holds a name, as the log says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where in the log the registration is: the name's fencing token.
    pub position: Position,
    /// The session it belongs to. Shared by all rows of the session.
    pub session: Arc<SessionId>,
    /// The request that made it: how a request asked again is recognised.
    pub request: RequestNumber,
    /// The actor, among those of its node.
    pub actor: u64,
    /// What messages it takes.
    pub kind: Kind,
}

impl Row {
    /// The row as callers see it.
    pub fn entry(&self) -> Entry {
        Entry {
            node: self.session.node.clone(),
            incarnation: self.session.incarnation,
            session: self.session.number,
            actor: self.actor,
            kind: self.kind,
            token: self.position,
        }
    }
}

/// Names and who holds them.
pub trait Table {
    /// The row of a name.
    fn row(&self, name: &str) -> Option<Row>;
    /// Sets the row of a name; returns the former one.
    fn put(&mut self, name: Name, row: Row) -> Option<Row>;
    /// Removes a name; returns its row.
    fn take(&mut self, name: &str) -> Option<Row>;
    /// How many names there are.
    fn count(&self) -> usize;
    /// All names, in any order. Cost: their number.
    fn names(&self) -> Vec<Name>;
    /// The names of one session, in any order. Cost: the number of all names.
    fn names_of(&self, session: &SessionId) -> Vec<Name>;
    /// Removes the names of one session, and tells of each. Cost: the number of all names.
    fn free_all_of(&mut self, session: &SessionId, freed: impl FnMut(&Name, &Row));
    /// An empty table that nobody reads yet, with room for `names`.
    #[must_use]
    fn staged(&self, names: usize) -> Self;
    /// Takes the place of this table's content: a reader sees the old or the new of each name, never less.
    fn switch_to(&mut self, staged: Self);
}

impl Table for BTreeMap<Name, Row> {
    fn row(&self, name: &str) -> Option<Row> {
        self.get(name).cloned()
    }

    fn put(&mut self, name: Name, row: Row) -> Option<Row> {
        self.insert(name, row)
    }

    fn take(&mut self, name: &str) -> Option<Row> {
        self.remove(name)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn names(&self) -> Vec<Name> {
        self.keys().cloned().collect()
    }

    fn names_of(&self, session: &SessionId) -> Vec<Name> {
        self.iter().filter(|(_, row)| *row.session == *session).map(|(name, _)| name.clone()).collect()
    }

    fn free_all_of(&mut self, session: &SessionId, mut freed: impl FnMut(&Name, &Row)) {
        self.retain(|name, row| {
            let goes = *row.session == *session;
            if goes {
                freed(name, row);
            }
            !goes
        });
    }

    fn staged(&self, _names: usize) -> Self {
        Self::new()
    }

    fn switch_to(&mut self, staged: Self) {
        *self = staged;
    }
}
