//! What goes wrong on the way, and in the server.

use callsign_store::testing::postgres::Pair;
use futures::{FutureExt, future::LocalBoxFuture};

use super::{
    bed::{Network, until_known},
    *,
};

/// Asks over a network that loses the answer, until the row shows that it was carried out; then the connection breaks.
async fn unanswered(
    server: &Server,
    network: &Network,
    ask: LocalBoxFuture<'_, Result<Verdict<Fence>, Fault>>,
) -> Fault {
    let before = rows(server).await;
    network.mute();
    let carried_out = async {
        while rows(server).await == before {}
        network.cut();
    };
    tokio::time::timeout(TEST_DEADLINE, futures::future::join(ask, carried_out)).await.unwrap().0.unwrap_err()
}

#[tokio::test]
async fn a9_j10_an_attempt_whose_answer_was_lost_is_made_again_and_is_the_same_one() {
    let server = server!();
    let (network, url) = Network::start(server.socket());
    let mut a = Member::at(&url, "a", PostgresLeaseOptions::default()).await;
    // So that the table is there, and the connection.
    until_known(async || a.0.taking_part().unwrap().0.raw().await).await;
    let attempt = at_random();
    let fault = unanswered(&server, &network, a.0.claim(attempt).boxed_local()).await;
    assert!(matches!(fault, Fault::Transient { maybe_committed: true, .. }), "{fault:?}");
    let after = rows(&server).await;
    let held = granted(until_known(async || a.0.claim(attempt).await).await);
    assert_eq!(rows(&server).await, after, "no second epoch, no second ballot");
    assert_eq!(held.fence.ballot.0, held.fence.epoch.0);

    let attempt = at_random();
    let fault = unanswered(&server, &network, a.0.refresh(attempt, &held).boxed_local()).await;
    assert!(matches!(fault, Fault::Transient { maybe_committed: true, .. }), "{fault:?}");
    let after = rows(&server).await;
    let kept = granted(until_known(async || a.0.refresh(attempt, &held).await).await);
    assert_eq!(rows(&server).await, after);
    assert_eq!(kept.fence, Fence { ballot: held.fence.ballot.next(), ..held.fence });
    // It is believed for no longer than the row says, although it was asked later.
    let expires = "SELECT (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::int8
        FROM callsign.lease_v1";
    let Validity::For(believed) = kept.validity else { panic!("{kept:?}") };
    let mut again = granted(until_known(async || a.0.refresh(attempt, &held).await).await);
    let left: i64 = sql(&server).await.query_one(expires, &[]).await.unwrap().get(0);
    assert!(again.validity != kept.validity, "{believed:?} is not {left} µs: it has become less");
    again.validity = kept.validity;
    assert_eq!(again, kept);
}

#[tokio::test]
async fn a_backend_that_is_killed_inside_a_refresh_leaves_it_unknown_and_it_is_made_again() {
    let server = server!();
    let mut a = Member::on(&server, "a").await;
    let held = a.win().await;
    let mut blocker = sql(&server).await;
    let lock = blocker.transaction().await.unwrap();
    lock.query("SELECT FROM callsign.lease_v1 FOR UPDATE", &[]).await.unwrap();
    let attempt = at_random();
    let kill = async {
        let waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%lease_v1%'";
        let other = sql(&server).await;
        while other.query(waiting, &[]).await.unwrap().is_empty() {}
    };
    let (fault, ()) = futures::join!(a.0.refresh(attempt, &held), kill);
    let fault = fault.unwrap_err();
    assert!(matches!(fault, Fault::Transient { maybe_committed: true, .. }), "{fault:?}");
    lock.rollback().await.unwrap();
    let kept = granted(until_known(async || a.0.refresh(attempt, &held).await).await);
    assert_eq!(kept.term, held.term);
    assert_eq!(kept.fence.ballot, held.fence.ballot.next(), "once");
}

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_costs_a_fault_and_not_the_lease() {
    let server = server!();
    let mut a = Member::on(&server, "a").await;
    let held = a.win().await;
    let mut blocker = sql(&server).await;
    let lock = blocker.transaction().await.unwrap();
    lock.query("SELECT FROM callsign.lease_v1 FOR UPDATE", &[]).await.unwrap();
    let fault = a.0.refresh(at_random(), &held).await.unwrap_err();
    let Fault::Transient { maybe_committed: false, cause } = fault else { panic!("{fault:?}") };
    assert!(cause.contains("55P03"), "the server gave it up: {cause}");
    lock.rollback().await.unwrap();
    granted(a.refresh(&held).await);
}

#[tokio::test]
async fn a_connection_whose_answers_are_given_up_too_early_to_tell_is_replaced_nevertheless() {
    let server = server!();
    let (network, url) = Network::start(server.socket());
    let mut a = Member::at(&url, "a", PostgresLeaseOptions::default()).await;
    // So that the table is there, and the connection.
    until_known(async || a.0.taking_part().unwrap().0.raw().await).await;
    let attempt = at_random();
    let patience = Duration::from_millis(700);
    network.mute();
    for _ in 0..2 {
        let claimed = tokio::time::timeout(patience, a.0.claim(attempt)).await;
        assert!(claimed.is_err(), "nothing is answered: {claimed:?}");
    }
    // The old connection owes some answers, so that whoever asks over it hears of none of its own in time.
    network.unmute();
    let answered = async {
        loop {
            if let Ok(Ok(verdict)) = tokio::time::timeout(patience, a.0.claim(attempt)).await {
                return granted(verdict);
            }
        }
    };
    let held = tokio::time::timeout(TEST_DEADLINE, answered).await.expect("it connects anew");
    assert_eq!(held.fence.ballot.0, held.fence.epoch.0, "it is the same claim");
}

#[tokio::test]
async fn among_several_hosts_a_row_that_stays_locked_costs_the_connection() {
    let server = server!();
    let host = server.host();
    let url = format!("postgres://postgres@{host},{host}/postgres");
    let mut a = Member::at(&url, "a", PostgresLeaseOptions::default()).await;
    let held = a.win().await;
    let (mut blocker, other) = (sql(&server).await, sql(&server).await);
    let lock = blocker.transaction().await.unwrap();
    lock.query("SELECT FROM callsign.lease_v1 FOR UPDATE", &[]).await.unwrap();
    let waits = async {
        let waits =
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%lease_v1%'";
        loop {
            if let Some(row) = other.query_opt(waits, &[]).await.unwrap() {
                return row.get::<_, i32>(0);
            }
        }
    };
    let both = futures::future::join(a.0.refresh(at_random(), &held), waits);
    let (refreshed, pid) = tokio::time::timeout(TEST_DEADLINE, both).await.unwrap();
    let fault = refreshed.unwrap_err();
    assert!(matches!(fault, Fault::Transient { maybe_committed: false, .. }), "{fault:?}");
    let gone = async {
        let is_there = "SELECT FROM pg_stat_activity WHERE pid = $1";
        while other.query_opt(is_there, &[&pid]).await.unwrap().is_some() {}
    };
    tokio::time::timeout(TEST_DEADLINE, gone).await.expect("it connects anew");
    lock.rollback().await.unwrap();
    granted(until_known(async || a.0.refresh(at_random(), &held).await).await);
}

#[tokio::test]
async fn a_claim_that_was_made_is_unknown_if_the_look_behind_it_is_refused() {
    let server = server!();
    let mut a = Member::on(&server, "a").await;
    let held = a.win().await;
    let (mut blocker, mut locker, other) = (sql(&server).await, sql(&server).await, sql(&server).await);
    let row = blocker.transaction().await.unwrap();
    row.query("SELECT FROM callsign.lease_v1 FOR UPDATE", &[]).await.unwrap();
    let table = locker.transaction().await.unwrap();
    let attempt = at_random();
    // The claim waits for the row, another for the claim, to have the whole table, and the look for that one.
    let in_order = async {
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%lease_v1%'";
        while other.query(waits, &[]).await.unwrap().is_empty() {}
        let lock = table.batch_execute("LOCK TABLE callsign.lease_v1 IN ACCESS EXCLUSIVE MODE");
        let release = async {
            let waits = "SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted";
            while other.query(waits, &[]).await.unwrap().is_empty() {}
            row.rollback().await.unwrap();
        };
        futures::join!(lock, release).0.unwrap();
    };
    let both = futures::future::join(a.0.claim(attempt), in_order);
    let (claimed, ()) = tokio::time::timeout(TEST_DEADLINE, both).await.unwrap();
    let fault = claimed.unwrap_err();
    let Fault::Transient { maybe_committed: true, cause } = fault else { panic!("{fault:?}") };
    assert!(cause.contains("55P03"), "the server gave the look up: {cause}");
    table.rollback().await.unwrap();
    let kept = granted(until_known(async || a.0.claim(attempt).await).await);
    assert_eq!(kept.fence, Fence { ballot: held.fence.ballot.next(), ..held.fence }, "once");
}

/// The lease is judged after the wait for the row's lock, not before.
#[tokio::test]
async fn c10_a_lease_that_ends_while_its_refresh_waits_is_over() {
    let server = server!();
    let lease = Duration::from_millis(500);
    let url = server.url("postgres");
    let mut a = Member::at(&url, "a", PostgresLeaseOptions { lease, ..Default::default() }).await;
    let mut blocker = sql(&server).await;
    let other = sql(&server).await;
    a.win().await;
    let held = a.win().await;
    let lock = blocker.transaction().await.unwrap();
    lock.query("SELECT FROM callsign.lease_v1 FOR UPDATE", &[]).await.unwrap();
    let refresh = a.0.refresh(at_random(), &held);
    let release = async {
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%lease_v1%'";
        while other.query(waits, &[]).await.unwrap().is_empty() {}
        let over = "SELECT FROM callsign.lease_v1 WHERE expires_at < clock_timestamp()";
        while other.query(over, &[]).await.unwrap().is_empty() {}
        lock.rollback().await.unwrap();
    };
    let (refreshed, ()) = futures::join!(refresh, release);
    assert_eq!(denied(refreshed.unwrap()).why, Refusal::TermOver);
}

#[tokio::test]
async fn h8_h9_a_server_that_crashes_keeps_the_row_and_is_found_again() {
    let mut server = server!();
    let (mut a, mut b) = (Member::on(&server, "a").await, Member::on(&server, "b").await);
    let held = a.win().await;
    let before = rows(&server).await;
    server.crash();
    let fault = a.0.refresh(at_random(), &held).await.unwrap_err();
    assert!(matches!(fault, Fault::Transient { .. }), "{fault:?}");
    server.resume();
    assert_eq!(rows(&server).await, before, "the row was logged");
    let denial = denied(until_known(async || b.0.claim(at_random()).await).await);
    assert_eq!((denial.why, denial.leader), (Refusal::Held, Some(held.term.clone())), "no second leader");
    let kept = granted(until_known(async || a.0.refresh(at_random(), &held).await).await);
    assert_eq!(kept.fence, Fence { ballot: held.fence.ballot.next(), ..held.fence }, "ballots go on");

    // The row is gone, under a live leader: its fence is behind that of whoever comes next.
    sql(&server).await.batch_execute("DELETE FROM callsign.lease_v1").await.unwrap();
    let denial = denied(a.refresh(&kept).await);
    assert_eq!((denial.why, denial.leader), (Refusal::TermOver, None));
    let next = b.win().await;
    assert!(next.fence.epoch.0 > kept.fence.ballot.0);
}

#[tokio::test]
async fn h8_a_server_that_is_not_there_at_the_start_is_waited_for() {
    let mut server = server!();
    server.stop();
    let mut a = Member::on(&server, "a").await;
    let fault = a.0.claim(at_random()).await.unwrap_err();
    assert!(matches!(fault, Fault::Transient { maybe_committed: false, .. }), "{fault:?}");
    server.resume();
    granted(until_known(async || a.0.claim(at_random()).await).await);
}

#[tokio::test]
async fn the_connection_ends_with_the_oracle() {
    let server = server!();
    let mut a = Member::on(&server, "a").await;
    a.win().await;
    let signals = a.0.signals();
    drop(a);
    let other = sql(&server).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'callsign'";
    let gone = async { while other.query_one(count, &[]).await.unwrap().get::<_, i64>(0) != 0 {} };
    tokio::time::timeout(TEST_DEADLINE, gone).await.unwrap();
    drop(signals);
}

#[tokio::test]
async fn a_claim_whose_wait_for_a_standby_is_cancelled_is_unknown_and_the_same_one_waits_again() {
    let Some(mut pair) = Pair::start() else { return };
    let url = pair.url(0, "postgres");
    let mut a = Member::at(&url, "a", PostgresLeaseOptions::default()).await;
    until_known(async || a.0.taking_part().unwrap().0.raw().await).await;
    let standby = pair.other();
    pair.server(standby).stop();
    let attempt = at_random();
    let claim = a.0.claim(attempt);
    let waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let cancelled = async {
        while pair.server(0).ask(waits) != "t" {
            tokio::task::yield_now().await;
        }
    };
    let both = futures::future::join(claim, cancelled);
    let fault = tokio::time::timeout(TEST_DEADLINE, both).await.unwrap().0.unwrap_err();
    assert!(matches!(fault, Fault::Transient { maybe_committed: true, .. }), "{fault:?}");
    pair.server(standby).resume();
    let held = granted(until_known(async || a.0.claim(attempt).await).await);
    assert_eq!(held.fence.ballot.0, held.fence.epoch.0);
}
