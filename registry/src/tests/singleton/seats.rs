//! What the oracles over a registry say of their seat by themselves, and what they leave behind.

use std::task::Poll;

use callsign_election::{Attempt, Fault, Grant, Oracle, Refusal, Signal, Verdict};
use callsign_store::ids::Nonce;
use futures::StreamExt;
use ractor::ActorId;

use super::{ByName, BySeat, Seats};
use crate::{
    BadName, MonitorEvent, MonitorSettings, Monitored, OnOutage, Registry, RegistryOracle,
    tests::driver::{Cluster, TEST_DEADLINE, until},
};

const ATTEMPT: Attempt = Attempt { nonce: Nonce(1) };

const SEAT: &str = "reports/seat";

async fn granted<O: Oracle>(oracle: &mut O) -> Grant<O::Fence> {
    let granted = async {
        loop {
            if let Ok(Verdict::Granted(grant)) = oracle.claim(ATTEMPT).await {
                return grant;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_DEADLINE, granted).await.expect("it is granted")
}

async fn refused<O: Oracle>(oracle: &mut O) -> Refusal {
    match oracle.claim(ATTEMPT).await.unwrap() {
        Verdict::Denied(denial) => denial.why,
        Verdict::Granted(_) => panic!("two have it"),
    }
}

/// The next thing that an oracle notices by itself.
async fn notices(signals: &mut (impl futures::Stream<Item = Signal> + Unpin)) -> Signal {
    tokio::time::timeout(TEST_DEADLINE, signals.next()).await.expect("a signal").expect("they go on")
}

/// Everything that waits is said, and nothing more.
async fn is_quiet(signals: &mut (impl futures::Stream<Item = Signal> + Unpin)) -> bool {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    matches!(futures::poll!(signals.next()), Poll::Pending)
}

/// The actor by which a node holds the seat.
fn pid(node: &Registry) -> u64 {
    node.lookup(SEAT).unwrap().unwrap().actor().unwrap()
}

fn lives(pid: u64) -> bool {
    ractor::registry::where_is_pid(ActorId::Local(pid)).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_seat_that_is_taken_away_is_told_to_its_holder_and_a_free_one_to_all() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let (mut holds, mut follows) = (ByName::oracle(&a), ByName::oracle(&b));
    let (mut held, mut followed) = (holds.signals(), follows.signals());
    let first = granted(&mut holds).await;
    until("b knows", || b.lookup(SEAT).is_ok_and(|entry| entry.is_some())).await;
    assert!(is_quiet(&mut held).await && is_quiet(&mut followed).await, "it is held");
    ByName::depose(&a).await;
    assert_eq!(notices(&mut held).await, Signal::Revoked { epoch: first.term.epoch });
    assert_eq!(notices(&mut followed).await, Signal::Wakeup);
    // What is gone was not given back, and what is given back was not taken away.
    assert_eq!(holds.abdicate(&first).await, Ok(false));
    let second = granted(&mut holds).await;
    assert!(is_quiet(&mut held).await);
    assert_eq!(holds.abdicate(&second).await, Ok(true));
    assert_eq!(notices(&mut held).await, Signal::Wakeup);
}

#[tokio::test(start_paused = true)]
async fn the_leader_of_a_registry_is_told_when_it_is_another_and_the_others_when_there_is_one() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let (mut leads, mut follows) = (BySeat::oracle(&a), BySeat::oracle(&b));
    let epoch = granted(&mut leads).await.term.epoch;
    let (mut led, mut followed) = (leads.signals(), follows.signals());
    // How it is, in the beginning.
    assert_eq!((notices(&mut led).await, notices(&mut followed).await), (Signal::Wakeup, Signal::Wakeup));
    assert!(is_quiet(&mut led).await && is_quiet(&mut followed).await);
    BySeat::depose(&a).await;
    until("b leads", || b.status().leads).await;
    assert_eq!(notices(&mut led).await, Signal::Revoked { epoch });
    assert_eq!(notices(&mut followed).await, Signal::Wakeup);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_alone_has_no_rivals_and_one_of_two_has() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    assert_eq!(ByName::oracle(&a).rivals().await, Ok(false));
    assert_eq!(BySeat::oracle(&a).rivals().await, Ok(false));
    let b = cluster.node("b").await;
    until("all are synced", || [&a, &b].iter().all(|node| node.members().iter().all(|m| m.synced))).await;
    for node in [&a, &b] {
        assert_eq!(ByName::oracle(node).rivals().await, Ok(true));
        assert_eq!(BySeat::oracle(node).rivals().await, Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_a_name_to_lead_looks_at_it_twice_a_beat_and_leaves_nothing_behind() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let mut oracle = ByName::oracle(&a);
    let grant = granted(&mut oracle).await;
    assert_eq!(grant.refresh_in, Some(a.node.config.session.beat_every / 2));
    let seat = pid(&a);
    assert_eq!(oracle.abdicate(&grant).await, Ok(true));
    until("the actor that held it has ended", || !lives(seat)).await;

    // Its name was taken away.
    let grant = granted(&mut oracle).await;
    let seat = pid(&a);
    ByName::depose(&a).await;
    assert_eq!(oracle.abdicate(&grant).await, Ok(false));
    until("the actor that held it has ended", || !lives(seat)).await;

    granted(&mut oracle).await;
    drop(oracle);
    until("the name is free", || a.lookup(SEAT) == Ok(None)).await;
    for named in ["", &"x".repeat(513)] {
        assert!(RegistryOracle::new(&a, named).is_err());
        assert!(Monitored::new(BySeat::oracle(&a), &a, named, None).is_err());
    }
    assert_eq!(RegistryOracle::new(&a, "").err(), Some(BadName::Empty));
}

#[tokio::test(start_paused = true)]
async fn a_seat_whose_actor_ends_is_granted_anew_and_the_former_grant_is_denied() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let mut oracle = ByName::oracle(&a);
    let first = granted(&mut oracle).await;
    assert_eq!(refused(&mut ByName::oracle(&b)).await, Refusal::Held);
    let seat = ractor::registry::where_is_pid(ActorId::Local(pid(&a))).unwrap();
    seat.drain().unwrap();
    // It is refused for as long as that actor is there, which may be over before anybody looks.
    let second = granted(&mut oracle).await;
    assert!(second.term.epoch > first.term.epoch);
    assert!(matches!(oracle.refresh(ATTEMPT, &second).await, Ok(Verdict::Granted(_))));
    assert!(matches!(oracle.refresh(ATTEMPT, &first).await, Ok(Verdict::Denied(_))));
}

fn maybe_committed<T: std::fmt::Debug>(outcome: Result<T, Fault>) -> bool {
    match outcome {
        Err(Fault::Transient { maybe_committed, .. }) => maybe_committed,
        other => panic!("it was not known: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_store_that_is_gone_leaves_open_is_called_so_and_nothing_else_is() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let (mut by_name, mut by_seat) = (ByName::oracle(&a), BySeat::oracle(&a));
    let grants = (granted(&mut by_name).await, granted(&mut by_seat).await);
    let mut late = RegistryOracle::new(&a, "late").unwrap();

    let hold = cluster.store.connect("a").hold_commits();
    assert!(maybe_committed(late.claim(ATTEMPT).await), "it is on its way");
    drop(hold);
    cluster.store.outage_for_all();
    until("it has lapsed", || a.lookup(SEAT).is_err()).await;
    assert!(!maybe_committed(late.claim(ATTEMPT).await), "nothing is asked");
    assert!(!maybe_committed(by_name.refresh(ATTEMPT, &grants.0).await), "it only looks");
    assert!(!maybe_committed(by_seat.claim(ATTEMPT).await), "it only reads");
    assert!(!maybe_committed(by_seat.refresh(ATTEMPT, &grants.1).await), "it only reads");
}

#[tokio::test(start_paused = true)]
async fn a_monitor_looks_for_the_leader_while_its_oracle_is_denied_and_not_before_or_after() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let mut holds = ByName::oracle(&b);
    let grant = granted(&mut holds).await;
    until("a knows", || a.lookup(SEAT).is_ok_and(|entry| entry.is_some())).await;

    let events = std::sync::Arc::<std::sync::Mutex<Vec<&'static str>>>::default();
    let seen = events.clone();
    let settings = MonitorSettings::default();
    let monitored = Monitored::new(ByName::oracle(&a), &a, SEAT, settings).unwrap();
    let mut monitored = monitored.observed_by(move |event| {
        seen.lock().unwrap().push(match event {
            MonitorEvent::Started { .. } => "started",
            MonitorEvent::Failed { .. } => "failed",
            MonitorEvent::Timeout { .. } => "timeout",
            MonitorEvent::LeaderDown { .. } => "down",
        });
    });
    let mut signals = monitored.signals();
    let said = || std::mem::take(&mut *events.lock().unwrap());
    assert!(is_quiet(&mut signals).await);
    assert_eq!(said(), [""; 0], "nobody was asked for the seat yet");
    assert_eq!(refused(&mut monitored).await, Refusal::Held);
    assert!(is_quiet(&mut signals).await);
    assert_eq!(said(), ["started"]);
    assert_eq!(holds.abdicate(&grant).await, Ok(true));
    assert_eq!(notices(&mut signals).await, Signal::Wakeup);
    until("it is seen to be gone", || events.lock().unwrap().contains(&"down")).await;
    assert_eq!(said(), ["down"]);

    // It leads: nobody is looked for.
    let led = granted(&mut monitored).await;
    tokio::time::sleep(settings.timeout * 2).await;
    assert_eq!(said(), [""; 0]);
    // Until it is denied again, be it by a refresh.
    ByName::depose(&a).await;
    granted(&mut holds).await;
    until("a knows", || a.lookup(SEAT).is_ok_and(|entry| entry.is_some_and(|e| e.node().as_str() == "b")))
        .await;
    assert!(matches!(monitored.refresh(ATTEMPT, &led).await, Ok(Verdict::Denied(_))));
    until("it is watched", || *events.lock().unwrap() == ["started"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_term_may_be_over_if_it_was_asked_to_be_given_back_and_is_not_if_nobody_could_be_asked() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let mut oracle = ByName::oracle(&a);
    let grant = granted(&mut oracle).await;
    let hold = cluster.store.connect("a").hold_commits();
    assert!(maybe_committed(oracle.abdicate(&grant).await), "it is on its way");
    drop(hold);

    let cluster = Cluster::new();
    let b = Registry::join(cluster.config("b").on_outage(OnOutage::Fail)).await.unwrap();
    assert!(b.ready(TEST_DEADLINE).await.is_ok());
    let mut oracle = ByName::oracle(&b);
    let grant = granted(&mut oracle).await;
    cluster.store.outage_for_all();
    until("it has lapsed", || b.lookup(SEAT).is_err()).await;
    assert!(!maybe_committed(oracle.abdicate(&grant).await), "nothing is asked");
}

#[tokio::test(start_paused = true)]
async fn a_claim_by_name_does_not_wait_for_the_end_of_an_outage_also_where_other_calls_do() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let mut oracle = ByName::oracle(&a);
    cluster.store.outage_for_all();
    until("it has lapsed", || a.lookup(SEAT).is_err()).await;
    let before = tokio::time::Instant::now();
    assert!(!maybe_committed(oracle.claim(ATTEMPT).await));
    assert_eq!(before.elapsed(), std::time::Duration::ZERO, "it has waited");
}
