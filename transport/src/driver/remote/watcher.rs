//! The ends of this node's own actors: one monitor for each of them, however many want to know.
//!
//! ractor tells the monitors of an actor in the order of a hash map, which is another in each process. Here those who want to
//! know are told in the order in which they came.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use callsign_store::lock::lock;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus, SpawnErr, SupervisionEvent};
use smallvec::{SmallVec, smallvec};

use super::side::Never;
use crate::{core::ends::End, driver::tasks::Tasks};

type Tell = Arc<dyn Fn(u64, &End) + Send + Sync>;

/// The part of a node that hears of the ends of its actors.
pub(crate) struct Watcher {
    actor: ActorCell,
    may_end: Arc<AtomicBool>,
    wanted: Arc<Mutex<Wanted>>,
}

#[derive(Default)]
struct Wanted {
    last: u64,
    listeners: BTreeMap<u64, Tell>,
    /// The actors that are monitored, and who wants to know, in their order. No list is empty, and most have one.
    actors: BTreeMap<u64, (ActorCell, SmallVec<[u64; 1]>)>,
    /// How many these are, for whoever does not wait for the lock.
    count: Arc<AtomicUsize>,
}

impl Wanted {
    fn counted(&self) {
        self.count.store(self.actors.len(), Relaxed);
    }
}

/// Somebody who wants to know when actors end. Dropped, it is told nothing more.
pub struct Watches {
    watcher: ActorCell,
    wanted: Arc<Mutex<Wanted>>,
    id: u64,
}

impl Watcher {
    pub(crate) async fn start(tasks: &Tasks) -> Result<Self, SpawnErr> {
        let wanted = Arc::<Mutex<Wanted>>::default();
        let (actor, running) = Actor::spawn(None, WatcherActor, (wanted.clone(), tasks.clone())).await?;
        let may_end = Arc::default();
        tasks.watch("the watcher of actors", running, Arc::clone(&may_end));
        Ok(Self { actor: actor.get_cell(), may_end, wanted })
    }

    /// Has somebody told. The function is called in the watcher's own actor: it must not block.
    pub(crate) fn listen(&self, tell: impl Fn(u64, &End) + Send + Sync + 'static) -> Watches {
        let mut wanted = lock(&self.wanted);
        wanted.last += 1;
        let id = wanted.last;
        wanted.listeners.insert(id, Arc::new(tell));
        Watches { watcher: self.actor.clone(), wanted: self.wanted.clone(), id }
    }

    /// How many actors are watched, and so have not ended, but for a moment.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        lock(&self.wanted).count.clone()
    }

    /// Nobody is told anything any more.
    pub(crate) fn end(&self) {
        self.may_end.store(true, SeqCst);
        self.actor.kill();
    }
}

impl Watches {
    /// Has the end of an actor told, once. `false`: it has ended, or is about to; then nothing is told.
    pub fn watch(&self, actor: &ActorCell) -> bool {
        let mut wanted = lock(&self.wanted);
        let pid = actor.get_id().pid();
        if let Some((_, by)) = wanted.actors.get_mut(&pid) {
            // Its end has not been told yet.
            if let Err(at) = by.binary_search(&self.id) {
                by.insert(at, self.id);
            }
            return true;
        }
        self.watcher.monitor(actor.clone());
        // In this order: an actor that is not ending now tells its monitors.
        if actor.get_status() >= ActorStatus::Stopping {
            return false;
        }
        wanted.actors.insert(pid, (actor.clone(), smallvec![self.id]));
        wanted.counted();
        true
    }

    /// The end of an actor is not to be told any more.
    pub fn unwatch(&self, pid: u64) {
        let mut wanted = lock(&self.wanted);
        let Some((actor, by)) = wanted.actors.get_mut(&pid) else { return };
        by.retain(|id| *id != self.id);
        if by.is_empty() {
            self.watcher.unmonitor(actor.clone());
            wanted.actors.remove(&pid);
            wanted.counted();
        }
    }

    /// Whether the end of an actor is on its way.
    pub(super) fn has_ended(&self, pid: u64) -> bool {
        let wanted = lock(&self.wanted);
        wanted.actors.get(&pid).is_some_and(|(actor, _)| actor.get_status() == ActorStatus::Stopped)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut wanted = lock(&self.wanted);
        wanted.listeners.remove(&self.id);
        let (id, watcher) = (self.id, &self.watcher);
        wanted.actors.retain(|_, (actor, by)| {
            by.retain(|other| *other != id);
            if by.is_empty() {
                watcher.unmonitor(actor.clone());
            }
            !by.is_empty()
        });
        wanted.counted();
    }
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

struct WatcherActor;

impl Actor for WatcherActor {
    type Msg = Never;
    type State = (Arc<Mutex<Wanted>>, Tasks);
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<Never>,
        state: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Never>,
        event: SupervisionEvent,
        (wanted, tasks): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (actor, end) = match event {
            SupervisionEvent::ActorTerminated(actor, _, reason) => (actor, End::stopped(reason.as_deref())),
            SupervisionEvent::ActorFailed(actor, error) => (actor, End::failed(&error.to_string())),
            _ => return Ok(()),
        };
        tasks.step("the watcher of actors", || tell(wanted, actor.get_id().pid(), &end));
        Ok(())
    }
}

fn tell(wanted: &Mutex<Wanted>, pid: u64, end: &End) {
    let listeners: Vec<Tell> = {
        let mut wanted = lock(wanted);
        let Some((_, by)) = wanted.actors.remove(&pid) else { return };
        wanted.counted();
        by.iter().filter_map(|id| wanted.listeners.get(id).cloned()).collect()
    };
    // Under no lock: whoever is told may watch another.
    for tell in listeners {
        tell(pid, end);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::mpsc;

    use super::*;

    struct Idle;

    impl Actor for Idle {
        type Msg = Never;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    async fn idle() -> ActorCell {
        Actor::spawn(None, Idle, ()).await.unwrap().0.get_cell()
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_want_to_know_are_told_in_order_and_nobody_else_is() {
        let watcher = Watcher::start(&Tasks::default()).await.unwrap();
        let (told, mut tells) = mpsc::unbounded_channel();
        let listen = |who: u32| {
            let told = told.clone();
            watcher.listen(move |pid, end| told.send((who, pid, end.clone())).unwrap())
        };
        let all: Vec<_> = (0..5).map(listen).collect();
        let actor = idle().await;
        let pid = actor.get_id().pid();
        assert!(all.iter().rev().all(|watches| watches.watch(&actor) && watches.watch(&actor)));
        assert_eq!(watcher.count().load(Relaxed), 1);
        all[1].unwatch(pid);
        assert_eq!(watcher.count().load(Relaxed), 1, "others want to know");
        let [_, _, gone, ..] = &all[..] else { panic!() };
        assert!(!gone.has_ended(actor.get_id().pid()));
        let mut all = all;
        drop(all.remove(2));
        actor.stop_and_wait(Some("done".into()), None).await.unwrap();
        let end = End::stopped(Some("done"));
        for who in [0, 3, 4] {
            assert_eq!(tells.recv().await, Some((who, actor.get_id().pid(), end.clone())));
        }
        assert_eq!(watcher.count().load(Relaxed), 0);
        // Nobody who is left, nobody's any more, and one that has ended.
        let other = idle().await;
        assert!(all[0].watch(&other));
        assert_eq!(watcher.count().load(Relaxed), 1);
        all[0].unwatch(other.get_id().pid());
        assert_eq!(watcher.count().load(Relaxed), 0);
        other.stop_and_wait(None, None).await.unwrap();
        assert!(!all[0].watch(&other), "it has ended");
        assert!(lock(&watcher.wanted).actors.is_empty());
        let last = idle().await;
        assert!(all[0].watch(&last));
        last.kill();
        assert_eq!(tells.recv().await, Some((0, last.get_id().pid(), End::stopped(Some("killed")))));
        let still = idle().await;
        assert!(all[0].watch(&still) && watcher.count().load(Relaxed) == 1);
        drop(all);
        assert_eq!(watcher.count().load(Relaxed), 0);
        assert!(lock(&watcher.wanted).listeners.is_empty());
        watcher.end();
    }

    /// Is about to end until it is told to go on.
    struct Lingers(Arc<tokio::sync::Notify>);

    impl Actor for Lingers {
        type Msg = Never;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn post_stop(&self, _: ActorRef<Never>, (): &mut ()) -> Result<(), ActorProcessingErr> {
            self.0.notified().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_an_actor_whose_end_nobody_wants_to_know_nothing_is_heard() {
        let heard = Arc::new(AtomicUsize::default());
        let count = heard.clone();
        let tasks = Tasks::default().stepped_by(move |_, work| {
            count.fetch_add(1, SeqCst);
            work();
        });
        let watcher = Watcher::start(&tasks).await.unwrap();
        let (told, mut tells) = mpsc::unbounded_channel();
        let listen = || {
            let told = told.clone();
            watcher.listen(move |pid, _| told.send(pid).unwrap())
        };
        let (first, second) = (listen(), listen());
        let [unwatched, dropped, shared, last] = [idle().await, idle().await, idle().await, idle().await];
        for actor in [&unwatched, &dropped, &shared] {
            assert!(first.watch(actor));
        }
        first.unwatch(unwatched.get_id().pid());
        assert!(second.watch(&shared) && second.watch(&last));
        drop(first);
        for actor in [&unwatched, &dropped, &shared, &last] {
            actor.stop_and_wait(None, None).await.unwrap();
        }
        assert!(!second.has_ended(unwatched.get_id().pid()), "it does not matter here");
        for actor in [&shared, &last] {
            assert_eq!(tells.recv().await, Some(actor.get_id().pid()));
        }
        assert_eq!(heard.load(SeqCst), 2);
        assert!(lock(&watcher.wanted).actors.is_empty());

        let go_on = Arc::<tokio::sync::Notify>::default();
        let (lingers, ends) = Actor::spawn(None, Lingers(go_on.clone()), ()).await.unwrap();
        lingers.stop(None);
        while lingers.get_status() != ActorStatus::Stopping {
            tokio::task::yield_now().await;
        }
        assert!(!second.watch(&lingers.get_cell()), "it is about to end");
        go_on.notify_one();
        ends.await.unwrap();
        assert!(lock(&watcher.wanted).actors.is_empty());
    }
}
