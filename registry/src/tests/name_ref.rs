//! References by name, over real actors and links.

use std::time::Duration;

use callsign_store::in_full;
use callsign_transport::P;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::{
    CallError, CastError, NameRef, NameRefOptions, RegisterOptions, Registry, Select, WatchError,
    tests::driver::{Cluster, Counter, Other, TEST_DEADLINE, counter, until},
};

async fn get(counter: &ActorRef<Counter>) -> i64 {
    ractor::call_t!(counter, Counter::Get, 5000).unwrap().0
}

fn over(registry: &Registry, buffer: usize, deadline: Duration) -> NameRef<Counter> {
    registry.name_ref("counter", NameRefOptions { buffer, deadline }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn messages_wait_for_a_holder_and_arrive_once_and_in_order() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let by_name = over(&nodes[0], 8, TEST_DEADLINE);
    // The first in the queue is slow to notice; nobody overtakes it.
    let mut first = Box::pin(by_name.cast(Counter::Add(P(1))));
    assert!(futures::poll!(&mut first).is_pending());
    let early: Vec<_> = (1..=5)
        .map(|n| {
            let to = by_name.clone();
            tokio::spawn(async move { to.cast(Counter::Add(P(10_i64.pow(n)))).await })
        })
        .collect();
    until("they wait", || by_name.waiting() == 6).await;
    let log = log_actor().await;
    nodes[0].register("counter", &log).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(TAKEN.lock().unwrap().is_empty());
    let (first, last) = tokio::join!(first, by_name.cast(Counter::Add(P(7))));
    first.and(last).unwrap();
    for cast in early {
        cast.await.unwrap().unwrap();
    }
    until("all are there", || TAKEN.lock().unwrap().len() == 7).await;
    assert_eq!(*TAKEN.lock().unwrap(), [1, 10, 100, 1000, 10_000, 100_000, 7]);
    assert_eq!(by_name.waiting(), 0);
}

/// What the one [`Log`] of this process was sent.
static TAKEN: std::sync::Mutex<Vec<i64>> = std::sync::Mutex::new(Vec::new());

struct Log;

impl Actor for Log {
    type Msg = Counter;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Counter>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Counter>,
        message: Counter,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let Counter::Add(P(by)) = message {
            TAKEN.lock().unwrap().push(by);
        }
        Ok(())
    }
}

async fn log_actor() -> ActorRef<Counter> {
    Actor::spawn(None, Log, ()).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn who_does_not_want_to_wait_need_not_though_tokio_would_have_the_task_pause() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let counter = counter().await;
    node.register("counter", &counter).await.unwrap();
    let by_name = over(&node, 8, Duration::ZERO);
    for _ in 0..1000 {
        by_name.cast(Counter::Add(P(1))).await.unwrap();
    }
    assert_eq!(get(&counter).await, 1000);
}

#[tokio::test(start_paused = true)]
async fn where_no_buffer_is_wanted_one_message_may_wait_all_the_same() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let narrow = over(&node, 0, Duration::from_secs(3));
    assert_eq!(narrow.waiting(), 0);
    let (one, other) = tokio::join!(narrow.cast(Counter::Add(P(1))), narrow.cast(Counter::Add(P(2))));
    assert!(matches!(one, Err(CastError::TooLate { .. })), "{one:?}");
    assert!(matches!(other, Err(CastError::Full { waiting: 1, .. })), "{other:?}");
    // A call waits no longer than the reference lets its message.
    let begun = tokio::time::Instant::now();
    let called = narrow.call(Counter::Get, TEST_DEADLINE).await;
    assert!(matches!(called, Err(CallError::NotSent(_))), "{called:?}");
    assert_eq!(begun.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn where_any_buffer_is_wanted_nothing_waits_before_it_was_sent() {
    let node = Cluster::new().node("a").await;
    assert_eq!(over(&node, usize::MAX, TEST_DEADLINE).waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_buffer_and_a_deadline_give_the_message_back() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let to = over(&node, 2, Duration::from_secs(3));
    let waiting: Vec<_> = (0..2)
        .map(|n| {
            let to = to.clone();
            tokio::spawn(async move { to.cast(Counter::Add(P(n))).await })
        })
        .collect();
    until("both wait", || to.waiting() == 2).await;
    let refused = to.cast(Counter::Add(P(77))).await.unwrap_err();
    assert!(matches!(refused, CastError::Full { waiting: 2, .. }), "{refused}");
    assert!(matches!(refused.into_message(), Some(Counter::Add(P(77)))), "the message comes back");
    let before = tokio::time::Instant::now();
    for (n, cast) in waiting.into_iter().enumerate() {
        let late = cast.await.unwrap().unwrap_err();
        assert!(matches!(late, CastError::TooLate { .. }), "{late}");
        assert!(matches!(late.into_message(), Some(Counter::Add(P(m))) if m == i64::try_from(n).unwrap()));
    }
    assert!(before.elapsed() <= Duration::from_secs(3), "{:?}", before.elapsed());
    assert_eq!(to.waiting(), 0, "the places are free again");
    // Nothing of it arrives later.
    let actor = counter().await;
    node.register("counter", &actor).await.unwrap();
    assert_eq!(get(&actor).await, 0);
}

#[tokio::test(start_paused = true)]
async fn senders_ride_over_a_move_of_the_name_and_a_message_that_is_withdrawn_is_not_sent() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let (first, second) = (counter().await, counter().await);
    nodes[0].register("counter", &first).await.unwrap();
    let to = over(&nodes[2], 8, TEST_DEADLINE);
    to.cast(Counter::Add(P(1))).await.unwrap();
    assert_eq!(to.call(Counter::Get, TEST_DEADLINE).await.unwrap(), P(1), "the first answers");

    nodes[0].unregister("counter").await.unwrap();
    until("c knows", || nodes[2].lookup("counter") == Ok(None)).await;
    let withdrawn = tokio::time::timeout(Duration::from_secs(1), to.cast(Counter::Add(P(50)))).await;
    assert!(withdrawn.is_err());
    let sent = tokio::spawn({
        let to = to.clone();
        async move { to.call(Counter::Get, TEST_DEADLINE).await }
    });
    until("it waits", || to.waiting() == 1).await;
    nodes[1].register("counter", &second).await.unwrap();
    assert_eq!(sent.await.unwrap().unwrap(), P(0), "the second answers");
    assert_eq!((get(&first).await, get(&second).await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_is_not_repeated() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let to = over(&node, 8, Duration::from_secs(2));
    let unsent = to.call(Counter::Get, TEST_DEADLINE).await.unwrap_err();
    assert!(matches!(unsent, CallError::NotSent(_)), "{unsent}");

    let (silent, good) = (silent_actor().await, counter().await);
    node.register("counter", &silent).await.unwrap();
    let call = tokio::spawn({
        let to = to.clone();
        async move { to.call(Counter::Get, TEST_DEADLINE).await }
    });
    until("it was asked", || ASKED.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    silent.kill();
    until("the name is free", || node.lookup("counter") == Ok(None)).await;
    node.register("counter", &good).await.unwrap();
    let lost = call.await.unwrap().unwrap_err();
    assert!(matches!(lost, CallError::NotAnswered), "{lost}");
    let late = silent_actor().await;
    node.unregister("counter").await.unwrap();
    node.register("counter", &late).await.unwrap();
    let late = to.call(Counter::Get, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(late, CallError::TimedOut { waited } if waited == Duration::from_secs(1)), "{late}");
}

static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Takes calls and answers none, ever.
struct Silent;

impl Actor for Silent {
    type Msg = Counter;
    type State = Vec<Counter>;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Counter>, (): ()) -> Result<Vec<Counter>, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle(
        &self,
        _: ActorRef<Counter>,
        message: Counter,
        kept: &mut Vec<Counter>,
    ) -> Result<(), ActorProcessingErr> {
        kept.push(message);
        ASKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

async fn silent_actor() -> ActorRef<Counter> {
    Actor::spawn(None, Silent, ()).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_those_before_it_and_a_call_no_longer_than_it_may() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    // One message may wait in any case.
    let one = over(&node, 0, Duration::from_secs(3));
    let mut waits = Box::pin(one.cast(Counter::Add(P(1))));
    assert!(futures::poll!(&mut waits).is_pending() && one.waiting() == 1);
    let full = one.cast(Counter::Add(P(2))).await.unwrap_err();
    assert!(matches!(full, CastError::Full { waiting: 1, .. }), "{full}");
    drop(waits);
    assert_eq!(one.waiting(), 0);

    let to = over(&node, 8, Duration::from_secs(30));
    let mut first = Box::pin(to.cast(Counter::Add(P(1))));
    assert!(futures::poll!(&mut first).is_pending());
    let before = tokio::time::Instant::now();
    let short = Duration::from_secs(2);
    let queued = to.call(Counter::Get, short).await.unwrap_err();
    let said = "the question was not sent: not sent within 2s: messages before it are waiting";
    assert_eq!(in_full(&queued).to_string(), said);
    assert_eq!(before.elapsed(), short);
    drop(first);
    let nobody = to.call(Counter::Get, short).await.unwrap_err();
    let said = "the question was not sent: not sent within 2s: nobody holds \"counter\"";
    assert_eq!(in_full(&nobody).to_string(), said);
    assert_eq!(before.elapsed(), 2 * short);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_by_a_node_that_has_failed_and_nothing_is_sent_to_what_takes_other_messages() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let other = counter().await;
    node.register("counter", &other).await.unwrap();
    let to = node.name_ref::<Other>("counter", NameRefOptions::default()).unwrap();
    let wrong = to.cast(Other::Nothing).await.unwrap_err();
    let said = "not sent: the actor takes messages of test.counter/1, not of test.other/1";
    assert_eq!(in_full(&wrong).to_string(), said);
    assert!(matches!(wrong, CastError::WrongType { .. }) && wrong.into_message().is_some());
    node.unregister("counter").await.unwrap();
    node.node.supervisor.sabotage("the timer of a registry");
    node.failed().await;
    let before = tokio::time::Instant::now();
    let failed = over(&node, 8, TEST_DEADLINE).cast(Counter::Add(P(1))).await.unwrap_err();
    assert!(matches!(failed, CastError::TooLate { waited: Duration::ZERO, .. }), "{failed}");
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(matches!(node.watch(Select::all()), Err(WatchError::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_a_session_is_sent_when_that_resumes_and_not_at_its_deadline() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let actor = counter().await;
    node.register_with("counter", &actor, RegisterOptions::default().tell(|_| ())).await.unwrap();
    let to = over(&node, 8, Duration::from_secs(3600));
    cluster.store.outage_for_all();
    until("it has lapsed", || node.lookup("counter").is_err()).await;
    let sent = tokio::spawn({
        let to = to.clone();
        async move { to.cast(Counter::Add(P(1))).await }
    });
    until("it waits", || to.waiting() == 1).await;
    cluster.store.heal_all();
    until("it is sent", || sent.is_finished()).await;
    sent.await.unwrap().unwrap();
    assert_eq!(get(&actor).await, 1);
}
