//! One transaction of the file, for one commit or for several.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    file::{DatabaseFile, Trouble, patiently},
    sql::{CLEARS_KEPT, newest, stored},
};
use crate::core::{
    mvcc::stamp,
    transaction::{Check, CommitOutcome, Transaction, Version, Write},
};

/// Why there is no outcome.
pub(super) enum Failure {
    /// It happened before `COMMIT`: nothing was changed, and nothing will be.
    Before(Trouble),
    /// `COMMIT` itself failed: the log may hold the whole transaction, and then the next recovery brings it back. Here is
    /// what the outcomes would have been.
    During(rusqlite::Error, Vec<CommitOutcome>),
}

impl<E: Into<Trouble>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Before(error.into())
    }
}

/// Commits these one after the other, all of them at once for whoever looks: each has a version of its own, and finds what
/// those before it wrote.
pub(super) fn attempt(
    connection: &Connection,
    file: &DatabaseFile,
    transactions: &[&Transaction],
    deadline: Instant,
) -> Result<Vec<CommitOutcome>, Failure> {
    let run = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
    // Without writes a snapshot is enough, and it waits for nobody.
    let only_checks = transactions.iter().all(|transaction| transaction.writes.is_empty());
    patiently(deadline, || run(if only_checks { "BEGIN" } else { "BEGIN IMMEDIATE" }))?;
    file.is_unmoved()?;
    let mut version = patiently(deadline, || newest(connection))?;
    let mut outcomes = Vec::with_capacity(transactions.len());
    for transaction in transactions {
        outcomes.push(if all_hold(connection, &transaction.checks)? {
            if !transaction.writes.is_empty() {
                version.0 += 1;
                write(connection, version, &transaction.writes)?;
            }
            CommitOutcome::Committed(version)
        } else {
            CommitOutcome::Conflict
        });
    }
    if outcomes.iter().any(|outcome| matches!(outcome, CommitOutcome::Committed(_)))
        && let Err(error) = run("COMMIT")
    {
        return Err(Failure::During(error, outcomes));
    }
    Ok(outcomes)
}

fn all_hold(connection: &Connection, checks: &[Check]) -> rusqlite::Result<bool> {
    for check in checks {
        if !holds(connection, check)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares the value. `seen_at` is not needed: the row has been looked up anyway.
fn holds(connection: &Connection, check: &Check) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?;
    let same =
        |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_blob()? == check.expected.as_deref().unwrap_or(&[]));
    let found = statement.query_row([&check.key], same).optional()?;
    Ok(found.map_or(check.expected.is_none(), |same| same && check.expected.is_some()))
}

fn write(connection: &Connection, version: Version, writes: &[Write]) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE counter SET version = ?1")?.execute([stored(version)])?;
    let mut put =
        connection.prepare_cached("INSERT OR REPLACE INTO kv (key, value, version) VALUES (?1, ?2, ?3)")?;
    let mut put = |key: &[u8], value: &[u8]| put.execute(params![key, value, stored(version)]).map(drop);
    let (mut appended, mut cleared) = (0_u32, 0_u32);
    for write in writes {
        match write {
            Write::Put { key, value } => put(key, value)?,
            Write::Clear(key) => {
                let beyond = [key.as_slice(), &[0]].concat();
                clear(connection, version, &mut cleared, key, &beyond)?;
            }
            Write::ClearRange(range) => {
                clear(connection, version, &mut cleared, &range.start, &range.end)?;
            }
            Write::Append { prefix, value } => {
                let stamp = stamp(version, appended);
                appended += 1;
                put(&[prefix.as_slice(), &stamp].concat(), value)?;
                put(prefix, &stamp)?;
            }
        }
    }
    Ok(())
}

/// Removes the keys from `first` up to, not including, `beyond`, and notes that they were.
fn clear(
    connection: &Connection,
    version: Version,
    nth: &mut u32,
    first: &[u8],
    beyond: &[u8],
) -> rusqlite::Result<()> {
    let mut remove = connection.prepare_cached("DELETE FROM kv WHERE key >= ?1 AND key < ?2")?;
    if remove.execute([first, beyond])? == 0 {
        return Ok(());
    }
    let mut note = connection.prepare_cached("INSERT INTO clears VALUES (?1, ?2, ?3, ?4)")?;
    note.execute(params![stored(version), *nth, first, beyond])?;
    *nth += 1;
    if *nth == 1 {
        forget_old_clears(connection, version)?;
    }
    Ok(())
}

fn forget_old_clears(connection: &Connection, version: Version) -> rusqlite::Result<()> {
    let mut oldest = connection.prepare_cached("SELECT min(version) FROM clears")?;
    let oldest: i64 = oldest.query_row([], |row| row.get(0))?;
    let kept = version.0.saturating_sub(CLEARS_KEPT);
    // Many in one go: removing one row each time would write a second page each time.
    if oldest.unsigned_abs() + CLEARS_KEPT / 8 < kept {
        let mut forget = connection.prepare_cached("DELETE FROM clears WHERE version < ?1")?;
        forget.execute([stored(Version(kept))])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::SqliteOptions, *};

    struct OpenedFile {
        _directory: tempfile::TempDir,
        file: DatabaseFile,
        connection: Connection,
    }

    impl OpenedFile {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let (file, connection) =
                DatabaseFile::open(&directory.path().join("file"), SqliteOptions::default()).unwrap();
            Self { _directory: directory, file, connection }
        }

        fn attempt(&self, transaction: &Transaction) -> Result<CommitOutcome, Failure> {
            self.together(&[transaction]).map(|outcomes| outcomes[0].clone())
        }

        fn together(&self, transactions: &[&Transaction]) -> Result<Vec<CommitOutcome>, Failure> {
            attempt(&self.connection, &self.file, transactions, Instant::now())
        }

        fn keys(&self) -> Vec<Vec<u8>> {
            let mut keys = self.connection.prepare("SELECT key FROM kv ORDER BY key").unwrap();
            keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }

        fn removals(&self) -> u32 {
            self.connection.query_row("SELECT count(*) FROM clears", [], |row| row.get(0)).unwrap()
        }
    }

    fn committed(outcome: Result<CommitOutcome, Failure>) -> Option<Version> {
        outcome.ok().and_then(|outcome| match outcome {
            CommitOutcome::Committed(version) => Some(version),
            _ => None,
        })
    }

    #[test]
    fn a_commit_that_only_checks_waits_for_nobody_and_one_that_writes_does() {
        let place = OpenedFile::new();
        let beside = place.file.connect().unwrap();
        beside.execute_batch("BEGIN IMMEDIATE").unwrap();
        let checks = Transaction::new().check(b"k".to_vec(), None);
        assert_eq!(committed(place.attempt(&checks)), Some(Version(0)));
        let writes = checks.put(b"k".to_vec(), vec![]);
        assert!(matches!(place.attempt(&writes), Err(Failure::Before(_))));
    }

    #[test]
    fn an_empty_value_is_not_an_absent_one() {
        let place = OpenedFile::new();
        let check = |expected| Transaction::new().check(b"k".to_vec(), expected);
        assert_eq!(committed(place.attempt(&check(Some(vec![])))), None);
        place.connection.execute_batch("ROLLBACK").unwrap();
        assert_eq!(
            committed(place.attempt(&Transaction::new().put(b"k".to_vec(), vec![]))),
            Some(Version(1))
        );
        assert_eq!(committed(place.attempt(&check(Some(vec![])))), Some(Version(1)));
        assert_eq!(committed(place.attempt(&check(None))), None);
    }

    #[test]
    fn a_removal_takes_its_key_and_no_other_and_is_noted_only_if_there_was_one() {
        let place = OpenedFile::new();
        let all = [b"k".as_slice(), b"k\0", b"k\x01"];
        let puts = all.iter().fold(Transaction::new(), |puts, key| puts.put(key.to_vec(), vec![]));
        assert!(committed(place.attempt(&puts)).is_some());
        let clear = Transaction::new().clear(b"absent".to_vec());
        assert!(committed(place.attempt(&clear)).is_some());
        assert_eq!(place.removals(), 0);
        assert!(committed(place.attempt(&clear.clear(b"k".to_vec()).clear(b"k\x01".to_vec()))).is_some());
        assert_eq!((place.keys(), place.removals()), (vec![b"k\0".to_vec()], 2));
    }

    /// Whether somebody watches an entry is asked by its key before anybody has read it.
    #[test]
    fn what_is_appended_is_numbered_as_it_is_in_memory() {
        let place = OpenedFile::new();
        let appends = Transaction::new().append(b"q".to_vec(), vec![]).append(b"q".to_vec(), vec![]);
        assert_eq!(committed(place.attempt(&appends)), Some(Version(1)));
        let entry = |order| [b"q".as_slice(), &stamp(Version(1), order)].concat();
        assert_eq!(place.keys(), [b"q".to_vec(), entry(0), entry(1)]);
    }
}
