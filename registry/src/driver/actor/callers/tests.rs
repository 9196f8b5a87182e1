//! What is left of what a member shares, once it has ended, or does not answer.

mod kept;

use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr};

use super::*;
use crate::{
    ConsistentError, LookupError, NotHeld, NotStarted, RegisterOptions, Registry, StartOptions,
    UnregisterError,
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

/// More than are in their order by chance.
const MANY: u64 = 40;

fn keep(shared: &Shared, claim: u64, listener: Option<Listener>) {
    let keeps = Keeps { listener, gives: None };
    lock(&shared.claims).insert(CallId(claim), Kept::new(claim, Flag::default(), keeps, None));
}

#[tokio::test(start_paused = true)]
async fn whatever_is_known_of_a_member_that_ends_ends_with_it() {
    let node = Cluster::new().node("a").await;
    let shared = &node.shared;
    let held = node.register("x", &counter().await).await.unwrap();
    let started = counter().await;
    shared.yields(CallId(1 << 40), started.get_id().pid(), started.get_cell());
    let place = CallId(1 << 41);
    shared.holding.open(place);
    let mut waits = shared.holding.of(place).unwrap();
    let mut changed = std::pin::pin!(shared.changed.notified());
    assert!(changed.as_mut().now_or_never().is_none() && held.check() == Ok(()));

    shared.ends();
    assert_eq!(held.check(), Err(NotHeld::Ended));
    assert_eq!(node.lookup("x"), Err(LookupError::NotSynced), "what it had is believed no more");
    assert!(waits.changed().await.is_err(), "nobody waits for a place that never comes");
    assert!(changed.now_or_never().is_some(), "who waits for a change looks again");
    started.wait(Some(TEST_DEADLINE)).await.expect("nobody would watch it any more");
}

#[tokio::test(start_paused = true)]
async fn who_is_told_that_all_claims_have_ended_is_told_once_in_their_order_and_sees_that_they_have() {
    let node = Cluster::new().node("a").await;
    let held = node.register("x", &counter().await).await.unwrap();
    let told = Arc::<Mutex<Vec<u64>>>::default();
    let listener = |number: u64| -> Listener {
        let (told, shared, held) = (told.clone(), node.shared.clone(), held.clone());
        Arc::new(move |notice| {
            assert_eq!(notice, Notice::Lost);
            assert!(shared.has_ended() && held.check() == Err(NotHeld::Ended));
            lock(&told).push(number);
        })
    };
    for claim in 1..=MANY {
        let listener = listener(claim);
        keep(&node.shared, 2 * claim + 1000, Some(listener.clone()));
        keep(&node.shared, 2 * claim + 1001, Some(listener));
    }
    keep(&node.shared, 900, None);
    let actors = node.shared.end_all_claims(Notice::Lost);
    assert_eq!(*lock(&told), (1..=MANY).collect::<Vec<_>>());
    assert!(!actors.contains(&900) && actors.len() as u64 == 2 * MANY, "who is not told is stopped");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_answer_that_never_comes_is_woken_in_the_order_of_the_calls() {
    let node = Cluster::new().node("a").await;
    let woken = Arc::<Mutex<Vec<u64>>>::default();
    let mut tasks = Vec::new();
    for call in 1..=MANY {
        let (answer, answered) = oneshot::channel();
        lock(&node.shared.answers)
            .insert(CallId(1000 + call), WaitingCall { answer, since: Time::ZERO, trace: None });
        let woken = woken.clone();
        tasks.push(tokio::spawn(async move {
            assert!(answered.await.is_err());
            lock(&woken).push(call);
        }));
    }
    // All of them wait before anybody is woken.
    tokio::task::yield_now().await;
    node.shared.answers_nobody();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*lock(&woken), (1..=MANY).collect::<Vec<_>>());
}

/// Writes down that it was stopped.
struct Ends(u64, Arc<Mutex<Vec<u64>>>);

impl Actor for Ends {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<()>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        lock(&self.1).push(self.0);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn actors_that_the_member_never_hears_of_are_stopped_in_the_order_of_their_claims() {
    let node = Cluster::new().node("a").await;
    let ended = Arc::<Mutex<Vec<u64>>>::default();
    let mut tasks = Vec::new();
    for number in 1..=MANY {
        let (actor, task) = Actor::spawn(None, Ends(number, ended.clone()), ()).await.unwrap();
        node.shared.yields(CallId(1000 + number), actor.get_id().pid(), actor.get_cell());
        // It waits for its first message, so that it is the stop that wakes it.
        until("it runs", || actor.get_status() == ractor::ActorStatus::Running).await;
        tasks.push(task);
    }
    node.shared.stop_yields();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*lock(&ended), (1..=MANY).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_actor_was_started_later_ends_with_it_before_the_member_hears_of_that() {
    let node = Cluster::new().node("a").await;
    let actor = counter().await;
    keep(&node.shared, 1000, None);
    let flag = node.shared.flag_of(CallId(1000));
    node.shared.yields(CallId(1000), actor.get_id().pid(), actor.get_cell());
    assert!(!flag.has_ended());
    actor.stop_and_wait(None, None).await.unwrap();
    assert!(flag.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_given_up_is_told_so_at_once() {
    let node = Cluster::new().node("a").await;
    let place = CallId(1000);
    node.shared.holding.open(place);
    node.shared.forget(place);
    assert!(node.shared.holding.of(place).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_writes_fails_in_an_outage_if_that_was_asked_for_and_waits_otherwise() {
    for on_outage in [OnOutage::Wait, OnOutage::Fail] {
        let cluster = Cluster::new();
        let node = Registry::join(cluster.config("a").on_outage(on_outage)).await.unwrap();
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        node.register_with("x", &counter().await, RegisterOptions::default().tell(|_| ())).await.unwrap();
        cluster.store.outage_for_all();
        until("the outage is noticed", || node.shared.calls.outage.lasting().is_some()).await;
        let freed = node.unregister("x").now_or_never();
        match on_outage {
            OnOutage::Wait => assert!(freed.is_none(), "{freed:?}"),
            OnOutage::Fail => {
                assert!(matches!(freed, Some(Err(UnregisterError::StoreUnavailable { .. }))), "{freed:?}");
            }
        }
    }
}

/// A member that takes nothing from its inbox.
async fn hanging() -> Registry {
    let node = Cluster::new().node("a").await;
    *lock(&node.shared.actor) = None;
    node
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_is_waited_for_as_long_as_it_may_take_and_a_second_more() {
    let node = hanging().await;
    let request = node.shared.calls.timeout;
    let begun = tokio::time::Instant::now();
    let answer = node.shared.call(Call::Ready, request).await;
    assert!(answer.is_some() && begun.elapsed() == request + HANGS, "{answer:?} {:?}", begun.elapsed());

    // It asks, waits for others, asks again, starts, and binds.
    let (limit, patience) = (Duration::from_secs(10), Duration::from_secs(100));
    let options = StartOptions::default().limit(limit).wait(patience);
    let begun = tokio::time::Instant::now();
    let started = node.start_with("x", options, |_| async { Ok(counter().await) }).await;
    let waited = patience + limit + 3 * request + HANGS;
    assert!(matches!(started, Err(NotStarted::Register(_))), "{:?}", started.err());
    assert_eq!(begun.elapsed(), waited);
}

/// What the member of a node has to take, and how many wait for an answer.
fn kept_of(shared: &Shared) -> (Vec<Told>, usize) {
    (shared.inbox.take(Vec::new()).0, lock(&shared.answers).len())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_what_a_member_is_asked_or_told_after_it_has_ended() {
    let node = Cluster::new().node("a").await;
    node.leave().await.unwrap();
    until("the member has ended", || node.shared.has_ended()).await;
    for _ in 0..1000 {
        let found = node.lookup_consistent("x", TEST_DEADLINE).await;
        assert_eq!(found, Err(ConsistentError::Left));
    }
    // Nor is anything kept of a call whose caller does not wait for it.
    drop(node.shared.call_as(CallId(1 << 40), Call::Ready, TEST_DEADLINE, TEST_DEADLINE));
    node.shared.push(Input::Wake);
    node.shared.actor_ended(7);
    assert_eq!(kept_of(&node.shared), (Vec::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_what_a_member_was_asked_and_told_right_before_it_ended() {
    let node = hanging().await;
    let mut asked = std::pin::pin!(node.shared.call(Call::Ready, TEST_DEADLINE));
    assert!(asked.as_mut().now_or_never().is_none());
    node.shared.actor_ended(7);
    node.shared.ends();
    node.shared.answers_nobody();
    assert_eq!(kept_of(&node.shared), (Vec::new(), 0));
    assert_eq!(asked.await, None);
}
