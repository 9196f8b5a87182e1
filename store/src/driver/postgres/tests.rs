use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{future::join_all, poll};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use super::super::failures::Failures;
use super::*;
use crate::{
    Clock, SharedStore,
    core::keys::read_key,
    driver::{
        conformance::{FIGHT, Faulty, Subject, run},
        memory::Fate,
        open::open_patiently,
    },
    testing::{TEST_DEADLINE, log::Listening, writers::Writers},
};

use crate::testing::postgres::Server;
use proxy::{Cut, Proxy};

/// A server, or the end of the test where there is none.
macro_rules! server {
    () => {
        match Server::start() {
            Some(server) => server,
            None => return,
        }
    };
}

mod doubts;
mod failover;
mod opening;
mod proxy;
pub(super) mod said;
mod turns;
pub(super) mod wire;

fn open(server: &Server) -> PostgresStore {
    PostgresStore::open(&server.url("postgres")).unwrap()
}

fn put(value: &str) -> Transaction {
    Transaction::new().put(b"k".to_vec(), value.as_bytes().to_vec())
}

async fn value(store: &PostgresStore) -> Option<Vec<u8>> {
    store.read(vec![read_key(b"k".to_vec())]).await.unwrap().value(0).cloned()
}

fn is_unavailable(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Unavailable(_))
}

/// Commits a transaction that waits with nobody.
pub(super) async fn commit_alone(
    line: &Line,
    transaction: &Transaction,
    deadline: Instant,
    failures: &mut Failures,
) -> CommitOutcome {
    let (waiting, mut answer) = waiting::Waiting::new(transaction.clone(), deadline);
    commit::commit(line, vec![waiting], failures).await;
    answer.try_recv().unwrap()
}

/// Commits, as soon as the store takes commits again.
async fn at_last(store: &PostgresStore, transaction: Transaction) -> Version {
    let committed = async {
        loop {
            match store.commit(transaction.clone()).await {
                CommitOutcome::Committed(version) => return version,
                // Each waits for the store itself.
                outcome => assert!(is_unavailable(&outcome), "{outcome:?}"),
            }
        }
    };
    timeout(TEST_DEADLINE, committed).await.unwrap()
}

/// A connection beside the store, as another program would have it.
async fn other(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn sql(server: &Server, sql: &str) {
    other(server).await.batch_execute(sql).await.unwrap();
}

/// Its answers get lost on the way.
struct FaultyNetwork {
    server: Arc<Server>,
    proxies: std::sync::Mutex<Vec<Proxy>>,
}

impl Faulty for FaultyNetwork {
    fn connect(&self, fate: Fate) -> SharedStore {
        let proxy = Proxy::start(self.server.socket());
        let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
        proxy.cut_next(match fate {
            Fate::Applied => Cut::AfterCommit,
            Fate::NotApplied => Cut::Lost,
            Fate::LandsLater => Cut::Late,
        });
        self.proxies.lock().unwrap().push(proxy);
        Arc::new(store)
    }

    fn land(&self) {
        self.proxies.lock().unwrap().iter().for_each(Proxy::land);
    }
}

/// A subject whose connections are spread over so many openings of one database.
fn subject(openings: usize) -> Option<Subject> {
    let server = Arc::new(Server::start()?);
    let stores: Vec<_> = (0..openings).map(|_| open(&server)).collect();
    let count = AtomicUsize::new(0);
    let connect = move || {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        Arc::new(stores[turn % stores.len()].clone()) as SharedStore
    };
    Some(Subject::new(connect).with_faults(FaultyNetwork { server, proxies: std::sync::Mutex::default() }))
}

#[tokio::test]
async fn postgres_opened_once_conforms() {
    if let Some(subject) = subject(1) {
        run(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_opened_ten_times_conforms_also_in_a_long_fight() {
    if let Some(subject) = subject(10) {
        run(&subject.fighting_for(FIGHT)).await;
    }
}

#[tokio::test]
async fn a_commit_is_durable_unless_the_url_asks_for_less() {
    let server = server!();
    let off = "?options=-c%20synchronous_commit%3Doff";
    for (setting, options, expected) in [
        ("off", "", "on"),
        ("local", "", "on"),
        ("off", off, "off"),
        // What says more, or less of the standby, is the operator's.
        ("remote_apply", "", "remote_apply"),
        ("remote_write", "", "remote_write"),
    ] {
        sql(&server, &format!("ALTER ROLE postgres SET synchronous_commit = {setting}")).await;
        let address = Address::parse(&(server.url("postgres") + options)).unwrap();
        let (client, driven) = hosts::connect(&address).await.unwrap();
        tokio::spawn(driven);
        let row = client.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected);
    }
}

#[tokio::test]
async fn a_turn_that_another_holds_makes_commits_unavailable_and_reads_go_on() {
    let server = server!();
    let store = open(&server);
    let other = other(&server).await;
    other.batch_execute("BEGIN; LOCK TABLE callsign.turn IN EXCLUSIVE MODE").await.unwrap();
    let refused = timeout(TEST_DEADLINE, join_all((0..5).map(|_| store.commit(put("1"))))).await.unwrap();
    assert!(refused.iter().all(is_unavailable), "{refused:?}");
    assert_eq!(value(&store).await, None);
    assert_eq!(
        store.commit(Transaction::new().check(b"k".to_vec(), None)).await,
        CommitOutcome::Committed(Version(0))
    );
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.commit(put("2")).await, CommitOutcome::Committed(Version(1)));
}

#[tokio::test]
async fn commits_of_a_process_that_wait_for_their_turn_take_it_together_and_each_sees_those_before_it() {
    let server = server!();
    let store = open(&server);
    let other = other(&server).await;
    other.batch_execute("BEGIN; LOCK TABLE callsign.turn IN EXCLUSIVE MODE").await.unwrap();
    let if_it_is = |key: &str, expected: Option<&str>| {
        let checked =
            Transaction::new().check(b"k".to_vec(), expected.map(|value| value.as_bytes().to_vec()));
        checked.put(key.as_bytes().to_vec(), b"v".to_vec())
    };
    let mut first = store.commit(put("1"));
    assert!(poll!(&mut first).is_pending());
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    while !other.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {}
    // In the order in which they come to the store's thread.
    let others = [
        put("2"),
        if_it_is("a", Some("1")),
        if_it_is("b", Some("2")),
        Transaction::new().append(b"q".to_vec(), vec![]),
    ];
    let mut others = others.map(|transaction| store.commit(transaction));
    for commit in &mut others {
        assert!(poll!(commit).is_pending());
    }
    let all_wait = async {
        while store.shared.turn.waiting() < others.len() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_DEADLINE, all_wait).await.unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();

    assert_eq!(first.await, CommitOutcome::Committed(Version(1)));
    let outcomes = join_all(others).await;
    let committed = |version| CommitOutcome::Committed(Version(version));
    assert_eq!(outcomes, [committed(2), CommitOutcome::Conflict, committed(3), committed(4)]);
    assert_eq!(value(&store).await.unwrap(), b"2");
    // Rows of one transaction of the server have one number.
    let asked = "SELECT count(DISTINCT xmin::text) FROM callsign.kv";
    assert_eq!(server.ask(asked), "1");
}

/// Somebody else's SQL that takes no turn is noticed: serialization failures are tried again.
#[tokio::test]
async fn a_serialization_failure_is_tried_again() {
    let server = server!();
    let store = open(&server);
    assert_eq!(store.commit(put("0")).await, CommitOutcome::Committed(Version(1)));
    let other = other(&server).await;
    other.batch_execute("BEGIN; UPDATE callsign.store SET version = version + 1").await.unwrap();
    let mut commit = store.commit(put("1"));
    assert!(poll!(&mut commit).is_pending());
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    while !other.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {}
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(commit.await, CommitOutcome::Committed(Version(3)));
}

#[tokio::test]
async fn a_connection_cut_before_the_commit_is_unknown_and_the_truth_can_be_read() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
    for (cut, before, after) in
        [(Cut::BeforeCommit, None, None), (Cut::AfterCommit, None, Some(b"1".to_vec()))]
    {
        assert_eq!(value(&store).await, before);
        proxy.cut_next(cut);
        assert_eq!(
            store.commit(put("1").check(b"k".to_vec(), None)).await,
            CommitOutcome::Unknown,
            "{cut:?}"
        );
        assert_eq!(value(&store).await, after, "{cut:?}");
    }
    at_last(&store, put("2")).await;
    assert_eq!(value(&open(&server)).await, Some(b"2".to_vec()));
}

#[tokio::test]
async fn a_commit_that_is_not_answered_in_time_is_unknown() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
    at_last(&store, put("1")).await;
    proxy.cut_next(Cut::Unanswered);
    assert_eq!(timeout(TEST_DEADLINE, store.commit(put("2"))).await.unwrap(), CommitOutcome::Unknown);
    assert_eq!(value(&store).await, Some(b"2".to_vec()), "and it was done");
    at_last(&store, put("3")).await;
    proxy.silent_are_closed();
}

#[tokio::test]
async fn commits_of_unknown_outcome_that_follow_one_another_take_few_lines_of_the_log() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    let log = Listening::to("callsign_store");
    // In the test's own thread, where it is listened to.
    let address = Address::parse(&proxy.url("postgres")).unwrap();
    let identity = schema::prepare(&address).await.unwrap();
    let line = Line::start(Arc::new(Place::new(address, identity)), Role::Commits);
    let mut failures = Failures::default();
    let mut commit =
        async |value| commit_alone(&line, &put(value), Instant::now() + TEST_DEADLINE, &mut failures).await;
    for _ in 0..5 {
        proxy.cut_next(Cut::AfterCommit);
        assert_eq!(commit("1").await, CommitOutcome::Unknown);
    }
    let said = |message: &str| -> Vec<_> {
        log.all()
            .iter()
            .filter(|line| line["message"] == message)
            .map(|line| line["failed"].clone())
            .collect()
    };
    assert_eq!(said("the outcome of a commit is unknown"), ["1", "2", "4"]);
    assert!(matches!(commit("2").await, CommitOutcome::Committed(_)));
    assert_eq!(said("commits succeed again"), ["5"]);
}

#[tokio::test]
async fn a_connection_that_refuses_everything_is_replaced_whatever_is_asked_of_it() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
    at_last(&store, put("1")).await;
    let spoiled = || {
        proxy.spoil();
        Instant::now() + TEST_DEADLINE
    };
    let late = |deadline: Instant, said: &dyn fmt::Debug| assert!(Instant::now() < deadline, "{said:?}");
    spoiled();
    at_last(&store, put("2")).await;
    // All that follows goes over the other connection.
    store.read(vec![]).await.unwrap();
    let deadline = spoiled();
    while let Err(why) = store.read(vec![]).await {
        late(deadline, &why);
    }
    spoiled();
    let only_check = Transaction::new().check(b"k".to_vec(), Some(b"2".to_vec()));
    let outcome = store.commit(only_check).await;
    assert!(
        matches!(outcome, CommitOutcome::Committed(_)),
        "it has nothing to lose, and is asked again: {outcome:?}"
    );
    let deadline = spoiled();
    while let Err(why) = store.watch(b"k".to_vec(), Version(0)).await {
        late(deadline, &why);
    }
}

#[tokio::test]
async fn a_database_that_has_lost_commits_is_told_of_whoever_saw_them() {
    let mut server = server!();
    let log = Listening::to("callsign_store");
    let address = || Address::parse(&server.url("postgres")).unwrap();
    let identity = schema::prepare(&address()).await.unwrap();
    let start = |role| Line::start(Arc::new(Place::new(address(), identity)), role);
    // Each knows only what came over its own connection: one commits, the other reads.
    let (commits, reads) = (start(Role::Commits), start(Role::Reads));
    let deadline = || Instant::now() + TEST_DEADLINE;
    let committed = commit_alone(&commits, &put("1"), deadline(), &mut Failures::default()).await;
    assert_eq!(committed, CommitOutcome::Committed(Version(1)));
    assert_eq!(read::read(&reads, &[], deadline()).await.unwrap().version, Version(1));
    let told = || log.all().into_iter().filter(|line| line["message"].contains("has lost commits")).count();
    assert_eq!(told(), 0);
    sql(&server, "UPDATE callsign.store SET version = 0").await;
    server.stop();
    server.resume();
    let both = async {
        while told() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_DEADLINE, both).await.unwrap_or_else(|_| panic!("{:?}", log.all()));
}

#[tokio::test]
async fn nothing_of_a_transaction_is_done_whose_begin_was_refused() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    // Somebody may have made every statement serializable that is a transaction of its own.
    let serializable = "ALTER DATABASE postgres SET default_transaction_isolation = serializable";
    for (round, setting) in ["", serializable].into_iter().enumerate() {
        sql(&server, setting).await;
        let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
        // What was committed before on this connection must not help.
        let version = at_last(&store, Transaction::new().put(b"l".to_vec(), vec![])).await;
        proxy.cut_next(Cut::BeginRefused);
        let everything = put("1").append(b"q".to_vec(), b"1".to_vec()).clear(b"l".to_vec());
        let outcome = store.commit(everything).await;
        assert!(is_unavailable(&outcome), "{outcome:?}");
        assert_eq!(value(&store).await, None, "round {round}");
        assert_eq!(store.read(vec![]).await.unwrap().version, version, "round {round}");
        assert_eq!(
            store.commit(put("2").clear(b"k".to_vec())).await,
            CommitOutcome::Committed(Version(version.0 + 1))
        );
    }
}

#[tokio::test]
async fn a_process_that_stops_inside_its_commit_loses_its_turn() {
    let server = server!();
    let (proxy, other) = (Proxy::start(server.socket()), open(&server));
    let stopped = PostgresStore::open(&proxy.url("postgres")).unwrap();
    proxy.cut_next(Cut::Stops);
    let mut stops = stopped.commit(put("1"));
    assert!(poll!(&mut stops).is_pending());
    at_last(&other, put("2")).await;
    let outcome = timeout(TEST_DEADLINE, stops).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Unknown | CommitOutcome::Unavailable(_)), "{outcome:?}");
    assert_eq!(value(&other).await, Some(b"2".to_vec()), "and it does not land later");
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again_and_its_watches_go_on() {
    let mut server = server!();
    let store = open(&server);
    let version = at_last(&store, put("1")).await;
    let mut watch = store.watch(b"k".to_vec(), version);
    assert!(poll!(&mut watch).is_pending());
    // One behind the other: the first has been looked at when this one ends.
    timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), Version(0))).await.unwrap().unwrap();
    for end in [Server::stop, Server::crash] {
        end(&mut server);
        assert!(is_unavailable(&store.commit(put("2")).await));
        assert!(store.read(vec![]).await.is_err());
        assert!(store.watch(b"other".to_vec(), version).await.is_err());
        assert!(poll!(&mut watch).is_pending());
        server.resume();
        assert_eq!(at_last(&store, Transaction::new().put(b"l".to_vec(), vec![])).await.0, {
            let read = store.read(vec![]).await.unwrap();
            read.version.0
        });
        assert_eq!(value(&store).await, Some(b"1".to_vec()));
    }
    sql(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").await;
    at_last(&open(&server), put("2")).await;
    timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_change_that_nobody_told_of_is_found_by_looking() {
    let server = server!();
    let store = open(&server);
    let version = at_last(&store, put("1")).await;
    let watch = store.watch(b"k".to_vec(), version);
    let change = "UPDATE callsign.kv SET version = (SELECT version FROM callsign.store)";
    let quietly = format!("BEGIN; UPDATE callsign.store SET version = version + 1; {change}; COMMIT");
    let (ended, ()) = futures::join!(timeout(TEST_DEADLINE, watch), sql(&server, &quietly));
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_put_in_the_place_of_the_one_that_was_opened_is_not_used() {
    let server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    sql(&server, "DROP SCHEMA callsign CASCADE").await;
    assert!(is_unavailable(&store.commit(put("2")).await) && store.read(vec![]).await.is_err());
    let new = open(&server);
    assert!(!matches!(store.commit(put("2")).await, CommitOutcome::Committed(_)));
    let said = async {
        // Until it has met the new one, it says what it met before.
        while !store.read(vec![]).await.unwrap_err().to_string().contains("not the one that was opened") {}
    };
    timeout(TEST_DEADLINE, said).await.unwrap();
    assert_eq!(value(&new).await, None);
}

#[tokio::test]
async fn a_watch_is_not_answered_by_a_store_put_in_the_place_of_the_one_that_was_opened() {
    let server = server!();
    let store = open(&server);
    at_last(&store, put("1")).await;
    let watch = async || timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), Version(0))).await.unwrap();
    watch().await.unwrap();
    // Over the same connection, which has no reason to ask again which store it leads to.
    sql(&server, "UPDATE callsign.store SET identity = identity + 1").await;
    let told = watch().await.unwrap_err();
    assert!(told.to_string().contains("not the one that was opened"), "{told}");
}

/// What writers are told is what happened, while backends are killed and the server crashes under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_outcome_is_a_lie_while_connections_die() {
    const WRITERS: u32 = 4;
    let mut server = server!();
    let proxy = Proxy::start(server.socket());
    let stores = (0..WRITERS).map(|_| PostgresStore::open(&proxy.url("postgres")).unwrap());
    let writers = Writers::start(stores, b"");
    let witness = open(&server);
    let progress = |n: u32| Transaction::new().put(b"progress".to_vec(), n.to_string().into_bytes());
    for round in 0..10 {
        proxy.cut_next([Cut::AfterCommit, Cut::BeforeCommit, Cut::Lost, Cut::Late][round as usize % 4]);
        at_last(&witness, progress(round)).await;
        sql(
            &server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'callsign' AND state <> 'idle'",
        )
        .await;
        if round % 5 == 4 {
            server.crash();
            server.resume();
        }
    }
    writers.judge(&witness).await;
}

#[tokio::test]
async fn what_was_removed_long_ago_is_forgotten() {
    let server = server!();
    let store = open(&server);
    let churn = || Transaction::new().put(b"k".to_vec(), vec![]).clear(b"k".to_vec());
    at_last(&store, churn()).await;
    sql(&server, "UPDATE callsign.store SET version = version + 5000").await;
    // Too old to tell: it ends without cause.
    timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), Version(1))).await.unwrap().unwrap();
    at_last(&store, churn()).await;
    let left = other(&server).await.query_one("SELECT count(*) FROM callsign.clears", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn its_connections_end_with_the_last_handle() {
    let server = server!();
    let store = open(&server);
    let mut watch = store.clone().watch(b"k".to_vec(), Version(0));
    assert!(poll!(&mut watch).is_pending());
    drop(store);
    let other = other(&server).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'callsign'";
    let count = async || other.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
    let until = async |wanted: i64| while count().await != wanted {};
    timeout(TEST_DEADLINE, until(3)).await.unwrap();
    drop(watch);
    timeout(TEST_DEADLINE, until(0)).await.unwrap();
}

#[test]
fn it_works_outside_of_tokio() {
    let server = server!();
    let store = open(&server);
    futures::executor::block_on(async {
        let watch = store.watch(b"k".to_vec(), Version(0));
        assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
        watch.await.unwrap();
    });
}
