//! Why a store was not opened, or not read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Why nothing was read. It says nothing about what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum StoreError {
    /// The store could not be reached or was busy for too long.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

/// Why a store could not be opened. What the store holds was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no backend that there is.
    #[error(
        "{url:?} is not a store: use memory:, sqlite:PATH, postgres://user@host/database, etcd://host:2379/prefix or fdb:CLUSTER_FILE"
    )]
    UnknownScheme {
        /// The URL, without what may be a password.
        url: String,
    },
    /// The URL names a backend that this build was made without.
    #[error("{scheme}: is not in this build (feature `{scheme}`), which has {}", built_in())]
    NotInThisBuild {
        /// The backend.
        scheme: String,
    },
    /// The URL has no path.
    #[error("{url:?} has no path: use sqlite:PATH, such as sqlite:/var/lib/callsign.db")]
    EmptyPath {
        /// The URL as given.
        url: String,
    },
    /// The URL has something behind `memory:`.
    #[error("{url:?} has something behind memory: a store in memory has no path and no options")]
    UnexpectedPath {
        /// The URL, without what may be a password.
        url: String,
    },
    /// The URL has an option that the store does not have, or a value that the option does not take.
    #[error("{option:?} is no option of sqlite: use synchronous=full or synchronous=normal")]
    UnknownOption {
        /// The option as given.
        option: String,
    },
    /// The URL of a Postgres database makes no sense. It is not repeated here: it may hold a password.
    #[error("the store's Postgres URL: {cause}")]
    WrongPostgresUrl {
        /// What is wrong with it.
        cause: String,
    },
    /// The URL of an etcd cluster makes no sense. It is not repeated here: it may hold a password.
    #[error("the store's etcd URL: {cause}")]
    WrongEtcdUrl {
        /// What is wrong with it.
        cause: String,
    },
    /// The database server, or the cluster, cannot be reached, or lets nobody in.
    #[error("{url} cannot be reached: {cause}")]
    Unreachable {
        /// The URL, without the password.
        url: String,
        /// What was tried last, and what came of it.
        cause: String,
    },
    /// The database server refuses what is needed: the right to create tables, above all.
    #[error("{url} refuses to be set up: {cause}")]
    Server {
        /// The URL, without the password.
        url: String,
        /// What the server said.
        cause: String,
    },
    /// The database was set up by a version of this library that lays it out differently.
    #[error("{url} has layout {found}, this build reads layout {expected}")]
    WrongSchema {
        /// The URL, without the password.
        url: String,
        /// Its layout.
        found: i32,
        /// The layout this build reads and writes.
        expected: i32,
    },
    /// `FoundationDB`'s client library does not work: it is of another version, or there is no such cluster file.
    #[error("{url}: {cause}")]
    FoundationDbClient {
        /// The URL.
        url: String,
        /// What the library said.
        cause: String,
    },
    /// The directory that the file is to be in is missing. Nothing was created.
    #[error("the directory of {} does not exist", path.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// The file is missing, and was not to be created. Nothing was.
    #[error("{} does not exist", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The file, or its directory, must not be written.
    #[error("{} cannot be written", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is something, and it is no `SQLite` database.
    #[error("{} is not a database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// It is a database of another program.
    #[error("{} is a database of another program (application id {application_id})", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What the database says it belongs to; 0 if it does not say.
        application_id: i32,
    },
    /// It was written by a version of this library that lays it out differently.
    #[error("{} has layout {found}, this build reads layout {expected}", path.display())]
    WrongLayout {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: i32,
        /// The layout this build reads and writes.
        expected: i32,
    },
    /// The database is damaged.
    #[error("{} is damaged: {damage}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        damage: String,
    },
    /// Another process held the file for too long. Opening it again may succeed.
    #[error("{} is locked by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file system cannot do what several processes on one database need: shared memory and locks.
    #[error("{} is on a file system without what a write-ahead log needs", path.display())]
    NoWriteAheadLog {
        /// The file.
        path: PathBuf,
    },
    /// The system refused a file or a thread.
    #[error("{} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `SQLite` refused for a reason that has no variant of its own.
    #[error("{}: {cause}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What `SQLite` said.
        cause: String,
    },
}

impl OpenError {
    /// Whether the same call may succeed later, though nobody changes what it was given.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy { .. })
    }
}

/// The URLs that this build opens.
fn built_in() -> String {
    let stores = [
        ("memory:", true),
        ("sqlite:", cfg!(feature = "sqlite")),
        ("postgres:", cfg!(feature = "postgres")),
        ("etcd:", cfg!(feature = "etcd")),
        ("fdb:", cfg!(feature = "any-fdb")),
    ];
    let there: Vec<_> = stores.iter().filter(|(_, is_there)| *is_there).map(|(scheme, _)| *scheme).collect();
    match there.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => there.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stores_of_this_build_are_listed_as_people_would() {
        let listed = built_in();
        assert!(listed.starts_with("memory:"), "{listed}");
        if cfg!(feature = "sqlite")
            || cfg!(feature = "postgres")
            || cfg!(feature = "etcd")
            || cfg!(feature = "any-fdb")
        {
            assert_eq!(listed.matches(" and ").count(), 1, "{listed}");
        }
    }
}
