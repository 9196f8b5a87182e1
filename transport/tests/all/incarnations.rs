//! Who counts as a node's present incarnation, and how the dead are noticed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::time::Duration;

use crate::support::*;
use callsign_transport::{Carrier, DownReason, EndpointConfig, PeerId, Refused};

async fn a_peer_that_falls_silent_in_one_direction_is_noticed_by_its_heartbeat(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    let (mut at_a, mut at_b) = (a.subscribe(CHANNEL), b.subscribe(CHANNEL));
    link(&a, &b).await;
    up(&mut at_a).await;
    up(&mut at_b).await;
    faults.hold(address(&b), address(&a));
    assert_eq!(down(&mut at_a).await.2, DownReason::Silent);
    // The other direction works: "a" closed the connection, and "b" sees it.
    assert_eq!(down(&mut at_b).await.2, DownReason::Closed);
    faults.heal(address(&a), address(&b));
    assert_eq!(up(&mut at_a).await.0, *b.peer_id());
    assert_eq!(up(&mut at_b).await.0, *a.peer_id());
}

async fn both_sides_of_a_link_that_is_dead_in_both_directions_notice_by_themselves(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    let (mut at_a, mut at_b) = (a.subscribe(CHANNEL), b.subscribe(CHANNEL));
    link(&a, &b).await;
    up(&mut at_a).await;
    up(&mut at_b).await;
    faults.hold(address(&b), address(&a));
    faults.hold(address(&a), address(&b));
    assert_eq!(down(&mut at_a).await.2, DownReason::Silent);
    assert_eq!(down(&mut at_b).await.2, DownReason::Silent);
    faults.heal(address(&a), address(&b));
    assert_eq!(up(&mut at_a).await.0, *b.peer_id());
}

async fn an_idle_link_stays_up(carrier: Carrier) {
    let (a, b) = pair(&memory(carrier).1).await;
    let id = link(&a, &b).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(a.link_to("b"), Some((id, b.peer_id().clone())));
}

async fn a_new_incarnation_evicts_the_old_one_which_stays_out_though_it_lives_and_dials(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, old) = pair(&network).await;
    let mut events = a.subscribe(CHANNEL);
    let first = link(&a, &old).await;
    up(&mut events).await;
    let mut at_old = old.subscribe(CHANNEL);
    up(&mut at_old).await;

    // Incarnation 1 after 2: the number says nothing.
    let new = start(config("b", 1, &network)).await;
    dial(&new, &[&a]);
    assert_eq!(down(&mut events).await, (old.peer_id().clone(), first, DownReason::Evicted));
    let (peer, second) = up(&mut events).await;
    assert_eq!(peer, *new.peer_id());
    assert_eq!(down(&mut at_old).await.2, DownReason::Evicted);

    // The old one dials again, and is told.
    assert_eq!(refused(&old, |why| *why == Refused::Superseded).await, Refused::Superseded);
    assert_eq!(refused(&a, |why| *why == Refused::Superseded).await, Refused::Superseded);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(a.link_to("b"), Some((second, new.peer_id().clone())));
    assert!(old.links().is_empty());
}

async fn a_stopped_incarnation_that_goes_on_does_not_come_back(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, old) = pair(&network).await;
    let mut events = a.subscribe(CHANNEL);
    link(&a, &old).await;
    up(&mut events).await;
    // Stopped, as far as anybody can see.
    faults.hold(address(&a), address(&old));
    faults.hold(address(&old), address(&a));
    assert_eq!(down(&mut events).await.2, DownReason::Silent);
    let new = start(config("b", 7, &network)).await;
    dial(&new, &[&a]);
    assert_eq!(up(&mut events).await.0, *new.peer_id());
    faults.heal(address(&a), address(&old));
    refused(&old, |why| *why == Refused::Superseded).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(a.link_to("b").map(|(_, peer)| peer), Some(new.peer_id().clone()));
}

async fn an_evicted_dialled_node_is_left_for_the_one_at_the_new_address(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (old, b) = pair(&network).await;
    let mut events = b.subscribe(CHANNEL);
    up(&mut events).await;
    let new = start(config("a", 9, &network)).await;
    dial(&b, &[&new]);
    assert_eq!(down(&mut events).await.2, DownReason::Evicted);
    assert_eq!(up(&mut events).await.0, PeerId::new("a", 9));
    dial(&b, &[&old]);
    refused(&b, |why| *why == Refused::Superseded).await;
    assert_eq!(b.link_to("a").map(|(_, peer)| peer), Some(PeerId::new("a", 9)));
}

async fn who_knows_better_brings_the_right_incarnation_back(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, first) = pair(&network).await;
    link(&a, &first).await;
    let zombie = start(config("b", 9, &network)).await;
    dial(&zombie, &[&a]);
    link(&a, &zombie).await; // it came later, so it looks newer
    a.confirm(first.peer_id());
    link(&a, &first).await;
    refused(&zombie, |why| *why == Refused::Superseded).await;
}

async fn forgetting_a_node_ends_its_link(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    let (mut at_a, mut at_b) = (a.subscribe(CHANNEL), b.subscribe(CHANNEL));
    up(&mut at_a).await;
    up(&mut at_b).await;
    b.set_peers(vec![]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(b.link_to("a").is_some(), "not wanted any more, but up");
    b.forget("a");
    assert_eq!(down(&mut at_b).await.2, DownReason::Forgotten);
    assert_eq!(down(&mut at_a).await.2, DownReason::Forgotten);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(b.link_to("a").is_none());
}

/// Starts "a" and "b" as changed, has "b" dial "a", and returns why each refused the other.
async fn mismatch(
    carrier: Carrier,
    change: impl Fn(&mut EndpointConfig, &mut EndpointConfig),
    fits: impl Fn(&Refused) -> bool + Copy,
) -> (Refused, Refused) {
    let (_, network) = memory(carrier);
    let (mut a, mut b) = (config("a", 1, &network), config("b", 2, &network));
    change(&mut a, &mut b);
    let name = a.node.clone();
    let (a, b) = (start(a).await, start(b).await);
    let mut bystanders = Bystanders::of(&a, &network).await;
    b.set_peers(vec![(name, address(&a).to_string())]);
    let refusals = (refused(&a, fits).await, refused(&b, fits).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    bystanders.assert_unaffected().await;
    assert!(b.links().is_empty());
    refusals
}

async fn a_wrong_secret_is_refused_on_both_sides_and_concerns_nobody_else(carrier: Carrier) {
    let secret = callsign_transport::Secret::new("another secret, long enough").unwrap();
    let (a, b) =
        mismatch(carrier, |_, b| b.keys.secrets = vec![secret.clone()], |why| matches!(why, Refused::Secret))
            .await;
    assert_eq!((a, b), (Refused::Secret, Refused::Secret));
}

async fn another_cluster_is_refused_on_both_sides_and_concerns_nobody_else(carrier: Carrier) {
    let (a, b) =
        mismatch(carrier, |_, b| b.cluster = "test".into(), |why| matches!(why, Refused::Cluster { .. }))
            .await;
    assert_eq!(a, Refused::Cluster { ours: "prod".into(), theirs: "test".into() });
    assert_eq!(b, Refused::Cluster { ours: "test".into(), theirs: "prod".into() });
}

async fn a_node_without_the_secret_is_refused_on_both_sides_and_concerns_nobody_else(carrier: Carrier) {
    use callsign_transport::Security::{Plain, Secured};
    let (a, b) =
        mismatch(carrier, |_, b| b.keys.secrets.clear(), |why| matches!(why, Refused::Security { .. })).await;
    assert_eq!(a, Refused::Security { ours: Secured, theirs: Plain });
    assert_eq!(b, Refused::Security { ours: Plain, theirs: Secured });
}

async fn two_nodes_without_a_secret_talk_on_loopback_and_only_there(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let plain = |node, incarnation, listen: &str| {
        let mut config = config(node, incarnation, &network);
        config.keys.secrets.clear();
        config.listen = listen.parse().unwrap();
        config
    };
    let a = start(plain("a", 1, "127.0.0.1:0")).await;
    let b = start(plain("b", 2, "[::1]:0")).await;
    dial(&b, &[&a]);
    link(&a, &b).await;

    let refused_start = try_start(plain("c", 3, "10.0.0.1:0")).await;
    assert!(matches!(refused_start, Err(callsign_transport::StartError::SecretNeeded { .. })));
    b.set_peers(vec![("a".into(), "10.0.0.1:77".into())]);
    refused(&b, |why| *why == Refused::SecretNeeded).await;
    b.set_peers(vec![]);

    // Nor with those who come from elsewhere, whatever they are.
    let mut elsewhere = config("d", 4, &network);
    elsewhere.listen = "10.0.0.9:0".parse().unwrap();
    let d = start(elsewhere).await;
    dial(&d, &[&a]);
    refused(&a, |why| *why == Refused::SecretNeeded).await;
}

async fn settings_that_cannot_work_are_refused_at_the_start(carrier: Carrier) {
    use callsign_transport::StartError::{BadName, BadSettings, Listen};
    let (_, network) = memory(carrier);
    let with = |change: fn(&mut EndpointConfig)| {
        let mut config = config("a", 1, &network);
        change(&mut config);
        try_start(config)
    };
    assert!(matches!(with(|c| c.node = "a/b".into()).await, Err(BadName { .. })));
    assert!(matches!(with(|c| c.cluster = String::new()).await, Err(BadName { .. })));
    assert!(matches!(with(|c| c.limits.frame = 32 << 20).await, Err(BadSettings { .. })));
    assert!(matches!(with(|c| c.timing.ping = c.timing.silence).await, Err(BadSettings { .. })));
    let first = with(|c| c.listen.set_port(7)).await.unwrap();
    assert!(matches!(with(|c| c.listen.set_port(7)).await, Err(Listen { .. })));
    drop(first);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while with(|c| c.listen.set_port(7)).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the address is free again");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_is_given_up_at_the_deadline_and_dialled_again() {
    let (faults, network) = memory(Carrier::Connection);
    let (a, b) = (start(config("a", 1, &network)).await, start(config("b", 2, &network)).await);
    faults.hold(address(&b), address(&a));
    dial(&b, &[&a]);
    let begun = tokio::time::Instant::now();
    refused(&b, |why| *why == Refused::Deadline).await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "after {:?}", begun.elapsed());
    faults.heal(address(&a), address(&b));
    link(&b, &a).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_listens_no_more_though_a_peer_keeps_it_waiting() {
    let (faults, network) = memory(Carrier::Connection);
    let (a, b) = pair(&network).await;
    tokio::join!(link(&a, &b), link(&b, &a));
    faults.hold(address(&a), address(&b));
    faults.hold(address(&b), address(&a));
    let leaving = tokio::spawn({
        let a = a.clone();
        async move { a.leave().await }
    });
    tokio::task::yield_now().await;
    let c = start(config("c", 3, &network)).await;
    dial(&c, &[&a]);
    refused(&c, |_| true).await;
    assert!(!leaving.is_finished(), "it waits for the other one");
    assert!(c.refusals().iter().all(|refusal| matches!(refusal.why, Refused::Unreachable(_))));
}

suite! {
    paused: [
        a_peer_that_falls_silent_in_one_direction_is_noticed_by_its_heartbeat,
        both_sides_of_a_link_that_is_dead_in_both_directions_notice_by_themselves,
        an_idle_link_stays_up,
        a_new_incarnation_evicts_the_old_one_which_stays_out_though_it_lives_and_dials,
        a_stopped_incarnation_that_goes_on_does_not_come_back,
        an_evicted_dialled_node_is_left_for_the_one_at_the_new_address,
        who_knows_better_brings_the_right_incarnation_back,
        forgetting_a_node_ends_its_link,
        a_wrong_secret_is_refused_on_both_sides_and_concerns_nobody_else,
        another_cluster_is_refused_on_both_sides_and_concerns_nobody_else,
        a_node_without_the_secret_is_refused_on_both_sides_and_concerns_nobody_else,
        two_nodes_without_a_secret_talk_on_loopback_and_only_there,
        settings_that_cannot_work_are_refused_at_the_start,
    ];
}
