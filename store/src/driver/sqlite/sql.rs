//! How versions are kept in the tables.

use rusqlite::Connection;

use crate::core::transaction::Version;

/// For how many versions removals are remembered. Fewer would end more watches without cause, more would make the
/// file larger, by some hundred bytes each.
pub(super) const CLEARS_KEPT: u64 = 1024;

/// The newest version that the connection's transaction sees.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Version> {
    let mut statement = connection.prepare_cached("SELECT version FROM counter")?;
    statement.query_row([], |row| Ok(Version(row.get::<_, i64>(0)?.unsigned_abs())))
}

/// A version as `SQLite` stores it.
pub(super) fn stored(version: Version) -> i64 {
    // Counted one by one from 0, it does not reach 2^63.
    version.0.cast_signed()
}
