//! Which watched keys have changed.
//!
//! A row says which version wrote it. A removed row says nothing, so removals are noted in `clears`, as ranges, for
//! the last [`CLEARS_KEPT`] versions. A look moves every watch that goes on up to the version it saw, so a watch
//! that is looked at stays within them; one that comes with an older version, on an absent key, is ended without
//! cause.

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::sql::{CLEARS_KEPT, newest, stored};
use crate::{
    core::transaction::{Key, Version},
    error::StoreError,
};

/// Somebody who waits for a change of a key.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) key: Key,
    /// The last version at which it is known not to have changed.
    pub(super) since: Version,
    pub(super) ended: oneshot::Sender<Result<(), StoreError>>,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    waiting: Vec<Watch>,
    looked_at: Version,
}

impl Watches {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn forget_dropped(&mut self) {
        self.waiting.retain(|watch| !watch.ended.is_closed());
    }

    /// Takes a watch, or ends it at once; leaves it with the caller on an error. Call it inside a read transaction.
    pub(super) fn add(&mut self, connection: &Connection, new: &mut Option<Watch>) -> rusqlite::Result<()> {
        let version = newest(connection)?;
        let changed = new.as_ref().map(|watch| has_changed(connection, watch, version)).transpose()?;
        if let Some(mut watch) = new.take() {
            if changed == Some(true) {
                watch.end();
            } else {
                watch.since = watch.since.max(version);
                self.waiting.push(watch);
            }
        }
        Ok(())
    }

    /// Ends the watches whose keys have changed. Call it inside a read transaction.
    pub(super) fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version = newest(connection)?;
        if version == self.looked_at {
            return Ok(());
        }
        let mut failed = None;
        for mut watch in std::mem::take(&mut self.waiting) {
            match has_changed(connection, &watch, version) {
                Ok(true) => {
                    watch.end();
                    continue;
                }
                Ok(false) => watch.since = watch.since.max(version),
                // No watch may be lost by it.
                Err(error) => failed = Some(error),
            }
            self.waiting.push(watch);
        }
        if failed.is_none() {
            self.looked_at = version;
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Watch {
    fn end(self) {
        // Nobody waits any more: nothing to tell.
        let _ = self.ended.send(Ok(()));
    }
}

fn has_changed(connection: &Connection, watch: &Watch, version: Version) -> rusqlite::Result<bool> {
    let mut written = connection.prepare_cached("SELECT version FROM kv WHERE key = ?1")?;
    let mut rows = written.query([&watch.key])?;
    if let Some(row) = rows.next()? {
        // Written, or removed and written again.
        return Ok(row.get::<_, i64>(0)? > stored(watch.since));
    }
    if watch.since.0 + CLEARS_KEPT < version.0 {
        return Ok(true);
    }
    let mut removed = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM clears WHERE version > ?1 AND first <= ?2 AND beyond > ?2)",
    )?;
    removed.query_row(params![stored(watch.since), watch.key], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{DatabaseFile, SqliteOptions},
        *,
    };

    /// A removal is remembered for so many versions, and by then somebody has looked.
    fn pass(connection: &Connection, versions: u64) {
        let passes = format!("UPDATE counter SET version = version + {versions}");
        connection.execute_batch(&passes).unwrap();
    }

    #[test]
    fn a_watch_that_is_looked_at_in_time_outlives_all_that_is_remembered() {
        let place = tempfile::tempdir().unwrap();
        let (_file, connection) =
            DatabaseFile::open(&place.path().join("file"), SqliteOptions::default()).unwrap();
        let mut watches = Watches::default();
        let (ended, mut ends) = oneshot::channel();
        pass(&connection, CLEARS_KEPT);
        let watch = Watch { key: b"k".to_vec(), since: Version(0), ended };
        watches.add(&connection, &mut Some(watch)).unwrap();
        for _ in 0..3 {
            pass(&connection, CLEARS_KEPT);
            watches.look(&connection).unwrap();
            assert!(ends.try_recv().is_err(), "it was seen not to have changed when it was last looked at");
            assert_eq!(watches.len(), 1);
        }
        pass(&connection, CLEARS_KEPT + 1);
        watches.look(&connection).unwrap();
        assert_eq!(ends.try_recv(), Ok(Ok(())), "nobody knows whether it came and went");
        assert_eq!(watches.len(), 0);
    }
}
