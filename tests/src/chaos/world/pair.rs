//! What can be done to a primary of Postgres and its standby.

use callsign_store::testing::postgres::Pair;

use super::World;
use crate::{chaos::journal, links::StoreLinks};

impl World {
    /// Whether the store is in a primary and a standby of our own.
    pub fn has_pair(&self) -> bool {
        self.place.has_pair()
    }

    /// Does something to them, and to the nodes' ways to them.
    pub fn with_pair(&mut self, act: impl FnOnce(&mut Pair, &StoreLinks)) {
        if let Some((pair, ways)) = self.place.pair().zip(self.store_links.as_ref()) {
            act(pair, ways);
        }
    }

    /// Has the standby take the primary's place, and notes when it has. Says who it is.
    pub fn promote(&mut self) -> String {
        let Some(pair) = self.place.pair() else { return String::new() };
        pair.promote();
        let primary = pair.primary();
        self.promotions.push(journal::now());
        format!("server {primary} promoted")
    }
}
