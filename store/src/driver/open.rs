//! Opens a store by its URL.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{clock::Clock, memory::MemoryStore};
#[cfg(feature = "sqlite")]
use crate::driver::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use crate::{contract::SharedStore, error::OpenError};

/// As [`open`], for who expects that the store is there: a file that is missing is [`OpenError::NoFile`].
pub fn open_existing(url: &str) -> Result<SharedStore, OpenError> {
    if let Some(path) = missing_file(url) {
        return Err(OpenError::NoFile { path });
    }
    open(url)
}

/// The file that [`open`] would create.
pub(super) fn missing_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:").filter(|_| cfg!(feature = "sqlite"))?.split('?').next()?;
    let path = PathBuf::from(path);
    (path.parent().is_some_and(|directory| directory == Path::new("") || directory.is_dir())
        && !path.exists())
    .then_some(path)
}

/// Opens the store that a URL names. Blocks for as long as the files take, at most some seconds.
///
/// | URL | store |
/// |---|---|
/// | `memory:` | a fresh one in this process, gone with its last handle |
/// | `sqlite:PATH` | a file shared by the processes of one machine; created if it is missing, its directory is not (feature `sqlite`) |
/// | `sqlite:PATH?synchronous=normal` | the same, without a sync to disk at each commit: see `Synchronous::Normal` |
///
/// | `postgres://USER@HOST/DATABASE` | a database shared by nodes anywhere; its tables are created, it itself is not (feature `postgres`) |
///
/// | `etcd://USER@HOST,HOST,HOST/PREFIX` | keys below a prefix of an etcd cluster, shared by nodes anywhere (feature `etcd`) |
///
/// | `fdb:CLUSTER_FILE` | a `FoundationDB` cluster, shared by nodes anywhere; `fdb:` alone takes the cluster file that the client library finds (feature `fdb`) |
///
/// A path is taken as it is, up to the first `?`; nothing in it is decoded.
///
/// For Postgres, `postgres://`, `postgresql://`, and `postgres:` before anything else that `tokio-postgres` takes
/// (`postgres:host=/run/postgresql user=callsign dbname=callsign`). Several hosts may be named; the one that takes writes
/// is used. `sslmode` is `disable`, `prefer`, `require` or `verify-full`; `sslrootcert=PATH` names whom to trust. Without
/// a password in it, the environment's `PGPASSWORD` is used.
///
/// For etcd, the port is 2379 and the prefix `callsign` where none is given. `ca=PATH` encrypts, and names whom to trust;
/// `cert=PATH` and `key=PATH` are the client's own certificate; `tls=on` trusts the system's authorities. Without a password
/// for a user, the environment's `ETCDCTL_PASSWORD` is used.
pub fn open(url: &str) -> Result<SharedStore, OpenError> {
    let unknown = || OpenError::UnknownScheme { url: shown(url) };
    let (scheme, rest) = url.split_once(':').ok_or_else(unknown)?;
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::new())),
        "memory" => Err(OpenError::UnexpectedPath { url: shown(url) }),
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
            // What SQLite takes for "in memory" would be a store of its own for each connection.
            if path.is_empty() || path == ":memory:" {
                return Err(OpenError::EmptyPath { url: url.to_owned() });
            }
            let store = SqliteStore::open(path.as_ref(), sqlite_options(options)?)?;
            Ok(Arc::new(store.described_as(url)))
        }
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(OpenError::NotInThisBuild { scheme: scheme.to_owned() }),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(super::postgres::PostgresStore::open(url)?)),
        #[cfg(not(feature = "postgres"))]
        "postgresql" => Err(OpenError::NotInThisBuild { scheme: "postgres".to_owned() }),
        #[cfg(not(feature = "postgres"))]
        "postgres" => Err(OpenError::NotInThisBuild { scheme: scheme.to_owned() }),
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Arc::new(super::etcd::EtcdStore::open(url)?)),
        #[cfg(not(feature = "etcd"))]
        "etcd" => Err(OpenError::NotInThisBuild { scheme: scheme.to_owned() }),
        #[cfg(feature = "any-fdb")]
        "fdb" => Ok(Arc::new(super::fdb::FdbStore::open(url)?)),
        #[cfg(not(feature = "any-fdb"))]
        "fdb" => Err(OpenError::NotInThisBuild { scheme: scheme.to_owned() }),
        _ => Err(unknown()),
    }
}

/// A URL that is none, as it may be repeated. Where its password would be is unknown: so nothing is shown that may be one.
fn shown(url: &str) -> String {
    let may_say = |text: &str| !text.to_ascii_lowercase().contains("password");
    match url.rsplit_once('@') {
        None if may_say(url) => url.to_owned(),
        Some((_, rest)) if may_say(rest) => format!("…@{rest}"),
        _ => "…".to_owned(),
    }
}

/// How long to wait between two attempts to open a store that could not be reached.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// As [`open`], for who would rather wait than fail: while the server cannot be reached, or another process keeps the file from being
/// opened, it is tried again each second. `patience` is how long at most by this clock, `None` without an end. `waits` is told why,
/// once. What waiting does not mend is refused at once. Does not block; an attempt that was begun goes on when this is dropped.
pub async fn open_patiently(
    url: &str,
    clock: &Clock,
    patience: Option<Duration>,
    waits: impl FnOnce(&OpenError),
) -> Result<SharedStore, OpenError> {
    let deadline = patience.map(|patience| clock.now() + patience);
    let mut waits = Some(waits);
    loop {
        let error = match attempt(url).await {
            Err(error) if error.may_pass() => error,
            opened_or_refused => return opened_or_refused,
        };
        let next = clock.now() + OPEN_AGAIN;
        if deadline.is_some_and(|deadline| deadline < next) {
            return Err(error);
        }
        if let Some(waits) = waits.take() {
            waits(&error);
        }
        clock.sleep_until(next).await;
    }
}

async fn attempt(url: &str) -> Result<SharedStore, OpenError> {
    // It does not block, and the simulator's runtime has no other threads.
    if url.starts_with("memory:") {
        return open(url);
    }
    let opened = url.to_owned();
    match tokio::task::spawn_blocking(move || open(&opened)).await {
        Ok(opened) => opened,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(feature = "sqlite")]
fn sqlite_options(text: &str) -> Result<SqliteOptions, OpenError> {
    let mut options = SqliteOptions::default();
    for option in text.split('&').filter(|option| !option.is_empty()) {
        match option {
            "synchronous=full" => options.synchronous = Synchronous::Full,
            "synchronous=normal" => options.synchronous = Synchronous::Normal,
            _ => return Err(OpenError::UnknownOption { option: option.to_owned() }),
        }
    }
    Ok(options)
}

/// Reads a URL as far as that goes without opening anything.
#[cfg(any(test, feature = "fuzz"))]
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres", feature = "etcd")), allow(unused_variables))]
pub(crate) fn parse(url: &str) {
    let Some((scheme, rest)) = url.split_once(':') else { return };
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => drop(sqlite_options(rest.split_once('?').map_or("", |(_, options)| options))),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" if !rest.contains("sslrootcert") => {
            if let Ok(address) = super::postgres::Address::parse(url) {
                let _ = address.describe();
            }
        }
        #[cfg(feature = "etcd")]
        "etcd" if !["ca=", "cert=", "key=", "tls="].iter().any(|file| rest.contains(file)) => {
            if let Ok(address) = super::etcd::EtcdAddress::parse(url) {
                let _ = address.describe();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::FutureExt;

    use super::{
        super::{clock::OwnClock, lock::lock},
        *,
    };
    use crate::Time;

    fn refusal(url: &str) -> OpenError {
        open(url).map(|store| store.describe()).expect_err("it opened")
    }

    #[test]
    fn a_url_without_a_backend_is_refused_with_what_would_be_right() {
        for url in ["", "state.db", "/var/lib/state.db", "redis:host", "SQLITE:x.db"] {
            let refused = refusal(url);
            assert!(matches!(&refused, OpenError::UnknownScheme { url: said } if said == url), "{refused}");
            assert!(refused.to_string().contains("sqlite:PATH"), "{refused}");
        }
    }

    #[test]
    fn a_url_that_is_refused_is_repeated_without_its_password() {
        for (url, said) in [
            ("\"postgres://u:secret@db/x\"", "…@db/x\""),
            ("Postgres://u:secret@db/x", "…@db/x"),
            ("postgress://u:se@secret@db/x", "…@db/x"),
            ("host=h user=u password=secret", "…"),
            ("postgress://u@db/x?PASSWORD=secret", "…"),
            ("memory:u:secret@db", "…@db"),
        ] {
            let refused = refusal(url);
            let (OpenError::UnknownScheme { url: shown } | OpenError::UnexpectedPath { url: shown }) =
                &refused
            else {
                panic!("{refused}")
            };
            assert_eq!(shown, said);
            assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_backend_that_is_not_built_in_is_told_from_one_that_does_not_exist() {
        #[cfg(not(feature = "any-fdb"))]
        {
            let refused = refusal("fdb:/etc/foundationdb/fdb.cluster");
            assert!(matches!(refused, OpenError::NotInThisBuild { scheme } if scheme == "fdb"));
        }
        #[cfg(not(feature = "etcd"))]
        assert!(matches!(refusal("etcd://h/p"), OpenError::NotInThisBuild { scheme } if scheme == "etcd"));
        #[cfg(not(feature = "postgres"))]
        for url in ["postgres://h/db", "postgresql://h/db"] {
            assert!(matches!(refusal(url), OpenError::NotInThisBuild { scheme } if scheme == "postgres"));
        }
    }

    #[test]
    fn a_url_with_a_missing_or_needless_part_is_refused() {
        for url in ["sqlite:", "sqlite:?synchronous=full", "sqlite::memory:"] {
            assert!(matches!(refusal(url), OpenError::EmptyPath { .. }), "{url}");
        }
        assert!(matches!(refusal("memory:a"), OpenError::UnexpectedPath { .. }));
        for option in ["synchronous=off", "synchronous", "mode=ro"] {
            let refused = refusal(&format!("sqlite:/nowhere/x.db?{option}"));
            assert!(matches!(&refused, OpenError::UnknownOption { option: said } if said == option));
            assert!(refused.to_string().contains("synchronous=full"), "{refused}");
        }
    }

    #[test]
    fn an_opened_store_describes_itself_by_its_url() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?synchronous=normal", directory.path().join("a.db").display());
        assert_eq!(open(&url).unwrap().describe(), url);
        assert_eq!(open("memory:").unwrap().describe(), "memory:");
    }

    #[test]
    fn a_file_that_must_be_there_is_not_created() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.db");
        let url = format!("sqlite:{}?synchronous=normal", file.display());
        let refused = open_existing(&url).map(|store| store.describe()).expect_err("it opened");
        assert!(matches!(&refused, OpenError::NoFile { path } if *path == file), "{refused}");
        assert!(!file.exists());
        drop(open(&url).unwrap());
        assert_eq!(open_existing(&url).unwrap().describe(), url);
        let elsewhere = format!("sqlite:{}", directory.path().join("none/a.db").display());
        let refused = open_existing(&elsewhere).map(|store| store.describe()).expect_err("it opened");
        assert!(matches!(refused, OpenError::NoDirectory { .. }), "{refused}");
        assert_eq!(missing_file("sqlite:"), None, "it names no file");
    }

    #[tokio::test]
    async fn what_waiting_does_not_mend_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::boot();
        for url in ["redis:host", "memory:a", "sqlite:/nowhere/at/all/x.db"] {
            let opened = open_patiently(url, &clock, None, |why| panic!("{why} is waited for")).await;
            let refused = opened.map(|store| store.describe()).expect_err("it opened");
            assert!(!refused.may_pass(), "{refused}");
        }
        let url = format!("sqlite:{}", directory.path().join("a.db").display());
        assert_eq!(open_patiently(&url, &clock, None, |_| {}).await.unwrap().describe(), url);
    }

    #[test]
    fn two_stores_in_memory_have_nothing_in_common() {
        let (a, b) = (open("memory:").unwrap(), open("memory:").unwrap());
        let put = crate::Transaction::new().put(b"k".to_vec(), vec![]);
        futures::executor::block_on(a.commit(put));
        let read =
            futures::executor::block_on(b.read(vec![crate::core::keys::read_key(b"k".to_vec())])).unwrap();
        assert_eq!(read.value(0), None);
    }

    /// A clock that shows at once what somebody waits for.
    #[derive(Debug, Default)]
    struct Jumps {
        waits: Mutex<Vec<Time>>,
        reads: AtomicUsize,
    }

    impl OwnClock for Jumps {
        fn now(&self) -> Time {
            assert!(self.reads.fetch_add(1, Ordering::SeqCst) < 9, "nobody waits");
            lock(&self.waits).last().copied().unwrap_or_default()
        }

        fn until(&self, at: Time) -> Duration {
            lock(&self.waits).push(at);
            Duration::ZERO
        }
    }

    /// The URL of a file, and what keeps it from being opened.
    fn locked(directory: &tempfile::TempDir) -> (String, rusqlite::Connection) {
        let path = directory.path().join("a.db");
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        (format!("sqlite:{}", path.display()), other)
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_had_is_asked_for_each_second_until_the_patience_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let (url, _other) = locked(&directory);
        let jumps = Arc::new(Jumps::default());
        let (clock, mut told) = (Clock::Own(jumps.clone()), 0);
        let opened = open_patiently(&url, &clock, Some(OPEN_AGAIN), |_| told += 1).await;
        let refused = opened.map(|store| store.describe()).expect_err("it opened");
        assert!(matches!(refused, OpenError::Busy { .. }), "{refused}");
        assert_eq!(told, 1);
        assert_eq!(*lock(&jumps.waits), [Time(OPEN_AGAIN)]);
    }

    #[tokio::test]
    async fn who_waits_without_an_end_is_told_why_and_has_the_store_as_soon_as_it_can_be_had() {
        let directory = tempfile::tempdir().unwrap();
        let (url, other) = locked(&directory);
        let clock = Clock::Own(Arc::new(Jumps::default()));
        let mut told = Vec::new();
        let waits = |why: &OpenError| {
            told.push(why.to_string());
            drop(other);
        };
        let store = open_patiently(&url, &clock, None, waits).await.unwrap();
        assert_eq!(store.describe(), url);
        assert!(matches!(told.as_slice(), [why] if why.contains("is locked by another process")), "{told:?}");
    }

    #[test]
    fn a_store_in_memory_is_opened_at_once_also_outside_of_any_runtime() {
        let opened = open_patiently("memory:", &Clock::boot(), None, |_| {}).now_or_never();
        assert_eq!(opened.expect("it waits for nothing").unwrap().describe(), "memory:");
    }
}
