//! Runs a [`Member`] as an actor.
//!
//! Decides nothing: it turns messages, timers and completions into inputs, and carries out effects in order. A rule
//! of the protocol found here is in the wrong place.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the driver is where time and tasks come from

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use callsign_elector::{
    Clock, Time,
    elector::{ElectorEvent, Notice as ElectorNotice, driver::ElectorHandle},
    ids::{Incarnation, NodeName, RegistryName},
    keys::RegistryKeys,
    record::{SessionRecord, Term},
    recording::Recorder,
    session::{NodeSession, SessionEvent, TrustHandle},
    store::SharedStore,
};
use callsign_transport::{Endpoint, Lane, LinkEvent, LinkEvents, LinkId, PeerId};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use ractor_cluster_derive::RactorMessage;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::{
    inbox::Inbox,
    input::{Answer, Call, CallId, Effect, Event, Input, Notice, Now, OpId, Tell},
    member::{Member, MemberConfig},
    message::Message,
    metrics::{OfCommit, OfPump, OfRegistry},
    shared::{SharedTable, TableReader},
    status::Status,
};

/// How much longer than it may take a member's answer is waited for. Shorter: a busy member is taken for one that hangs.
const HANGS: Duration = Duration::from_secs(1);

/// How long a commit may take before its outcome is taken for unknown.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Told what becomes of an actor's names.
pub(crate) type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

/// There are inputs to take.
#[derive(Debug, RactorMessage)]
pub(crate) struct Kick;

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
    pub(crate) hang: Mutex<Option<Duration>>,
}

impl Shared {
    /// Has the member hang, from the next message on.
    #[cfg(feature = "faults")]
    pub(crate) fn hang(&self, time: Duration) {
        *self.hang.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
        self.kick();
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

    fn kick(&self) {
        let actor = self.actor.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, answer);
        self.push(Input::Call { id, call, wait });
        // After the answer is awaited for: either this sees the end, or the end sees the answer that is awaited.
        if self.has_ended.load(Ordering::SeqCst) {
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
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let of_actor = listeners.entry(actor).or_default();
        let is_new = !of_actor.iter().any(|known| Arc::ptr_eq(known, listener));
        if is_new {
            of_actor.push(listener.clone());
        }
        is_new
    }

    /// Takes back a listener for an actor whose name was refused.
    pub(crate) fn unlisten(&self, actor: u64, listener: &Listener) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_actor) = listeners.get_mut(&actor) {
            of_actor.retain(|known| !Arc::ptr_eq(known, listener));
            if of_actor.is_empty() {
                listeners.remove(&actor);
            }
        }
    }
}

/// Told of every new set of members and their addresses.
pub(crate) type OnMembers = Box<dyn Fn(Vec<(NodeName, String)>) + Send + Sync>;

/// What a member actor is started with.
pub(crate) struct Parts {
    pub(crate) config: MemberConfig,
    pub(crate) registry: RegistryName,
    pub(crate) channel: String,
    pub(crate) store: SharedStore,
    pub(crate) clock: Clock,
    pub(crate) session: NodeSession,
    pub(crate) endpoint: Endpoint,
    pub(crate) elector: ElectorHandle,
    pub(crate) elector_events: mpsc::UnboundedReceiver<ElectorEvent>,
    /// Told of every new set of members, so that the node links to them.
    pub(crate) on_members: OnMembers,
    pub(crate) on_lead: Box<dyn Fn(bool) + Send + Sync>,
    pub(crate) recorder: Option<Recorder>,
}

/// Starts a member.
pub(crate) async fn start(parts: Parts) -> Result<(Arc<Shared>, ActorRef<Kick>), ractor::SpawnErr> {
    // A recording can be replayed only if the order of the table is in it, or none of it.
    let table = if parts.recorder.is_some() { SharedTable::in_order() } else { SharedTable::new() };
    let shared = Arc::new(Shared {
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
    });
    let arguments = (shared.clone(), parts, table);
    let (actor, _) = Actor::spawn(None, MemberActor, arguments).await?;
    *shared.actor.lock().unwrap_or_else(PoisonError::into_inner) = Some(actor.clone());
    shared.kick();
    Ok((shared, actor))
}

struct MemberActor;

/// Everything that the driver keeps besides the core.
struct Driver {
    member: Member<SharedTable>,
    shared: Arc<Shared>,
    store: SharedStore,
    clock: Clock,
    session: NodeSession,
    endpoint: Endpoint,
    elector: ElectorHandle,
    channel: String,
    links: BTreeMap<NodeName, LinkId>,
    watched: HashMap<u64, ActorCell>,
    wake: watch::Sender<Time>,
    effects: Vec<Effect>,
    on_members: OnMembers,
    on_lead: Box<dyn Fn(bool) + Send + Sync>,
    /// Why the log could not be read, the last time, and how often in a row.
    corrupt: (String, u64),
    known: Vec<(NodeName, String)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    recorder: Option<Recorder>,
    metrics: OfRegistry,
}

impl Actor for MemberActor {
    type Msg = Kick;
    type State = Driver;
    type Arguments = (Arc<Shared>, Parts, SharedTable);

    async fn pre_start(
        &self,
        _myself: ActorRef<Kick>,
        (shared, parts, table): Self::Arguments,
    ) -> Result<Driver, ActorProcessingErr> {
        let (wake, wakes) = watch::channel(Time::ZERO);
        let metrics = OfRegistry::new(parts.registry.as_str());
        metrics.links(0);
        let tasks = vec![
            tokio::spawn(pump_links(
                shared.clone(),
                parts.endpoint.subscribe(&parts.channel),
                metrics.pump(),
            )),
            tokio::spawn(pump_session(shared.clone(), parts.session.subscribe(), parts.elector.clone())),
            tokio::spawn(pump_elector(shared.clone(), parts.elector_events, metrics.pump())),
            tokio::spawn(pump_time(shared.clone(), parts.clock.clone(), wakes)),
        ];
        Ok(Driver {
            member: Member::new(parts.config, table),
            shared,
            store: parts.store,
            clock: parts.clock,
            session: parts.session,
            endpoint: parts.endpoint,
            elector: parts.elector,
            channel: parts.channel,
            links: BTreeMap::new(),
            watched: HashMap::new(),
            wake,
            effects: Vec::new(),
            on_members: parts.on_members,
            on_lead: parts.on_lead,
            corrupt: (String::new(), 0),
            known: Vec::new(),
            tasks,
            recorder: parts.recorder,
            metrics,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Kick>,
        _kick: Kick,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(feature = "faults")]
        {
            let hang = driver.shared.hang.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(time) = hang {
                tokio::time::sleep(time).await;
            }
        }
        driver.take_all(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Kick>,
        event: SupervisionEvent,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        // A watched actor is not a child: its end is an input, and never this actor's.
        if let SupervisionEvent::ActorTerminated(who, ..) | SupervisionEvent::ActorFailed(who, _) = event {
            let actor = who.get_id().pid();
            if driver.watched.remove(&actor).is_some() {
                let _ = driver.shared.inbox.push(Input::ActorEnded { actor });
                driver.take_all(&myself);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Kick>,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        for task in &driver.tasks {
            task.abort();
        }
        driver.shared.has_ended.store(true, Ordering::SeqCst);
        driver.shared.is_synced.store(false, Ordering::Release);
        driver.shared.changed.notify_waiters();
        driver.metrics.ended();
        if let Some(recorder) = &mut driver.recorder {
            recorder.finish();
        }
        // Whoever still waits learns that nobody will answer.
        driver.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

impl Driver {
    fn now(&self) -> Now {
        // The clock after the trust: a trust that ran out in between is not believed at the later time.
        let trusted = self.shared.trust.check().ok();
        Now { time: self.clock.now(), trusted }
    }

    fn take_all(&mut self, myself: &ActorRef<Kick>) {
        let inputs = self.shared.inbox.take();
        let now = self.now();
        let mut woke = false;
        let mut effects = std::mem::take(&mut self.effects);
        for input in inputs {
            woke |= matches!(input, Input::Wake);
            self.note(&input);
            self.step(now, input, &mut effects);
        }
        self.step(now, Input::Idle, &mut effects);
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        for effect in effects.drain(..) {
            self.perform(effect, myself);
        }
        self.effects = effects;
        self.publish();
        self.metrics.tell();
        let wakes_at = self.member.wakes_at(now.time);
        self.wake.send_if_modified(|at| {
            // A timer that has fired waits to be told of the next time, even if it is the same.
            let is_news = woke || *at != wakes_at;
            *at = wakes_at;
            is_news
        });
    }

    fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let Some(recorder) = &mut self.recorder else { return self.member.step(now, input, effects) };
        let begin = effects.len();
        recorder.before(&now, &input);
        self.member.step(now, input, effects);
        recorder.after(&effects[begin..]);
    }

    /// Keeps what the driver needs itself to carry out effects.
    fn note(&mut self, input: &Input) {
        match input {
            Input::LinkUp { node, link, .. } => {
                self.links.insert(node.clone(), LinkId(*link));
                self.metrics.link("up");
                self.metrics.links(self.links.len());
            }
            Input::LinkDown { node, .. } => {
                self.links.remove(node);
                self.metrics.link("down");
                self.metrics.links(self.links.len());
            }
            Input::Message { message, .. } => self.metrics.received(message),
            Input::Assume { leader, epoch } if *leader == self.shared.status.load().node => {
                self.metrics.assumes(*epoch);
            }
            Input::View(view) => {
                let members: Vec<_> =
                    view.members.iter().map(|(node, row)| (node.clone(), row.address.clone())).collect();
                let view_of = self.shared.status.load().node.clone();
                // The transport cannot tell which of two incarnations is the later one; the store can.
                for (_, row) in view.members.iter().filter(|(node, _)| *node != &view_of) {
                    let is_open = |r: &SessionRecord| r.is_open_as(&row.session);
                    if view.sessions.get(&row.session.node).is_some_and(is_open) {
                        let session = &row.session;
                        self.endpoint.confirm(&PeerId::new(session.node.as_str(), session.incarnation.0));
                    }
                }
                if members != self.known {
                    (self.on_members)(members.clone());
                    self.known = members;
                }
            }
            _ => {}
        }
    }

    fn perform(&mut self, effect: Effect, myself: &ActorRef<Kick>) {
        match effect {
            Effect::Send { to, message } => self.send(to, &message),
            Effect::Read { id, reads } => {
                let (read, shared) = (self.store.read(reads), self.shared.clone());
                // Not awaited here: a slow store must not keep this member from hearing its links.
                tokio::spawn(async move { shared.push(Input::ReadDone { id, result: read.await }) });
            }
            Effect::Commit { id, transaction } => {
                let operations = self.member.batch_operations();
                let metrics = self.metrics.commits(&transaction, &self.shared.keys.commit(), operations);
                let (commit, shared) = (self.store.commit(transaction), self.shared.clone());
                tokio::spawn(async move { shared.push(commit_done(id, commit, metrics).await) });
            }
            Effect::Answer { call, answer } => {
                self.metrics.answered(&answer);
                let waiting =
                    self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
                if let Some(waiting) = waiting {
                    // A caller that does not wait any more does not mind.
                    let _ = waiting.send(answer);
                }
            }
            Effect::Watch { actor } => self.watch(actor, myself),
            Effect::Unwatch { actor } => {
                if let Some(cell) = self.watched.remove(&actor) {
                    myself.get_cell().unmonitor(cell);
                }
                self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(&actor);
            }
            Effect::Stop { actor } => {
                if let Some(cell) = self.watched.get(&actor) {
                    cell.stop(Some("callsign: its session is not trusted".into()));
                }
            }
            Effect::Notify { actor, notice } => {
                let listeners = self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner);
                for listener in listeners.get(&actor).into_iter().flatten() {
                    listener(notice);
                }
            }
            Effect::Tell(tell) => self.elector.tell(match tell {
                Tell::Heard(epoch) => ElectorNotice::Heard { epoch },
                Tell::LinkUp(node) => ElectorNotice::LinkUp { node },
                Tell::LinkDown(node) => ElectorNotice::LinkDown { node },
                Tell::Synced(epoch, position) => ElectorNotice::Synced { epoch, position },
                Tell::Assumed(epoch) => ElectorNotice::Assumed { epoch },
                Tell::Refresh => ElectorNotice::Changed,
                Tell::Drain => ElectorNotice::Drain,
                Tell::Leave => ElectorNotice::Leave,
                Tell::Rejoin { empty } => ElectorNotice::Rejoin { empty },
            }),
            Effect::Suspect { node, incarnation } => self.session.suspect(&node, incarnation),
            Effect::Event(event) => self.report(&event),
        }
    }

    fn send(&mut self, to: NodeName, message: &Message) {
        let lane = if message.is_bulk() { Lane::Bulk } else { Lane::Control };
        let sent = match self.links.get(&to) {
            Some(link) => {
                let bytes = message.encode();
                self.metrics.sent(message, bytes.len());
                self.endpoint.send(*link, lane, &self.channel, bytes)
            }
            // It went down; the input that says so is on its way.
            None => return,
        };
        if let Err(error) = sent {
            tracing::debug!(registry = self.channel, peer = %to, %error, "not sent");
            self.metrics.link("send_failed");
            self.shared.push(Input::SendFailed { to });
        }
    }

    fn watch(&mut self, actor: u64, myself: &ActorRef<Kick>) {
        if self.watched.contains_key(&actor) {
            return;
        }
        let ended = || self.shared.push(Input::ActorEnded { actor });
        let Some(cell) = ractor::registry::where_is_pid(ActorId::Local(actor)) else { return ended() };
        myself.get_cell().monitor(cell.clone());
        // Monitoring what has ended already gives no event.
        if cell.get_status() >= ActorStatus::Stopping {
            return ended();
        }
        self.watched.insert(actor, cell);
    }

    fn report(&mut self, event: &Event) {
        self.metrics.event(event);
        let (registry, node) = (&self.channel, &self.shared.status.load().node);
        match event {
            Event::Corrupt { reason } => {
                // It is read again and again, until somebody mends it.
                let times = if self.corrupt.0 == *reason { self.corrupt.1 + 1 } else { 1 };
                self.corrupt = (reason.clone(), times);
                if times.is_power_of_two() {
                    tracing::error!(registry, %node, reason, times, "the log cannot be read");
                }
            }
            Event::ClaimLost { .. } => tracing::warn!(registry, %node, ?event, "registry"),
            _ => tracing::info!(registry, %node, ?event, "registry"),
        }
        match event {
            Event::Serving { .. } => (self.on_lead)(true),
            Event::Deposed { .. } => (self.on_lead)(false),
            _ => {}
        }
    }

    fn publish(&self) {
        let status = Status::of(&self.member);
        self.shared.is_synced.store(status.synced, Ordering::Release);
        let term = &self.member.view().term;
        if **self.shared.term.load() != *term {
            self.shared.term.store(Arc::new(term.clone()));
        }
        if **self.shared.status.load() != status {
            self.metrics.status(&status, self.shared.table.count());
            self.shared.status.store(Arc::new(status));
            self.shared.changed.notify_waiters();
        }
    }
}

async fn commit_done(
    id: OpId,
    commit: impl Future<Output = callsign_elector::store::CommitOutcome>,
    metrics: OfCommit,
) -> Input {
    let outcome = tokio::time::timeout(COMMIT_TIMEOUT, commit).await;
    let outcome = outcome.unwrap_or(callsign_elector::store::CommitOutcome::Unknown);
    metrics.ended(&outcome);
    Input::CommitDone { id, outcome }
}

async fn pump_links(shared: Arc<Shared>, mut events: LinkEvents, metrics: OfPump) {
    let mut received = Vec::new();
    let mut unread = 0_u64;
    loop {
        shared.inbox.room().await;
        if events.recv_many(&mut received, 1024).await == 0 {
            return;
        }
        let bytes = received.iter().map(|event| match event {
            LinkEvent::Message { body, .. } => body.len(),
            LinkEvent::Up { .. } | LinkEvent::Down { .. } => 0,
        });
        let bytes: usize = bytes.sum();
        metrics.received(bytes as u64);
        // Decoded here, beside the member, not in it.
        let inputs = received.drain(..).filter_map(|event| {
            let peer = match &event {
                LinkEvent::Up { peer, .. }
                | LinkEvent::Message { peer, .. }
                | LinkEvent::Down { peer, .. } => peer,
            };
            // The transport has checked the peer's name by the same rules.
            let node = NodeName::new(&peer.node).ok()?;
            let incarnation = Incarnation(peer.incarnation);
            match event {
                LinkEvent::Up { link, .. } => Some(Input::LinkUp { node, incarnation, link: link.0 }),
                LinkEvent::Down { .. } => Some(Input::LinkDown { node, incarnation }),
                LinkEvent::Message { body, .. } => match Message::decode(&body) {
                    Ok(message) => Some(Input::Message { from: node, message }),
                    Err(error) => {
                        metrics.unread(&error);
                        // A newer node may send as many as it likes.
                        unread += 1;
                        if unread.is_power_of_two() {
                            tracing::warn!(peer = %node, %error, unread, "messages are dropped");
                        }
                        None
                    }
                },
            }
        });
        if shared.inbox.extend(inputs.collect(), bytes) {
            shared.kick();
        }
    }
}

async fn pump_session(
    shared: Arc<Shared>,
    mut events: mpsc::UnboundedReceiver<SessionEvent>,
    elector: ElectorHandle,
) {
    while let Some(event) = events.recv().await {
        match event {
            SessionEvent::Opened { session } => {
                elector.tell(ElectorNotice::Session(Some(session.clone())));
                shared.push(Input::SessionOpened(session));
                shared.trusted.notify_waiters();
            }
            SessionEvent::Lapsed { .. } => {
                elector.tell(ElectorNotice::Session(None));
                shared.push(Input::SessionLapsed);
            }
            SessionEvent::Resumed { session } => {
                elector.tell(ElectorNotice::Session(Some(session)));
                shared.push(Input::SessionResumed);
                shared.trusted.notify_waiters();
            }
            SessionEvent::Lost { .. } => {
                elector.tell(ElectorNotice::Session(None));
                shared.push(Input::SessionLost);
            }
            SessionEvent::PeerClosed(_) => elector.tell(ElectorNotice::Changed),
            _ => {}
        }
    }
}

async fn pump_elector(
    shared: Arc<Shared>,
    mut events: mpsc::UnboundedReceiver<ElectorEvent>,
    metrics: OfPump,
) {
    while let Some(event) = events.recv().await {
        metrics.elector(&event);
        match event {
            ElectorEvent::View(view) => shared.push(Input::View(view)),
            ElectorEvent::Assume { leader, epoch } => shared.push(Input::Assume { leader, epoch }),
            ElectorEvent::Left => shared.left.notify_waiters(),
            event @ (ElectorEvent::Corrupt { .. }
            | ElectorEvent::Undecodable { .. }
            | ElectorEvent::LockBroken { .. }
            | ElectorEvent::LockGivenUp { .. }
            | ElectorEvent::Unavailable { .. }
            | ElectorEvent::TooLarge(_)) => tracing::warn!(?event, "elector"),
            event => tracing::info!(?event, "elector"),
        }
    }
}

async fn pump_time(shared: Arc<Shared>, clock: Clock, mut wakes: watch::Receiver<Time>) {
    loop {
        let at = *wakes.borrow_and_update();
        tokio::select! {
            changed = wakes.changed() => if changed.is_err() { return },
            () = clock.sleep_until(at) => {
                shared.push(Input::Wake);
                // The member says when next.
                if wakes.changed().await.is_err() { return }
            }
        }
    }
}
