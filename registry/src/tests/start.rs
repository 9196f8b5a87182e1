//! Start if absent, over the drivers: who starts, who waits, and what becomes of starts that come to nothing.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use callsign_transport::P;
use ractor::{ActorProcessingErr, ActorRef, ActorStatus, call_t};
use tokio::sync::{Notify, oneshot};

use crate::{
    BadName, Meta, NameRefOptions, NotHeld, NotStarted, Position, RegisterError, RegisterOptions, Registry,
    StartOptions, Started, Starting, UnregisterError, UntilError, WhenTaken, WhereisError,
    tests::driver::{Cluster, Counter, Other, TEST_DEADLINE, counter, until},
};

type Spawned = Result<ActorRef<Counter>, ActorProcessingErr>;

async fn plain(node: &Registry, name: &str) -> Result<Started, NotStarted> {
    node.start(name, |_| async { Spawned::Ok(counter().await) }).await
}

fn ours(started: Result<Started, NotStarted>) -> crate::Registration {
    match started {
        Ok(Started::Ours(held)) => held,
        other => panic!("not ours: {other:?}"),
    }
}

/// A start that waits until the test lets it go on, in a task of its own; and what it was handed.
struct Held {
    starting: Starting,
    goes_on: oneshot::Sender<ActorRef<Counter>>,
    caller: tokio::task::JoinHandle<Result<Started, NotStarted>>,
}

async fn held(node: &Registry, name: &str, options: StartOptions) -> Held {
    let (began, begun) = oneshot::channel();
    let (goes_on, going_on) = oneshot::channel();
    let (node, name) = (node.clone(), name.to_owned());
    let caller = tokio::spawn(async move {
        let start = |starting: Starting| async move {
            let _ = began.send(starting);
            Spawned::Ok(going_on.await?)
        };
        node.start_with(&name, options, start).await
    });
    Held { starting: begun.await.expect("it begins"), goes_on, caller }
}

#[tokio::test(start_paused = true)]
async fn of_many_who_start_a_name_one_does_and_all_get_its_actor() {
    const NAMES: usize = 5;
    const CALLERS: usize = 20;
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let spawned: Arc<Mutex<BTreeMap<String, Vec<Position>>>> = Arc::default();
    let calls: Vec<_> = (0..NAMES * CALLERS)
        .map(|n| {
            let (node, spawned) = (nodes[n % 3].clone(), spawned.clone());
            tokio::spawn(async move {
                let start = |starting: Starting| async move {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    assert_eq!(starting.check(), Ok(()));
                    let (name, token) = (starting.name().to_owned(), starting.token());
                    spawned.lock().unwrap().entry(name).or_default().push(token);
                    Spawned::Ok(counter().await)
                };
                let name = format!("n{}", n / CALLERS);
                (name.clone(), node.start(&name, start).await.unwrap())
            })
        })
        .collect();
    let mut tokens: BTreeMap<String, (usize, Position)> = BTreeMap::new();
    for call in calls {
        let (name, started) = call.await.unwrap();
        let (is_ours, token) = match &started {
            Started::Ours(held) => (1, held.token()),
            Started::Theirs(entry) => (0, entry.token()),
        };
        let (count, first) = tokens.entry(name).or_insert((0, token));
        assert_eq!(*first, token, "all got the same one");
        *count += is_ours;
    }
    assert_eq!(tokens.len(), NAMES);
    assert!(tokens.values().all(|(count, _)| *count == 1), "{tokens:?}");
    let spawned = spawned.lock().unwrap().clone();
    let once = tokens.into_iter().map(|(name, (_, token))| (name, vec![token]));
    assert_eq!(spawned, once.collect());
    for node in &nodes {
        for n in 0..NAMES {
            let actor: ActorRef<Counter> = node.whereis(&format!("n{n}")).unwrap();
            assert_eq!(call_t!(actor, Counter::Get, 5000).unwrap(), P(0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_started_also_by_whoever_sets_no_limit_to_how_long_that_takes() {
    let cluster = Cluster::new();
    let node = Registry::join(cluster.config("a").request_timeout(Duration::MAX)).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let limit = StartOptions::default().limit(Duration::MAX);
    for (name, options) in [("x", limit.clone().wait(Duration::MAX)), ("y", limit)] {
        let started = node.start_with(name, options, |_| async { Spawned::Ok(counter().await) }).await;
        assert_eq!(ours(started).check(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn while_its_actor_is_started_a_name_is_taken_and_messages_wait() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let meta = Meta::new("eu").unwrap();
    let start = held(&a, "x", StartOptions::default().meta(meta.clone())).await;
    let token = start.starting.token();
    b.wait_for(token, TEST_DEADLINE).await.unwrap();
    for node in [&a, &b] {
        let entry = node.lookup("x").unwrap().unwrap();
        assert_eq!((entry.is_starting(), entry.actor(), entry.address()), (true, None, None));
        assert_eq!((entry.node().as_str(), entry.token(), entry.raw_meta()), ("a", token, None));
        let nobody = node.whereis::<Counter>("x").unwrap_err();
        assert!(matches!(nobody, WhereisError::Starting { token: of, .. } if of == token), "{nobody}");
        let taken = node.register("x", &counter().await).await.unwrap_err();
        assert!(matches!(taken, RegisterError::Taken { holder, .. } if holder.is_starting()));
        let freed = node.unregister("x").await.unwrap_err();
        assert!(matches!(freed, UnregisterError::NotHeldHere { .. }), "{freed}");
    }
    let by_name = b.name_ref::<Counter>("x", NameRefOptions::default()).unwrap();
    let sent = tokio::spawn({
        let by_name = by_name.clone();
        async move { by_name.cast(Counter::Add(P(5))).await }
    });
    until("it waits", || by_name.waiting() == 1).await;
    // Also for longer than it looks again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!sent.is_finished() && start.starting.check() == Ok(()));

    let actor = counter().await;
    start.goes_on.send(actor.clone()).unwrap();
    let registration = ours(start.caller.await.unwrap());
    assert_eq!((registration.token(), registration.check(), start.starting.check()), (token, Ok(()), Ok(())));
    sent.await.unwrap().unwrap();
    until("it has the message", || actor.get_status() == ActorStatus::Running).await;
    assert_eq!(call_t!(actor, Counter::Get, 5000).unwrap(), P(5));
    let entry = b.lookup_consistent("x", TEST_DEADLINE).await.unwrap().unwrap();
    assert_eq!((entry.is_starting(), entry.token(), entry.raw_meta()), (false, token, Some(&meta)));
    assert_eq!(entry.revision(), registration.revision());
    // It is held as any other: changed, given up, and lost with its actor.
    registration.update(Some(registration.revision()), None).await.unwrap();
    actor.stop(None);
    until("the name is free", || b.lookup("x") == Ok(None)).await;
    assert_eq!((registration.check(), start.starting.check()), (Err(NotHeld::Ended), Err(NotHeld::Ended)));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_comes_to_nothing_says_why_and_the_next_one_in_the_queue_starts() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let foreign = counter().await;
    let at_a = a.register("foreign", &foreign).await.unwrap();
    b.wait_for(at_a.token(), TEST_DEADLINE).await.unwrap();
    let foreign: ActorRef<Counter> = b.whereis("foreign").unwrap();
    let other = counter().await;
    let mistyped = ActorRef::<Other>::from(other.get_cell());

    let long = "ö".repeat(150);
    let fails = b.start("x", |_| async move { Spawned::Err(long.into()) }).await.unwrap_err();
    assert!(matches!(&fails, NotStarted::Failed { reason } if *reason == "ö".repeat(100)), "{fails}");
    let panics =
        b.start("x", |_| async { if true { panic!("on purpose") } else { Spawned::Ok(counter().await) } });
    let panics = panics.await.unwrap_err();
    assert!(matches!(&panics, NotStarted::Panicked { reason } if reason == "on purpose"), "{panics}");
    let panics = b.start("x", |_| -> std::future::Ready<Spawned> { panic!("before it begins") }).await;
    assert!(matches!(panics, Err(NotStarted::Panicked { .. })), "{panics:?}");
    let dead = b.start("x", |_| async {
        let actor = counter().await;
        actor.stop(None);
        actor.wait(None).await?;
        Spawned::Ok(actor)
    });
    assert_eq!(dead.await.unwrap_err(), NotStarted::Ended);
    let not_here = b.start("x", |_| async move { Spawned::Ok(foreign) }).await.unwrap_err();
    assert!(
        matches!(&not_here, NotStarted::NotLocal { node: Some(node) } if node.as_str() == "a"),
        "{not_here}"
    );
    let of_others = b.start("x", |_| async move { Ok(mistyped) }).await.unwrap_err();
    assert_eq!(of_others, NotStarted::OtherMessages);
    other.wait(Some(TEST_DEADLINE)).await.expect("what is not bound is stopped");

    // On this node and on another, who waits for one that fails starts in its turn.
    for (waits, is_here) in [(&b, true), (&a, false)] {
        let start = held(&b, "x", StartOptions::default()).await;
        let next = tokio::spawn({
            let waits = waits.clone();
            async move { plain(&waits, "x").await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!next.is_finished(), "it waits");
        drop(start.goes_on);
        let failed = start.caller.await.unwrap();
        assert!(matches!(failed, Err(NotStarted::Failed { .. })), "{failed:?}");
        assert_eq!(start.starting.check(), Err(NotHeld::Ended));
        let held = ours(next.await.unwrap());
        assert!(held.token() > start.starting.token(), "{is_here}");
        waits.unregister("x").await.unwrap();
    }
    assert_eq!(at_a.check(), Ok(()), "an actor of another node is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_start_without_a_limit_of_its_own_is_given_up_after_thirty_seconds() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let hangs = node.start("x", |_| std::future::pending::<Spawned>()).await;
    assert_eq!(hangs.unwrap_err(), NotStarted::TooSlow { limit: Duration::from_secs(30) });
    assert_eq!(ours(plain(&node, "x").await).check(), Ok(()), "the name is free for another start");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_too_slow_gives_the_name_up_and_its_late_actor_is_stopped() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let limit = Duration::from_secs(3);
    let slow = held(&a, "x", StartOptions::default().limit(limit)).await;
    let next = tokio::spawn(async move { plain(&b, "x").await });
    assert_eq!(slow.caller.await.unwrap().unwrap_err(), NotStarted::TooSlow { limit });
    assert_eq!(slow.starting.check(), Err(NotHeld::Ended));
    let next = ours(next.await.unwrap());
    let late = counter().await;
    slow.goes_on.send(late.clone()).expect("it was not dropped");
    late.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
    assert_eq!(next.check(), Ok(()));
    // Who waits for longer than it wants to hears whom it waited for, and nothing is started later.
    let start = held(&a, "y", StartOptions::default()).await;
    let impatient = StartOptions::default().wait(Duration::from_secs(1));
    let gives_up = a.start_with("y", impatient, |_| async { Spawned::Ok(counter().await) }).await;
    let token = start.starting.token();
    assert!(
        matches!(gives_up, Err(NotStarted::StillStarting { token: of, .. }) if of == token),
        "{gives_up:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_session_lapses_is_over_though_the_session_resumes() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let start = held(&a, "x", StartOptions::default()).await;
    b.wait_for(start.starting.token(), TEST_DEADLINE).await.unwrap();
    cluster.store.outage_for_all();
    assert_eq!(start.caller.await.unwrap().unwrap_err(), NotStarted::Lost);
    assert!(start.starting.check().is_err());
    cluster.store.heal_all();
    until("it is free, by the same session", || b.lookup("x") == Ok(None)).await;
    assert_eq!(start.starting.check(), Err(NotHeld::Ended), "it never passes again");
    let late = counter().await;
    start.goes_on.send(late.clone()).unwrap();
    late.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
    ours(plain(&b, "x").await);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_before_its_start_begins_starts_nothing_and_later_it_goes_on() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let hold = cluster.store.connect("a").hold_commits();
    let counted = ran.clone();
    let mut early = Box::pin(a.start("early", move |_| async move {
        counted.fetch_add(1, Ordering::SeqCst);
        Spawned::Ok(counter().await)
    }));
    assert!(futures::poll!(&mut early).is_pending());
    tokio::task::yield_now().await;
    drop(early);
    drop(hold);
    let other = ours(plain(&b, "early").await);
    assert_eq!((ran.load(Ordering::SeqCst), other.check()), (0, Ok(())));

    let late = held(&a, "late", StartOptions::default()).await;
    late.caller.abort();
    assert!(late.caller.await.unwrap_err().is_cancelled());
    let actor = counter().await;
    late.goes_on.send(actor.clone()).expect("it was not dropped");
    until("it is held", || b.whereis::<Counter>("late").is_ok()).await;
    assert_eq!((late.starting.check(), actor.get_status()), (Ok(()), ActorStatus::Running));
    assert_eq!(a.shared.kept(), (1, 1), "nothing is kept for the other one");
}

#[tokio::test(start_paused = true)]
async fn what_is_started_on_a_node_that_leaves_or_fails_is_stopped() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    for fails in [false, true] {
        let node = if fails { &b } else { &a };
        let (tell, stays) = (crate::WhenLapsed::Tell(Arc::new(|_| {})), counter().await);
        let (bound, name) = (stays.clone(), format!("told-{fails}"));
        let started = node
            .start_with(&name, StartOptions::default().when_lapsed(tell), |_| async { Spawned::Ok(bound) });
        ours(started.await);
        let start = held(node, "x", StartOptions::default()).await;
        if fails {
            node.node.supervisor.sabotage("the timer of a registry");
            node.failed().await;
            let error = start.caller.await.unwrap().unwrap_err();
            assert!(matches!(error, NotStarted::Register(RegisterError::Failed(_))), "{error}");
        } else {
            node.leave().await.unwrap();
            let error = start.caller.await.unwrap().unwrap_err();
            assert!(matches!(error, NotStarted::Register(RegisterError::SessionLost { .. })), "{error}");
        }
        assert!(start.starting.check().is_err());
        let late = counter().await;
        start.goes_on.send(late.clone()).expect("it was not dropped");
        late.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
        assert_eq!(stays.get_status(), ActorStatus::Running, "its start is over, and it is only told");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_a_store_that_is_gone_and_a_node_that_drains_starts_nothing() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let told = Arc::new(Notify::new());
    cluster.store.outage_for_all();
    until("it has lapsed", || a.lookup("x").is_err()).await;
    let later = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.store.heal_all();
    };
    let lapses = told.clone();
    let tell = crate::WhenLapsed::Tell(Arc::new(move |_| lapses.notify_one()));
    let options = StartOptions::default().when_lapsed(tell);
    let started = a.start_with("x", options, |_| async { Spawned::Ok(counter().await) });
    let (started, ()) = tokio::join!(started, later);
    let held = ours(started);
    cluster.store.outage_for_all();
    told.notified().await;
    cluster.store.heal_all();
    until("it is held again", || held.check() == Ok(())).await;
    a.drain().await;
    let refused = plain(&a, "y").await.unwrap_err();
    assert!(matches!(refused, NotStarted::Register(RegisterError::Draining { .. })), "{refused}");
    // What is held already is found all the same.
    let registration = ours(plain(&b, "z").await);
    a.wait_for(registration.token(), TEST_DEADLINE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_others_as_long_as_a_start_may_take_and_asks_for_no_bad_name() {
    let cluster = Cluster::new();
    let config = cluster.config("b").request_timeout(Duration::from_secs(4));
    let [a, b] = [cluster.node("a").await, Registry::join(config).await.unwrap()];
    b.ready(TEST_DEADLINE).await.unwrap();
    let unnamed = plain(&a, "").await.unwrap_err();
    assert_eq!(unnamed, NotStarted::Register(RegisterError::BadName(BadName::Empty)));
    let long = StartOptions::default().limit(Duration::from_secs(600));
    let start = held(&a, "x", long).await;
    b.wait_for(start.starting.token(), TEST_DEADLINE).await.unwrap();
    let options = StartOptions::default().limit(Duration::from_secs(7));
    let late = b.start_with("x", options, |_| async { Spawned::Ok(counter().await) }).await.unwrap_err();
    // That long, and twice a request.
    let NotStarted::StillStarting { waited, .. } = late else { panic!("{late}") };
    assert!((Duration::from_secs(15)..Duration::from_secs(16)).contains(&waited), "{waited:?}");
    // What is started is not held yet.
    let short = Duration::from_secs(1);
    assert!(matches!(b.until_held("x", short).await, Err(UntilError::TimedOut { .. })));
    start.goes_on.send(counter().await).unwrap();
    let held = ours(start.caller.await.unwrap());
    assert_eq!(b.until_held("x", short).await.unwrap().token(), held.token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_has_ended_is_nobody_whose_name_is_started_or_taken() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    for node in [&a, &b] {
        let (name, mut actor) = (node.node().to_owned(), counter().await);
        let gives = |_| async { Ok::<_, ActorProcessingErr>(vec![1]) };
        let options = || RegisterOptions::default().give(gives);
        let mut held = node.register_with(&name, &actor, options()).await.unwrap();
        for round in 0..50 {
            actor.stop_and_wait(None, None).await.unwrap();
            let next = counter().await;
            if round % 2 == 0 {
                let taken = node.take(&name, &next, held.token(), TEST_DEADLINE).await;
                assert!(taken.is_err(), "the dead hand nothing over");
                held = node.register_with(&name, &next, options()).await.unwrap();
            } else {
                let starts = next.clone();
                let options = StartOptions::default().when_taken(WhenTaken::give(gives));
                let started = node.start_with(&name, options, |_| async { Spawned::Ok(starts) }).await;
                held = ours(started);
            }
            actor = next;
        }
    }
}
