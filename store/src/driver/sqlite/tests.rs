use std::{path::PathBuf, time::Duration};

use futures::poll;
use tokio::time::timeout;

use super::{wake::Wakes, *};
use crate::{core::keys::read_key, testing::TEST_DEADLINE};

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("callsign.db")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.directory.path().join(format!("callsign.db{suffix}"))
    }

    fn try_open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.path(), SqliteOptions::default())
    }

    fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    /// A connection beside the store, as another program would have it.
    fn other(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    fn sql(&self, sql: &str) {
        self.other().execute_batch(sql).unwrap();
    }
}

fn put(value: &str) -> Transaction {
    Transaction::new().put(b"k".to_vec(), value.as_bytes().to_vec())
}

async fn value(store: &SqliteStore) -> Option<Vec<u8>> {
    store.read(vec![read_key(b"k".to_vec())]).await.unwrap().value(0).cloned()
}

fn node() -> NodeName {
    NodeName::new("a.1").unwrap()
}

/// Has a writer commit, and waits for the outcome.
async fn outcome_of(
    commits: &mpsc::Sender<writer::Job>,
    transaction: Transaction,
    wait: Duration,
) -> CommitOutcome {
    let (reply, outcome) = oneshot::channel();
    let deadline = Instant::now() + wait;
    commits.send(writer::Job { transaction, deadline, reply, wakes: Wakes::default() }).unwrap();
    outcome.await.unwrap()
}

fn is_unavailable(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Unavailable(_))
}

#[tokio::test]
async fn a_file_locked_by_another_process_is_unavailable_and_serves_again_afterwards() {
    let place = Place::new();
    let options = SqliteOptions { busy: Duration::from_millis(50), ..SqliteOptions::default() };
    let store = SqliteStore::open(&place.path(), options).unwrap();
    let other = place.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused =
        timeout(TEST_DEADLINE, futures::future::join_all((0..20).map(|_| store.commit(put("1"))))).await;
    assert!(refused.unwrap().iter().all(is_unavailable));
    assert_eq!(value(&store).await, None, "reads go on");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.commit(put("2")).await, CommitOutcome::Committed(Version(1)));
    assert_eq!(value(&store).await, Some(b"2".to_vec()));
}

/// What a power loss takes cannot be tried here: what is asked of the database can.
#[test]
fn a_commit_waits_for_the_disk_unless_the_options_ask_for_less() {
    for (synchronous, expected) in [(Synchronous::default(), 2), (Synchronous::Normal, 1)] {
        let place = Place::new();
        let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
        let (file, first) = DatabaseFile::open(&place.path(), options).unwrap();
        for connection in [first, file.connect().unwrap()] {
            let said: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(said, expected, "{synchronous:?}");
            let setting =
                |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            // The patience is the store's own, what a burst leaves is cut, and no schema runs what it likes.
            let settings = ["busy_timeout", "journal_size_limit", "trusted_schema"].map(setting);
            assert_eq!(settings, [0, 16 << 20, 0]);
        }
    }
}

#[tokio::test]
async fn others_may_be_waited_for_without_an_end() {
    let place = Place::new();
    let options = SqliteOptions { busy: Duration::MAX, ..SqliteOptions::default() };
    let store = SqliteStore::open(&place.path(), options).unwrap();
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
    assert_eq!(value(&store).await.as_deref(), Some(&b"1"[..]));
}

#[tokio::test]
async fn a_commit_waits_for_a_lock_that_is_soon_released() {
    let place = Place::new();
    let options = SqliteOptions { busy: TEST_DEADLINE, ..SqliteOptions::default() };
    let store = SqliteStore::open(&place.path(), options).unwrap();
    let other = place.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut commit = store.commit(put("1"));
    assert!(poll!(&mut commit).is_pending());
    assert_eq!(value(&store).await, None, "a read does not wait for it");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(timeout(TEST_DEADLINE, commit).await, Ok(CommitOutcome::Committed(Version(1))));
}

#[tokio::test]
async fn a_full_disk_before_the_commit_changes_nothing_and_is_told() {
    let place = Place::new();
    let (file, connection) = DatabaseFile::open(&place.path(), SqliteOptions::default()).unwrap();
    connection.execute_batch("PRAGMA max_page_count = 8").unwrap();
    let (requests, _incoming) = mpsc::channel();
    let looks = Looks::new(requests, Arc::default());
    let notifier = Notifier::open(&place.beside("-notify"));
    let writer =
        Writer { file, connection: Some(connection), notifier, looks, failures: Failures::default() };
    let (commits, jobs) = mpsc::channel();
    let thread = std::thread::spawn(move || writer.run(&jobs));
    let mut outcomes = Vec::new();
    for transaction in [put(&"v".repeat(90_000)), put("1")] {
        outcomes.push(outcome_of(&commits, transaction, Duration::ZERO).await);
    }
    assert!(matches!(&outcomes[0], CommitOutcome::Unavailable(why) if why.contains("full")), "{outcomes:?}");
    assert_eq!(outcomes[1], CommitOutcome::Committed(Version(1)));
    drop(commits);
    thread.join().unwrap();
}

/// Everybody is woken by a ring, and looks.
#[tokio::test]
async fn a_commit_rings_only_if_somebody_watches_what_it_changed() {
    let place = Place::new();
    let (file, connection) = DatabaseFile::open(&place.path(), SqliteOptions::default()).unwrap();
    let (requests, asked) = mpsc::channel();
    let state: Arc<looks::LookState> = Arc::default();
    let looks = Looks::new(requests, Arc::clone(&state));
    let notifier = Notifier::open(&place.beside("-notify"));
    // Another process watches.
    Notifier::open(&place.beside("-notify")).mark(b"k").unwrap();
    state.watch(1);
    let writer =
        Writer { file, connection: Some(connection), notifier, looks, failures: Failures::default() };
    let (commits, jobs) = mpsc::channel();
    let thread = std::thread::spawn(move || writer.run(&jobs));
    let mut answers = Vec::new();
    let other = Transaction::new().put(b"other".to_vec(), vec![]);
    let refused = put("2").check(b"k".to_vec(), Some(b"0".to_vec()));
    for transaction in [other, refused, Transaction::new(), put("1")] {
        outcome_of(&commits, transaction, TEST_DEADLINE).await;
        // The writer asks before it takes the next one.
        outcome_of(&commits, Transaction::new(), TEST_DEADLINE).await;
        answers.push(asked.try_recv().is_ok());
    }
    assert_eq!(answers, [false, false, false, true]);
    drop(commits);
    thread.join().unwrap();
}

#[test]
fn what_is_not_our_database_is_refused_and_left_as_it_is() {
    let place = Place::new();
    std::fs::write(place.path(), "no database, but as long as the header of one would be".repeat(50))
        .unwrap();
    let before = std::fs::read(place.path()).unwrap();
    assert!(matches!(place.try_open(), Err(OpenError::NotADatabase { path }) if path == place.path()));
    assert_eq!(std::fs::read(place.path()).unwrap(), before);

    let place = Place::new();
    place.sql("CREATE TABLE theirs (a); PRAGMA application_id = 7");
    let before = std::fs::read(place.path()).unwrap();
    assert!(matches!(place.try_open(), Err(OpenError::NotOurs { application_id: 7, .. })));
    assert_eq!(std::fs::read(place.path()).unwrap(), before);

    // A program that has written nothing but its mark.
    let place = Place::new();
    place.sql("PRAGMA application_id = 7");
    assert!(matches!(place.try_open(), Err(OpenError::NotOurs { application_id: 7, .. })));

    for theirs in ["CREATE TABLE theirs (a)", "PRAGMA user_version = 5"] {
        let place = Place::new();
        place.sql(theirs);
        let before = std::fs::read(place.path()).unwrap();
        assert!(matches!(place.try_open(), Err(OpenError::NotOurs { application_id: 0, .. })), "{theirs}");
        assert_eq!(std::fs::read(place.path()).unwrap(), before);
    }

    let place = Place::new();
    drop(place.open());
    place.sql("PRAGMA user_version = 99");
    assert!(matches!(place.try_open(), Err(OpenError::WrongLayout { found: 99, expected: 1, .. })));

    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    assert!(matches!(place.try_open(), Err(OpenError::NotADatabase { .. })));
}

#[test]
fn a_missing_directory_is_refused_and_not_created() {
    let place = Place::new();
    let path = place.directory.path().join("missing/callsign.db");
    let refused = SqliteStore::open(&path, SqliteOptions::default());
    assert!(matches!(refused, Err(OpenError::NoDirectory { path: said }) if said == path));
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let place = Place::new();
    let store = place.open();
    for n in 0..50_u8 {
        let outcome = store.commit(Transaction::new().put(vec![n], vec![n; 1000])).await;
        assert_eq!(outcome, CommitOutcome::Committed(Version(u64::from(n) + 1)));
    }
    drop(store);
    place.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = std::fs::read(place.path()).unwrap();
    // The head stays as it is; what the tables hold does not.
    bytes[4096..].fill(0x5a);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(place.beside(suffix));
    }
    let damaged = Place::new();
    std::fs::write(damaged.path(), bytes).unwrap();
    assert!(matches!(damaged.try_open(), Err(OpenError::Corrupt { .. })));
}

#[tokio::test]
async fn a_small_file_is_refused_also_if_only_what_it_holds_is_damaged() {
    let place = Place::new();
    let store = place.open();
    let all = (0..50).fold(Transaction::new(), |all, n| all.put(vec![n], vec![n; 1000]));
    assert_eq!(store.commit(all).await, CommitOutcome::Committed(Version(1)));
    drop(store);
    let page: u32 = place
        .other()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'kv'", [], |row| row.get(0))
        .unwrap();
    place.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = std::fs::read(place.path()).unwrap();
    let end = usize::try_from(page).unwrap() * 4096;
    bytes[end - 4096..end].fill(0x5a);
    let damaged = Place::new();
    std::fs::write(damaged.path(), bytes).unwrap();
    assert!(matches!(damaged.try_open(), Err(OpenError::Corrupt { .. })));
}

/// Opening must not take longer the more a file holds: what came and went must not slow down a node that starts.
#[tokio::test]
async fn damage_in_a_large_file_is_an_error_of_the_read_and_found_by_whoever_looks_at_all_of_it() {
    let place = Place::new();
    let store = place.open();
    let key = |n: u16| n.to_be_bytes().to_vec();
    let all = (0..3_000).fold(Transaction::new(), |all, n| all.put(key(n), vec![0; 3000]));
    let outcome = store.commit(all).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    drop(store);
    let page: u32 = place
        .other()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'kv'", [], |row| row.get(0))
        .unwrap();
    place.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(super::file::all_damage(&place.path()), Ok(None));
    let mut bytes = std::fs::read(place.path()).unwrap();
    let end = usize::try_from(page).unwrap() * 4096;
    bytes[end - 4096..end].fill(0x5a);
    let damaged = Place::new();
    std::fs::write(damaged.path(), bytes).unwrap();
    let store = damaged.open();
    let read = store.read(vec![read_key(key(7))]).await;
    assert!(matches!(&read, Err(StoreError::Unavailable(_))), "{read:?}");
    let found = super::file::all_damage(&damaged.path());
    assert!(!matches!(found, Ok(None)), "{found:?}");
}

#[test]
fn an_open_that_meets_a_lock_for_too_long_says_so() {
    let place = Place::new();
    let other = place.other();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let options = SqliteOptions { busy: Duration::from_millis(20), ..SqliteOptions::default() };
    assert!(matches!(SqliteStore::open(&place.path(), options), Err(OpenError::Busy { .. })));
}

#[test]
fn many_may_create_the_same_file_at_once() {
    let place = Place::new();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        let open = || {
            barrier.wait();
            place.try_open().map(drop)
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        for one in all {
            one.join().unwrap().unwrap();
        }
    });
}

#[tokio::test]
async fn what_was_committed_is_there_after_the_last_handle_is_gone() {
    let place = Place::new();
    for version in 1..4 {
        let store = place.open();
        assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(version)));
    }
}

#[tokio::test]
async fn a_file_that_was_replaced_while_open_is_not_followed_and_the_new_one_not_harmed() {
    let place = Place::new();
    let old = place.open();
    assert_eq!(old.commit(put("old")).await, CommitOutcome::Committed(Version(1)));
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(place.beside(suffix)).unwrap();
    }
    assert!(is_unavailable(&old.commit(put("old")).await));
    let new = place.open();
    assert_eq!(new.commit(put("new")).await, CommitOutcome::Committed(Version(1)));
    assert!(is_unavailable(&old.commit(put("old")).await) && old.read(vec![]).await.is_err());
    drop(old);
    assert_eq!(value(&new).await, Some(b"new".to_vec()));
    assert_eq!(new.commit(put("newer")).await, CommitOutcome::Committed(Version(2)));
    assert!(place.beside("-wal").exists(), "the log of the new one was removed with the old one");
}

#[tokio::test]
async fn a_watch_waits_while_only_others_keys_change() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let mut watch = store.watch(b"k".to_vec(), Version(0));
    let mut last = store.watch(b"last".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending() && poll!(&mut last).is_pending());
    for n in 0..20_u8 {
        other.commit(Transaction::new().put(vec![n], vec![]).clear_range(vec![0]..vec![n])).await;
    }
    other.commit(Transaction::new().put(b"last".to_vec(), vec![])).await;
    timeout(TEST_DEADLINE, last).await.unwrap().unwrap();
    assert!(poll!(&mut watch).is_pending());
    other.commit(put("1")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_watch_on_an_absent_key_notices_one_that_came_and_went() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let mut watch = store.watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    other.commit(put("1").clear(b"k".to_vec())).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_watch_outlives_more_removals_than_are_remembered() {
    let place = Place::new();
    let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    let store = SqliteStore::open(&place.path(), options).unwrap();
    let beside = place.other();
    let (mut noted, mut forgotten) = (0, Vec::new());
    for n in 0..2 * sql::CLEARS_KEPT {
        let k = n.to_be_bytes().to_vec();
        store.commit(Transaction::new().put(k.clone(), vec![]).clear(k)).await;
        let now: u32 = beside.query_row("SELECT count(*) FROM clears", [], |row| row.get(0)).unwrap();
        if now <= noted {
            forgotten.push(noted + 1 - now);
        }
        noted = now;
    }
    assert!(u64::from(noted) >= sql::CLEARS_KEPT, "{noted}");
    // Seldom, and then an eighth of what is kept: each time costs a page more.
    let eighth = sql::CLEARS_KEPT / 8;
    assert!(
        !forgotten.is_empty() && forgotten.iter().all(|&rows| u64::from(rows) == eighth + 1),
        "{forgotten:?}"
    );
    // Nobody can tell any more whether the key came and went since: the watch ends.
    timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), Version(1))).await.unwrap().unwrap();
    let now = store.read(vec![]).await.unwrap().version;
    let told = Version(now.0 - sql::CLEARS_KEPT);
    timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), Version(told.0 - 1))).await.unwrap().unwrap();
    let mut watch = store.watch(b"k".to_vec(), told);
    assert!(poll!(&mut watch).is_pending());
    store.read(vec![]).await.unwrap();
    assert!(poll!(&mut watch).is_pending());
}

#[tokio::test]
async fn without_a_notifier_a_watch_is_ended_by_slow_looks() {
    let place = Place::new();
    std::fs::write(place.beside("-notify"), "").unwrap();
    let (store, other) = (place.open(), place.open());
    let mut watch = store.watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    // The watch is in place once a later request to the same thread was answered.
    store.read(vec![]).await.unwrap();
    std::fs::remove_file(place.beside("-notify")).unwrap();
    other.commit(put("1")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn whoever_comes_after_the_notifier_was_removed_makes_another_and_is_noticed_by_slow_looks() {
    let place = Place::new();
    let store = place.open();
    let mut watch = store.watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    store.read(vec![]).await.unwrap();
    std::fs::remove_file(place.beside("-notify")).unwrap();
    let later = place.open();
    later.commit(put("1")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_notifier_that_cannot_be_had_does_not_keep_the_store_from_opening() {
    let place = Place::new();
    std::fs::create_dir(place.beside("-notify")).unwrap();
    std::fs::remove_dir(place.beside("-notify")).unwrap();
    std::os::unix::fs::symlink("/nowhere/notifier", place.beside("-notify")).unwrap();
    let (store, other) = (place.open(), place.open());
    let mut watch = store.watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    store.read(vec![]).await.unwrap();
    other.commit(put("1")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_life_is_proven_dead_once_its_guard_is_dropped_and_not_before() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let proof = |incarnation| other.proof_of_death(&node(), Incarnation(incarnation));
    assert_eq!(proof(1).await, Proof::None, "nobody ever guarded it");
    let guard = store.guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    let neighbour = store.guard_life(&node(), Incarnation(11)).unwrap().unwrap();
    assert_eq!(proof(1).await, Proof::None);
    drop(guard);
    assert_eq!((proof(1).await, proof(11).await), (Proof::Dead, Proof::None));
    drop(neighbour);
    assert_eq!(proof(11).await, Proof::Dead);
}

/// A backup that is put back under running nodes, say: the copies are locked by nobody.
#[tokio::test]
async fn a_copy_of_a_lock_file_proves_no_death_and_its_owner_says_so_once() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let guard = store.guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    assert!(store.shared.lives.look_after().is_empty());
    let (lives, aside) = (place.beside("-lives"), place.beside("-aside"));
    std::fs::rename(&lives, &aside).unwrap();
    std::fs::create_dir(&lives).unwrap();
    for file in std::fs::read_dir(&aside).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), lives.join(file.file_name())).unwrap();
    }
    assert_eq!(other.proof_of_death(&node(), Incarnation(1)).await, Proof::None, "it lives");
    drop(place.open());
    assert_eq!(
        other.proof_of_death(&node(), Incarnation(1)).await,
        Proof::None,
        "also when a sweep was here"
    );
    let gone = loop {
        // It looks once a second.
        let gone = store.shared.lives.look_after();
        if !gone.is_empty() {
            break gone;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(gone, [lives.join("a.1.1")]);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert!(store.shared.lives.look_after().is_empty(), "once is enough");
    drop(guard);
    assert_eq!(other.proof_of_death(&node(), Incarnation(1)).await, Proof::None, "nobody can know");
}

#[test]
fn only_the_files_of_the_long_dead_are_swept_away() {
    let place = Place::new();
    let store = place.open();
    let living = store.guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    drop(store.guard_life(&node(), Incarnation(2)).unwrap());
    let file = |incarnation: u64| place.beside("-lives").join(format!("a.1.{incarnation}"));
    let make_old = |incarnation| {
        let file = std::fs::File::options().write(true).open(file(incarnation)).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    let there = || (file(1).exists(), file(2).exists());
    make_old(1);
    make_old(2);
    drop(place.open());
    assert_eq!(there(), (true, true), "the death was only just noticed");
    drop(place.open());
    assert_eq!(there(), (true, true), "it was noticed a moment ago");
    make_old(1);
    make_old(2);
    drop(place.open());
    assert_eq!(there(), (true, false));
    drop(living);
}

#[test]
fn a_life_can_be_guarded_while_others_look_and_sweep() {
    let place = Place::new();
    let store = place.open();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                for incarnation in 0..20 {
                    store.shared.lives.proof(&node(), Incarnation(incarnation));
                }
                store.shared.lives.sweep();
            }
        });
        for incarnation in 0..20 {
            let guard = store.guard_life(&node(), Incarnation(incarnation)).unwrap().unwrap();
            assert_eq!(store.shared.lives.proof(&node(), Incarnation(incarnation)), Proof::None);
            drop(guard);
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[tokio::test]
async fn its_threads_end_with_the_last_handle() {
    let place = Place::new();
    let store = place.open();
    let weak = Arc::downgrade(&store.shared);
    let mut watch = store.clone().watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    drop(store);
    assert!(weak.upgrade().is_some(), "a watch that somebody waits for keeps it open");
    drop(watch);
    assert!(weak.upgrade().is_none());
    // The last connection to close takes the log away: both threads have closed theirs then.
    timeout(TEST_DEADLINE, async {
        while place.beside("-wal").exists() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_thread_that_panics_says_so_and_a_store_that_is_closed_does_not() {
    let (breaks, broken) = watch::channel(None);
    spawn("fine", &breaks, || ()).unwrap();
    spawn("a-thread", &breaks, || panic!("with {} words", 3)).unwrap();
    let mut said = broken.clone();
    let said = tokio::time::timeout(Duration::from_secs(60), said.wait_for(Option::is_some)).await;
    assert_eq!(said.unwrap().unwrap().as_deref(), Some("the thread a-thread panicked: with 3 words"));

    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("x.db"), SqliteOptions::default()).unwrap();
    let mut broken = store.broken();
    drop(store);
    let ended = tokio::time::timeout(Duration::from_millis(200), &mut broken).await;
    assert!(ended.is_err(), "nobody is to be told: {ended:?}");
}

mod lives;
mod runtimes;
