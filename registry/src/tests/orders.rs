//! In which order those are told who wait, and what is left of a node that has left.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_transport::{Lane, LinkLimits};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    AcquireError, ConfigureError, JoinError, LookupError, OnOutage, RegisterOptions, Registry, Select,
    Settings, StartOptions, Started, UnregisterError, UpdateError, WaitError,
    core::input::CallId,
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

#[tokio::test(start_paused = true)]
async fn right_after_a_node_has_joined_nothing_is_said_not_to_be_there() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let other = node.join_beside("other").await.unwrap();
    assert_eq!(other.lookup("x"), Err(LookupError::NotSynced));
    assert_eq!(other.names(), Err(LookupError::NotSynced));
    assert_eq!(other.count(), Err(LookupError::NotSynced));
    assert_eq!(other.select(&Select::all()), Err(LookupError::NotSynced));
    assert_eq!(other.group::<Counter>("g").members().err(), Some(LookupError::NotSynced));
}

/// More than one, so that no other order is theirs by chance.
const MANY: usize = 16;

#[tokio::test(start_paused = true)]
async fn when_a_node_fails_those_who_listen_and_those_who_wait_are_told_in_their_order() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (told, ended) = (Arc::<Mutex<Vec<usize>>>::default(), Arc::<Mutex<Vec<usize>>>::default());
    let mut actors = Vec::new();
    for n in 0..MANY {
        let (actor, told) = (counter().await, told.clone());
        let options = RegisterOptions::default().tell(move |_| told.lock().unwrap().push(n));
        node.register_with(&format!("n{n}"), &actor, options).await.unwrap();
        actors.push(actor);
    }
    let mut waiting = Vec::new();
    for n in 0..MANY {
        let (node, ended) = (node.clone(), ended.clone());
        waiting.push(tokio::spawn(async move {
            let far = callsign_store::ids::Position(1 << 30);
            let waited = node.wait_for(far, Duration::from_secs(3600)).await;
            ended.lock().unwrap().push(n);
            waited
        }));
        tokio::task::yield_now().await;
    }
    let asks = tokio::spawn({
        let node = node.clone();
        async move { node.configure(Settings::default().silence(TEST_DEADLINE / 10), TEST_DEADLINE).await }
    });
    cluster.store.outage_for_all();
    tokio::task::yield_now().await;
    node.node.supervisor.fail("a part", "it says so".to_owned());
    let in_order: Vec<_> = (0..MANY).collect();
    assert_eq!(*told.lock().unwrap(), in_order);
    for waits in waiting {
        assert!(matches!(waits.await.unwrap(), Err(WaitError::Failed(_))));
    }
    assert_eq!(*ended.lock().unwrap(), in_order);
    let asked = tokio::time::timeout(TEST_DEADLINE, asks).await.unwrap().unwrap();
    assert!(matches!(asked, Err(ConfigureError::Failed(_))), "{asked:?}");
    assert!(actors.iter().all(|actor| actor.get_status() == ractor::ActorStatus::Running), "they were told");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_place_hears_that_the_node_fails_and_of_one_given_up_nothing_is_kept() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let keeps = |node: &Registry| (1..100).any(|call| node.shared.holding.of(CallId(call)).is_some());
    let held = node.lock("x").acquire().await.unwrap();
    assert!(keeps(&node));
    held.release().await.unwrap();
    until("nothing is kept", || !keeps(&node) && node.shared.kept() == (0, 0)).await;

    let _held = node.lock("x").acquire().await.unwrap();
    let lock = node.lock("x");
    let waits = tokio::spawn(async move { lock.acquire().await.map(drop) });
    until("it waits", || node.shared.kept().0 == 2).await;
    node.node.supervisor.fail("a part", "it says so".to_owned());
    let waited = tokio::time::timeout(TEST_DEADLINE, waits).await.expect("it is told").unwrap();
    assert_eq!(waited, Err(AcquireError::Lost));
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_of_a_node_that_leaves_has_an_end() {
    let (cluster, dir) = (Cluster::new(), tempfile::tempdir().unwrap());
    let node = Registry::join(cluster.config("a").record(dir.path())).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    node.register("x", &counter().await).await.unwrap();
    node.leave().await.unwrap();
    // An empty frame, as long as four zeros.
    let files = || {
        let files = std::fs::read_dir(dir.path()).unwrap().map(|file| std::fs::read(file.unwrap().path()));
        files.map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(files().len(), 3, "of the session, the elector and the member");
    until("they have ended", || files().iter().all(|file| file.ends_with(&[0; 4]))).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_left_runs_nothing_any_more() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let cluster = Cluster::new();
    let before = alive();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let actor = counter().await;
    a.register("x", &actor).await.unwrap();
    until("b has it", || b.lookup("x").is_ok_and(|entry| entry.is_some())).await;
    let found: ractor::ActorRef<Counter> = b.whereis("x").unwrap();
    found.cast(Counter::Add(callsign_transport::P(1))).unwrap();
    let mut watch = a.watch(Select::all()).unwrap();
    for node in [a, b] {
        node.leave().await.unwrap();
    }
    actor.stop(None);
    while watch.next().await.is_some() {}
    drop((watch, found));
    until("nothing runs", || alive() == before).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_join_leaves_nothing_running() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let cluster = Cluster::new();
    let before = alive();
    cluster.store.outage_for_all();
    let config = cluster.config("a").join_timeout(Duration::from_secs(1));
    let refused = Registry::join(config).await.map(drop);
    assert!(matches!(refused, Err(JoinError::StoreUnavailable(_))), "{refused:?}");
    until("nothing is left of it", || alive() == before).await;
    // Where a name is wrong nothing is asked of the store.
    let refused = Registry::join(cluster.config("a").registry("")).await.map(drop);
    assert!(matches!(refused, Err(JoinError::BadName(_))), "{refused:?}");
}

/// A node that follows, on a link with little room, and how many of its messages found none.
async fn with_little_room(cluster: &Cluster) -> Registry {
    let limits = LinkLimits::default().with(|limits| {
        (limits.frame, limits.control_queue, limits.bulk_queue) = (64 << 10, 64 << 10, 64 << 10);
    });
    let b = Registry::join(cluster.config("b").link_limits(limits)).await.unwrap();
    assert!(b.ready(TEST_DEADLINE).await.is_ok());
    b
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_behind_what_is_bulky_and_one_without_room_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let failed = || {
        let seen = callsign_golden::Seen::by(&counted);
        seen.get("callsign_registry_link_events_total", "registry=default,event=send_failed")
    };
    for lane in [Lane::Bulk, Lane::Control] {
        let cluster = Cluster::new();
        let a = cluster.node("a").await;
        let b = with_little_room(&cluster).await;
        assert!(a.status().leads);
        let (to_a, _) = b.node.endpoint.link_to("a").unwrap();
        let before = failed();
        cluster.network.hold(Cluster::address("b"), Cluster::address("a"));
        // Until not even a small message finds room.
        for size in [16 << 10, 16] {
            while b.node.endpoint.send(to_a, lane, "others", vec![0; size].into()).is_ok() {
                tokio::task::yield_now().await;
            }
        }
        let actor = counter().await;
        let (registered, ()) = tokio::join!(b.register("x", &actor), async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            cluster.network.heal(Cluster::address("b"), Cluster::address("a"));
        });
        registered.unwrap();
        assert_eq!(failed() > before, lane == Lane::Control, "{lane:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_wait_for_a_store_that_is_gone_is_told_by_all_that_writes() {
    let cluster = Cluster::new();
    let node = Registry::join(cluster.config("a").on_outage(OnOutage::Fail)).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let (kept, member) = (counter().await, counter().await);
    let told = || RegisterOptions::default().tell(|_| ());
    let held = node.register_with("x", &kept, told()).await.unwrap();
    let joined = node.group::<Counter>("g").join_with(&member, told()).await.unwrap();
    cluster.store.outage_for_all();
    until("it has lapsed", || node.lookup("x").is_err()).await;
    let begun = tokio::time::Instant::now();
    let updated = held.update(None, None).await;
    assert!(matches!(updated, Err(UpdateError::StoreUnavailable { .. })), "{updated:?}");
    let left = node.group::<Counter>("g").leave(&joined).await;
    assert!(matches!(left, Err(UnregisterError::StoreUnavailable { .. })), "{left:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "it has waited");
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_an_actor_that_has_ended_is_started_under_its_name_at_once() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    for node in [&a, &b] {
        for round in 0..10 {
            let name = format!("{}-{round}", node.node());
            let actor = counter().await;
            let first = node.register(&name, &actor).await.unwrap();
            actor.stop_and_wait(None, None).await.unwrap();
            let started = node.start(&name, |_| async { Ok(counter().await) }).await.unwrap();
            let Started::Ours(second) = started else { panic!("{started:?}") };
            assert!(second.token() > first.token() && second.check().is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_starts_a_name_waits_as_long_as_it_said_for_the_start_of_another() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let slow = tokio::spawn(async move {
        let start = |_| async {
            tokio::time::sleep(Duration::from_secs(25)).await;
            Ok(counter().await)
        };
        a.start("x", start).await.map(drop)
    });
    until("it is started", || b.lookup("x").is_ok_and(|entry| entry.is_some())).await;
    let mut options = StartOptions::default();
    (options.wait, options.limit) = (Some(Duration::from_secs(30)), Some(Duration::from_secs(1)));
    let started = b.start_with("x", options, |_| async { Ok(counter().await) }).await;
    assert!(matches!(started, Ok(Started::Theirs(_))), "{started:?}");
    slow.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn as_many_bytes_are_counted_where_they_come_as_where_they_are_sent() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let bytes = |direction| {
        let seen = callsign_golden::Seen::by(&counted);
        seen.get("callsign_registry_message_bytes_total", &format!("registry=default,direction={direction}"))
    };
    let cluster = Cluster::new();
    let [_a, b] = [cluster.node("a").await, cluster.node("b").await];
    b.register("x", &counter().await).await.unwrap();
    until("all have come", || bytes("sent") > 0 && bytes("sent") == bytes("received")).await;
}
