//! What drivers owe to those who wait, and what they must not keep.

use std::time::Duration;

use callsign_store::{Store, Transaction, keys::RegistryKeys};
use callsign_transport::{Lane, LinkLimits, SendError};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    LookupError, Position, RegisterError, RegisterOptions, Registry, Select, WaitError, WhereisError,
    core::{input::CallId, table::Table},
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

#[tokio::test(start_paused = true)]
async fn a_request_that_found_its_link_full_is_sent_again_as_soon_as_there_is_room() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let limits = LinkLimits::default().with(|limits| {
        (limits.frame, limits.control_queue, limits.bulk_queue) = (64 << 10, 64 << 10, 64 << 10);
    });
    let b = Registry::join(cluster.config("b").link_limits(limits)).await.unwrap();
    assert!(b.ready(TEST_DEADLINE).await.is_ok() && a.status().leads);
    // Long enough for a time that lies before the request.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (to_a, _) = b.node.endpoint.link_to("a").unwrap();
    cluster.network.hold(Cluster::address("b"), Cluster::address("a"));
    // Until not even a small message finds room.
    for size in [16 << 10, 16] {
        let full = loop {
            if let Err(error) = b.node.endpoint.send(to_a, Lane::Control, "others", vec![0; size].into()) {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert!(matches!(full, SendError::QueueFull { .. }), "{full:?}");
    }
    let actor = counter().await;
    // Less than it takes until what was sent and not answered is asked again.
    let options = RegisterOptions { wait: Some(Duration::from_millis(1900)), ..RegisterOptions::default() };
    let (registered, ()) = tokio::join!(b.register_with("x", &actor, options), async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        cluster.network.heal(Cluster::address("b"), Cluster::address("a"));
    });
    assert_eq!(registered.map(drop), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_read_is_counted_for_whoever_looks_after_the_cluster() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    cluster.network.cut(Cluster::address("a"), Cluster::address("b"));
    // It is to find the garbage, not what was there before.
    cluster.store.connect("b").outage();
    let position = a.register("x", &counter().await).await.unwrap().token();
    let keys: &RegistryKeys = &a.shared.keys;
    let garbage = Transaction::new().put(keys.log(position), b"garbage".to_vec());
    cluster.store.connect("a").commit(garbage).await;
    cluster.store.connect("b").heal();
    let seen = b.lookup_consistent("x", Duration::from_secs(5)).await;
    assert!(seen.is_err(), "nothing is known of what cannot be read: {seen:?}");
    let corrupt = || {
        let counted = counted.render();
        counted
            .lines()
            .any(|line| line.starts_with("callsign_registry_events_total") && line.contains("corrupt"))
    };
    until("it is counted", corrupt).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_name_that_was_given_up() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let actor = counter().await;
    for round in 0..20 {
        let name = format!("n{round}");
        node.register(&name, &actor).await.unwrap();
        assert_eq!(node.shared.kept(), (1, 1));
        node.unregister(&name).await.unwrap();
        until("nothing is kept", || node.shared.kept() == (0, 0)).await;
    }
    // Nor of one that was refused.
    node.register("x", &actor).await.unwrap();
    let refused = node.register("x", &counter().await).await;
    assert!(matches!(refused, Err(RegisterError::Taken { .. })));
    until("only the holder is watched", || node.shared.kept() == (1, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_known_any_more_has_ended() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    assert!(node.shared.flag_of(CallId(u64::MAX)).has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_failed_is_not_shown_as_one_that_leads() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let gauges = || -> Vec<String> {
        let counted = counted.render();
        let of = |gauge: &str| {
            let line = counted.lines().find(|line| line.starts_with(gauge));
            line.and_then(|line| line.rsplit(' ').next()).unwrap_or("none").to_owned()
        };
        ["callsign_registry_leader{", "callsign_registry_synced{"].into_iter().map(of).collect()
    };
    assert_eq!(gauges(), ["1", "1"]);
    a.node.supervisor.fail("a part", "it says so".to_owned());
    until("it is shown", || gauges() == ["0", "0"]).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_when_the_node_leaves_is_told_at_once() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let waiting = node.clone();
    let waits = async move {
        let far = callsign_store::ids::Position(1 << 30);
        waiting.wait_for(far, Duration::from_secs(3600)).await
    };
    let waits = tokio::spawn(waits);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waits.is_finished());
    node.leave().await.unwrap();
    let told = tokio::time::timeout(TEST_DEADLINE, waits).await;
    assert_eq!(told.expect("it waits for what nobody will say").unwrap(), Err(WaitError::Left));
}

#[tokio::test(start_paused = true)]
async fn others_are_told_the_address_that_a_node_is_to_be_reached_at() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let config = cluster.config("b").advertise("b.example:7077").admin_address("http://b.example:80");
    let b = Registry::join(config).await.unwrap();
    assert!(b.ready(TEST_DEADLINE).await.is_ok());
    let told = || {
        a.members().iter().any(|member| {
            member.address == "b.example:7077" && member.admin.as_deref() == Some("http://b.example:80")
        })
    };
    until("a knows where b is", told).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_given_what_was_read_while_the_replica_came_or_went() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    // Nothing else of this node runs before the next await.
    assert_eq!(a.read(|_| a.shared.set_synced(false)), Err(LookupError::NotSynced));
    assert_eq!(a.read(|_| a.shared.set_synced(true)), Err(LookupError::NotSynced));
    a.shared.set_synced(true);
    assert_eq!(a.read(crate::driver::shared::TableReader::count), Ok(0));
}

/// A member that has fallen too far behind hides all rows at once, and says only at the end of its turn that it is not synced.
#[tokio::test(start_paused = true)]
async fn nobody_is_told_that_there_is_nothing_while_a_replica_gives_its_rows_up_for_those_of_a_snapshot() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let (actor, room) = (counter().await, a.group::<Counter>("room"));
    a.register("x", &actor).await.unwrap();
    room.join(&actor, None).await.unwrap();
    assert_eq!((a.count(), room.count()), (Ok(2), Ok(1)));
    // Nothing else of this node runs, as nothing is awaited.
    let session = a.lookup("x").unwrap().unwrap().session_id();
    a.shared.table.writer().hide(&session, Position(u64::MAX), 2);
    assert!(a.status().synced);
    assert_eq!(a.lookup("x"), Err(LookupError::NotSynced));
    let found = a.whereis::<Counter>("x");
    assert!(matches!(found, Err(WhereisError::Lookup(LookupError::NotSynced))), "{found:?}");
    assert_eq!((a.count(), a.names()), (Err(LookupError::NotSynced), Err(LookupError::NotSynced)));
    assert_eq!(a.select(&Select::all()), Err(LookupError::NotSynced));
    assert_eq!((room.count(), room.members()), (Err(LookupError::NotSynced), Err(LookupError::NotSynced)));
}

#[tokio::test(start_paused = true)]
async fn a_node_of_two_registries_ends_without_a_store_though_one_waits_longer_than_the_other() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let second = node.join_beside("second").await.unwrap();
    assert!(second.ready(TEST_DEADLINE).await.is_ok());
    cluster.store.outage_for_all();
    // What was asked in one of them is not decided.
    let options = RegisterOptions::default().wait(Duration::from_millis(1500));
    let asked = node.register_with("desk", &counter().await, options).await;
    assert!(matches!(asked, Err(RegisterError::Unknown { .. })), "{asked:?}");
    let left = tokio::time::timeout(TEST_DEADLINE, node.leave()).await;
    assert!(left.expect("it ends").is_err(), "and knows that the session may be open");
}
