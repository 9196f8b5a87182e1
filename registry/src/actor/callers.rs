//! What a member shares with those who call it, and how they are answered.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // part of the driver: it waits

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use callsign_elector::{ids::RegistryName, keys::RegistryKeys, record::Term, session::TrustHandle};
use ractor::ActorRef;
use tokio::sync::{Notify, oneshot};

use super::{Kick, Parts};
use crate::{
    inbox::Inbox,
    input::{Answer, Call, CallId, Input, Notice},
    shared::{SharedTable, TableReader},
    status::Status,
};

/// How much longer than it may take a member's answer is waited for. Shorter: a busy member is taken for one that hangs.
const HANGS: Duration = Duration::from_secs(1);

/// Told what becomes of an actor's names.
pub(crate) type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

/// What a member shares with its callers.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(crate) table: TableReader,
    pub(crate) trust: TrustHandle,
    pub(crate) status: ArcSwap<Status>,
    actor: Mutex<Option<ActorRef<Kick>>>,
    answers: Mutex<HashMap<CallId, oneshot::Sender<Answer>>>,
    listeners: Mutex<HashMap<u64, Vec<Listener>>>,
    next_call: AtomicU64,
    is_synced: AtomicBool,
    has_ended: AtomicBool,
    /// The elector has seen this member leave.
    pub(crate) left: Notify,
    /// The session is trusted, again or for the first time.
    pub(crate) trusted: Notify,
    /// Something that [`Status`] shows is another than before: what the replica holds, say, or a link.
    pub(crate) changed: Notify,
    /// Who leads the registry, as this node last read.
    pub(crate) term: ArcSwap<Term>,
    /// Which registry this is.
    pub(crate) registry: RegistryName,
    /// Where it is in the store.
    pub(crate) keys: RegistryKeys,
    /// For how long the member is to take nothing from its mailbox.
    #[cfg(feature = "faults")]
    hang: Mutex<Option<Duration>>,
}

impl Shared {
    pub(super) fn new(parts: &Parts, table: &SharedTable) -> Self {
        Self {
            inbox: Inbox::default(),
            table: table.reader(),
            trust: parts.session.trust(),
            status: ArcSwap::from_pointee(Status::joining(&parts.config.me)),
            actor: Mutex::new(None),
            answers: Mutex::new(HashMap::new()),
            listeners: Mutex::new(HashMap::new()),
            next_call: AtomicU64::new(1),
            is_synced: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            left: Notify::new(),
            trusted: Notify::new(),
            changed: Notify::new(),
            term: ArcSwap::from_pointee(Term::vacant()),
            registry: parts.registry.clone(),
            keys: parts.config.keys.clone(),
            #[cfg(feature = "faults")]
            hang: Mutex::new(None),
        }
    }

    /// The member runs, and takes what was pushed before.
    pub(super) fn runs_in(&self, actor: ActorRef<Kick>) {
        *lock(&self.actor) = Some(actor);
        self.kick();
    }

    /// The member ends: nothing is known here any more.
    pub(super) fn ends(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.is_synced.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whoever still waits learns that nobody will answer.
    pub(super) fn answers_nobody(&self) {
        lock(&self.answers).clear();
    }

    pub(super) fn set_synced(&self, is_synced: bool) {
        self.is_synced.store(is_synced, Ordering::Release);
    }

    pub(super) fn answer(&self, call: CallId, answer: Answer) {
        let waiting = lock(&self.answers).remove(&call);
        if let Some(waiting) = waiting {
            // A caller that does not wait any more does not mind.
            let _ = waiting.send(answer);
        }
    }

    pub(super) fn notify(&self, actor: u64, notice: Notice) {
        for listener in lock(&self.listeners).get(&actor).into_iter().flatten() {
            listener(notice);
        }
    }

    pub(super) fn unlisten_all(&self, actor: u64) {
        lock(&self.listeners).remove(&actor);
    }

    /// Has the member hang, from the next message on.
    #[cfg(feature = "faults")]
    pub(crate) fn hang(&self, time: Duration) {
        *lock(&self.hang) = Some(time);
        self.kick();
    }

    /// For how long the member is to hang now.
    #[cfg(feature = "faults")]
    pub(super) fn hangs(&self) -> Option<Duration> {
        lock(&self.hang).take()
    }

    /// Whether the replica is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    /// Whether the member has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Hands an input to the member.
    pub(crate) fn push(&self, input: Input) {
        if self.inbox.push(input) {
            self.kick();
        }
    }

    pub(super) fn kick(&self) {
        let actor = lock(&self.actor);
        if let Some(actor) = &*actor {
            // Fails only when the member has ended; whoever waits for it learns that by its dropped channel.
            let _ = actor.cast(Kick);
        }
    }

    /// Calls the member, which answers within `wait`, and is not waited for much longer: it may hang. `None`: it has ended.
    pub(crate) async fn call(&self, call: Call, wait: Duration) -> Option<Answer> {
        let clock = self.trust.clock();
        let began = clock.now();
        let at = self.status.load().position;
        let unanswered = call.unanswered(wait, at);
        let id = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.answers).insert(id, answer);
        self.push(Input::Call { id, call, wait });
        // After the answer is awaited for: either this sees the end, or the end sees the answer that is awaited.
        if self.has_ended() {
            return None;
        }
        tokio::select! {
            biased;
            answer = answered => answer.ok(),
            () = clock.sleep_until(began + wait + HANGS) => Some(unanswered),
        }
    }

    /// Adds a listener for an actor. False if it listens already.
    pub(crate) fn listen(&self, actor: u64, listener: &Listener) -> bool {
        let mut listeners = lock(&self.listeners);
        let of_actor = listeners.entry(actor).or_default();
        let is_new = !of_actor.iter().any(|known| Arc::ptr_eq(known, listener));
        if is_new {
            of_actor.push(listener.clone());
        }
        is_new
    }

    /// Takes back a listener for an actor whose name was refused.
    pub(crate) fn unlisten(&self, actor: u64, listener: &Listener) {
        let mut listeners = lock(&self.listeners);
        if let Some(of_actor) = listeners.get_mut(&actor) {
            of_actor.retain(|known| !Arc::ptr_eq(known, listener));
            if of_actor.is_empty() {
                listeners.remove(&actor);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
