//! A primary and a synchronous standby, both real, and what becomes of a store when one takes the other's place.

use std::{future::Future, time::Duration};

use futures::poll;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use super::{at_last, is_unavailable, put, value};
use crate::{
    CommitOutcome, OpenError, Store, Version,
    driver::postgres::{PostgresStore, address::Address, examine, hosts},
    testing::{
        TEST_DEADLINE,
        log::Listening,
        postgres::{Pair, Server},
    },
};

/// A pair, or the end of the test where there is none.
macro_rules! pair {
    () => {
        match Pair::start() {
            Some(pair) => pair,
            None => return,
        }
    };
}

/// What a server has under the key, past any store.
fn has(server: &Server, text: &str) -> bool {
    server.ask(&format!("SELECT count(*) FROM callsign.kv WHERE value = '{text}'")) == "1"
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_DEADLINE, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Commits whatever becomes of the commits before it.
async fn at_long_last(store: &PostgresStore, text: &str) {
    let committed = async { while !matches!(store.commit(put(text)).await, CommitOutcome::Committed(_)) {} };
    timeout(TEST_DEADLINE, committed).await.unwrap();
}

/// Has the connections of all of them made, and the value 1 kept. One that were made later would wait for the standby itself, in place of
/// the commit that is meant.
async fn connected(stores: &[&PostgresStore]) {
    for store in stores {
        at_last(store, put("1")).await;
        assert_eq!(value(store).await, Some(b"1".to_vec()));
    }
}

fn cancelled(server: &Server) {
    server.ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

/// Waits until a commit waits for the standby.
async fn waits(server: &Server) {
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("a commit waits for the standby", || server.ask(waits) == "t").await;
}

/// Kills the process in which a commit waits: the server ends all the others, too, and recovers. Waits until it shows that commit.
async fn crashes_and_shows(server: &Server, text: &str) {
    let pid = server.ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1");
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a commit waits");
    kill_process(pid, Signal::KILL).unwrap();
    let url = server.url("postgres");
    let shows = async || {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let count = "SELECT count(*) FROM callsign.kv WHERE value = $1";
        let row = client.query_one(count, &[&text.as_bytes()]).await?;
        Ok::<bool, tokio_postgres::Error>(row.get::<_, i64>(0) == 1)
    };
    let shown = async {
        // It refuses connections while it recovers.
        while !shows().await.is_ok_and(|is_shown| is_shown) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_DEADLINE, shown).await.expect("the server recovers");
}

/// The future goes on while something is waited for.
async fn beside<T>(future: &mut (impl Future<Output = T> + Unpin), other: impl Future<Output = ()>) {
    assert!(poll!(future).is_pending());
    other.await;
}

/// What only the primary has must not be taken for kept. Starts the standby again, and waits until the store can be read.
async fn read_only_once_the_standby_is_back(store: &PostgresStore, pair: &mut Pair) {
    for _ in 0..3 {
        let read = store.read(vec![]).await;
        assert!(read.is_err(), "{read:?}");
    }
    let standby = pair.other();
    pair.server(standby).resume();
    let read = async { while store.read(vec![]).await.is_err() {} };
    timeout(TEST_DEADLINE, read).await.unwrap();
}

#[tokio::test]
async fn a_commit_whose_wait_for_the_standby_is_cancelled_is_unknown_until_the_standby_has_it() {
    let mut pair = pair!();
    let store = PostgresStore::open(&pair.url(0, "postgres")).unwrap();
    connected(&[&store]).await;
    let standby = pair.other();
    pair.server(standby).stop();
    let mut commit = store.commit(put("2"));
    beside(&mut commit, waits(pair.server(0))).await;
    cancelled(pair.server(0));
    let outcome = timeout(TEST_DEADLINE, commit).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Unknown, "the server says that it is done");
    assert!(has(pair.server(0), "2"), "it is done, on the primary only");
    read_only_once_the_standby_is_back(&store, &mut pair).await;
    assert_eq!(value(&store).await, Some(b"2".to_vec()));
    until("the standby has it", || has(pair.server(standby), "2")).await;
    at_last(&store, put("3")).await;
}

#[tokio::test]
async fn a_commit_whose_connection_is_ended_while_it_waits_is_unknown_until_the_standby_has_it() {
    let mut pair = pair!();
    let store = PostgresStore::open(&pair.server(0).url("postgres")).unwrap();
    connected(&[&store]).await;
    let standby = pair.other();
    pair.server(standby).stop();
    let mut commit = store.commit(put("2"));
    beside(&mut commit, waits(pair.server(0))).await;
    pair.server(0).ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    assert_eq!(timeout(TEST_DEADLINE, commit).await.unwrap(), CommitOutcome::Unknown);
    until("it is done, on the primary only", || has(pair.server(0), "2")).await;
    read_only_once_the_standby_is_back(&store, &mut pair).await;
    until("the standby has it", || has(pair.server(standby), "2")).await;
}

/// The process that reads has no commit of its own whose outcome is unknown.
#[tokio::test]
async fn a_commit_that_a_crash_of_the_primary_has_shown_is_read_by_nobody_before_the_standby_has_it() {
    let mut pair = pair!();
    let standby = pair.other();
    let url = pair.server(0).url("postgres");
    let (writer, bystander) = (PostgresStore::open(&url).unwrap(), PostgresStore::open(&url).unwrap());
    connected(&[&writer, &bystander]).await;
    pair.server(standby).stop();
    let mut commit = writer.commit(put("2"));
    beside(&mut commit, waits(pair.server(0))).await;
    crashes_and_shows(pair.server(0), "2").await;
    assert_eq!(timeout(TEST_DEADLINE, commit).await.unwrap(), CommitOutcome::Unknown);
    // One connects again, the other for the first time.
    let fresh = PostgresStore::open(&url).unwrap();
    let read = bystander.read(vec![]).await;
    assert!(read.is_err(), "{read:?}");
    let outcome = fresh.commit(put("3")).await;
    assert!(is_unavailable(&outcome), "a commit does not hang: {outcome:?}");
    read_only_once_the_standby_is_back(&fresh, &mut pair).await;
    assert_eq!(value(&fresh).await, Some(b"2".to_vec()));
    until("the standby has it", || has(pair.server(standby), "2")).await;
    at_last(&bystander, put("4")).await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_standby_was_promoted_and_back_again() {
    let mut pair = pair!();
    let store = PostgresStore::open(&pair.url(0, "postgres")).unwrap();
    let mut last = at_last(&store, put("0")).await;
    for round in 1..4 {
        let text = round.to_string();
        let Version(version) = at_last(&store, put(&text)).await;
        assert!(version > last.0);
        last = Version(version);
        let primary = pair.primary();
        pair.server(primary).destroy();
        pair.promote();
        let read = async { while store.read(vec![]).await.is_err() {} };
        timeout(TEST_DEADLINE, read).await.unwrap();
        assert_eq!(value(&store).await, Some(text.into_bytes()));
        assert_eq!(store.read(vec![]).await.unwrap().version, last);
        pair.follow();
        // Again a commit waits for the standby.
        at_long_last(&store, "between").await;
        last = store.read(vec![]).await.unwrap().version;
    }
}

/// The old primary would take commits, as it waits for nobody: only its timeline tells it from the new one.
async fn old_primary_that_takes_commits(pair: &mut Pair) {
    let old = pair.primary();
    pair.server(old).ask("ALTER SYSTEM RESET synchronous_standby_names");
    pair.server(old).ask("SELECT pg_reload_conf()");
    let waits_for_none = "SELECT current_setting('synchronous_standby_names') = ''";
    until("it waits for nobody", || pair.server(old).ask(waits_for_none) == "t").await;
    pair.server(old).ask("CHECKPOINT");
}

#[tokio::test]
async fn an_old_primary_that_comes_back_and_takes_commits_gets_none() {
    let mut pair = pair!();
    let old = pair.primary();
    let urls = [pair.url(old, "postgres"), pair.url(1 - old, "postgres")];
    let stores = urls.each_ref().map(|url| PostgresStore::open(url).unwrap());
    at_last(&stores[0], put("1")).await;
    old_primary_that_takes_commits(&mut pair).await;
    pair.server(old).destroy();
    pair.promote();
    for store in &stores {
        at_long_last(store, "2").await;
    }
    pair.server(old).resume();
    assert_eq!(pair.server(old).ask("SELECT pg_is_in_recovery()"), "f", "it is a second primary");
    // Those that have seen the new one, over new connections, and those that see both for the first time.
    let new = pair.primary();
    pair.server(new)
        .ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'callsign'");
    let fresh = urls.each_ref().map(|url| PostgresStore::open(url).unwrap());
    for (nth, store) in stores.iter().chain(&fresh).enumerate() {
        let text = format!("3-{nth}");
        at_long_last(store, &text).await;
        assert!(has(pair.server(new), &text) && !has(pair.server(old), &text), "{nth}");
    }
    assert!(has(pair.server(old), "1"), "nothing was written to the old one");
    // In the test's own thread, where it is listened to.
    let (log, address) = (Listening::to("callsign_store"), Address::parse(&urls[0]).unwrap());
    for _ in 0..2 {
        drop(hosts::connect(&address).await.unwrap());
    }
    let said: Vec<_> = log.all().iter().map(|line| line["message"].clone()).collect();
    let [line] = said.as_slice() else { panic!("it is said once: {said:?}") };
    assert!(line.contains("is an old primary: its timeline is 1, and 2 has been seen"), "{line}");

    // With the new one gone, the old one is refused by those who have seen it, and says why.
    pair.server(new).destroy();
    let refused = async {
        loop {
            match stores[0].commit(put("4")).await {
                CommitOutcome::Unavailable(why) if why.contains("is an old primary") => return why,
                CommitOutcome::Committed(_) => panic!("the old primary took it"),
                _ => {}
            }
        }
    };
    let why = timeout(TEST_DEADLINE, refused).await.unwrap();
    assert!(why.contains("its timeline is 1, and 2 has been seen"), "{why}");
    assert!(!has(pair.server(old), "4"));
}

#[tokio::test]
async fn an_old_primary_that_still_lives_is_left_as_soon_as_another_one_is_promoted() {
    let mut pair = pair!();
    let old = pair.primary();
    let store = PostgresStore::open(&pair.url(old, "postgres")).unwrap();
    at_last(&store, put("1")).await;
    // Its connections stay, and it answers all but commits.
    pair.promote();
    let begun = std::time::Instant::now();
    at_long_last(&store, "2").await;
    println!("served again {:?} after the promotion", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let new = pair.primary();
    assert!(has(pair.server(new), "2"));
    // The same, but that it waits for nobody and so answers commits too: it is noticed without any doubt.
    pair.follow();
    old_primary_that_takes_commits(&mut pair).await;
    at_long_last(&store, "3").await;
    pair.promote();
    let newest = pair.primary();
    let moves = async {
        while !has(pair.server(newest), "4") {
            store.commit(put("4")).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(TEST_DEADLINE, moves).await.unwrap();
}

#[tokio::test]
async fn an_old_primary_that_waits_for_its_standby_takes_no_commit() {
    let mut pair = pair!();
    let old = pair.primary();
    drop(PostgresStore::open(&pair.server(old).url("postgres")).unwrap());
    pair.server(old).destroy();
    pair.promote();
    pair.server(old).resume();
    // Nobody told this one of the other, so only the server itself is in its way.
    let store = PostgresStore::open(&pair.server(old).url("postgres")).unwrap();
    for _ in 0..2 {
        let outcome = timeout(TEST_DEADLINE, store.commit(put("1"))).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Unknown) || is_unavailable(&outcome), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_pair_without_a_primary_says_of_each_host_why_not() {
    let mut pair = pair!();
    let old = pair.primary();
    pair.server(old).destroy();
    let refused = PostgresStore::open(&pair.url(old, "postgres")).map(drop).unwrap_err();
    let OpenError::Unreachable { cause, .. } = &refused else { panic!("{refused}") };
    assert!(cause.contains("no host takes writes") && cause.contains("does not allow writes"), "{cause}");
}

#[tokio::test]
async fn an_old_primary_that_says_nothing_is_left_and_gets_nothing_when_it_goes_on() {
    let mut pair = pair!();
    let old = pair.primary();
    let store = PostgresStore::open(&pair.url(old, "postgres")).unwrap();
    at_last(&store, put("1")).await;
    pair.server(old).pause();
    pair.promote();
    let begun = std::time::Instant::now();
    at_long_last(&store, "2").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // A store that is opened now finds the new one, however long the old one says nothing.
    let fresh = PostgresStore::open(&pair.url(old, "postgres")).unwrap();
    at_last(&fresh, put("3")).await;
    pair.server(old).go_on();
    until("the old one goes on", || has(pair.server(old), "1")).await;
    for (store, text) in [(&store, "4"), (&fresh, "5")] {
        at_last(store, put(text)).await;
        assert!(has(pair.server(1 - old), text) && has(pair.server(old), "1"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_examines_a_pair_is_told_which_one_takes_writes_and_of_two_that_do() {
    let mut pair = pair!();
    let (old, new) = (pair.primary(), pair.other());
    let examined = async |url: String| {
        let said = tokio::task::spawn_blocking(move || examine(&url)).await.unwrap();
        let words =
            said.iter().map(|finding| format!("{} {:?}: {}", finding.check, finding.verdict, finding.said));
        words.collect::<Vec<_>>().join("\n")
    };
    // The standby comes first.
    let url = pair.url(new, "postgres");
    let said = examined(url.clone()).await;
    assert!(said.contains("writes Ok") && said.contains("hosts Ok: takes writes: "), "{said}");
    assert!(said.contains("failover Ok: commits wait for standbys"), "{said}");
    pair.server(old).destroy();
    let said = examined(url.clone()).await;
    assert!(said.contains("writes No") && said.contains("hosts Warning: no answer from"), "{said}");
    pair.promote();
    pair.server(old).resume();
    let said = examined(url).await;
    assert!(said.contains("hosts Warning: several hosts take writes"), "{said}");
}
