//! The table that everyone on the node reads: a `DashMap` that one member writes.

use std::sync::Arc;

use callsign_store::ids::SessionId;
use dashmap::DashMap;
use foldhash::quality::FixedState;

use crate::core::{
    name::Name,
    table::{Row, Table},
};

// Seeded by the node's entropy, so that nobody outside can guess it; about three times as fast as the standard hasher.
type Map = DashMap<Name, Row, FixedState>;

/// The writer's side. There is one, inside the member.
#[derive(Debug)]
pub(crate) struct SharedTable {
    map: Arc<Map>,
    seed: u64,
    /// Whether whatever goes over names goes in their order, at the cost of sorting. The map has a new one each run.
    is_in_order: bool,
}

/// The readers' side. Reading costs one lookup in a map: no mailbox, no await.
#[derive(Clone, Debug)]
pub(crate) struct TableReader {
    map: Arc<Map>,
}

impl SharedTable {
    /// An empty table, whose order follows from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { map: Arc::new(Map::with_hasher(FixedState::with_seed(seed))), seed, is_in_order: false }
    }

    /// A table that does the same, in the same order, as a sorted map.
    pub(crate) fn in_order(seed: u64) -> Self {
        Self { is_in_order: true, ..Self::new(seed) }
    }

    pub(crate) fn reader(&self) -> TableReader {
        TableReader { map: self.map.clone() }
    }
}

impl SharedTable {
    fn ordered(&self, mut names: Vec<Name>) -> Vec<Name> {
        if self.is_in_order {
            names.sort_unstable();
        }
        names
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
        self.ordered(self.map.iter().map(|row| row.key().clone()).collect())
    }

    fn names_of(&self, session: &SessionId) -> Vec<Name> {
        let rows = self.map.iter().filter(|row| is_of(row, session));
        self.ordered(rows.map(|row| row.key().clone()).collect())
    }

    fn free_all_of(&mut self, session: &SessionId, mut freed: impl FnMut(&Name, &Row)) {
        if self.is_in_order {
            for name in self.names_of(session) {
                if let Some((name, row)) = self.map.remove(&name) {
                    freed(&name, &row);
                }
            }
            return;
        }
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
        // Another seed: rows that come in the order of one hash crowd in a map of the same.
        let seed = self.seed.wrapping_add(1);
        let map = Map::with_capacity_and_hasher(names, FixedState::with_seed(seed));
        Self { map: Arc::new(map), seed, is_in_order: self.is_in_order }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use callsign_store::ids::{Incarnation, NodeName, Position, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use crate::core::table::RequestNumber;

    /// All that goes over names, told in the order in which it does.
    fn order<T: Table>(mut table: T) -> Vec<Vec<Name>> {
        let session = |number| {
            let node = NodeName::new("a").unwrap();
            Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(number) })
        };
        let sessions = [session(1), session(2)];
        let mut staged = table.staged(100);
        for (number, into) in (0..200).map(|number| (number, number % 3 == 0)) {
            let row = Row {
                position: Position(number),
                session: sessions[usize::from(number % 2 == 0)].clone(),
                request: RequestNumber(number),
                actor: 1,
                kind: Kind::of("x"),
            };
            let name: Name = format!("{}", number * 7919 % 1000).into();
            if into {
                table.put(name, row)
            } else {
                staged.put(name, row)
            };
        }
        let mut told = vec![table.names(), staged.names()];
        table.switch_to(staged);
        told.extend([table.names(), table.names_of(&sessions[0])]);
        let mut freed = Vec::new();
        table.free_all_of(&sessions[1], |name, _| freed.push(name.clone()));
        told.extend([freed, table.names()]);
        told
    }

    #[test]
    fn a_table_in_order_goes_over_names_as_the_one_does_that_replays_its_recording() {
        let sorted = order(BTreeMap::new());
        assert!(sorted.iter().all(|names| names.len() > 50));
        assert_eq!(order(SharedTable::in_order(1)), sorted);
        // Otherwise the order is that of a hash, and follows from its seed.
        let of = |seed| order(SharedTable::new(seed));
        assert!(of(1) != sorted && of(1) != of(2) && of(1) == of(1));
    }
}
