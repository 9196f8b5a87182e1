//! What names say of themselves, over the drivers: metadata, its updates, and names selected by it.

use std::collections::BTreeMap;

use crate::{
    Entry, LookupError, Meta, MetaError, OfferError, RegisterError, RegisterOptions, Registration, Registry,
    Select, UnregisterError, UpdateError, WhereisError,
    tests::driver::{Cluster, Other, TEST_DEADLINE, counter, until},
};

fn meta(zone: &str) -> Meta {
    Meta::new(&BTreeMap::from([("zone", zone)])).unwrap()
}

async fn register(node: &Registry, name: &str, zone: Option<&str>) -> Registration {
    let options = RegisterOptions { meta: zone.map(meta), ..RegisterOptions::default() };
    node.register_with(name, &counter().await, options).await.unwrap()
}

fn zone(entry: &Entry) -> Option<String> {
    entry.meta::<BTreeMap<String, String>>().unwrap().and_then(|mut fields| fields.remove("zone"))
}

async fn found(node: &Registry, held: &Registration) -> Entry {
    node.lookup_consistent(held.name(), TEST_DEADLINE).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn metadata_is_read_on_every_node_and_its_holder_replaces_it_under_the_same_token() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let held = register(&b, "x", Some("eu")).await;
    assert_eq!(held.revision(), held.token());
    assert_eq!(zone(&found(&a, &held).await).as_deref(), Some("eu"));

    let revision = held.update(Some(held.revision()), Some(meta("us"))).await.unwrap();
    assert!(revision > held.token());
    // The node of one's own sees it at once, the others when their replica is there.
    let own = b.lookup("x").unwrap().unwrap();
    assert_eq!((own.token(), own.revision(), zone(&own).as_deref()), (held.token(), revision, Some("us")));
    a.wait_for(revision, TEST_DEADLINE).await.unwrap();
    assert_eq!(a.lookup("x").unwrap().unwrap(), own);

    // Somebody who read the revision before it moved is refused.
    let late = held.update(Some(held.revision()), Some(meta("asia"))).await;
    let expected = held.token();
    assert_eq!(late, Err(UpdateError::Changed { name: "x".into(), expected, revision }));
    let said = format!("\"x\" is at revision {revision} now, and {expected} was given: read it again");
    assert_eq!(late.unwrap_err().to_string(), said);
    let cleared = held.update(None, None).await.unwrap();
    let entry = found(&a, &held).await;
    assert_eq!((entry.revision(), entry.raw_meta()), (cleared, None));
    assert_eq!(held.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_holder_without_what_it_says_of_itself() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let held = register(&b, "x", Some("eu")).await;
    assert_eq!(zone(&found(&a, &held).await).as_deref(), Some("eu"));
    let unregistered = a.unregister("x").await;
    let Err(UnregisterError::NotHeldHere { holder: Some(holder), .. }) = unregistered else {
        panic!("{unregistered:?}")
    };
    let offered = a.offer("x", &b.status().node, TEST_DEADLINE).await;
    let Err(OfferError::NotHeldHere { holder: Some(other), .. }) = offered else { panic!("{offered:?}") };
    let met = a.whereis::<Other>("x");
    let Err(WhereisError::Unreachable { entry, .. }) = met else { panic!("{met:?}") };
    cluster.store.outage_for_all();
    until("its session lapses", || matches!(a.lookup("x"), Err(LookupError::Lapsed { .. }))).await;
    let Err(LookupError::Lapsed { last_known: Some(known) }) = a.lookup("x") else { panic!("it was known") };
    for entry in [holder, other, *entry, known] {
        assert_eq!((entry.node().as_str(), entry.raw_meta()), ("b", None));
    }
}

#[tokio::test(start_paused = true)]
async fn to_register_the_same_actor_again_changes_nothing_and_tells_the_revision() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let actor = counter().await;
    let options = RegisterOptions { meta: Some(meta("eu")), ..RegisterOptions::default() };
    let held = b.register_with("x", &actor, options).await.unwrap();
    let revision = held.update(None, Some(meta("us"))).await.unwrap();
    let again = b.register("x", &actor).await.unwrap();
    assert_eq!((again.token(), again.revision()), (held.token(), revision));
    assert_eq!(zone(&found(&b, &held).await).as_deref(), Some("us"));
}

#[tokio::test(start_paused = true)]
async fn what_holds_nothing_updates_nothing() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let held = register(&b, "x", None).await;
    b.unregister("x").await.unwrap();
    let gone = held.update(None, Some(meta("eu"))).await;
    assert_eq!(gone, Err(UpdateError::NotHeld { name: "x".into(), holder: None }));

    let next = register(&a, "x", Some("us")).await;
    b.wait_for(next.token(), TEST_DEADLINE).await.unwrap();
    let Err(UpdateError::NotHeld { holder: Some(holder), .. }) = held.update(None, None).await else {
        panic!("it is another's")
    };
    // Answers carry no metadata.
    assert_eq!((holder.node().as_str(), holder.token(), holder.raw_meta()), ("a", next.token(), None));
    let Err(RegisterError::Taken { holder, .. }) = b.register("x", &counter().await).await else {
        panic!("it is another's")
    };
    assert_eq!((holder.token(), holder.raw_meta()), (next.token(), None));
    assert_eq!(zone(&found(&b, &next).await).as_deref(), Some("us"));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_ends_while_its_update_is_undecided_leaves_its_name_free() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let actor = counter().await;
    let held = b.register("x", &actor).await.unwrap();
    let commits = cluster.store.connect("a").hold_commits();
    let update = held.update(None, Some(meta("eu")));
    let ends = async {
        actor.stop_and_wait(None, None).await.unwrap();
        drop(commits);
    };
    let _ = tokio::join!(update, ends);
    let heir = counter().await;
    assert!(b.register("x", &heir).await.unwrap().token() > held.token());
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_type_or_of_too_many_bytes_is_an_error_of_its_own() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let held = register(&node, "x", Some("eu")).await;
    let entry = found(&node, &held).await;
    assert!(matches!(entry.meta::<u64>(), Err(MetaError::WrongType(_))));
    assert_eq!(Meta::new(&"x".repeat(5_000)), Err(MetaError::TooLarge { bytes: 5_003 }));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_later_has_the_metadata_too() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let large = Meta::new(&"x".repeat(4_000)).unwrap();
    let mut last = None;
    for n in 0..300 {
        let options = RegisterOptions { meta: Some(large.clone()), ..RegisterOptions::default() };
        last = Some(a.register_with(&format!("n{n:03}"), &counter().await, options).await.unwrap());
    }
    let held = last.unwrap();
    let revision = held.update(None, Some(meta("eu"))).await.unwrap();
    let b = cluster.node("b").await;
    b.wait_for(revision, TEST_DEADLINE).await.unwrap();
    assert_eq!(b.select(&Select::all()).unwrap(), a.select(&Select::all()).unwrap());
    assert_eq!(b.lookup("n007").unwrap().unwrap().raw_meta(), Some(&large));
}

#[tokio::test(start_paused = true)]
async fn names_are_selected_in_order_and_in_pages() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    // It keeps them in order.
    let d = Registry::join(cluster.config("d").ordered(true)).await.unwrap();
    d.ready(TEST_DEADLINE).await.unwrap();
    let mut last = None;
    for n in (0..9).rev() {
        let zone = if n % 2 == 0 { "eu" } else { "us" };
        let node = if n < 6 { &a } else { &b };
        last = Some(register(node, &format!("shop/{n}"), Some(zone)).await.token());
    }
    last = last.max(Some(register(&a, "ship/0", None).await.token()));
    for node in [&b, &d] {
        node.wait_for(last.unwrap(), TEST_DEADLINE).await.unwrap();
    }
    let names = |select: &Select| -> Vec<String> {
        assert_eq!(d.select(select).unwrap().names, b.select(select).unwrap().names);
        b.select(select).unwrap().names.iter().map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(b.select(&Select::all()).unwrap().names.len(), 10);
    let mut select = Select::prefix("shop/").limit(4);
    let (mut pages, mut seen) = (Vec::new(), Vec::new());
    loop {
        let page = b.select(&select).unwrap();
        pages.push(page.names.len());
        seen.extend(page.names.iter().map(|(name, _)| name.to_string()));
        let Some(next) = page.next else { break };
        select = select.after(next);
    }
    assert_eq!(pages, [4, 4, 1]);
    assert_eq!(seen, (0..9).map(|n| format!("shop/{n}")).collect::<Vec<_>>());
    // A page that is just full is the last one.
    assert_eq!(b.select(&Select::prefix("shop/").limit(9)).unwrap().next, None);
    let of_b = Select::prefix("shop/").node("b").meta_eq("zone", "eu").unwrap();
    assert_eq!(names(&of_b), ["shop/6", "shop/8"]);
}
