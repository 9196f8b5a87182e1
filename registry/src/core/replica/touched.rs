//! What changes while a snapshot is being sent.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::ids::{Position, SessionId};

use crate::core::name::Name;

/// What was changed while a snapshot is being sent, since it was last sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touched {
    names: BTreeSet<Name>,
    /// Sessions whose rows below a position are gone.
    pub(super) gone: BTreeMap<SessionId, Position>,
    limit: usize,
}

impl Touched {
    /// None yet, and so many in the end.
    pub fn at_most(limit: usize) -> Self {
        Self { names: BTreeSet::new(), gone: BTreeMap::new(), limit }
    }

    /// Adds one. False: it is one too many.
    pub(super) fn insert(&mut self, name: &Name) -> bool {
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
