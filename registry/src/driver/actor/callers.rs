//! What a member shares with those who call it, and how they are answered.

mod waits;

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use callsign_elector::{elector, record::Term, session::TrustHandle};
use callsign_store::{
    Time,
    ids::RegistryName,
    keys::RegistryKeys,
    lock::lock,
    planted,
    supervision::{NodeFailure, foreign},
};
use callsign_transport::trace::{self, TraceContext};
use ractor::{ActorCell, ActorRef};
use tokio::sync::{Notify, oneshot};
use tracing::Span;

use self::waits::Waits;
use super::{Flag, Kick, Parts, holding::Holding, trusted::Trusted, watched::Watched, watching::Watching};
use crate::{
    core::{
        caller::OnOutage,
        input::{Answer, Call, CallId, Input, Notice, Now},
        registry::Told,
    },
    driver::{
        inbox::Inbox,
        outage::Outage,
        receive::Receivers,
        shared::{SharedTable, TableReader},
        start::StartSlot,
        take::Giver,
        traces::Traces,
    },
    status::Status,
};

// Calls count from 1 and are no secret: the default hasher, against strangers who choose keys, costs three times as much.
type ByCall<V> = HashMap<CallId, V, foldhash::fast::FixedState>;

/// A call that is not answered yet.
struct WaitingCall {
    answer: oneshot::Sender<Answer>,
    since: Time,
    /// The trace in which it is, if that goes on elsewhere.
    trace: Option<Box<TraceContext>>,
}

/// How many functions of the application are kept for a registration at most: a caller that asks again and again for what it has may
/// give another one each time.
pub(crate) const LISTENERS: usize = 16;

/// How much longer than it may take a member's answer is waited for. Shorter: a busy member is taken for one that hangs.
const HANGS: Duration = Duration::from_secs(1);

/// Told what becomes of an actor's names.
pub(crate) type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

/// What is kept for a claim, or for a request that may become one.
struct Kept {
    actor: u64,
    /// Shared by all handles of the claim.
    flag: Flag,
    /// What most claims do not have. They pay for a pointer only.
    more: Option<Box<KeptMore>>,
}

/// What is kept for a claim beyond its actor.
#[derive(Default)]
struct KeptMore {
    listeners: Vec<Listener>,
    /// Of a name whose actor is yet to be started: how.
    start: Option<StartSlot>,
    /// What goes with the name to another actor.
    gives: Option<Giver>,
}

/// What the application gives for a claim, or for what may become one.
#[derive(Clone, Default)]
pub(crate) struct Keeps {
    pub(crate) listener: Option<Listener>,
    pub(crate) gives: Option<Giver>,
}

impl Kept {
    fn new(actor: u64, flag: Flag, keeps: Keeps, start: Option<StartSlot>) -> Self {
        let has_more = keeps.listener.is_some() || keeps.gives.is_some() || start.is_some();
        let listeners = keeps.listener.into_iter().collect();
        let more = has_more.then(|| Box::new(KeptMore { listeners, start, gives: keeps.gives }));
        Self { actor, flag, more }
    }

    fn listeners(&self) -> &[Listener] {
        self.more.as_ref().map_or(&[], |more| &more.listeners)
    }

    fn start(&self) -> Option<&StartSlot> {
        self.more.as_ref()?.start.as_ref()
    }
}

/// A request of an actor, until it is answered.
pub(crate) struct AskedClaim {
    claim: CallId,
    flag: Flag,
}

impl AskedClaim {
    /// The flag of a claim, if this is the request that it began with: as a rule it is, and nothing has to be looked up.
    pub(crate) fn flag_of(self, claim: CallId) -> Option<Flag> {
        (self.claim == claim).then_some(self.flag)
    }
}

/// How long calls wait, what they do while the store takes no commits, and how much waits for those who watch.
pub(crate) struct Calls {
    pub(crate) timeout: Duration,
    pub(crate) on_outage: OnOutage,
    pub(crate) outage: Arc<Outage>,
    /// How many events wait for a reader of a watch.
    pub(crate) watch_room: usize,
}

impl Calls {
    /// For how long the store has taken no commits, if calls that write are to fail then.
    pub(crate) fn refused(&self) -> Option<Duration> {
        self.outage.lasting().filter(|_| self.on_outage == OnOutage::Fail)
    }
}

/// What a member shares with its callers.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(crate) table: TableReader,
    pub(crate) calls: Calls,
    pub(crate) trust: TrustHandle,
    pub(crate) status: ArcSwap<Status>,
    actor: Mutex<Option<ActorRef<Kick>>>,
    answers: Mutex<ByCall<WaitingCall>>,
    /// By the call that asked first. The member says when to forget one.
    claims: Mutex<ByCall<Kept>>,
    /// Actors that were started for a name, by its claim, until the member has heard of it.
    yields: Mutex<ByCall<ActorCell>>,
    /// The readers of watches.
    pub(crate) watches: Watching,
    /// The callers that wait for a place in a semaphore.
    pub(crate) holding: Holding,
    /// In which traces the requests of other nodes are.
    pub(crate) traces: Traces,
    /// What the application does with names that other nodes offer.
    pub(crate) receivers: Receivers,
    /// The actors that hold a name or ask for one.
    pub(super) watched: Watched,
    pub(super) failure: OnceLock<NodeFailure>,
    next_call: AtomicU64,
    has_ended: AtomicBool,
    /// The session is trusted, again or for the first time.
    pub(crate) trusted: Trusted,
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
    pub(super) fn new(parts: &Parts, calls: Calls, table: &SharedTable) -> Self {
        Self {
            calls,
            inbox: Inbox::default(),
            table: table.reader(),
            trust: parts.trust.clone(),
            status: ArcSwap::from_pointee(Status::joining(&parts.config.me)),
            actor: Mutex::new(None),
            answers: Mutex::default(),
            claims: Mutex::default(),
            yields: Mutex::default(),
            watches: Watching::default(),
            holding: Holding::default(),
            traces: Traces::default(),
            receivers: Receivers::default(),
            watched: Watched::default(),
            failure: OnceLock::new(),
            next_call: AtomicU64::new(1),
            has_ended: AtomicBool::new(false),
            trusted: Trusted::default(),
            changed: Notify::new(),
            term: ArcSwap::from_pointee(Term::vacant()),
            registry: parts.registry.clone(),
            keys: parts.config.keys.clone(),
            #[cfg(feature = "faults")]
            hang: Mutex::new(None),
        }
    }

    /// The time, and which session is trusted.
    pub(crate) fn now(&self) -> Now {
        // The clock after the trust: a trust that ran out in between is not believed at the later time.
        let trusted = self.trust.check().ok();
        Now { time: self.trust.clock().now(), trusted }
    }

    /// The member runs, and takes what was pushed before.
    pub(super) fn runs_in(&self, actor: ActorRef<Kick>) {
        *lock(&self.actor) = Some(actor);
        self.kick();
    }

    /// The member ends: nothing is known here any more.
    pub(super) fn ends(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.set_synced(false);
        // Nobody takes what waits, nor what is pushed from here on: see `pushed`.
        self.inbox.clear();
        // Nobody would say any more when a claim has ended.
        // What is kept for them belongs to the application. It is not dropped under the lock.
        let claims = std::mem::take(&mut *lock(&self.claims));
        for kept in claims.values() {
            kept.flag.end();
        }
        self.stop_yields();
        self.holding.end();
        self.watches.end();
        self.changed.notify_waiters();
    }

    /// Whoever still waits learns that nobody will answer.
    pub(super) fn answers_nobody(&self) {
        let mut waiting: Vec<_> = std::mem::take(&mut *lock(&self.answers)).into_iter().collect();
        // In their order, so that they are woken in it.
        waiting.sort_unstable_by_key(|(call, _)| *call);
    }

    /// Says to whoever reads whether the replica is complete.
    pub(crate) fn set_synced(&self, is_synced: bool) {
        self.table.set_complete(is_synced);
    }

    /// Hands an answer to whoever waits for it, and says for how long that was.
    pub(super) fn answer(&self, call: CallId, answer: Answer) -> Option<Duration> {
        let waiting = lock(&self.answers).remove(&call)?;
        // A caller that does not wait any more does not mind.
        let _ = waiting.answer.send(answer);
        Some(self.trust.clock().now().since(waiting.since))
    }

    /// The trace of a call that waits.
    pub(super) fn trace_of(&self, call: CallId) -> Option<TraceContext> {
        lock(&self.answers).get(&call)?.trace.as_deref().cloned()
    }

    /// Tells the listeners of these claims, each of them once.
    pub(super) fn notify(&self, claims: &[CallId], notice: Notice) {
        let mut told: Vec<Listener> = Vec::new();
        {
            let kept = lock(&self.claims);
            let listeners = claims.iter().filter_map(|claim| kept.get(claim)).flat_map(Kept::listeners);
            let mut known = HashSet::new();
            told.extend(
                listeners.filter(|listener| known.insert(Arc::as_ptr(listener).cast::<()>())).cloned(),
            );
        }
        tell(&told, notice);
    }

    /// The node has failed: all claims have ended, and whoever listens is told. Which actors have somebody who does.
    pub(super) fn end_all_claims(&self, notice: Notice) -> HashSet<u64> {
        // First: whoever asks from now on sees the end itself.
        self.has_ended.store(true, Ordering::SeqCst);
        let claims = std::mem::take(&mut *lock(&self.claims));
        let (mut told, mut known, mut actors) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut claims: Vec<_> = claims.into_iter().collect();
        claims.sort_unstable_by_key(|(claim, _)| *claim);
        for (_, kept) in claims {
            kept.flag.end();
            if !kept.listeners().is_empty() {
                actors.insert(kept.actor);
            }
            let is_new = |listener: &&Listener| known.insert(Arc::as_ptr(listener).cast::<()>());
            told.extend(kept.listeners().iter().filter(is_new).cloned());
        }
        tell(&told, notice);
        actors
    }

    /// The claim ends: no check of it passes any more.
    pub(super) fn flag(&self, claim: CallId) {
        if let Some(kept) = lock(&self.claims).get(&claim) {
            if kept.start().is_some() && planted!("start-not-flagged") {
                return;
            }
            kept.flag.end();
        }
    }

    /// The name of a claim is on its way to another actor: no check passes, unless it stays.
    pub(super) fn suspend(&self, claim: CallId) {
        if let Some(kept) = lock(&self.claims).get(&claim)
            && !planted!("moving-claim-not-flagged")
        {
            kept.flag.suspend();
        }
    }

    /// The name has stayed.
    pub(super) fn unflag(&self, claim: CallId) {
        if let Some(kept) = lock(&self.claims).get(&claim) {
            kept.flag.resume();
        }
    }

    /// What goes with the name of a claim.
    pub(crate) fn gives_of(&self, claim: CallId) -> Option<Giver> {
        lock(&self.claims).get(&claim)?.more.as_ref()?.gives.clone()
    }

    /// The second call found the claim of the first: whoever listens for it listens for that.
    pub(super) fn same(&self, claim: CallId, again: CallId) {
        let mut claims = lock(&self.claims);
        let Some(asked) = claims.remove(&again) else { return };
        let mut former = Vec::new();
        if let Some(held) = claims.get_mut(&claim) {
            for listener in asked.listeners() {
                let listeners = &mut held.more.get_or_insert_default().listeners;
                listeners.retain(|known| !Arc::ptr_eq(known, listener));
                listeners.push(listener.clone());
                former.extend(listeners.drain(..listeners.len().saturating_sub(LISTENERS)));
            }
        }
        // They belong to the application, and are not dropped under the lock.
        drop(claims);
        drop((asked, former));
    }

    pub(super) fn forget(&self, claim: CallId) {
        self.holding.forget(claim);
        let mut claims = lock(&self.claims);
        let Some(kept) = claims.remove(&claim) else { return };
        // Listeners once belonged to actors.
        if planted!("refusal-takes-listeners") && !kept.flag.is_raised() {
            let same_actor = claims.values_mut().filter(|other| other.actor == kept.actor);
            same_actor.filter_map(|other| other.more.as_mut()).for_each(|more| more.listeners.clear());
        }
        if planted!("release-takes-listeners") && kept.flag.is_raised() {
            let same_actor = claims.values_mut().filter(|other| other.actor == kept.actor);
            same_actor.filter_map(|other| other.more.as_mut()).for_each(|more| more.listeners.clear());
        }
        // What is kept belongs to the application, and is not dropped under the lock.
        drop(claims);
        drop(kept);
    }

    /// The flag of a claim: one that is not known any more has ended.
    pub(crate) fn flag_of(&self, claim: CallId) -> Flag {
        let known = lock(&self.claims).get(&claim).map(|kept| kept.flag.clone());
        known.unwrap_or_else(Flag::of_the_ended)
    }

    /// How many claims, or requests that may become one, are kept, and how many actors are watched.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (lock(&self.claims).len(), self.watched.len())
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

    /// Whether the member has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Hands an input to the member.
    pub(crate) fn push(&self, input: Input) {
        self.tell(Told::Member(input));
    }

    /// Hands an input to the elector.
    pub(crate) fn tell_elector(&self, input: elector::Input) {
        self.tell(Told::Elector(input));
    }

    /// Hands an input to the core that is meant.
    pub(crate) fn tell(&self, told: Told) {
        self.pushed(self.inbox.push(told));
    }

    /// Says that an actor has ended, ahead of whatever waits for the member. May be said again.
    pub(crate) fn actor_ended(&self, actor: u64) {
        self.pushed(self.inbox.push_end(actor));
    }

    /// Something was put into the inbox, and the member has to be woken for it or not. A member that has ended takes nothing, so that what
    /// waits is dropped.
    pub(super) fn pushed(&self, has_to_wake: bool) {
        // After it is there: either this sees the end, or the end sees what was pushed.
        if self.has_ended() {
            self.inbox.clear();
        } else if has_to_wake {
            self.kick();
        }
    }

    fn kick(&self) {
        let actor = lock(&self.actor);
        if let Some(actor) = &*actor {
            // Fails only when the member has ended; whoever waits for it learns that by its dropped channel.
            let _ = actor.cast(Kick);
        }
    }

    /// Calls the member, which answers within `wait`, and is not waited for much longer: it may hang. `None`: it has ended.
    pub(crate) async fn call(&self, call: Call, wait: Duration) -> Option<Answer> {
        let id = self.next_call();
        self.call_as(id, call, wait, wait).await
    }

    /// Asks for a name, for that of another actor, or for a membership. The listener is there before the claim is: a lapse right after
    /// the grant is told, too.
    pub(crate) fn register(
        &self,
        call: Call,
        wait: Duration,
        keeps: Keeps,
        cell: ActorCell,
    ) -> (AskedClaim, impl Future<Output = Option<Answer>>) {
        let (id, flag) = (self.next_call(), Flag::of(cell));
        if let Call::Join { group, .. } = &call
            && group.is_semaphore()
        {
            self.holding.open(id);
        }
        // One that asks for no name keeps nothing.
        if let Call::Register { actor, .. } | Call::Join { actor, .. } | Call::Take { actor, .. } = call {
            let kept = Kept::new(actor, flag.clone(), keeps, None);
            lock(&self.claims).insert(id, kept);
        }
        (AskedClaim { claim: id, flag }, self.call_as(id, call, wait, wait))
    }

    /// Asks for a name whose actor is yet to be started. Each of its requests may be undecided for `wait`.
    pub(crate) async fn start(
        &self,
        call: Call,
        wait: Duration,
        keeps: Keeps,
        slot: StartSlot,
    ) -> Option<Answer> {
        let id = self.next_call();
        let Call::Start { limit, patience, .. } = call else { return None };
        // The actor gets its number when it is started.
        lock(&self.claims).insert(id, Kept::new(0, Flag::default(), keeps, Some(slot)));
        // It asks, waits for others, asks again, starts, and binds.
        let within = patience.saturating_add(limit).saturating_add(wait.saturating_mul(3));
        self.call_as(id, call, wait, within).await
    }

    /// How the actor of a claim is started.
    pub(crate) fn slot_of(&self, claim: CallId) -> Option<StartSlot> {
        lock(&self.claims).get(&claim)?.start().cloned()
    }

    /// The member is about to hear of an actor that was started for a claim.
    pub(crate) fn yields(&self, claim: CallId, actor: u64, cell: ActorCell) {
        if let Some(kept) = lock(&self.claims).get_mut(&claim) {
            kept.actor = actor;
            kept.flag.is_of(cell.clone());
        }
        lock(&self.yields).insert(claim, cell);
    }

    /// The member has heard of it: it is watched by now, or stopped.
    pub(super) fn has_yielded(&self, claim: CallId) {
        lock(&self.yields).remove(&claim);
    }

    /// The member will not hear of any.
    pub(crate) fn stop_yields(&self) {
        let mut all: Vec<_> = std::mem::take(&mut *lock(&self.yields)).into_iter().collect();
        all.sort_unstable_by_key(|(claim, _)| *claim);
        for (_, cell) in all {
            cell.stop(Some("callsign: its name is lost".into()));
        }
    }

    fn next_call(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a call to the member at once, and returns its answer. `within`: when it has answered at the latest, if it does not hang.
    ///
    /// The future is small, as many of them wait at a time: what is handed over is no part of it.
    fn call_as(
        &self,
        id: CallId,
        call: Call,
        wait: Duration,
        within: Duration,
    ) -> impl Future<Output = Option<Answer>> {
        let clock = self.trust.clock();
        let begun = clock.now();
        let (until, at) = (begun + within + HANGS, self.status.load().position);
        let (silence, only_waits) = (call.silence(), call.only_waits());
        let (answer, answered) = oneshot::channel();
        let trace = trace::context_of(&Span::none()).map(Box::new);
        lock(&self.answers).insert(id, WaitingCall { answer, since: begun, trace });
        self.push(Input::Call { id, call, wait });
        // After the answer is awaited for: either this sees the end, or the end sees the answer that is awaited.
        let has_ended = self.has_ended();
        if has_ended {
            lock(&self.answers).remove(&id);
        }
        let waits = Waits::new(self, only_waits.then_some(id));
        async move {
            let answer = if has_ended {
                None
            } else {
                tokio::select! {
                    biased;
                    answer = answered => answer.ok(),
                    () = clock.sleep_until(until) => Some(silence.answer(within, at)),
                }
            };
            // The member, which would say when to forget it, has ended.
            if answer.is_none() {
                waits.shared().forget(id);
            }
            answer
        }
    }
}

/// Calls code of the application, under no lock: it may register something itself. A panic in it costs its call only.
fn tell(listeners: &[Listener], notice: Notice) {
    for listener in listeners {
        let _ = foreign("a listener of a registered actor", || listener(notice));
    }
}

#[cfg(test)]
mod tests;
