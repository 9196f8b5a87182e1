//! The database file: opened, seen to be ours, laid out; and patience while others hold it.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, config::DbConfig};

use super::{SqliteOptions, Synchronous};
use crate::error::OpenError;

/// "Call": tells our databases from those of other programs.
const APPLICATION_ID: i32 = 0x4361_6c6c;
/// The layout below. Another layout gets another number.
const LAYOUT: i32 = 1;

/// Files of up to so many pages (4 MiB) are checked as a whole whenever they are opened.
const PAGES_CHECKED: u32 = 1024;

/// - `kv`: what the store holds, each row with the version that wrote it.
/// - `clears`: what was removed lately, so that a watch on an absent key knows; see [`super::watches`].
/// - `counter`: the newest version.
const TABLES: &str = "
    CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE clears (
        version INTEGER, nth INTEGER, first BLOB NOT NULL, beyond BLOB NOT NULL, PRIMARY KEY (version, nth)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE counter (id INTEGER PRIMARY KEY CHECK (id = 0), version INTEGER NOT NULL) STRICT;
    INSERT INTO counter VALUES (0, 0);";

/// A checkpoint leaves the write-ahead log at its size; after a burst it is cut to this many bytes.
const LOG_SIZE_KEPT: u32 = 16 << 20;

/// The first pause after "busy": about the time of one commit.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
/// The longest pause after "busy". Longer would leave a free lock unused, shorter would burn a core.
const LONGEST_BUSY_PAUSE: Duration = Duration::from_millis(4);

/// One database file: this very file, not whatever else may come to its path.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    identity: Identity,
    options: SqliteOptions,
}

/// Why a connection cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// What the connections wrote to is not at the path any more.
    #[error("{} was removed or replaced while it was open: restart with the file that is right", .0.display())]
    Replaced(PathBuf),
    #[error(transparent)]
    NotOpened(#[from] OpenError),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

impl DatabaseFile {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<(Self, Connection), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(io)?;
        if !path.parent().is_some_and(Path::is_dir) {
            return Err(OpenError::NoDirectory { path });
        }
        if path.is_dir() {
            return Err(OpenError::NotADatabase { path });
        }
        let deadline = options.deadline();
        let typed = |error| open_error(&path, &error);
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_CREATE).map_err(typed)?;
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(typed)? {
            return Err(OpenError::ReadOnly { path });
        }
        let found = patiently(deadline, || Found::look(&connection)).map_err(typed)?;
        if !found.is_empty() {
            found.must_be_ours(&path)?;
        }
        configure(&connection, options, deadline, &path)?;
        if found.is_empty() {
            patiently(deadline, || lay_out(&connection)).map_err(typed)?;
            // Somebody else may have been first.
            patiently(deadline, || Found::look(&connection)).map_err(typed)?.must_be_ours(&path)?;
        }
        if let Some(damage) = patiently(deadline, || quick_damage(&connection)).map_err(typed)? {
            return Err(OpenError::Corrupt { path, damage });
        }
        // Processes that came by different links must find the same notifier and the same lives.
        let path = std::fs::canonicalize(&path).map_err(io)?;
        let identity = Identity::of(&path).map_err(io)?;
        Ok((Self { path, identity, options }, connection))
    }

    /// Opens another connection to the same file.
    pub(super) fn connect(&self) -> Result<Connection, Trouble> {
        let connection = connect(&self.path, OpenFlags::empty())?;
        self.is_unmoved()?;
        configure(&connection, self.options, self.options.deadline(), &self.path)?;
        Ok(connection)
    }

    /// Fails if the path leads to another file by now, or to none. Costs a microsecond.
    ///
    /// `SQLite` would go on writing to the removed file, while the next process to start creates a fresh one: two
    /// stores that both think they order the cluster. (When it closes a file that was replaced, `SQLite` itself sees
    /// to it that the log of the new one stays.)
    pub(super) fn is_unmoved(&self) -> Result<(), Trouble> {
        match Identity::of(&self.path) {
            Ok(identity) if identity == self.identity => Ok(()),
            _ => Err(Trouble::Replaced(self.path.clone())),
        }
    }

    /// The path of a file or directory beside the database.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }
}

/// What distinguishes a file from another one at the same path.
///
/// It is asked by path, never by opening the file: closing it again would drop the locks that `SQLite` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|data| Self { device: data.dev(), inode: data.ino() })
    }

    /// Elsewhere an open file cannot be removed.
    #[cfg(not(unix))]
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|_| Self { device: 0, inode: 0 })
    }
}

/// What a database says of itself.
struct Found {
    application_id: i32,
    layout: i32,
    objects: u32,
}

impl Found {
    fn look(connection: &Connection) -> rusqlite::Result<Self> {
        // One statement, so that all of it is seen at one point.
        let sql = "SELECT (SELECT application_id FROM pragma_application_id),
                          (SELECT user_version FROM pragma_user_version),
                          (SELECT count(*) FROM sqlite_schema)";
        connection.query_row(sql, [], |row| {
            Ok(Self { application_id: row.get(0)?, layout: row.get(1)?, objects: row.get(2)? })
        })
    }

    fn is_empty(&self) -> bool {
        self.application_id == 0 && self.layout == 0 && self.objects == 0
    }

    fn must_be_ours(&self, path: &Path) -> Result<(), OpenError> {
        let path = path.to_owned();
        if self.application_id != APPLICATION_ID {
            return Err(OpenError::NotOurs { path, application_id: self.application_id });
        }
        if self.layout != LAYOUT {
            return Err(OpenError::WrongLayout { path, found: self.layout, expected: LAYOUT });
        }
        Ok(())
    }
}

fn connect(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    // The patience is ours, not SQLite's: see `patiently`.
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn configure(
    connection: &Connection,
    options: SqliteOptions,
    deadline: Instant,
    path: &Path,
) -> Result<(), OpenError> {
    let settings = || {
        let mode: String = connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))?;
        let synchronous = match options.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        };
        // `fullfsync` is for macOS, where a plain sync stops at the drive's cache; elsewhere it does nothing.
        connection.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;
             PRAGMA trusted_schema = 0; PRAGMA journal_size_limit = {LOG_SIZE_KEPT};"
        ))?;
        // Else each range is planned anew, in case its bounds want another plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(mode)
    };
    match patiently(deadline, settings) {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(_) => Err(OpenError::NoWriteAheadLog { path: path.to_owned() }),
        Err(error) => Err(open_error(path, &error)),
    }
}

fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    // What is not committed is taken back.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if Found::look(connection)?.is_empty() {
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", LAYOUT)?;
    }
    transaction.commit()
}

/// What is damaged, as far as a node that starts looks for it: all of a small file, of a larger one only what holds the
/// version. What else is damaged there is an error when it is read.
fn quick_damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if pages <= PAGES_CHECKED {
        return damage(connection);
    }
    reported(connection, "PRAGMA quick_check(counter)")
}

/// What is damaged in all of the file: takes longer the larger it is.
fn damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    reported(connection, "PRAGMA quick_check(1)")
}

fn reported(connection: &Connection, check: &str) -> rusqlite::Result<Option<String>> {
    let said: String = connection.query_row(check, [], |row| row.get(0))?;
    Ok((said != "ok").then_some(said))
}

/// What is damaged in a database of ours, all of it looked at. `Ok(None)`: nothing. An error: it could not be looked at.
pub(super) fn all_damage(path: &Path) -> rusqlite::Result<Option<String>> {
    damage(&connect(path, OpenFlags::empty())?)
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { path, damage: error.to_string() },
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy { path },
        _ => OpenError::Database { path, cause: error.to_string() },
    }
}

/// Whether somebody else holds what is needed. Nothing was changed then.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Repeats what others are in the way of, until the deadline; tries at least once. The longer it has waited, the less often
/// it looks: who waits in an outage does not spin.
pub(super) fn patiently<T>(
    deadline: Instant,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
                pause = (pause * 2).min(LONGEST_BUSY_PAUSE.max(began.elapsed() / 10));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
    }

    #[test]
    fn who_meets_a_lock_tries_once_at_least_waits_for_it_and_does_not_spin() {
        let mut tries = 0;
        let mut locked_for = |most: u32, deadline: Instant| {
            tries = 0;
            let done = patiently(deadline, || {
                tries += 1;
                if tries > most { Ok(()) } else { Err(busy()) }
            });
            (done.is_ok(), tries)
        };
        let (past, far) = (Instant::now(), Instant::now() + crate::testing::TEST_DEADLINE);
        assert_eq!(locked_for(9, past), (false, 1));
        assert_eq!(locked_for(9, far), (true, 10));
        // On a busy machine there are fewer.
        let (done, tries) = locked_for(u32::MAX, Instant::now() + Duration::from_millis(300));
        assert!(!done && tries <= 60, "{tries}");
        let mut others = 0;
        let refused: rusqlite::Result<()> = patiently(far, || {
            others += 1;
            Err(rusqlite::Error::InvalidQuery)
        });
        assert!(refused.is_err() && others == 1, "nobody waits for what is no lock");
    }

    #[test]
    fn no_connection_is_made_to_a_file_that_came_in_the_place_of_the_one_that_was_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let (file, _connection) = DatabaseFile::open(&path, SqliteOptions::default()).unwrap();
        assert!(file.connect().is_ok());
        std::fs::rename(&path, place.path().join("aside")).unwrap();
        let (other, _connection) = DatabaseFile::open(&path, SqliteOptions::default()).unwrap();
        assert!(matches!(file.connect(), Err(Trouble::Replaced(said)) if said == file.path));
        assert!(other.connect().is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn what_lies_beside_a_file_is_the_same_by_whichever_link_it_was_opened() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = place.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let (path, link) = (place.path().join("file"), elsewhere.join("link"));
        let (file, _connection) = DatabaseFile::open(&path, SqliteOptions::default()).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let (linked, _connection) = DatabaseFile::open(&link, SqliteOptions::default()).unwrap();
        assert_eq!(linked.beside("-lives"), file.beside("-lives"));
    }
}
