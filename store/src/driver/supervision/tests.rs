use std::{sync::mpsc, time::Duration};

use ractor::ActorProcessingErr;

use super::*;

struct Echo;

#[derive(Debug)]
enum Ask {
    Panic,
    Fail,
    Stop,
}

impl ractor::Message for Ask {}

impl Actor for Echo {
    type Msg = Ask;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Ask>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Ask>, ask: Ask, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match ask {
            Ask::Panic => panic!("on request"),
            Ask::Fail => Err("on request".into()),
            Ask::Stop => {
                myself.stop(None);
                Ok(())
            }
        }
    }
}

fn failure(part: &str, reason: &str) -> NodeFailure {
    NodeFailure::new(part, reason)
}

async fn failed(supervisor: &Supervisor) -> NodeFailure {
    tokio::time::timeout(Duration::from_secs(60), supervisor.failed()).await.expect("it fails")
}

#[tokio::test]
async fn a_task_that_is_done_is_no_failure_and_one_that_panics_or_a_service_that_ends_is() {
    let supervisor = Supervisor::new();
    supervisor.task("a task", async {}).await.unwrap();
    assert_eq!(supervisor.failure(), None);
    supervisor.task("a task", async { panic!("with {} words", 3) }).await.unwrap();
    assert_eq!(failed(&supervisor).await, failure("a task", "panicked: with 3 words"));

    let supervisor = Supervisor::new();
    supervisor.service("a service", async {}).await.unwrap();
    assert_eq!(failed(&supervisor).await, failure("a service", UNASKED));
}

#[tokio::test]
async fn an_actor_that_panics_fails_stops_or_is_killed_ends_its_node() {
    for (ask, reason) in [
        (Some(Ask::Panic), "panicked: on request"),
        (Some(Ask::Fail), "failed: on request"),
        (Some(Ask::Stop), UNASKED),
        (None, UNASKED),
    ] {
        let supervisor = Supervisor::new();
        let (actor, _part) = supervisor.actor("an actor", Echo, ()).await.unwrap();
        match ask {
            Some(ask) => actor.cast(ask).unwrap(),
            None => actor.kill(),
        }
        assert_eq!(failed(&supervisor).await, failure("an actor", reason));
    }
}

#[tokio::test]
async fn an_actor_that_may_end_ends_nothing_and_neither_does_any_part_of_a_node_that_has_left() {
    let supervisor = Supervisor::new();
    let (actor, part) = supervisor.actor("an actor", Echo, ()).await.unwrap();
    part.may_end();
    actor.cast(Ask::Stop).unwrap();
    actor.wait(None).await.unwrap();
    let (actor, _part) = supervisor.actor("another", Echo, ()).await.unwrap();
    supervisor.end();
    actor.cast(Ask::Panic).unwrap();
    actor.wait(None).await.unwrap();
    supervisor.service("a service", async {}).await.unwrap();
    assert_eq!(supervisor.failure(), None);
}

#[tokio::test]
async fn all_hooks_run_for_the_first_failure_also_if_one_panics_or_comes_late() {
    let supervisor = Supervisor::new();
    let (ran, runs) = mpsc::channel();
    supervisor.on_failure(|_| panic!("a hook"));
    let first = ran.clone();
    supervisor.on_failure(move |failure| first.send(("early", failure.clone())).unwrap());
    supervisor.fail("one", "broke".to_owned());
    supervisor.fail("two", "broke".to_owned());
    supervisor.on_failure(move |failure| ran.send(("late", failure.clone())).unwrap());
    let expected = [("early", failure("one", "broke")), ("late", failure("one", "broke"))];
    assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn hooks_of_what_is_gone_are_dropped_and_those_of_what_lives_run_in_their_order() {
    let supervisor = Supervisor::new();
    let (ran, runs) = mpsc::channel();
    let hook_of = |of: &Arc<usize>| {
        let ran = ran.clone();
        supervisor
            .on_failure_of(Arc::downgrade(of), move |of, failure| ran.send((*of, failure.clone())).unwrap());
    };
    let (first, last) = (Arc::new(1), Arc::new(2));
    hook_of(&first);
    for _ in 0..100 {
        hook_of(&Arc::new(0));
    }
    hook_of(&last);
    assert!(supervisor.hooks_kept() < 50, "{} are kept", supervisor.hooks_kept());
    supervisor.fail("one", "broke".to_owned());
    // The node has failed already.
    hook_of(&first);
    drop(ran);
    let runs: Vec<_> = runs.iter().collect();
    assert_eq!(runs, [1_usize, 2, 1].map(|of| (of, failure("one", "broke"))));
}

#[tokio::test]
async fn foreign_code_that_panics_costs_its_call_only() {
    assert_eq!(foreign("a listener", || 1), Some(1));
    assert_eq!(foreign("a listener", || -> i32 { panic!("mine") }), None);
    assert_eq!(foreign_async("a function", async { 1 }).await, Some(1));
    assert_eq!(foreign_async("a function", async { panic!("mine") }).await, None::<i32>);
}

#[tokio::test]
async fn a_step_that_panics_ends_its_node_and_one_that_does_not_returns_what_it_did() {
    let supervisor = Supervisor::new();
    assert_eq!(supervisor.step("a thread", || 1), Some(1));
    assert_eq!(supervisor.failure(), None);
    assert_eq!(supervisor.step("a thread", || -> i32 { panic!("on request") }), None);
    assert_eq!(failed(&supervisor).await, failure("a thread", "panicked: on request"));
}

/// A node that dies before the step of this number of any of its parts.
#[derive(Debug)]
struct DiesAt {
    steps: std::sync::atomic::AtomicUsize,
    last: usize,
    death: std::sync::Arc<tokio::sync::Semaphore>,
}

impl Turns for DiesAt {
    fn turn(&self, _: &str) -> Turn {
        match self.steps.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Turn::Waits(tokio::task::yield_now().boxed()),
            step if step < self.last => Turn::Runs,
            _ => {
                self.death.close();
                Turn::Dies
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.death.is_closed()
    }

    fn death(&self) -> futures::future::BoxFuture<'static, ()> {
        let death = self.death.clone();
        async move { drop(death.acquire().await) }.boxed()
    }
}

#[tokio::test]
async fn what_a_part_holds_is_dropped_when_its_node_dies_and_nothing_of_it_runs_or_fails_after_that() {
    let death = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let turns = DiesAt { steps: 0.into(), last: 3, death };
    let supervisor = Supervisor::in_turns("a node", Some(std::sync::Arc::new(turns)));
    let (held, dropped) = tokio::sync::oneshot::channel::<()>();
    let (idle_held, idle_dropped) = tokio::sync::oneshot::channel::<()>();
    supervisor.task("an idle task", async move {
        let _held = idle_held;
        std::future::pending::<()>().await;
    });
    let (actor, _part) = supervisor.actor("an actor", Echo, ()).await.unwrap();
    supervisor.task("a task", async move {
        let _held = held;
        loop {
            tokio::task::yield_now().await;
        }
    });
    assert!(dropped.await.is_err() && idle_dropped.await.is_err());
    actor.cast(Ask::Panic).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(supervisor.step("a step", || ()), None);
    actor.kill();
    tokio::task::yield_now().await;
    assert_eq!(supervisor.failure(), None);
}

#[tokio::test]
async fn who_waits_for_the_end_is_told_that_a_node_has_left_and_its_hooks_are_dropped() {
    let supervisor = Supervisor::new();
    supervisor.on_failure(|_| panic!("nothing has failed"));
    let mut outcome = Box::pin(supervisor.outcome());
    assert!(futures::poll!(&mut outcome).is_pending());
    supervisor.end();
    assert_eq!(futures::poll!(&mut outcome), std::task::Poll::Ready(None));
    assert_eq!(supervisor.hooks_kept(), 0);
    let supervisor = Supervisor::new();
    supervisor.fail("one", "broke".to_owned());
    supervisor.end();
    assert_eq!(supervisor.failure(), Some(failure("one", "broke")), "it had failed before it left");
}

#[tokio::test]
async fn a_hook_may_leave_another_one_which_runs_as_well() {
    let supervisor = Supervisor::new();
    let (ran, runs) = mpsc::channel();
    let leaves = |when: &'static str| {
        let (supervisor, ran) = (supervisor.clone(), ran.clone());
        move |_: &NodeFailure| supervisor.on_failure(move |_| ran.send(when).unwrap())
    };
    supervisor.on_failure(leaves("before it failed"));
    let (late, failing) = (leaves("when it had failed"), supervisor.clone());
    let thread = std::thread::spawn(move || {
        failing.fail("one", "broke".to_owned());
        failing.on_failure(late);
    });
    let told = [(); 2].map(|()| runs.recv_timeout(crate::testing::TEST_DEADLINE));
    assert_eq!(told, [Ok("before it failed"), Ok("when it had failed")]);
    thread.join().unwrap();
}
