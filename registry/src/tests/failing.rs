//! A part of a node that panics ends its node, whichever part it is; code of the application that panics ends nothing.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{
    CommitOutcome, Key, LifeGuard, Limits, Proof, Read, ReadResult, SharedStore, Store, StoreError,
    Transaction, Version,
    ids::{Incarnation, NodeName, Position},
    memory::MemoryStore,
};
use futures::{FutureExt, future::BoxFuture};
use ractor::{ActorRef, call_t};
use tokio::sync::watch;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

use crate::{
    Config, ConsistentError, JoinError, LeaveError, LookupError, NameRefOptions, NodeFailure, NotLive,
    NotReady, Notice, RegisterError, RegisterOptions, Registry, UnregisterError, WaitError, WhenLapsed,
    core::input::Input,
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

/// Within this after a part has panicked the node is closed, and another one can take its names. Virtual time: no lease (10 s)
/// is waited for.
const CLOSED: Duration = Duration::from_secs(5);

fn told(notices: &Arc<Mutex<Vec<Notice>>>) -> RegisterOptions {
    let notices = notices.clone();
    let listener = Arc::new(move |notice| notices.lock().unwrap().push(notice));
    RegisterOptions { when_lapsed: WhenLapsed::Tell(listener), ..RegisterOptions::default() }
}

/// Gives every part of a node something to do: names come and go, others call, links break, nodes come and leave.
async fn busy(cluster: &Cluster, node: &Registry, other: &Registry) {
    for round in 0_u32.. {
        let name = format!("busy-{round}");
        let actor = counter().await;
        let short = || RegisterOptions { wait: Some(Duration::from_secs(1)), ..RegisterOptions::default() };
        if node.register_with(&name, &actor, short()).await.is_ok() {
            let _ = node.lookup_consistent(&name, Duration::from_secs(1)).await;
            let found: Result<ActorRef<Counter>, _> =
                other.whereis_consistent(&name, Duration::from_secs(1)).await;
            if let Ok(found) = found {
                let _ = call_t!(found, Counter::Get, 1000);
            }
        }
        actor.stop(None);
        let started = format!("started-{round}");
        let started = node.start(&started, |_| async { Ok(counter().await) });
        let _ = tokio::time::timeout(Duration::from_secs(1), started).await;
        let theirs = format!("theirs-{round}");
        if other.register_with(&theirs, &counter().await, short()).await.is_ok()
            && let Ok(found) = node.whereis_consistent::<Counter>(&theirs, Duration::from_secs(1)).await
        {
            let _ = call_t!(found, Counter::Get, 1000);
        }
        if round % 10 == 5 {
            let way = [Cluster::address("a"), Cluster::address("b")];
            cluster.network.cut(way[0], way[1]);
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.network.heal(way[0], way[1]);
        }
        if round % 20 == 7 {
            let third = cluster.node("c").await;
            third.leave().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Has a part of a node panic, and waits until it has.
async fn break_part(cluster: &Cluster, node: &Registry, other: &Registry, part: &str) -> NodeFailure {
    node.node.supervisor.sabotage(part);
    tokio::select! {
        biased;
        failure = node.failed() => failure,
        () = busy(cluster, node, other) => unreachable!("it is never done"),
        () = tokio::time::sleep(5 * TEST_DEADLINE) => panic!("{part} has not run: {:?}", node.status()),
    }
}

/// All that a node that has failed owes to those who still ask it.
async fn says_so(node: &Registry, failure: &NodeFailure) {
    assert_eq!(node.status().failed.as_ref(), Some(failure));
    assert!(!node.status().leads && !node.status().synced);
    assert_eq!(node.ready(TEST_DEADLINE).await, Err(NotReady::Failed(failure.clone())));
    assert!(node.leader().is_none_or(|leader| !leader.serving));
    for name in ["stopped", "told", "free"] {
        assert_eq!(node.lookup(name), Err(LookupError::Failed(failure.clone())), "not a `no`");
    }
    assert_eq!(node.names(), Err(LookupError::Failed(failure.clone())));
    let free = node.lookup_consistent("free", TEST_DEADLINE).await;
    assert_eq!(free, Err(ConsistentError::Failed(failure.clone())));
    let refused = node.register("new", &counter().await).await.unwrap_err();
    assert_eq!(refused, RegisterError::Failed(failure.clone()));
    assert_eq!(node.unregister("told").await, Err(UnregisterError::Failed(failure.clone())));
    assert!(matches!(node.join_beside("more").await, Err(JoinError::Failed(_))));
    assert_eq!(node.leave().await, Err(LeaveError::Failed(failure.clone())));
    assert_eq!(node.leave().await, Err(LeaveError::Failed(failure.clone())));
}

/// All that a node is made of.
const NODE_PARTS: [&str; 19] = [
    "a commit of a member",
    "a link that is dialled",
    "a link that was accepted",
    "a read of a member",
    "a reference to a remote actor",
    "a request of an elector to the store",
    "a request of the session to the store",
    "a watch of an elector",
    "an answer to a call",
    "the listener of links",
    "the member of registry default",
    "the references over a link",
    "the session",
    "the start of an actor for a name",
    "the timer of a registry",
    "the timer of an elector",
    "the timer of links",
    "the timer of the session",
    "the watcher of actors",
];

#[tokio::test(start_paused = true)]
async fn these_are_all_the_parts_of_a_node() {
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("b").await, cluster.node("a").await];
    let seen =
        || [&node, &other].iter().flat_map(|node| node.node.supervisor.parts()).collect::<BTreeSet<_>>();
    // These have nothing to do here: the one when the session is open, when there is no node yet for it to end; the other before
    // the store says something.
    let quiet = ["the deadline of the session's opening", "what the store says of itself"];
    let expected: BTreeSet<_> = NODE_PARTS.iter().chain(&quiet).map(|part| (*part).to_owned()).collect();
    tokio::select! {
        biased;
        () = busy(&cluster, &node, &other) => {}
        () = until("all parts have run", || seen().is_superset(&expected)) => {}
    }
    assert_eq!(seen(), expected, "a part is missing in the list, and in the test below");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_ends_its_node_whichever_it_is() {
    for part in NODE_PARTS {
        let cluster = Cluster::new();
        // The one that breaks leads, so that the other has to take over. The greater of two names dials.
        let [node, other] = [cluster.node("b").await, cluster.node("a").await];
        let (stopped, tells) = (counter().await, counter().await);
        let stops = node.register("stopped", &stopped).await.unwrap();
        let notices = Arc::default();
        let held = node.register_with("told", &tells, told(&notices)).await.unwrap();
        other.wait_for(held.token(), TEST_DEADLINE).await.unwrap();

        let failure = break_part(&cluster, &node, &other, part).await;
        // At once, before anything else runs.
        assert!(stops.check().is_err() && held.check().is_err(), "{part}: a registration is trusted");
        assert_eq!((failure.part.as_str(), failure.reason.as_str()), (part, "panicked: sabotage"));
        assert_eq!(*notices.lock().unwrap(), [Notice::Lost], "{part}");
        stopped.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
        let begun = tokio::time::Instant::now();
        says_so(&node, &failure).await;

        until("the names are free", || ["stopped", "told"].iter().all(|name| other.lookup(name) == Ok(None)))
            .await;
        assert!(other.ready(TEST_DEADLINE).await.is_ok());
        assert!(other.register("told", &counter().await).await.is_ok(), "{part}");
        assert!(begun.elapsed() < CLOSED, "{part}: closed after {:?}", begun.elapsed());
        assert!(held.check().is_err(), "{part}: trusted again");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_are_answered_when_the_node_fails() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let hold = cluster.store.connect("a").hold_commits();
    let actor = counter().await;
    let free = node.name_ref::<Counter>("nobody", NameRefOptions::default()).unwrap();
    let breaks = async {
        hold.reached(1).await;
        node.node.supervisor.sabotage("the member of registry default");
        node.shared.push(Input::Wake);
    };
    let begun = tokio::time::Instant::now();
    let waits_long = RegisterOptions { wait: Some(TEST_DEADLINE), ..RegisterOptions::default() };
    let unread = node.wait_for(Position(1_000_000), TEST_DEADLINE);
    let (registered, unread, ()) = tokio::join!(node.register_with("x", &actor, waits_long), unread, breaks);
    assert!(matches!(registered, Err(RegisterError::Failed(_))), "{registered:?}");
    assert!(matches!(unread, Err(WaitError::Failed(_))), "{unread:?}");
    assert!(
        matches!(node.live(TEST_DEADLINE).await, Err(NotLive::Failed(_))),
        "its process is to be started anew"
    );
    assert!(begun.elapsed() < Duration::from_secs(1), "answered after {:?}", begun.elapsed());
    assert!(free.cast(Counter::Add(callsign_transport::P(1))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_has_lost_a_thread_fails() {
    let cluster = Cluster::new();
    let (breaks, broken) = watch::channel(None);
    let store: SharedStore = Arc::new(Breaking { store: cluster.store.connect("a"), broken });
    let node = Registry::join(Config { store: store.into(), ..cluster.config("a") }).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    breaks.send_replace(Some("the thread sqlite-writer panicked".to_owned()));
    let failure = tokio::time::timeout(TEST_DEADLINE, node.failed()).await.expect("it fails");
    assert_eq!(failure.part, "the store");
    says_so(&node, &failure).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_panics_when_it_is_asked_how_it_is_fails_and_is_closed() {
    let cluster = Cluster::new();
    let other = cluster.node("b").await;
    let (breaks, broken) = watch::channel(None);
    let store: SharedStore = Arc::new(Breaking { store: cluster.store.connect("a"), broken });
    let node = Registry::join(Config { store: store.into(), ..cluster.config("a") }).await.unwrap();
    let held = node.register("held", &counter().await).await.unwrap();
    other.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
    breaks.send_replace(Some("panic".to_owned()));
    let failure = tokio::time::timeout(TEST_DEADLINE, node.failed()).await.expect("it fails");
    assert_eq!(failure.part, "what the store says of itself");
    says_so(&node, &failure).await;
    until("its names are free", || other.lookup("held") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_costs_its_own_call_and_nothing_else() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (one, two) = (counter().await, counter().await);
    let panics = WhenLapsed::Tell(Arc::new(|notice| panic!("a listener does not like {notice:?}")));
    let options = RegisterOptions { when_lapsed: panics, ..RegisterOptions::default() };
    let first = node.register_with("one", &one, options).await.unwrap();
    let notices = Arc::default();
    let second = node.register_with("two", &two, told(&notices)).await.unwrap();
    cluster.store.outage_for_all();
    until("the other listener is told", || *notices.lock().unwrap() == [Notice::Lapsed]).await;
    cluster.store.heal_all();
    until("it is told again", || notices.lock().unwrap().len() == 2).await;
    assert_eq!(*notices.lock().unwrap(), [Notice::Lapsed, Notice::Resumed]);
    assert_eq!((first.check(), second.check()), (Ok(()), Ok(())));
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    assert_eq!(node.status().failed, None);
    one.stop(None);
    until("its name is free", || node.lookup("one") == Ok(None)).await;
    assert_eq!(node.leave().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_listener_may_ask_its_registry() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (asks, answers) = (node.clone(), Arc::new(Mutex::new(Vec::new())));
    let actor = counter().await;
    let (notices, registered) = (answers.clone(), actor.clone());
    let listener = Arc::new(move |_| {
        // No lock is held: all of this would wait for itself.
        let _ = asks.lookup("x");
        let register = asks.register("y", &registered);
        let mut register = std::pin::pin!(register);
        let _ = register.as_mut().now_or_never();
        notices.lock().unwrap().push(asks.status().failed);
    });
    let options = RegisterOptions { when_lapsed: WhenLapsed::Tell(listener), ..RegisterOptions::default() };
    node.register_with("x", &actor, options).await.unwrap();
    cluster.store.outage_for_all();
    until("it was told", || !answers.lock().unwrap().is_empty()).await;
    cluster.store.heal_all();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
}

/// Panics at whatever Callsign logs, as a subscriber does that cannot write. Remembers which crates logged.
#[derive(Clone, Default)]
struct CannotWrite(Arc<Mutex<BTreeSet<String>>>);

impl<S: Subscriber> Layer<S> for CannotWrite {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        if let Some(of) = target.split("::").next().filter(|of| of.starts_with("callsign")) {
            self.0.lock().unwrap().insert(of.to_owned());
            panic!("it cannot be written");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_costs_what_was_logged_and_nothing_else() {
    let cannot = CannotWrite::default();
    let subscriber = || tracing_subscriber::registry().with(cannot.clone());
    // While there is only one, a call site that another thread comes to first is switched off for all.
    let (_second, _guard) = (Dispatch::new(subscriber()), tracing::subscriber::set_default(subscriber()));
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("b").await, cluster.node("a").await];
    let notices = Arc::default();
    let held = node.register_with("x", &counter().await, told(&notices)).await.unwrap();
    other.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
    cluster.store.outage_for_all();
    until("it is told of the lapse", || *notices.lock().unwrap() == [Notice::Lapsed]).await;
    cluster.store.heal_all();
    until("it is told again", || *notices.lock().unwrap() == [Notice::Lapsed, Notice::Resumed]).await;
    assert_eq!(held.check(), Ok(()));
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    node.unregister("x").await.unwrap();
    assert_eq!(node.leave().await, Ok(()));
    assert!(other.ready(TEST_DEADLINE).await.is_ok(), "another leads");
    let all = ["callsign", "callsign_elector", "callsign_transport"].map(str::to_owned);
    assert!(cannot.0.lock().unwrap().is_superset(&BTreeSet::from(all)), "{:?}", cannot.0);
    assert_eq!([&node, &other].map(|node| node.status().failed), [None, None]);
}

/// A store that says that it is broken when the test does.
#[derive(Debug)]
struct Breaking {
    store: MemoryStore,
    broken: watch::Receiver<Option<String>>,
}

impl Store for Breaking {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        self.store.read(reads)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.store.commit(transaction)
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        self.store.watch(key, since)
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn describe(&self) -> String {
        self.store.describe()
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        self.store.guard_life(node, incarnation)
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        self.store.proof_of_death(node, incarnation)
    }

    fn broken(&self) -> BoxFuture<'static, String> {
        let mut broken = self.broken.clone();
        async move {
            let said = broken.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
            assert_ne!(said.as_deref(), Some("panic"), "the application's own mistake");
            said.unwrap_or_default()
        }
        .boxed()
    }
}
