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

use super::{kind::Kind, swept::Swept};
use crate::driver::tasks::Tasks;

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

/// A link's side of remote actors: the proxies, and the calls that wait.
pub(crate) struct RemoteSide {
    /// Tells the actors of this link from all others in the process. The top bit keeps clear of the small numbers
    /// of `ractor_cluster`.
    pub(super) number: u64,
    pub(super) supervisor: ActorCell,
    /// The supervisor may end: the link is down.
    may_end: Arc<AtomicBool>,
    /// Whom to tell if a reference panics.
    pub(super) tasks: Tasks,
    /// By pid and kind. `None` once the link is down.
    pub(super) proxies: Mutex<Option<Swept<(u64, Kind), ActorCell>>>,
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
    pub(crate) async fn new(tasks: Tasks) -> Result<Self, SpawnErr> {
        static LINKS: AtomicU64 = AtomicU64::new(0);
        let (supervisor, running) = Actor::spawn(None, LinkSupervisor, ()).await?;
        let may_end = Arc::default();
        tasks.watch("the references over a link", running, Arc::clone(&may_end));
        Ok(Self {
            may_end,
            tasks,
            number: (1 << 63) | LINKS.fetch_add(1, Relaxed),
            supervisor: supervisor.get_cell(),
            proxies: Mutex::new(Some(Swept::default())),
            calls: Mutex::default(),
            open: AtomicUsize::new(0),
        })
    }

    /// Ends all references and all waiting calls. Does not wait: when it returns, sending fails.
    pub(crate) fn close(&self) {
        self.may_end.store(true, SeqCst);
        let proxies = lock(&self.proxies).take();
        for proxy in proxies.into_iter().flat_map(|mut proxies| proxies.take()) {
            let _ = proxy.drain(); // takes nothing from now on
            proxy.kill();
        }
        self.supervisor.kill();
        let mut calls = lock(&self.calls);
        calls.closed = true;
        drop(calls.waiting.take());
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
        calls.waiting.insert(tag, reply, |_, port| !port.is_closed());
        Some(tag)
    }

    pub(super) fn answered(&self, tag: u64) -> Option<RpcReplyPort<Vec<u8>>> {
        lock(&self.calls).waiting.remove(&tag)
    }

    /// Ends the proxy of an actor that is not there, so that its senders get errors.
    pub(super) fn end_proxy(&self, pid: u64, kind: Kind) {
        let proxy = lock(&self.proxies).as_mut().and_then(|proxies| proxies.remove(&(pid, kind)));
        if let Some(proxy) = proxy {
            let _ = proxy.drain();
            proxy.kill();
        }
    }
}
