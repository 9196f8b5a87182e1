//! What the handles and tasks of an endpoint share: carries out what [`Links`] decides.
//!
//! Locks are taken in this order: an outbox, or a link's core, alone; the state, with outboxes under it, or with `ends`, and
//! the watcher's under that.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use callsign_store::{
    lock::{lock, read, write},
    logged,
};
use dashmap::DashMap;
use futures::future::BoxFuture;
use ractor::{ActorId, registry::where_is_pid};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::EndpointConfig,
    core::{
        admission::Admission,
        ends::{self, End, Ends, MOST_REASON},
        frame::{Frame, NotDelivered},
        hello::Me,
        link,
        links::{Effect, Input, Links},
        peer::{LinkId, PeerId},
        permits::Permits,
        refusals::Refusals,
        versions::Versions,
    },
    driver::{
        handle::LinkHandle,
        reach::Reach,
        remote::{
            exports::Exports,
            watcher::{Watcher, Watches},
        },
        subscribers::{LinkEvent, Subscribers},
    },
    error::{DownReason, Refused},
    keys::Keys,
};

/// At least as many bytes as what is said of one actor.
const MOST_WORD: usize = MOST_REASON + 80;

pub(crate) struct Inner {
    pub(crate) config: EndpointConfig,
    pub(crate) me: PeerId,
    pub(crate) local: SocketAddr,
    pub(crate) start: Instant,
    pub(crate) keys: RwLock<Arc<Keys>>,
    pub(crate) state: RwLock<InnerState>,
    /// The links that are up; a copy of what `state` knows, for senders.
    pub(crate) handles: DashMap<LinkId, Arc<LinkHandle>>,
    /// The same, to find a link by the incarnation that it leads to.
    pub(crate) reach: Reach,
    pub(crate) exports: Exports,
    /// Which peers are to be told of the ends of this node's actors.
    pub(crate) ends: Mutex<Ends>,
    pub(crate) watcher: Watcher,
    /// What `ends` has monitored.
    pub(crate) watches: OnceLock<Watches>,
    #[cfg(feature = "node-server")]
    pub(crate) sessions: Option<crate::driver::node_server::Sessions>,
    pub(crate) runtime: Handle,
    dial: Dial,
    last_link: AtomicU64,
    pub(crate) refusals: Mutex<Refusals>,
    /// The time of the next dial changed.
    changed: Notify,
    /// No new links.
    pub(crate) closing: CancellationToken,
    /// No links at all.
    pub(crate) halted: CancellationToken,
}

pub(crate) struct InnerState {
    pub(crate) links: Links,
    pub(crate) subscribers: Subscribers,
    pub(crate) admission: Admission,
    /// Accepted connections in their handshakes.
    pub(crate) pending: BTreeMap<LinkId, CancellationToken>,
}

/// Dials a node and runs the link: handed in, since links are run above this.
pub(crate) type Dial = fn(Arc<Inner>, Arc<str>, String) -> BoxFuture<'static, ()>;

impl Inner {
    /// Inside a runtime.
    pub(crate) fn new(
        config: EndpointConfig,
        local: SocketAddr,
        watcher: Watcher,
        #[cfg(feature = "node-server")] sessions: Option<crate::driver::node_server::Sessions>,
        dial: Dial,
    ) -> Self {
        let EndpointConfig { timing, limits, seed, .. } = config;
        Self {
            me: PeerId::new(config.node.clone(), config.incarnation),
            local,
            start: Instant::now(),
            keys: RwLock::new(Arc::new(config.keys.clone())),
            state: RwLock::new(InnerState {
                links: Links::new(config.node.clone(), timing, limits.links, seed),
                admission: Admission::new(Duration::ZERO, limits),
                subscribers: Subscribers::default(),
                pending: BTreeMap::new(),
            }),
            handles: DashMap::new(),
            reach: Reach::default(),
            exports: Exports::new(watcher.count()),
            ends: Mutex::new(Ends::new(limits.references)),
            watcher,
            watches: OnceLock::new(),
            #[cfg(feature = "node-server")]
            sessions,
            runtime: Handle::current(),
            dial,
            last_link: AtomicU64::new(0),
            refusals: Mutex::default(),
            changed: Notify::new(),
            closing: CancellationToken::new(),
            halted: CancellationToken::new(),
            config,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Those that a handshake that begins now goes by.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        read(&self.keys).clone()
    }

    /// What this node may do.
    pub(crate) fn permits(&self) -> Permits {
        self.permits_by(&self.keys())
    }

    /// What it may do by these keys.
    pub(crate) fn permits_by(&self, keys: &Keys) -> Permits {
        keys.permits(&self.config.cluster, &self.me.node)
    }

    pub(crate) fn myself(&self, keys: &Keys) -> Me {
        Me {
            cluster: self.config.cluster.clone(),
            peer: self.me.clone(),
            security: keys.security(),
            carrier: self.config.network.carrier(),
            versions: Versions::OURS,
        }
    }

    pub(crate) fn check(&self, peer: &PeerId) -> Result<(), Refused> {
        read(&self.state).links.check(peer)
    }

    pub(crate) fn new_link(&self) -> LinkId {
        LinkId(self.last_link.fetch_add(1, Relaxed) + 1)
    }

    pub(crate) fn start_task(&self, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.config.tasks.start(&self.runtime, what, work);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.halted.is_cancelled()
    }

    /// Gives a link's core an input. The table learns of it if that ends the link.
    pub(crate) fn step_link(self: &Arc<Self>, handle: &LinkHandle, input: link::Input) {
        handle.step(self.now(), self.config.timing.leave, input, |reason| {
            let _ = self.apply(Input::Ended { link: handle.id, reason });
        });
    }

    /// Has an authenticated connection become the link to its peer.
    pub(crate) fn admit(
        self: &Arc<Self>,
        handle: &Arc<LinkHandle>,
        via: Option<String>,
    ) -> Result<(), Refused> {
        self.handles.insert(handle.id, handle.clone());
        let peer = handle.peer.clone();
        let admitted = self.apply(Input::Authenticated { link: handle.id, peer, via });
        if admitted.is_ok() {
            write(&self.state).admission.met(handle.address.ip());
        } else {
            self.handles.remove(&handle.id);
        }
        admitted
    }

    /// An authenticated connection is given up before it became a link.
    pub(crate) fn lost(self: &Arc<Self>, link: LinkId, peer: PeerId, dialled: bool) {
        let input = if dialled {
            Input::DialFailed { node: peer.node }
        } else {
            Input::Ended { link, reason: DownReason::Closed }
        };
        let _ = self.apply(input);
    }

    /// Gives the table an input and carries out its effects. An error is the refusal of what the input asked for.
    pub(crate) fn apply(self: &Arc<Self>, input: Input) -> Result<(), Refused> {
        let mut effects = Vec::new();
        let mut later = Vec::new();
        let mut ended = BTreeMap::new();
        let mut state = write(&self.state);
        if let Input::Ended { link, .. } | Input::Authenticated { link, .. } = &input {
            state.pending.remove(link);
            state.admission.leaves(*link);
        }
        state.links.step(self.now(), input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Up { link, peer } => {
                    logged!(info, %peer, %link, "the link is up");
                    self.told_of_ends(ends::Input::LinkUp { link });
                    // It was put there before the table was asked.
                    if let Some(handle) = self.handles.get(&link).map(|handle| handle.clone()) {
                        let permits = handle.permits.clone();
                        self.reach.up(handle);
                        state.subscribers.tell_all(&LinkEvent::Up { peer, link, permits });
                    }
                }
                Effect::Down { link, peer, reason } => {
                    log_down(&peer, link, &reason);
                    // Before anybody can hear of it: who knows that a link is down finds its references dead.
                    self.told_of_ends(ends::Input::LinkDown { link });
                    if let Some((_, handle)) = self.handles.remove(&link) {
                        self.reach.down(link);
                        handle.remote.close(&format!("the link to {peer} is down: {reason}"));
                        ended.insert(link, handle);
                    }
                    state.subscribers.tell_all(&LinkEvent::Down { peer, link, reason });
                }
                other => later.push(other),
            }
        }
        drop(state);
        self.changed.notify_one();
        let mut result = Ok(());
        for effect in later {
            match effect {
                Effect::Dial { node, address } => {
                    self.start_task("a link that is dialled", (self.dial)(self.clone(), node, address));
                }
                Effect::Dismiss { link, farewell, reason } => {
                    if let Some(handle) = ended.get(&link) {
                        self.step_link(handle, link::Input::Dismiss(farewell, reason));
                    }
                }
                Effect::Refuse { why, .. } => result = Err(why),
                Effect::Up { .. } | Effect::Down { .. } => {}
            }
        }
        result
    }

    /// Hears of the ends of this node's actors, from now on.
    pub(crate) fn watch_actors(self: &Arc<Self>) {
        let inner = Arc::downgrade(self);
        let watches = self.watcher.listen(move |actor, how| {
            if let Some(inner) = inner.upgrade() {
                inner.told_of_ends(ends::Input::Ended { actor, how: how.clone() });
            }
        });
        let _ = self.watches.set(watches); // once, when the endpoint starts
    }

    /// Gives the core of ends an input, and carries out its effects. Whether the link of the input is overrun.
    pub(crate) fn told_of_ends(&self, input: ends::Input) -> bool {
        let mut is_overrun = false;
        let (mut inputs, mut effects) = (vec![input], Vec::new());
        // Under one lock: what is monitored must be what the core thinks.
        let mut ends = lock(&self.ends);
        while let Some(input) = inputs.pop() {
            ends.step(input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    ends::Effect::Monitor { actor } => {
                        let cell = where_is_pid(ActorId::Local(actor));
                        let watches = self.watches.get();
                        if !cell.zip(watches).is_some_and(|(cell, watches)| watches.watch(&cell)) {
                            inputs.push(ends::Input::Ended { actor, how: End::Not(NotDelivered::Gone) });
                        }
                    }
                    ends::Effect::Unmonitor { actor } => {
                        self.watches.get().inspect(|watches| watches.unwatch(actor));
                    }
                    ends::Effect::Speak { link } => {
                        self.handles.get(&link).inspect(|handle| handle.has_to_say());
                    }
                    ends::Effect::Overrun { .. } => is_overrun = true,
                }
            }
        }
        is_overrun
    }

    /// Puts what is to be said of actors into the outbox, as far as there is room. What finds none waits where it is bounded.
    pub(crate) fn speak_of_actors(&self, handle: &LinkHandle) {
        if !handle.take_to_say() {
            return;
        }
        let most = lock(&handle.outbox).room_for(MOST_WORD);
        let asks = handle.remote.to_ask(most);
        let words: Vec<_> = {
            let mut ends = lock(&self.ends);
            std::iter::from_fn(|| ends.next(handle.id)).take(most - asks.len()).collect()
        };
        if asks.len() + words.len() == most {
            handle.has_more_to_say();
        }
        let mut outbox = lock(&handle.outbox);
        for (to, kind) in asks {
            outbox.send_own(&Frame::Watch { to, kind });
        }
        for word in words {
            outbox.send_own(&word.frame());
        }
    }

    pub(crate) fn note_refusal(&self, address: &str, why: &Refused) {
        let Some(count) = lock(&self.refusals).note(self.now(), address, why) else { return };
        // Somebody else may have written them, who shows no secret: a refusal is one line of the log.
        let (address, said) =
            (callsign_store::printable(address), callsign_store::printable(&why.to_string()));
        match why {
            // The ordinary life of a cluster in which nodes come and go.
            Refused::Unreachable(_) | Refused::Deadline | Refused::Leaving => {
                logged!(info, %address, count, "no link: {said}");
            }
            _ => logged!(warn, %address, count, "link refused: {said}"),
        }
    }

    /// Counts something that was refused; returns how often it was.
    pub(crate) fn count_refused(&self, word: &'static str) -> u64 {
        lock(&self.refusals).count(word)
    }

    pub(crate) async fn wake_links(self: Arc<Self>) {
        loop {
            let next = read(&self.state).links.next_wake();
            let wait = async {
                match next {
                    Some(at) => sleep_until(self.start + at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                // Before changes, so that many of them keep no deadline from being noticed.
                () = wait => drop(self.apply(Input::Wake)),
                () = self.changed.notified() => {}
            }
        }
    }

    /// The links, in the order in which they were made: the map's is another in each process.
    pub(crate) fn in_order(&self) -> Vec<Arc<LinkHandle>> {
        let mut handles: Vec<_> = self.handles.iter().map(|handle| handle.clone()).collect();
        handles.sort_unstable_by_key(|handle| handle.id);
        handles
    }

    pub(crate) fn halt(self: &Arc<Self>) {
        self.closing.cancel();
        self.watcher.end();
        let _ = self.apply(Input::Leave);
        for handle in self.in_order() {
            let _ = self.apply(Input::Ended { link: handle.id, reason: DownReason::Left });
        }
        self.halted.cancel();
        let ended = write(&self.state).subscribers.take_all();
        drop(ended);
    }
}

fn log_down(peer: &PeerId, link: LinkId, reason: &DownReason) {
    match reason {
        DownReason::Goodbye | DownReason::Left | DownReason::Replaced => {
            logged!(info, %peer, %link, "the link is down: {reason}");
        }
        reason => logged!(warn, %peer, %link, "the link is down: {reason}"),
    }
}
