//! The leader child's name.

use callsign_election::{Lost, campaign::CampaignEventKind};
use callsign_elector::session::SessionTiming;

use super::*;

/// Three nodes whose sessions last so long, and a leadership that is a lease of so long.
async fn with_leases(session: Duration, leadership: Timing, tune: Tune<ByLease>) -> Sites<ByLease> {
    let cluster = Cluster::new();
    cluster.store.stop_proving_deaths();
    let (mut nodes, journal) = (Vec::new(), Journal::default());
    for name in NAMES {
        let config = cluster.config(name).session_timing(SessionTiming::for_lease(session));
        let node = Registry::join(config).await.unwrap();
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        nodes.push(node);
    }
    let mut sites = Sites::<ByLease> { cluster, nodes, singletons: Vec::new(), events: Vec::new(), journal };
    for node in &sites.nodes {
        // The oracle that is the default.
        let plan = children(Singleton::builder(node, "reports"), node, &sites.journal);
        let singleton = tune(plan).timing(leadership).start().await.unwrap();
        sites.events.push(singleton.subscribe());
        sites.singletons.push(singleton);
    }
    sites.led(None).await;
    sites
}

fn registered(event: &SingletonEvent) -> Option<u64> {
    match event {
        SingletonEvent::Registered { token } => Some(token.0),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_node_that_died_is_waited_for_and_told_and_its_token_grows() {
    // The leadership is free long before the session of the dead node is over.
    let mut sites =
        with_leases(Duration::from_secs(40), timing(), |plan| plan.register_within(2 * TEST_DEADLINE)).await;
    let first = sites.led(None).await;
    let token = sites.event(first, registered).await;
    sites.isolate(first);
    let second = sites.led(Some(first)).await;
    let holder = sites.event(second, |event| match event {
        SingletonEvent::NameHeld { holder } => Some(holder.clone()),
        _ => None,
    });
    let holder = holder.await;
    assert_eq!((holder.node.as_str(), holder.token.0), (NAMES[first], token));
    assert!(sites.leads(second), "the child works meanwhile");
    assert!(sites.event(second, registered).await > token);
    let to = sites.to(second);
    assert_eq!(
        to.call(Work::Who, TEST_DEADLINE).await.unwrap().0,
        format!("{} in {}", NAMES[second], sites.epoch(second))
    );
    let seen = sites.seen(second).await;
    let held = seen.iter().filter(|e| matches!(e, SingletonEvent::NameHeld { .. })).count();
    assert_eq!(held, 0, "told once");
}

#[tokio::test(start_paused = true)]
async fn a_singleton_that_ends_well_leaves_a_name_alone_that_another_actor_of_its_node_holds() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let stranger = crate::tests::driver::counter().await;
    let held = node.register("reports", &stranger).await.unwrap();
    let journal = Journal::default();
    let singleton = plan::<ByLease>(&node, &journal, as_it_is::<ByLease>).start().await.unwrap();
    let mut events = singleton.subscribe();
    while !matches!(events.next().await.unwrap(), SingletonEvent::NameHeld { .. }) {}
    assert!(singleton.stop().await.is_ok());
    assert_eq!(held.check(), Ok(()));
    assert_eq!(node.lookup("reports").unwrap().map(|entry| entry.token()), Some(held.token()));
}

#[tokio::test(start_paused = true)]
async fn a_term_whose_child_does_not_get_its_name_is_given_up_after_a_bound() {
    let cluster = Cluster::new();
    let (node, other) = (cluster.node("a").await, cluster.node("b").await);
    let stranger = crate::tests::driver::counter().await;
    other.register("reports", &stranger).await.unwrap();
    let journal = Journal::default();
    // The name is looked for each second.
    let set = |plan: SingletonPlan<_, _>| plan.register_within(Duration::from_millis(20_400));
    let tunes: [(u64, Tune<ByLease>); 2] = [(20_400, set), (30_000, as_it_is::<ByLease>)];
    for (within, tune) in tunes {
        is_given_up_within(Duration::from_millis(within), plan::<ByLease>(&node, &journal, tune)).await;
    }
}

async fn is_given_up_within(within: Duration, plan: SingletonPlan<LeaseOracle, Work>) {
    let singleton = plan.start().await.unwrap();
    let mut events = singleton.subscribe();
    until("it leads", || singleton.status().phase == Phase::Leading).await;
    let begun = tokio::time::Instant::now();
    let mut held = 0;
    loop {
        match events.next().await.unwrap() {
            SingletonEvent::NameHeld { .. } => held += 1,
            event if matches!(what(&event), Some(CampaignEventKind::Lost { .. })) => {
                assert_eq!(what(&event), Some(&CampaignEventKind::Lost { why: Lost::RoleFailed }));
                break;
            }
            _ => {}
        }
    }
    assert_eq!(held, 1);
    let took = begun.elapsed();
    assert!(took.abs_diff(within) < Duration::from_millis(500), "{took:?}");
    singleton.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_lost_with_the_session_is_taken_again_while_the_child_runs_on() {
    let leadership = Timing::for_lease(Duration::from_secs(120));
    let mut sites = with_leases(LEASE, leadership, as_it_is::<ByLease>).await;
    let first = sites.led(None).await;
    let token = sites.event(first, registered).await;
    let epoch = sites.epoch(first);
    sites.isolate(first);
    let other = (first + 1) % 3;
    until("its session is over", || sites.nodes[other].lookup("reports") == Ok(None)).await;
    sites.heal(first);
    sites.event(first, |e| matches!(e, SingletonEvent::NameLost).then_some(())).await;
    assert!(sites.event(first, registered).await > token);
    assert_eq!(sites.who(other).await, format!("{} in {epoch}", NAMES[first]), "the same child");
    assert_eq!(sites.journal.leaders().len(), 1, "{:?}", sites.journal.lines());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_asked_for_is_asked_for_again_and_that_is_told() {
    let cluster = Cluster::new();
    cluster.store.stop_proving_deaths();
    let (node, other) = (cluster.node("a").await, cluster.node("b").await);
    let stranger = crate::tests::driver::counter().await;
    other.register("reports", &stranger).await.unwrap();
    let journal = Journal::default();
    let leadership = Timing::for_lease(Duration::from_secs(120));
    let plan = children(Singleton::builder(&node, "reports"), &node, &journal).timing(leadership);
    let singleton = plan.register_within(Duration::from_secs(600)).start().await.unwrap();
    let mut events = singleton.subscribe();
    let mut next = async |wanted: fn(&SingletonEvent) -> bool| {
        let found = async { while !wanted(&events.next().await.unwrap()) {} };
        tokio::time::timeout(TEST_DEADLINE, found).await.expect("it is told");
    };
    next(|event| matches!(event, SingletonEvent::NameHeld { .. })).await;
    // Its session lapses, and it asks on.
    cluster.store.connect("a").outage();
    for _ in 0..3 {
        next(|event| matches!(event, SingletonEvent::NotRegistered { .. })).await;
    }
    cluster.store.connect("a").heal();
    stranger.stop(None);
    next(|event| registered(event).is_some()).await;
    assert_eq!(journal.leaders().len(), 1, "{:?}", journal.lines());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_lapses_and_resumes_costs_a_child_no_name() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let journal = Journal::default();
    let leadership = Timing::for_lease(Duration::from_secs(120));
    let plan = children(Singleton::builder(&node, "reports"), &node, &journal).timing(leadership);
    let singleton = plan.start().await.unwrap();
    until("its child is registered", || node.lookup("reports").is_ok_and(|entry| entry.is_some())).await;
    let token = node.lookup("reports").unwrap().unwrap().token();
    let mut events = singleton.subscribe();
    cluster.store.outage_for_all();
    until("it has lapsed", || node.lookup("reports").is_err()).await;
    cluster.store.heal_all();
    until("it resumes", || node.lookup("reports").is_ok()).await;
    let entry = node.lookup("reports").unwrap();
    assert_eq!(entry.map(|entry| entry.token()), Some(token));
    singleton.stop().await.unwrap();
    while let Ok(event) = events.next().await {
        assert!(!matches!(event, SingletonEvent::NameLost | SingletonEvent::Registered { .. }), "{event:?}");
    }
}
