//! A child: how it is made, and how it is ended, also when it does not want to.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use callsign_election::{Grant, Leadership, Term};
use callsign_store::{in_full, lock::lock};
use callsign_transport::RemoteMessage;
use futures::{FutureExt, future::BoxFuture};
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

/// What a leader child is made with.
#[non_exhaustive]
pub struct Lead<F> {
    /// The grant of the term. Its fence is what a sink compares; after a refresh, [`Leadership::check`] has the last one.
    pub grant: Grant<F>,
    /// Tells whether this member still leads: to be asked before each act.
    pub leadership: Leadership<F>,
    /// What the former leader child left, if it ended cleanly and nobody led in between. The first child of a term gets
    /// it, and one that is started again does not.
    pub handed_over: Option<Vec<u8>>,
    /// How often it was started again in this term, within the time of [`restarts`](crate::SingletonPlan::restarts).
    pub restart: u32,
}

impl<F: Clone + fmt::Debug> fmt::Debug for Lead<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.handed_over.as_ref().map(Vec::len);
        f.debug_struct("Lead")
            .field("grant", &self.grant)
            .field("handed_over_bytes", &bytes)
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// What a follower child is made with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Follow {
    /// Who leads, if that is known. It may have changed since; [`Singleton::transitions`](crate::Singleton::transitions) tells.
    pub leader: Option<Term>,
    /// How often it was started again, within the time of [`restarts`](crate::SingletonPlan::restarts).
    pub restart: u32,
}

type Spawned<M> = BoxFuture<'static, Result<(ActorRef<M>, JoinHandle<()>), SpawnErr>>;

/// Makes leader children. Linked to the supervisor, when they have started.
pub(crate) type LeaderFactory<F, M> = Arc<dyn Fn(Lead<F>, ActorCell) -> Spawned<M> + Send + Sync>;

/// Makes follower children.
pub(crate) type FollowerFactory = Arc<
    dyn Fn(Follow, ActorCell) -> BoxFuture<'static, Result<(ActorCell, JoinHandle<()>), SpawnErr>>
        + Send
        + Sync,
>;

pub(crate) fn leader_factory<F: Send + 'static, A>(
    make: impl Fn(Lead<F>) -> (A, A::Arguments) + Send + Sync + 'static,
) -> LeaderFactory<F, A::Msg>
where
    A: Actor,
    A::Msg: RemoteMessage,
{
    Arc::new(move |lead, supervisor| {
        let (actor, arguments) = make(lead);
        // Unnamed: names of `ractor` are of the process, and two nodes may be in one.
        Actor::spawn_linked(None, actor, arguments, supervisor).boxed()
    })
}

pub(crate) fn follower_factory<A: Actor>(
    make: impl Fn(Follow) -> (A, A::Arguments) + Send + Sync + 'static,
) -> FollowerFactory {
    Arc::new(move |follow, supervisor| {
        let (actor, arguments) = make(follow);
        let spawned = Actor::spawn_linked(None, actor, arguments, supervisor);
        async move { spawned.await.map(|(actor, task)| (actor.get_cell(), task)) }.boxed()
    })
}

enum HeldChild {
    Starting,
    Running(ActorCell, AbortHandle),
    Cut,
}

/// What ends a child at once, from anywhere. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ChildHandle {
    held: Arc<Mutex<HeldChild>>,
    cut: Arc<Notify>,
}

impl ChildHandle {
    pub(crate) fn new() -> Self {
        Self { held: Arc::new(Mutex::new(HeldChild::Starting)), cut: Arc::new(Notify::new()) }
    }

    /// Kills the child and aborts its task, or keeps it from starting. Does not wait. A child that blocks its thread runs on
    /// until it comes to an await: no thread can be ended from outside.
    pub(crate) fn cut(&self) {
        let held = std::mem::replace(&mut *self.lock(), HeldChild::Cut);
        match held {
            HeldChild::Starting => self.cut.notify_one(),
            HeldChild::Running(cell, task) => end(&cell, &task),
            HeldChild::Cut => {}
        }
    }

    fn running(&self, cell: &ActorCell, task: &JoinHandle<()>) {
        let mut held = self.lock();
        match *held {
            HeldChild::Starting => *held = HeldChild::Running(cell.clone(), task.abort_handle()),
            _ => end(cell, &task.abort_handle()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HeldChild> {
        lock(&self.held)
    }
}

fn end(cell: &ActorCell, task: &AbortHandle) {
    cell.kill(); // takes its children along
    task.abort(); // at once, also if it could go on with something by then
}

/// Starts a child and waits until it is down. Says why it did not start, if it did not.
pub(crate) async fn run<R>(
    spawn: impl FnOnce() -> BoxFuture<'static, Result<(R, JoinHandle<()>), SpawnErr>>,
    cell: impl FnOnce(&R) -> ActorCell,
    child_handle: ChildHandle,
    started: impl FnOnce(R),
) -> Result<(), String> {
    // What makes a child is the user's, and may panic.
    let spawn = AssertUnwindSafe(async move { spawn().await }).catch_unwind();
    let spawned = tokio::select! {
        biased;
        () = child_handle.cut.notified() => return Err("aborted while it was starting".into()),
        spawned = spawn => spawned,
    };
    let (child, task) = match spawned {
        Err(_) => return Err("what makes the child panicked".into()),
        Ok(Err(error)) => return Err(in_full(&error).to_string()),
        Ok(Ok(spawned)) => spawned,
    };
    child_handle.running(&cell(&child), &task);
    started(child);
    let _ = task.await; // aborted or ended: it is down
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ractor::ActorProcessingErr;

    use super::*;

    /// Waits in its first message until it may go on.
    #[derive(Clone, Default)]
    struct WaitingActor {
        is_there: Arc<Notify>,
        may_go_on: Arc<Notify>,
        went_on: Arc<AtomicBool>,
    }

    impl Actor for WaitingActor {
        type Msg = ();
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
            self.is_there.notify_one();
            self.may_go_on.notified().await;
            self.went_on.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_child_that_is_cut_does_nothing_more_though_it_could_go_on_by_then() {
        // Of a kill and something else that is there an actor sees first what is drawn.
        for _ in 0..32 {
            let (child, child_handle) = (WaitingActor::default(), ChildHandle::new());
            let actor = child.clone();
            let spawn = move || Actor::spawn(None, actor, ()).boxed();
            let begins = |actor: ActorRef<()>| actor.cast(()).unwrap();
            let ended = run(spawn, ActorRef::get_cell, child_handle.clone(), begins);
            let cut = async {
                child.is_there.notified().await;
                child_handle.cut();
                child.may_go_on.notify_one();
            };
            let (ended, ()) = tokio::join!(biased; ended, cut);
            assert_eq!(ended, Ok(()));
            assert!(!child.went_on.load(Ordering::SeqCst));
        }
    }
}
