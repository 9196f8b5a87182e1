//! What the old child leaves to the new one.

use super::*;
use callsign_store::ids::Epoch;

over_every_oracle!(
    what_a_child_leaves_at_a_clean_end_is_given_to_its_successor_on_another_node,
    after_a_crash_nothing_is_handed_over_and_never_from_a_term_before_the_last,
    a_child_that_starts_at_the_second_try_is_given_what_was_left_too,
    what_was_left_is_given_to_the_first_child_of_a_term_and_not_to_the_one_that_is_started_after_it,
    a_function_that_panics_hands_nothing_over_and_costs_nothing_else,
    a_function_that_does_not_end_costs_half_of_the_stop_budget,
);

fn handing_over<S: Seats>(plan: SingletonPlan<S::Oracle, Work>) -> SingletonPlan<S::Oracle, Work> {
    plan.restarts(0, Duration::from_secs(30)).hand_over(
        Duration::from_millis(500),
        |child: ActorRef<Work>| async move {
            let left = child.call(Work::Leave, Some(Duration::from_millis(500))).await;
            left.ok()?.success_or(()).ok().map(|P(notes)| notes)
        },
    )
}

async fn notes<S: Seats>(sites: &Sites<S>) -> Vec<u8> {
    sites.to(0).call(Work::Leave, TEST_DEADLINE).await.unwrap().0
}

async fn what_a_child_leaves_at_a_clean_end_is_given_to_its_successor_on_another_node<S: Seats>() {
    let mut sites = Sites::<S>::start(handing_over::<S>).await;
    let first = sites.led(None).await;
    let epoch = sites.epoch(first);
    for note in 1..=5 {
        sites.to(first).cast(Work::Note(P(note))).await.unwrap();
    }
    let asked = tokio::time::Instant::now();
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    let down = sites.journal.leaders().iter().find(|line| !line.up).map(|line| line.at.duration_since(asked));
    assert!(
        down < Some(Duration::from_millis(500)),
        "it is stopped when it has left all, not killed later: {down:?}"
    );
    assert_eq!(notes(&sites).await, [1, 2, 3, 4, 5], "all that it was sent before it was asked to end");
    let took = |e: &SingletonEvent| match e {
        SingletonEvent::TookOver { bytes, from } => Some((*bytes, *from)),
        _ => None,
    };
    assert_eq!(sites.event(second, took).await, (5, Epoch(epoch)));
    // And on to the next.
    sites.to(second).cast(Work::Note(P(6))).await.unwrap();
    sites.singletons[second].stop().await.unwrap();
    sites.led(Some(second)).await;
    assert_eq!(notes(&sites).await, [1, 2, 3, 4, 5, 6]);
}

async fn after_a_crash_nothing_is_handed_over_and_never_from_a_term_before_the_last<S: Seats>() {
    let sites = Sites::<S>::start(handing_over::<S>).await;
    let first = sites.led(None).await;
    sites.to(first).cast(Work::Note(P(1))).await.unwrap();
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    assert_eq!(notes(&sites).await, [1]);
    sites.to(second).cast(Work::Crash).await.unwrap();
    sites.led(Some(second)).await;
    assert!(notes(&sites).await.is_empty(), "the crashed one left nothing, and the one before it is history");
}

async fn a_child_that_starts_at_the_second_try_is_given_what_was_left_too<S: Seats>() {
    let sites = Sites::<S>::start(handing_over::<S>).await;
    let first = sites.led(None).await;
    for note in [1, STUMBLES] {
        sites.to(first).cast(Work::Note(P(note))).await.unwrap();
    }
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    let epoch = sites.epoch(second);
    let of_term = sites.journal.leaders().iter().filter(|line| line.epoch == epoch).count();
    assert_eq!(of_term, 3, "one child that did not start, and one that runs, in the same term");
    assert_eq!(notes(&sites).await, [1, STUMBLES]);
}

async fn what_was_left_is_given_to_the_first_child_of_a_term_and_not_to_the_one_that_is_started_after_it<
    S: Seats,
>() {
    let restarted =
        |plan: SingletonPlan<S::Oracle, Work>| handing_over::<S>(plan).restarts(1, Duration::from_secs(30));
    let sites = Sites::<S>::start(restarted).await;
    let first = sites.led(None).await;
    sites.to(first).cast(Work::Note(P(1))).await.unwrap();
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    assert_eq!(notes(&sites).await, [1]);
    let epoch = sites.epoch(second);
    sites.to(second).cast(Work::Crash).await.unwrap();
    until("it is started again", || sites.journal.leaders().len() == 5).await;
    assert!(notes(&sites).await.is_empty(), "it may be what the former one crashed over");
    assert_eq!(sites.epoch(second), epoch, "in the same term");
}

async fn a_function_that_panics_hands_nothing_over_and_costs_nothing_else<S: Seats>() {
    let panics = |plan: SingletonPlan<S::Oracle, Work>| {
        let ask = |child: ActorRef<Work>| async move {
            assert!(child.get_id().pid() == u64::MAX, "the application's own mistake");
            None
        };
        plan.restarts(0, Duration::from_secs(30)).hand_over(Duration::from_millis(500), ask)
    };
    let mut sites = Sites::<S>::start(panics).await;
    let first = sites.led(None).await;
    sites.singletons[first].request_resign(None);
    let why = |e: &SingletonEvent| match e {
        SingletonEvent::NotHandedOver { why } => Some(why.clone()),
        _ => None,
    };
    assert_eq!(sites.event(first, why).await, "the child left nothing");
    let second = sites.led(Some(first)).await;
    assert_ne!(second, first);
    sites.journal.assert_no_overlap();
}

async fn a_function_that_does_not_end_costs_half_of_the_stop_budget<S: Seats>() {
    let stuck = |plan: SingletonPlan<S::Oracle, Work>| {
        plan.stop_budget(Duration::from_secs(4)).hand_over(
            Duration::from_secs(60),
            |child: ActorRef<Work>| async move {
                let _child = child;
                std::future::pending().await
            },
        )
    };
    let mut sites = Sites::<S>::start(stuck).await;
    let first = sites.led(None).await;
    let asked = tokio::time::Instant::now();
    sites.singletons[first].request_resign(None);
    let why = |e: &SingletonEvent| match e {
        SingletonEvent::NotHandedOver { why } => Some(why.clone()),
        _ => None,
    };
    assert_eq!(sites.event(first, why).await, "the child left nothing");
    sites.led(Some(first)).await;
    let down = sites.journal.leaders().iter().find(|line| !line.up).map(|line| line.at.duration_since(asked));
    let half = Some(Duration::from_secs(2))..Some(Duration::from_millis(2500));
    assert!(half.contains(&down), "{down:?}");
}

/// A singleton of one node, which leads, and what it tells from then on.
async fn alone(
    cluster: &Cluster,
    journal: &Journal,
    tune: impl FnOnce(SingletonPlan<RegistryOracle, Work>) -> SingletonPlan<RegistryOracle, Work>,
) -> (Singleton<RegistryOracle, Work>, SingletonEvents) {
    let node = cluster.node("a").await;
    let plan = plan::<ByName>(&node, journal, as_it_is::<ByName>).stop_budget(Duration::from_secs(4));
    let singleton = tune(plan).start().await.unwrap();
    until("it leads", || singleton.leadership().check().is_ok()).await;
    until("it is reached", || node.lookup("reports").is_ok_and(|entry| entry.is_some())).await;
    let events = singleton.subscribe();
    (singleton, events)
}

/// How long it takes from now until its child is down.
async fn takes_to_stop(singleton: &Singleton<RegistryOracle, Work>, journal: &Journal) -> Duration {
    let asked = tokio::time::Instant::now();
    singleton.stop().await.unwrap();
    let down = journal.leaders().into_iter().find(|line| !line.up);
    down.expect("it is down").at.duration_since(asked)
}

/// About so many of the four seconds that it has.
fn about(seconds: u64) -> std::ops::Range<Duration> {
    Duration::from_secs(seconds)..Duration::from_millis(seconds * 1000 + 500)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_sent_too_much_has_three_quarters_of_the_stop_budget() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let (singleton, _) = alone(&cluster, &journal, |plan| plan).await;
    let to = singleton.name_ref(NameRefOptions::default()).unwrap();
    for _ in 0..100 {
        to.cast(Work::Busy(P(100))).await.unwrap();
    }
    let took = takes_to_stop(&singleton, &journal).await;
    assert!(about(3).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_take_what_is_left_costs_three_quarters_of_the_stop_budget() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let held = Arc::<Mutex<Option<_>>>::default();
    let (store, hold) = (cluster.store.connect("a"), held.clone());
    let (singleton, mut events) = alone(&cluster, &journal, |plan| {
        plan.hand_over(Duration::from_secs(1), move |_| {
            *hold.lock().unwrap() = Some(store.hold_commits());
            std::future::ready(Some(vec![1, 2, 3]))
        })
    })
    .await;
    let handed_over = async {
        loop {
            if let SingletonEvent::NotHandedOver { why } = events.next().await.unwrap() {
                // So that its seat can be given back.
                held.lock().unwrap().take();
                return why;
            }
        }
    };
    let (took, why) = tokio::join!(takes_to_stop(&singleton, &journal), handed_over);
    assert!(why.contains("no answer in time"), "{why}");
    assert!(about(3).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_given_up_costs_a_quarter_of_the_stop_budget() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let (singleton, _) = alone(&cluster, &journal, |plan| plan).await;
    let held = cluster.store.connect("a").hold_commits();
    let stop = takes_to_stop(&singleton, &journal);
    let heals = async {
        until("its child is down", || journal.leaders().iter().any(|line| !line.up)).await;
        drop(held);
    };
    let (took, ()) = tokio::join!(stop, heals);
    assert!(about(1).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_does_not_end_costs_no_more_than_it_was_given() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let (singleton, _) =
        alone(&cluster, &journal, |plan| plan.hand_over(Duration::from_secs(1), |_| std::future::pending()))
            .await;
    let took = takes_to_stop(&singleton, &journal).await;
    assert!(about(1).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_said_how_much_a_child_left() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let (singleton, mut events) = alone(&cluster, &journal, |plan| {
        plan.hand_over(Duration::from_secs(1), |_| std::future::ready(Some(vec![1, 2, 3])))
    })
    .await;
    singleton.stop().await.unwrap();
    loop {
        match events.next().await.unwrap() {
            SingletonEvent::HandedOver { bytes } => return assert_eq!(bytes, 3),
            SingletonEvent::NotHandedOver { why } => panic!("{why}"),
            _ => {}
        }
    }
}

/// Nothing that it still does counts, and nobody would be given what it leaves.
#[tokio::test(start_paused = true)]
async fn a_child_whose_term_was_taken_away_is_asked_for_nothing_more_and_the_reason_is_told() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let node = cluster.node("a").await;
    let asked = Arc::new(AtomicBool::new(false));
    let asks = asked.clone();
    let plan = plan::<ByName>(&node, &journal, as_it_is::<ByName>).stop_budget(Duration::from_secs(4));
    let plan = plan.hand_over(Duration::from_secs(1), move |_| {
        asks.store(true, Ordering::SeqCst);
        std::future::pending()
    });
    let singleton = plan.start().await.unwrap();
    let mut events = singleton.subscribe();
    until("it leads", || singleton.leadership().check().is_ok()).await;
    let to = singleton.name_ref(NameRefOptions::default()).unwrap();
    for _ in 0..100 {
        to.cast(Work::Busy(P(100))).await.unwrap();
    }
    node.unregister("reports/seat").await.unwrap();
    let mut reasons = Vec::new();
    let took = loop {
        match events.next().await.unwrap() {
            SingletonEvent::Stopping { why } => reasons.push(why),
            SingletonEvent::ChildStopped { kind: ChildKind::Leader, took } => break took,
            _ => {}
        }
    };
    assert_eq!(reasons, [callsign_election::Lost::Denied]);
    assert!(took < Duration::from_millis(500), "it does what it is at, and no more: {took:?}");
    assert!(!asked.load(Ordering::SeqCst));
}
