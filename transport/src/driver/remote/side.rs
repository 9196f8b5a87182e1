//! A link's side of remote actors.

use std::sync::{
    Arc, Mutex,
    atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

use callsign_store::lock::lock;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};

use super::{
    reference::{Gone, Reference},
    resolved::Resolved,
    swept::Swept,
};
use crate::{
    core::{ends::End, held::Held},
    driver::tasks::Tasks,
};

/// Proxies take serialised messages only.
#[derive(ractor_cluster_derive::RactorMessage)]
pub(super) struct Never;

/// Owns the proxies of a link: they end with it, and it does not mind when they end.
pub(super) struct LinkSupervisor;

impl Actor for LinkSupervisor {
    type Msg = Never;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Never>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(()) // by default the first proxy to end would take all others with it
    }
}

/// A link's side of remote actors: the references, and the calls that wait.
pub(crate) struct RemoteSide {
    /// Tells the actors of this link from all others in the process. The top bit keeps clear of the small numbers
    /// of `ractor_cluster`.
    pub(super) number: u64,
    pub(super) supervisor: ActorCell,
    /// The supervisor may end: the link is down.
    may_end: Arc<AtomicBool>,
    /// Whom to tell if a reference panics.
    pub(super) tasks: Tasks,
    /// `None` once the link is down.
    pub(super) held: Mutex<Option<Held<Reference>>>,
    /// The references of `held`, to be read without its lock.
    pub(super) resolved: Resolved,
    calls: Mutex<Calls>,
    /// Bytes of the peer's calls that are not answered yet.
    pub(super) open: AtomicUsize,
}

#[derive(Default)]
struct Calls {
    closed: bool,
    last: u64,
    waiting: Swept<u64, RpcReplyPort<Vec<u8>>>,
}

impl RemoteSide {
    /// With at most so many references.
    pub(crate) async fn new(tasks: Tasks, references: usize) -> Result<Self, SpawnErr> {
        static LINKS: AtomicU64 = AtomicU64::new(0);
        let (supervisor, running) = Actor::spawn(None, LinkSupervisor, ()).await?;
        let may_end = Arc::default();
        tasks.watch("the references over a link", running, Arc::clone(&may_end));
        let number = (1 << 63) | LINKS.fetch_add(1, Relaxed);
        Ok(Self {
            may_end,
            tasks,
            number,
            resolved: Resolved::new(number),
            supervisor: supervisor.get_cell(),
            held: Mutex::new(Some(Held::new(references))),
            calls: Mutex::default(),
            open: AtomicUsize::default(),
        })
    }

    /// Ends all references and all waiting calls. Does not wait: when it returns, sending fails.
    pub(crate) fn close(&self, why: &str) {
        self.may_end.store(true, SeqCst);
        let why: Arc<str> = why.into();
        let held = lock(&self.held).take();
        for reference in held.into_iter().flat_map(|mut held| held.take_all()) {
            reference.end(Gone::Link(why.clone()));
        }
        self.resolved.clear();
        // Those that drain it does not kill, so that each says itself why it ends.
        self.supervisor.kill();
        let mut calls = lock(&self.calls);
        calls.closed = true;
        drop(calls.waiting.take());
    }

    /// How many references there are.
    pub(crate) fn references(&self) -> usize {
        lock(&self.held).as_ref().map_or(0, Held::count)
    }

    /// The next actors of the peer whose ends are to be asked for, at most so many, by pid and kind.
    pub(crate) fn to_ask(&self, most: usize) -> Vec<(u64, u64)> {
        let mut held = lock(&self.held);
        held.iter_mut().flat_map(|held| std::iter::from_fn(|| held.take_next()).take(most)).collect()
    }

    /// The peer says that an actor lives.
    pub(super) fn lives(&self, pid: u64, kind: u64) {
        if let Some(held) = lock(&self.held).as_mut()
            && let Some(reference) = held.watched(pid, kind)
        {
            reference.news.lives();
        }
    }

    /// Ends the references to an actor that has ended, or is not there, so that its senders get errors.
    pub(super) fn ended(&self, pid: u64, kind: u64, end: &End) {
        let ended = lock(&self.held).as_mut().map(|held| {
            self.resolved.remove(pid);
            held.ended(pid, kind, end)
        });
        for reference in ended.into_iter().flatten() {
            reference.end(Gone::Actor(end.clone()));
        }
    }

    /// A number for a call, under which its answer will come. `None`: the link is down.
    pub(super) fn wait_for(&self, reply: RpcReplyPort<Vec<u8>>) -> Option<u64> {
        let mut calls = lock(&self.calls);
        if calls.closed {
            return None;
        }
        calls.last += 1;
        let tag = calls.last;
        // Callers that gave up leave their entries behind.
        calls.waiting.insert(tag, reply, 0, |_, port| !port.is_closed());
        Some(tag)
    }

    pub(super) fn answered(&self, tag: u64) -> Option<RpcReplyPort<Vec<u8>>> {
        lock(&self.calls).waiting.remove(&tag)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{self, error::TryRecvError};

    use super::{super::kind::Kind, *};

    async fn side() -> RemoteSide {
        RemoteSide::new(Tasks::default(), 10).await.unwrap()
    }

    /// The number of a call, and where its answer comes.
    fn call(side: &RemoteSide) -> (Option<u64>, oneshot::Receiver<Vec<u8>>) {
        let (port, answer) = oneshot::channel();
        (side.wait_for(port.into()), answer)
    }

    #[tokio::test]
    async fn nobody_waits_for_an_answer_over_a_link_that_is_down() {
        let side = side().await;
        assert_eq!(side.number >> 63, 1, "ractor_cluster has small numbers");
        let ((first, answer), (second, mut none)) = (call(&side), call(&side));
        assert_eq!((first, second), (Some(1), Some(2)));
        side.answered(1).unwrap().send(vec![7]).unwrap();
        assert_eq!(answer.await, Ok(vec![7]));
        assert!(side.answered(1).is_none(), "once");
        side.close("on request");
        assert_eq!(none.try_recv(), Err(TryRecvError::Closed));
        let (late, mut none) = call(&side);
        assert_eq!((late, none.try_recv()), (None, Err(TryRecvError::Closed)));
        assert_eq!((side.references(), side.to_ask(10)), (0, vec![]));
    }

    #[tokio::test]
    async fn nothing_is_left_to_be_read_of_a_reference_that_the_peer_or_the_link_has_ended() {
        let side = side().await;
        // This one lives on, so that only what is taken out is missing.
        let actor = side.supervisor.clone();
        let resolved = |pid| side.resolved.get(pid, Kind(1)).is_some();
        for pid in [1, 2] {
            side.resolved.put(pid, Kind(1), actor.clone(), 2);
        }
        side.ended(1, 1, &End::Stopped(None));
        assert_eq!([1, 2].map(resolved), [false, true]);
        let other = RemoteSide::new(Tasks::default(), 10).await.unwrap();
        other.resolved.put(1, Kind(1), actor, 1);
        other.close("on request");
        assert!(other.resolved.get(1, Kind(1)).is_none());
    }

    #[tokio::test]
    async fn callers_that_gave_up_are_forgotten_and_those_that_wait_are_not() {
        let side = side().await;
        let (tag, _waits) = call(&side);
        for _ in 0..5000 {
            drop(call(&side));
        }
        assert!(side.answered(tag.unwrap()).is_some());
        let kept = lock(&side.calls).waiting.take().count();
        assert!(kept <= 1024, "{kept} are kept");
    }
}
