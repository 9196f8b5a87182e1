//! Claims, as those meet them who registered: who is told of a lapse, and until when a check passes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::ids::NodeName;
use callsign_transport::{Kind, P, RactorClusterMessage, remote_message};
use futures::future::join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::{
    NotHeld, Notice, RegisterError, RegisterOptions, Registry, WhenLapsed,
    core::{
        host::OnTake,
        input::{Answer, Call, OnLapse},
    },
    driver::actor::{Flag, Keeps},
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

/// What one listener notices.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<Notice>>>);

impl Notices {
    fn options(&self) -> RegisterOptions {
        let notices = self.0.clone();
        let tell = move |notice| notices.lock().unwrap().push(notice);
        RegisterOptions { when_lapsed: WhenLapsed::Tell(Arc::new(tell)), ..RegisterOptions::default() }
    }

    fn all(&self) -> Vec<Notice> {
        self.0.lock().unwrap().clone()
    }
}

/// The store goes away until the session has lapsed, and comes back.
async fn lapse(cluster: &Cluster, node: &Registry) {
    cluster.store.outage_for_all();
    until("the session lapses", || node.count().is_err()).await;
    cluster.store.heal_all();
    until("it resumes", || node.count().is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_refused_one_name_and_granted_another_at_once_is_told_of_a_lapse() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let token = b.register("x", &counter().await).await.unwrap().token();
    a.wait_for(token, TEST_DEADLINE).await.unwrap();
    let (actor, notices) = (counter().await, Notices::default());
    let options = notices.options();
    let (x, y) = tokio::join!(
        a.register_with("x", &actor, options.clone()),
        a.register_with("y", &actor, options.clone())
    );
    assert!(matches!(x, Err(RegisterError::Taken { .. })), "{x:?}");
    let y = y.unwrap();
    lapse(&cluster, &a).await;
    until("it was told", || notices.all() == [Notice::Lapsed, Notice::Resumed]).await;
    assert_eq!(y.check(), Ok(()));
    // It is still watched.
    actor.stop(None);
    until("y is free", || a.lookup("y") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn giving_up_one_name_takes_no_listener_from_another_of_the_same_actor() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (actor, old, new) = (counter().await, Notices::default(), Notices::default());
    node.register_with("old", &actor, old.options()).await.unwrap();
    let (given_up, granted) =
        tokio::join!(node.unregister("old"), node.register_with("new", &actor, new.options()));
    given_up.unwrap();
    granted.unwrap();
    lapse(&cluster, &node).await;
    until("it was told", || new.all() == [Notice::Lapsed, Notice::Resumed]).await;
    assert_eq!(old.all(), [], "its name was given up before");
    actor.stop(None);
    until("the name is free", || node.lookup("new") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn each_name_of_an_actor_is_treated_on_a_lapse_as_it_was_registered() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (actor, one, two) = (counter().await, Notices::default(), Notices::default());
    let shared = one.options();
    node.register_with("x", &actor, shared.clone()).await.unwrap();
    node.register_with("y", &actor, shared.clone()).await.unwrap();
    node.register_with("z", &actor, two.options()).await.unwrap();
    // Whoever finds the name held by its own actor is told, too.
    let three = Notices::default();
    let again = three.options();
    node.register_with("z", &actor, again.clone()).await.unwrap();
    node.register_with("z", &actor, again).await.unwrap();
    lapse(&cluster, &node).await;
    for notices in [&one, &two, &three] {
        until("it was told, once", || notices.all() == [Notice::Lapsed, Notice::Resumed]).await;
    }
    // One that relies on the actor being stopped.
    node.register("w", &actor).await.unwrap();
    cluster.store.outage_for_all();
    actor.wait(Some(TEST_DEADLINE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_check_passes_once_the_name_is_being_given_up() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let actor = counter().await;
    let first = node.register("x", &actor).await.unwrap();
    let again = node.register("x", &actor).await.unwrap();
    assert_eq!((first.check(), again.check()), (Ok(()), Ok(())));
    // The store takes nothing, so nothing of it is in the log; but from here on it may be at any time.
    cluster.store.outage_for_all();
    let given_up = node.unregister("x");
    tokio::pin!(given_up);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut given_up).await.is_err());
    assert_eq!((first.check(), again.check()), (Err(NotHeld::Ended), Err(NotHeld::Ended)));
    cluster.store.heal_all();
    given_up.await.unwrap();
    let later = node.register("x", &actor).await.unwrap();
    assert_eq!((first.check(), later.check()), (Err(NotHeld::Ended), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn no_check_passes_once_the_actor_has_ended_or_the_node_has_left() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (mortal, other) = (counter().await, counter().await);
    let ends = node.register("x", &mortal).await.unwrap();
    let stays = node.register("y", &other).await.unwrap();
    // Also while the member has not heard of it, or has more names to give up than it does in a step.
    let unheard = Flag::of(mortal.get_cell());
    assert!(!unheard.has_ended());
    mortal.stop_and_wait(None, None).await.unwrap();
    assert!(unheard.has_ended());
    assert_eq!((ends.check(), stays.check()), (Err(NotHeld::Ended), Ok(())));
    node.leave().await.unwrap();
    assert_eq!(stays.check(), Err(NotHeld::Ended));
}

#[tokio::test(start_paused = true)]
async fn an_actor_with_more_names_than_a_step_takes_frees_them_all_and_no_check_of_it_passes_meanwhile() {
    const NAMES: usize = 3000;
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let actor = counter().await;
    let names: Vec<_> = (0..NAMES).map(|n| format!("n{n}")).collect();
    let held = join_all(names.iter().map(|name| b.register(name, &actor))).await;
    actor.stop_and_wait(None, None).await.unwrap();
    assert!(held.iter().flatten().count() == NAMES);
    assert!(held.iter().flatten().all(|held| held.check() == Err(NotHeld::Ended)));
    // Asked for before all of them are free: it comes after what was held.
    let again = b.register(&names[NAMES - 1], &counter().await).await.unwrap();
    until("the others are free", || a.names().is_ok_and(|names| names.len() == 1)).await;
    assert_eq!((again.check(), b.shared.kept()), (Ok(()), (1, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_trusted_for_what_is_left_of_the_session_and_not_at_all_once_it_has_ended() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    // It is told of the lapse, and lives.
    let options = Notices::default().options();
    let held = node.register_with("x", &counter().await, options).await.unwrap();
    let window = crate::SessionTiming::default().trust_window();
    let left = held.trusted_for().unwrap();
    assert!(Duration::ZERO < left && left <= window, "{left:?}");
    cluster.store.outage_for_all();
    // What is left only gets less, and the check passes as long as something is.
    let (mut last, mut looks) = (held.trusted_for().unwrap(), 0);
    until("trust runs out", || {
        let Ok(left) = held.trusted_for() else { return true };
        assert!(left <= last, "{left:?} after {last:?}");
        (last, looks) = (left, looks + 1);
        false
    })
    .await;
    assert!(looks > 2);
    assert_eq!(held.check(), Err(NotHeld::NotTrusted));
    cluster.store.heal_all();
    until("it resumes", || held.trusted_for().is_ok_and(|left| left > last)).await;
    node.unregister("x").await.unwrap();
    assert_eq!(held.trusted_for(), Err(NotHeld::Ended));
}

/// Panics at what it is sent.
#[derive(RactorClusterMessage)]
enum Fuse {
    Blow(P<u8>),
}
remote_message!(Fuse, "test.fuse/1");

struct FuseActor;

impl Actor for FuseActor {
    type Msg = Fuse;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Fuse>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Fuse>,
        Fuse::Blow(P(code)): Fuse,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        panic!("blown with {code}, as the test asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_panics_is_unregistered() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let (fuse, _) = Actor::spawn(None, FuseActor, ()).await.unwrap();
    let registration = a.register("x", &fuse).await.unwrap();
    b.wait_for(registration.token(), TEST_DEADLINE).await.unwrap();
    fuse.cast(Fuse::Blow(P(1))).unwrap();
    until("the name is free on b", || b.lookup("x") == Ok(None)).await;
    assert_eq!(registration.check(), Err(NotHeld::Ended));
    assert!(b.register("x", &counter().await).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_has_ended_when_it_is_to_be_watched_holds_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (ended, heir) = (counter().await, counter().await);
    let actor = ended.get_id().pid();
    ended.stop_and_wait(None, None).await.unwrap();
    // `register` looks at the actor before it asks; this one ended right after that.
    let register = asks_for("x", actor);
    let answer = node.shared.register(register, TEST_DEADLINE, Keeps::default(), ended.get_cell()).1.await;
    assert_eq!(answer, Some(Answer::Registered(Err(RegisterError::ActorEnded))));
    assert!(node.register("x", &heir).await.is_ok());
}

fn asks_for(name: &str, actor: u64) -> Call {
    Call::Register {
        name: name.into(),
        actor,
        kind: Kind(1),
        on_lapse: OnLapse::Stop,
        on_take: OnTake::default(),
        meta: None,
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_call_that_a_member_which_has_ended_does_not_answer() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let actor = counter().await;
    node.clone().leave().await.unwrap();
    until("the member has ended", || node.shared.has_ended()).await;
    let register = asks_for("x", actor.get_id().pid());
    assert_eq!(
        node.shared.register(register, TEST_DEADLINE, Keeps::default(), actor.get_cell()).1.await,
        None
    );
    assert_eq!(node.shared.kept().0, 0);
}

/// Takes its time to end.
struct Lingering(Arc<tokio::sync::Notify>);

impl Actor for Lingering {
    type Msg = Fuse;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Fuse>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Fuse>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.0.notified().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_ending_when_it_is_to_be_watched_holds_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let end = Arc::new(tokio::sync::Notify::new());
    let (ending, task) = Actor::spawn(None, Lingering(end.clone()), ()).await.unwrap();
    ending.stop(None);
    until("it is ending", || ending.get_status() >= ractor::ActorStatus::Stopping).await;
    let actor = ending.get_id().pid();
    let register = asks_for("x", actor);
    let answer = node.shared.register(register, TEST_DEADLINE, Keeps::default(), ending.get_cell()).1.await;
    assert_eq!(answer, Some(Answer::Registered(Err(RegisterError::ActorEnded))));
    assert!(node.register("x", &counter().await).await.is_ok(), "it takes nothing any more");
    end.notify_one();
    task.await.unwrap();
}

/// One worker runs what was woken last first: the member, before those who are about to ask it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn those_who_ask_at_the_same_time_share_a_commit() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let mut commits = Vec::new();
    // A timer of the member may come in between, though hardly each time.
    for round in 0..5 {
        let before = node.status().position.0;
        let registry = node.clone();
        let all_ask = async move {
            let mut asking = tokio::task::JoinSet::new();
            for nth in 0..8 {
                let (registry, actor) = (registry.clone(), counter().await);
                asking.spawn(async move { registry.register(&format!("{round}/{nth}"), &actor).await });
            }
            asking.join_all().await
        };
        assert!(tokio::spawn(all_ask).await.unwrap().iter().all(Result::is_ok));
        commits.push(node.status().position.0 - before);
    }
    assert!(commits.contains(&1), "{commits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_that_end_while_they_are_being_registered_leave_no_name_behind() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    for round in 0..200 {
        let (name, actor) = (format!("n{round}"), counter().await);
        let ends = async {
            // At another moment each time.
            for _ in 0..round % 16 {
                tokio::task::yield_now().await;
            }
            actor.stop(None);
        };
        let (registered, ()) = tokio::join!(node.register(&name, &actor), ends);
        match registered {
            Ok(_) | Err(RegisterError::ActorEnded) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    until("all names are free", || node.count() == Ok(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_successor_of_an_actor_that_has_ended_is_never_refused_because_of_it() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let mut refused = Vec::new();
    for node in [&a, &b] {
        let name = node.node().to_owned();
        let mut actor = counter().await;
        let mut registration = node.register(&name, &actor).await.unwrap();
        for _ in 0..100 {
            actor.stop_and_wait(None, None).await.unwrap();
            actor = counter().await;
            match node.register(&name, &actor).await {
                Ok(next) => {
                    assert!(next.token() > registration.token());
                    assert_eq!(next.check(), Ok(()));
                    registration = next;
                }
                Err(error) => {
                    refused.push(error);
                    until("the name is free", || node.lookup(&name) == Ok(None)).await;
                    registration = node.register(&name, &actor).await.unwrap();
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} of 200: {:?}", refused.len(), refused[0]);
}

#[tokio::test(start_paused = true)]
async fn an_actor_of_another_node_is_not_registered_here() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let token = a.register("x", &counter().await).await.unwrap().token();
    b.wait_for(token, TEST_DEADLINE).await.unwrap();
    let elsewhere: ActorRef<Counter> = b.whereis("x").unwrap();
    let refused = b.register("y", &elsewhere).await.map(|registration| registration.token());
    assert_eq!(refused, Err(RegisterError::NotLocal { node: Some(NodeName::new("a").unwrap()) }));
    assert_eq!(c.lookup_consistent("y", TEST_DEADLINE).await, Ok(None));
}
