use std::{sync::atomic::Ordering, time::Duration};

use futures::poll;
use tokio::time::timeout;

use super::*;
use crate::{
    SharedStore,
    core::keys::read_key,
    driver::conformance::{Subject, run},
    testing::writers::Writers,
};

mod proxy;
mod server;

use proxy::{Cut, Proxy};
use server::{Server, free_port};

const TEST_DEADLINE: Duration = Duration::from_secs(60);

/// A server, or the end of the test where there is none.
macro_rules! server {
    () => {
        match Server::start() {
            Some(server) => server,
            None => return,
        }
    };
}

fn open(server: &Server) -> FdbStore {
    FdbStore::open(&server.url()).unwrap()
}

fn key() -> Key {
    b"conformance-k".to_vec()
}

fn put(value: &str) -> Transaction {
    Transaction::new().put(key(), value.as_bytes().to_vec())
}

/// What the key holds, as soon as the store says.
async fn value(store: &FdbStore) -> Option<Vec<u8>> {
    let said = async {
        loop {
            if let Ok(read) = store.read(vec![read_key(key())]).await {
                return read.value(0).cloned();
            }
        }
    };
    timeout(TEST_DEADLINE, said).await.unwrap()
}

/// Which version it is, as soon as the store says: a cluster that comes up may recover more than once.
async fn now(store: &FdbStore) -> Version {
    let said = async {
        loop {
            if let Ok(read) = store.read(vec![]).await {
                return read.version;
            }
        }
    };
    timeout(TEST_DEADLINE, said).await.unwrap()
}

/// Commits, as soon as the store takes commits again. It may have been done twice.
async fn at_last(store: &FdbStore, transaction: Transaction) -> Version {
    let committed = async {
        loop {
            match store.commit(transaction.clone()).await {
                CommitOutcome::Committed(version) => return version,
                // Each waits for the store itself.
                CommitOutcome::Unavailable(_) | CommitOutcome::Unknown => {}
                outcome => panic!("{outcome:?}"),
            }
        }
    };
    timeout(TEST_DEADLINE, committed).await.unwrap()
}

/// A subject whose connections are spread over so many openings of one cluster: the one that the environment's
/// `FDB_CLUSTER_FILE` names, or a private one.
fn subject(openings: usize) -> Option<Subject> {
    let (server, url) = if let Ok(path) = std::env::var("FDB_CLUSTER_FILE") {
        (None, format!("fdb:{path}"))
    } else {
        let server = Server::start()?;
        let url = server.url();
        (Some(server), url)
    };
    let stores: Vec<_> = (0..openings).map(|_| FdbStore::open(&url).unwrap()).collect();
    let count = AtomicUsize::new(0);
    Some(Subject::new(move || {
        // Ends with the subject.
        let _ = &server;
        let turn = count.fetch_add(1, Ordering::SeqCst);
        Arc::new(stores[turn % stores.len()].clone()) as SharedStore
    }))
}

#[tokio::test]
async fn foundationdb_opened_once_conforms() {
    if let Some(subject) = subject(1) {
        run(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn foundationdb_opened_ten_times_conforms() {
    if let Some(subject) = subject(10) {
        run(&subject).await;
    }
}

#[test]
fn what_cannot_be_opened_is_refused_in_words() {
    let refused = |url: &str| FdbStore::open(url).map(drop).unwrap_err();
    let missing = refused("fdb:/nowhere/fdb.cluster");
    assert!(
        matches!(&missing, OpenError::FoundationDbClient { url, .. } if url == "fdb:/nowhere/fdb.cluster"),
        "{missing}"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fdb.cluster");
    std::fs::write(&file, "no cluster").unwrap();
    let garbled = refused(&format!("fdb:{}", file.display()));
    assert!(matches!(garbled, OpenError::FoundationDbClient { .. }), "{garbled}");
    std::fs::write(&file, format!("a:a@127.0.0.1:{}", free_port())).unwrap();
    let nobody = refused(&format!("fdb:{}", file.display()));
    assert!(matches!(&nobody, OpenError::Unreachable { cause, .. } if cause.contains("1031")), "{nobody}");
}

#[tokio::test]
async fn a_cluster_that_is_laid_out_differently_is_refused() {
    let server = server!();
    let store = open(&server);
    at_last(&store, Transaction::new().put(b"callsign.layout".to_vec(), b"99".to_vec())).await;
    let newer = FdbStore::open(&server.url()).map(drop).unwrap_err();
    assert!(matches!(newer, OpenError::WrongSchema { found: 99, expected: 1, .. }), "{newer}");
}

/// All that tells that nothing was asked first: the key goes out once.
#[tokio::test]
async fn a_fenced_commit_is_one_round_trip() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let Some(server) = Server::start_behind(port, proxy.port()) else { return };
    let store = open(&server);
    let fenced = |from: &str, to: &str, at| put(to).fence(key(), Some(from.as_bytes().to_vec()), at);
    let checked = put("1").check(key(), None);
    proxy.look_for(&key());
    let mut at = at_last(&store, checked).await;
    assert_eq!(proxy.seen(), 2, "read, and committed");
    for n in 1..5 {
        proxy.look_for(&key());
        let outcome = store.commit(fenced(&n.to_string(), &(n + 1).to_string(), at)).await;
        assert_eq!(proxy.seen(), 1);
        let CommitOutcome::Committed(version) = outcome else { panic!("{outcome:?}") };
        at = version;
    }
}

#[tokio::test]
async fn a_locked_database_is_unavailable_and_says_why() {
    let server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    let locked = server.cli("lock");
    assert!(locked.contains("Locking"), "{locked}");
    let outcome = store.commit(put("2")).await;
    assert!(matches!(&outcome, CommitOutcome::Unavailable(why) if why.contains("locked")), "{outcome:?}");
}

#[tokio::test]
async fn there_are_so_many_watches_and_no_more() {
    let server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    let since = store.read(vec![]).await.unwrap().version;
    let mut watches: Vec<_> = (0..WATCHES).map(|_| store.watch(b"other".to_vec(), since)).collect();
    for watch in &mut watches {
        assert!(poll!(watch).is_pending());
    }
    assert!(store.watch(key(), since).await.is_err());
    drop(watches.pop());
    let changed = store.watch(key(), since);
    let (changed, _) = futures::join!(timeout(TEST_DEADLINE, changed), at_last(&store, put("2")));
    changed.unwrap().unwrap();
}

#[tokio::test]
async fn a_watch_outlives_the_time_that_an_answer_may_take() {
    let server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    let since = now(&store).await;
    let mut watch = store.watch(key(), since);
    // What this is about is that time passes.
    let ended = timeout(OPERATION_TIMEOUT + Duration::from_secs(2), &mut watch).await;
    assert!(ended.is_err(), "it ended without cause: {ended:?}");
    at_last(&store, put("2")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again_and_its_watches_go_on() {
    let mut server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    let since = store.read(vec![]).await.unwrap().version;
    let watch = tokio::spawn(store.watch(key(), since));
    // One behind the other: the first has reached the server when this one ends.
    timeout(TEST_DEADLINE, store.watch(key(), Version(0))).await.unwrap().unwrap();
    server.crash();
    let asked =
        futures::join!(store.read(vec![]), store.watch(b"other".to_vec(), since), store.commit(put("2")));
    assert!(asked.0.is_err() && asked.1.is_err());
    assert!(matches!(asked.2, CommitOutcome::Unavailable(_) | CommitOutcome::Unknown), "{:?}", asked.2);
    assert!(!watch.is_finished());
    server.resume();
    let other = Transaction::new().put(b"conformance-l".to_vec(), vec![]);
    let version = at_last(&store, other).await;
    assert!(version > since && now(&store).await >= version);
    at_last(&open(&server), put("3")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_of_a_commit_leaves_it_unknown_and_the_truth_can_be_read() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let Some(server) = Server::start_behind(port, proxy.port()) else { return };
    let store = open(&server);
    at_last(&store, put("opened")).await;
    let mut was = value(&store).await;
    for (cut, new) in [(Cut::Before, "needle-1"), (Cut::Behind, "needle-2"), (Cut::Before, "needle-3")] {
        proxy.cut_at(cut, new.as_bytes());
        let outcome = store.commit(put(new).check(key(), was.clone())).await;
        assert_eq!(outcome, CommitOutcome::Unknown, "{cut:?}");
        let is = value(&store).await;
        let new = Some(new.as_bytes().to_vec());
        assert!(
            is == new || cut == Cut::Before && is == was || cut == Cut::Behind && is == was,
            "{cut:?}: {is:?}"
        );
        if cut == Cut::Before {
            assert_eq!(is, was, "the server never had it");
        }
        was = is;
    }
    at_last(&store, put("closed")).await;
}

/// What writers are told is what happened, while their connection breaks and the server crashes under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_outcome_is_a_lie_while_connections_and_servers_die() {
    const WRITERS: u32 = 4;
    let port = free_port();
    let proxy = Proxy::start(port);
    let Some(mut server) = Server::start_behind(port, proxy.port()) else { return };
    let writers = Writers::start((0..WRITERS).map(|_| open(&server)), b"needle");
    let witness = open(&server);
    let progress = |n: u32| Transaction::new().put(b"progress".to_vec(), n.to_string().into_bytes());
    for round in 0..9 {
        proxy.cut_at(if round % 2 == 0 { Cut::Before } else { Cut::Behind }, b"needle");
        at_last(&witness, progress(round)).await;
        if round % 4 == 3 {
            server.crash();
            server.resume();
        }
    }
    writers.judge(&witness).await;
}

#[test]
fn it_works_outside_of_tokio() {
    let server = server!();
    let store = open(&server);
    futures::executor::block_on(async {
        let since = store.read(vec![]).await.unwrap().version;
        let watch = store.watch(key(), since);
        assert!(matches!(store.commit(put("1")).await, CommitOutcome::Committed(_)));
        watch.await.unwrap();
    });
}
