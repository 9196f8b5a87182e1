//! Watches over the drivers, and waiting for a name.

use std::{collections::BTreeMap, time::Duration};

use futures::{FutureExt, StreamExt, future::join_all};

use crate::{
    LookupError, Meta, RegisterOptions, Registry, Select, UntilError, Watch, WatchError, WatchEvent, Why,
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

/// An event in short.
fn short(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Present { name, .. } => name.to_string(),
        WatchEvent::Change(change) => {
            let (was, now) = (change.was.is_some(), change.now.is_some());
            let sign = match (was, now) {
                (false, _) => "+",
                (true, false) => "-",
                (true, true) => "~",
            };
            format!("{sign}{} {}", change.name, change.why)
        }
        WatchEvent::Current { .. } => "current".into(),
        other => format!("{other:?}"),
    }
}

/// The next event that is no bookmark, in short.
async fn next(watch: &mut Watch) -> String {
    loop {
        let event = tokio::time::timeout(TEST_DEADLINE, watch.next()).await.expect("it comes").unwrap();
        if !matches!(event, WatchEvent::Bookmark { .. }) {
            return short(&event);
        }
    }
}

/// What is there without waiting.
fn now(watch: &mut Watch) -> Vec<String> {
    std::iter::from_fn(|| watch.next().now_or_never().flatten())
        .filter(|event| !matches!(event, WatchEvent::Bookmark { .. }))
        .map(|event| short(&event))
        .collect()
}

async fn current(node: &Registry, select: Select) -> Watch {
    let mut watch = node.watch(select).unwrap();
    while next(&mut watch).await != "current" {}
    watch
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_given_before_the_call_that_changed_it_returns() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let first = b.register("shop/first", &counter().await).await.unwrap();
    a.wait_for(first.token(), TEST_DEADLINE).await.unwrap();
    let mut here = current(&b, Select::prefix("shop/")).await;
    let mut there = a.watch(Select::prefix("shop/")).unwrap();
    assert_eq!([next(&mut there).await, next(&mut there).await], ["shop/first", "current"]);

    let actor = counter().await;
    let held = b.register("shop/x", &actor).await.unwrap();
    assert_eq!(now(&mut here), ["+shop/x registered"]);
    held.update(None, Some(Meta::new("eu").unwrap())).await.unwrap();
    assert_eq!(now(&mut here), ["~shop/x updated"]);
    b.register("other", &counter().await).await.unwrap();
    b.unregister("shop/first").await.unwrap();
    assert_eq!(now(&mut here), ["-shop/first unregistered"]);
    actor.stop(None);
    assert_eq!(next(&mut here).await, "-shop/x actor ended");
    for expected in
        ["+shop/x registered", "~shop/x updated", "-shop/first unregistered", "-shop/x actor ended"]
    {
        assert_eq!(next(&mut there).await, expected);
    }
    assert_eq!(here.position(), there.position());
}

#[tokio::test(start_paused = true)]
async fn names_of_a_node_that_leaves_go_and_its_watches_end() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let mut ends = b.watch(Select::all()).unwrap();
    let held = b.register("x", &counter().await).await.unwrap();
    c.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
    let mut watch = current(&c, Select::all()).await;
    b.leave().await.unwrap();
    let gone = next(&mut watch).await;
    assert!(gone.starts_with("-x "), "{gone}");
    // Whatever was given to it comes, and then the end.
    while tokio::time::timeout(TEST_DEADLINE, ends.next()).await.expect("it ends").is_some() {}
    assert_eq!(b.watch(Select::all()).unwrap_err(), WatchError::Left);
    drop(a);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_began_at_a_position_keeps_it_until_more_was_given() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let _watched = current(&node, Select::all()).await;
    let position = node.register("x", &counter().await).await.unwrap().token();
    cluster.store.outage_for_all();
    until("it lapses", || node.lookup("x").is_err()).await;
    let mut watch = node.watch_from(Select::all(), position).unwrap();
    assert_eq!(watch.position(), Some(position));
    assert_eq!(next(&mut watch).await, "Lapsed");
    assert_eq!(watch.position(), Some(position));
    cluster.store.heal_all();
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_here_and_on_another_node() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let _watched = current(&b, Select::all()).await;
    let mut watch = current(&a, Select::all()).await;
    a.register("x", &counter().await).await.unwrap();
    assert_eq!(now(&mut watch), ["+x registered"]);
    let position = watch.position().unwrap();
    drop(watch);
    a.register("y", &counter().await).await.unwrap();
    for node in [&a, &b] {
        let mut watch = node.watch_from(Select::all(), position).unwrap();
        assert_eq!(next(&mut watch).await, "+y registered");
        assert!(watch.position() > Some(position));
    }
    // This one has nothing to go on from.
    let c = cluster.node("d").await;
    let mut watch = c.watch_from(Select::all(), position).unwrap();
    assert_eq!(next(&mut watch).await, "Reset");
    assert_eq!(watch.position(), None);
    let mut names = [next(&mut watch).await, next(&mut watch).await];
    names.sort();
    assert_eq!((names, next(&mut watch).await), (["x".into(), "y".into()], "current".into()));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_late_gets_everything_as_far_as_it_is_remembered() {
    const NAMES: usize = 3000;
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let mut watch = current(&node, Select::all()).await;
    let registered = (0..NAMES).map(async |n| {
        let name = format!("n{n}");
        node.register(&name, &counter().await).await.unwrap()
    });
    let held = join_all(registered).await;
    let mut seen = BTreeMap::new();
    while seen.len() < NAMES {
        match tokio::time::timeout(TEST_DEADLINE, StreamExt::next(&mut watch)).await.expect("it comes") {
            Some(WatchEvent::Change(change)) => {
                assert_eq!(change.why, Why::Registered);
                assert!(seen.insert(change.name.to_string(), change.position).is_none(), "once");
            }
            Some(WatchEvent::Bookmark { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(held.iter().all(|held| seen[held.name()] == held.token()));
}

#[tokio::test(start_paused = true)]
async fn a_node_remembers_for_a_while_after_the_last_watch_is_dropped_and_not_for_ever() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let watch = current(&node, Select::all()).await;
    let position = watch.position().unwrap();
    node.register("x", &counter().await).await.unwrap();
    drop(watch);
    for (waits, first) in [(30, "+x registered"), (120, "Reset")] {
        tokio::time::sleep(Duration::from_secs(waits)).await;
        let mut watch = node.watch_from(Select::all(), position).unwrap();
        assert_eq!(next(&mut watch).await, first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_waited_for_by_a_node_that_does_not_have_all_names_yet() {
    let cluster = Cluster::new();
    let [a, _b, _c] = cluster.three().await;
    let held = a.register("x", &counter().await).await.unwrap();
    let late = Registry::join(cluster.config("d")).await.unwrap();
    assert!(matches!(late.lookup("x"), Err(LookupError::NotSynced)), "{:?}", late.lookup("x"));
    assert_eq!(late.until_held("x", TEST_DEADLINE).await.unwrap().token(), held.token());
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_no_pages() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    for select in [Select::all().after("x"), Select::all().limit(3)] {
        assert_eq!(node.watch(select).unwrap_err(), WatchError::Paged);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_waited_for_until_it_is_held_and_until_it_is_gone() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    a.until_gone("x", TEST_DEADLINE).await.unwrap();
    let short = Duration::from_secs(1);
    let late = a.until_held("x", short).await;
    let name = "x".to_owned();
    assert_eq!(late, Err(UntilError::TimedOut { name, waited: short, lacks: None }));
    assert!(matches!(a.until_held("", short).await, Err(UntilError::Lookup(LookupError::BadName(_)))));

    let actor = counter().await;
    let (held, registered) = tokio::join!(a.until_held("x", TEST_DEADLINE), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        b.register("x", &actor).await.unwrap()
    });
    assert_eq!(held.unwrap().token(), registered.token());
    assert_eq!(a.until_held("x", TEST_DEADLINE).await.unwrap().token(), registered.token(), "at once");
    // It is taken again in no time, and was gone nevertheless.
    let (gone, ()) = tokio::join!(a.until_gone("x", TEST_DEADLINE), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        b.unregister("x").await.unwrap();
        b.register_with("x", &actor, RegisterOptions::default()).await.unwrap();
    });
    gone.unwrap();
    b.leave().await.unwrap();
    assert_eq!(b.until_held("y", TEST_DEADLINE).await, Err(UntilError::Watch(WatchError::Left)));
}

#[tokio::test(start_paused = true)]
async fn a_lapse_is_told_and_nobody_is_said_to_hold_a_name_meanwhile() {
    let cluster = Cluster::new();
    let [a, _b, _c] = cluster.three().await;
    let mut watch = current(&a, Select::all()).await;
    cluster.store.outage_for_all();
    assert_eq!(next(&mut watch).await, "Lapsed");
    let lapsed = a.until_gone("x", Duration::from_secs(1)).await;
    let is_lapse = |lacks: &Option<LookupError>| matches!(lacks, Some(LookupError::Lapsed { .. }));
    assert!(matches!(&lapsed, Err(UntilError::TimedOut { lacks, .. }) if is_lapse(lacks)), "{lapsed:?}");
    cluster.store.heal_all();
    assert_eq!(next(&mut watch).await, "Resumed");
    a.until_gone("x", TEST_DEADLINE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_remembers_for_a_slow_reader_as_much_as_its_configuration_says() {
    let cluster = Cluster::new();
    let config = cluster.config("a").watch_room(2).watch_memory(500);
    let node = Registry::join(config).await.unwrap();
    node.ready(TEST_DEADLINE).await.unwrap();
    let mut watch = current(&node, Select::all()).await;
    for n in 0..50 {
        node.register(&format!("n{n}"), &counter().await).await.unwrap();
    }
    let mut seen: Vec<String> = Vec::new();
    while !seen.last().is_some_and(|last| last == "Lagged" || last == "Reset") {
        seen.push(next(&mut watch).await);
        assert!(seen.len() < 20, "it was too slow: {seen:?}");
    }
}
