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

    /// Starts the old primary as a second one, which waits for a standby, or for nobody. Notes what it has before anybody could have
    /// a commit of it: until then it waits.
    pub fn bring_back(&mut self, waits_for_nobody: bool) {
        let Some(pair) = self.place.pair() else { return };
        pair.server(pair.other()).resume();
        let had = pair.old_rows();
        if waits_for_nobody {
            pair.old_waits_for_nobody();
        }
        self.old_rows = Some(had);
    }

    /// Whether nobody has asked the old primary for a commit since it is back. What waits there for a standby is let through first.
    pub fn judge_old_primary(&mut self) {
        let (Some(pair), Some(had)) = (self.place.pair(), self.old_rows.take()) else { return };
        pair.old_waits_for_nobody();
        self.breaches.extend(written_to_both(&had, &pair.old_rows()));
    }
}

/// What is wrong if an old primary has other rows than when it came back.
fn written_to_both(had: &str, has: &str) -> Option<String> {
    (had != has).then(|| format!("two primaries: a node has committed to the old one (version, nonce, rows, versions of rows: {had} before, {has} afterwards)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_an_old_primary_is_found_also_while_it_waits_for_a_standby() {
        let Some(mut pair) = Pair::start() else { return };
        let write = "UPDATE callsign.store SET version = version + 1";
        pair.server(0).ask(
            "CREATE SCHEMA callsign; CREATE TABLE callsign.store (version int8, nonce int8); CREATE TABLE callsign.kv (version int8);
            INSERT INTO callsign.store VALUES (1, 7); INSERT INTO callsign.kv VALUES (1)",
        );
        pair.server(0).destroy();
        pair.promote();
        pair.server(0).resume();
        let had = pair.old_rows();
        std::thread::scope(|scope| {
            let pair = &pair;
            let writes = scope.spawn(|| pair.old().ask(write));
            crate::eventually("the commit waits", crate::TEST_DEADLINE, || {
                match pair
                    .old()
                    .ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
                    .as_str()
                {
                    "1" => Ok(()),
                    other => Err(other.to_owned()),
                }
            });
            assert_eq!(written_to_both(&had, &pair.old_rows()), None, "it is not done yet");
            pair.old_waits_for_nobody();
            writes.join().unwrap();
        });
        let breach = written_to_both(&had, &pair.old_rows()).unwrap();
        assert!(breach.contains("1|7|1|1 before, 2|7|1|1 afterwards"), "{breach}");
    }
}
