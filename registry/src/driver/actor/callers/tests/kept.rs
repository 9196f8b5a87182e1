//! What a member keeps of names, watches and actors: once, in its order, and no longer than it is of use.

use callsign_store::ids::{Position, SessionNumber};

use super::*;
use crate::{
    core::input::Granted,
    driver::registration::{HeldClaim, Registration},
};

#[tokio::test(start_paused = true)]
async fn a_function_that_is_given_again_for_the_same_name_is_kept_once() {
    let node = Cluster::new().node("a").await;
    let (actor, options) = (counter().await, RegisterOptions::default().tell(|_| ()));
    for _ in 0..3 {
        node.register_with("x", &actor, options.clone()).await.unwrap();
    }
    let listeners = || -> Vec<usize> {
        let claims = lock(&node.shared.claims);
        claims.values().map(|kept| kept.listeners().len()).collect()
    };
    until("it is kept once", || listeners() == [1]).await;
}

#[tokio::test(start_paused = true)]
async fn of_functions_that_are_given_again_and_again_the_last_ones_are_told() {
    let node = Cluster::new().node("a").await;
    let (actor, told) = (counter().await, Arc::<Mutex<Vec<u64>>>::default());
    for number in 1..=100 {
        let told = told.clone();
        let options = RegisterOptions::default().tell(move |_| lock(&told).push(number));
        node.register_with("x", &actor, options).await.unwrap();
    }
    node.node.supervisor.fail("a part", "it says so".to_owned());
    until("they are told", || !lock(&told).is_empty()).await;
    assert_eq!(*lock(&told), (85..=100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_is_given_nothing_more() {
    let node = Cluster::new().node("a").await;
    let (id, mut events) = node.shared.watches.open();
    assert!(events.recv().now_or_never().is_none(), "it is open");
    node.shared.watches.close(id);
    assert!(matches!(events.recv().now_or_never(), Some(None)), "nobody is there who could give more");
}

#[tokio::test(start_paused = true)]
async fn actors_that_nobody_tells_that_their_node_has_failed_are_stopped_in_their_order() {
    let node = Cluster::new().node("a").await;
    let ended = Arc::<Mutex<Vec<u64>>>::default();
    let mut tasks = Vec::new();
    for number in 1..=MANY {
        let (actor, task) = Actor::spawn(None, Ends(number, ended.clone()), ()).await.unwrap();
        node.shared.watched.add(actor.get_id().pid(), actor.get_cell());
        // It waits for its first message, so that it is the stop that wakes it.
        until("it runs", || actor.get_status() == ractor::ActorStatus::Running).await;
        tasks.push(task);
    }
    node.node.supervisor.fail("a part", "it says so".to_owned());
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*lock(&ended), (1..=MANY).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_member_of_a_node_that_fails_ends_at_once_though_the_session_cannot_be_closed() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let member = lock(&node.shared.actor).clone().unwrap();
    cluster.store.outage_for_all();
    let begun = tokio::time::Instant::now();
    node.node.supervisor.fail("a part", "it says so".to_owned());
    member.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
    assert_eq!(begun.elapsed(), Duration::ZERO, "it has not waited for the store");
}

#[tokio::test(start_paused = true)]
async fn a_registration_of_a_former_session_never_holds_again_and_one_of_a_later_session_may_yet() {
    let node = Cluster::new().node("a").await;
    let SessionNumber(present) = node.shared.trust.check().unwrap();
    let check = |session: u64| {
        let (token, session) = (Position(1), SessionNumber(session));
        let granted = Granted { token, revision: token, session, claim: CallId(1) };
        let held = HeldClaim { granted, flag: Flag::default() };
        Registration::new("x".into(), held, node.shared.clone()).check()
    };
    let checks = [present - 1, present, present + 1].map(check);
    assert_eq!(checks, [Err(NotHeld::Ended), Ok(()), Err(NotHeld::NotTrusted)]);
}
