//! The table that everyone on the node reads: a `DashMap` that one member writes.

use std::sync::Arc;

use callsign_elector::ids::SessionId;
use dashmap::DashMap;
use foldhash::quality::RandomState;

use crate::{
    name::Name,
    table::{Row, Table},
};

// Seeded at random for each map, as the standard hasher is, and about three times as fast.
type Map = DashMap<Name, Row, RandomState>;

/// The writer's side. There is one, inside the member.
#[derive(Debug, Default)]
pub(crate) struct SharedTable {
    map: Arc<Map>,
}

/// The readers' side. Reading costs one lookup in a map: no mailbox, no await.
#[derive(Clone, Debug)]
pub(crate) struct TableReader {
    map: Arc<Map>,
}

impl SharedTable {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn reader(&self) -> TableReader {
        TableReader { map: self.map.clone() }
    }
}

impl TableReader {
    /// Looks at one row under its shard's lock, and copies out what `look` wants of it.
    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Row) -> R) -> Option<R> {
        self.map.get(name).map(|row| look(row.value()))
    }

    pub(crate) fn count(&self) -> usize {
        self.map.len()
    }

    /// All names, in any order; consistent in each shard, not over all.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.map.iter().map(|row| row.key().clone()).collect()
    }
}

/// Rows of a session share one copy of its id, so most are told apart without a look into it.
fn is_of(row: &Row, session: &SessionId) -> bool {
    Arc::as_ptr(&row.session) == std::ptr::from_ref(session) || *row.session == *session
}

impl Table for SharedTable {
    fn row(&self, name: &str) -> Option<Row> {
        self.map.get(name).map(|row| row.value().clone())
    }

    fn put(&mut self, name: Name, row: Row) -> Option<Row> {
        self.map.insert(name, row)
    }

    fn take(&mut self, name: &str) -> Option<Row> {
        self.map.remove(name).map(|(_, row)| row)
    }

    fn count(&self) -> usize {
        self.map.len()
    }

    fn names(&self) -> Vec<Name> {
        self.map.iter().map(|row| row.key().clone()).collect()
    }

    fn names_of(&self, session: &SessionId) -> Vec<Name> {
        self.map.iter().filter(|row| is_of(row, session)).map(|row| row.key().clone()).collect()
    }

    fn free_all_of(&mut self, session: &SessionId, mut freed: impl FnMut(&Name, &Row)) {
        // One pass, shard by shard: a reader waits for one shard at most.
        self.map.retain(|name, row| {
            let goes = is_of(row, session);
            if goes {
                freed(name, row);
            }
            !goes
        });
    }

    fn staged(&self, names: usize) -> Self {
        Self { map: Arc::new(Map::with_capacity_and_hasher(names, RandomState::default())) }
    }

    // Name by name, so that readers need no second pointer to chase. Nobody reads meanwhile: a member that takes a
    // snapshot is not synced.
    fn switch_to(&mut self, staged: Self) {
        self.map.retain(|name, _| staged.map.contains_key(name));
        let staged = Arc::try_unwrap(staged.map).unwrap_or_else(|shared| Map::clone(&shared));
        for (name, row) in staged {
            self.map.insert(name, row);
        }
    }
}
