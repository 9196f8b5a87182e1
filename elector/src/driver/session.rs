//! Drives a node's [`Session`]: an actor that turns answers of the store and timers into inputs.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use callsign_store::{
    CommitOutcome, LifeGuard, SharedStore, StoreError,
    clock::Clock,
    ids::{Incarnation, NodeName, SessionId, SessionNumber},
    lock::lock,
    record::CorruptRecord,
    supervision::{Part, Supervisor},
    time::Time,
};
use futures::{FutureExt, future::BoxFuture};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_cluster_derive::RactorMessage;
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use super::{
    metrics,
    recording::{Core, Header, Recorder},
    trust::TrustHandle,
};
use crate::core::session::{
    Effect, Input, Session,
    config::SessionConfig,
    event::{Obstacle, SessionEvent, SessionFailure},
    timing::TimingError,
};

/// Why a session was not opened. None will be: an opening whose outcome is unknown is closed again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenSessionError {
    /// Another live process holds a session under this node's name: it was seen beating.
    #[error("node name {node} is in use by incarnation {incarnation}, which lives")]
    NameInUse {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// Another process holds a session under this node's name, and did not beat while this one waited. It may be
    /// dead: wait longer than its lease.
    #[error("node name {node} has an open session of incarnation {incarnation}, which may be dead")]
    FormerOpen {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// The store could not be reached in time.
    #[error("the session could not be opened in time: {0}")]
    StoreUnavailable(String),
    /// This node's own record cannot be read. It was left as it is.
    #[error("this node's session record is corrupt: {0}")]
    Corrupt(CorruptRecord),
    /// A session cannot be kept with these durations. Nothing was started.
    #[error(transparent)]
    Timing(TimingError),
    /// The session failed in another way.
    #[error(transparent)]
    Failed(SessionFailure),
    /// The driver has ended: it was stopped, or it panicked.
    #[error("the driver of the session has ended")]
    Ended,
}

/// Why leaving was not confirmed. The session is not trusted any more in any case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The session may be open or closed. If it is open, the other nodes close it after its lease.
    #[error(transparent)]
    Failed(SessionFailure),
    /// The driver has ended: it was stopped, or it panicked. The session is closed by others after its lease.
    #[error("the driver of the session has ended")]
    Ended,
}

/// How long an opening is waited for. A name that is held by a process that lives is never waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// At most so long, whatever is in the way.
    AtMost(Duration),
    /// So long for the store; and for a former incarnation that is silent as long as the lease of *its* record asks.
    ForFormer(Duration),
}

impl From<Duration> for Patience {
    fn from(most: Duration) -> Self {
        Self::AtMost(most)
    }
}

impl Patience {
    fn usual(self) -> Duration {
        match self {
            Self::AtMost(most) | Self::ForFormer(most) => most,
        }
    }
}

/// A node's session in a cluster: opens it, keeps it, and opens the next when it is lost. Cheap to clone.
///
/// When the last clone is dropped without [`leave`](Self::leave), the node stops beating and trusting, and the
/// session stays open until other nodes close it: after its lease, or once the store can prove the death.
/// If the driver panics, nothing is trusted from then on; [`close`](Self::close) closes what it left open.
#[derive(Clone, Debug)]
pub struct NodeSession {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    actor: ActorRef<Message>,
    trust: TrustHandle,
    current: Arc<std::sync::Mutex<Option<SessionId>>>,
    left: Arc<OnceLock<Result<(), LeaveError>>>,
    store: SharedStore,
    config: SessionConfig,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.actor.cast(Message::Dropped);
    }
}

impl NodeSession {
    /// Opens a session, and waits until it is open.
    ///
    /// First lays down what proves this process's death (`guard_life`), where the store can. If a process of the same
    /// name was here before, waits until its session is over: at once if it left or is proven dead, else its lease. If that
    /// process is seen to live, it is `NameInUse`, at once.
    pub async fn open(
        store: SharedStore,
        clock: Clock,
        config: SessionConfig,
        patience: impl Into<Patience>,
    ) -> Result<Self, OpenSessionError> {
        Self::open_recorded(store, clock, config, patience, None).await
    }

    /// As [`open`](Self::open), and records the session in a directory, if one is given.
    pub async fn open_recorded(
        store: SharedStore,
        clock: Clock,
        config: SessionConfig,
        patience: impl Into<Patience>,
        record: Option<&Path>,
    ) -> Result<Self, OpenSessionError> {
        Self::open_supervised(store, clock, config, patience, record, Supervisor::new()).await
    }

    /// As [`open_recorded`](Self::open_recorded), as a part of a node: when the node fails, nothing is trusted any more,
    /// and the node fails when the session does.
    pub async fn open_supervised(
        store: SharedStore,
        clock: Clock,
        config: SessionConfig,
        patience: impl Into<Patience>,
        record: Option<&Path>,
        supervisor: Supervisor,
    ) -> Result<Self, OpenSessionError> {
        let record = record.map(Path::to_owned);
        opened(store, clock, config, patience.into(), record, supervisor).await
    }

    /// Tells whether the session is trusted. What acts on behalf of the node asks it before each act.
    pub fn trust(&self) -> TrustHandle {
        self.inner.trust.clone()
    }

    /// The session that the node holds, trusted or lapsed; `None` while it has lost one and not opened the next.
    pub fn session(&self) -> Option<SessionId> {
        lock(&self.inner.current).clone()
    }

    /// Subscribes: first the current state (this node's session as `Opened` or `Lapsed`), then each change, in order.
    /// None is lost; unread ones take memory. The stream ends after `Left` and `Failed`, and when the driver ends.
    pub fn subscribe(&self) -> UnboundedReceiver<SessionEvent> {
        let (sender, receiver) = unbounded_channel();
        self.send(Message::Subscribe(sender));
        receiver
    }

    /// Tells the session what its node has seen: [`Input::Suspect`], [`Input::Missing`] or [`Input::Leads`].
    pub fn tell(&self, input: Input) {
        self.send(Message::Input(input));
    }

    /// Stops trusting, closes the session, and waits until that is confirmed, at most half a lease. Asked again, it says
    /// what came of it the first time.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        let (reply, left) = oneshot::channel();
        self.send(Message::Leave(reply));
        match left.await {
            Ok(outcome) => outcome,
            // The driver has ended. It says before how.
            Err(_) => self.inner.left.get().cloned().unwrap_or(Err(LeaveError::Ended)),
        }
    }

    /// Closes the session of a node that has failed, within half a lease: also if it was this driver that broke.
    pub async fn close(&self) -> Result<(), LeaveError> {
        match self.leave().await {
            // Another one, with a core that knows only what is to be closed.
            Err(LeaveError::Ended) => self.close_for_the_broken().await,
            outcome => outcome,
        }
    }

    /// Boxed, as [`opened`].
    fn close_for_the_broken(&self) -> BoxFuture<'_, Result<(), LeaveError>> {
        self.closed_for_the_broken().boxed()
    }

    async fn closed_for_the_broken(&self) -> Result<(), LeaveError> {
        let Some(session) = self.session() else {
            // None was open as far as the broken driver said.
            return Ok(());
        };
        let Inner { store, config, trust, .. } = &*self.inner;
        let core = Session::new(config.clone()).map_err(|_| LeaveError::Ended)?;
        let (opened, _) = oneshot::channel();
        let state =
            State::new(core, store.clone(), trust.clone(), Arc::default(), opened, config.timing.lease);
        let actor = start(&Supervisor::new(), state).await.map_err(|_| LeaveError::Ended)?;
        let (reply, left) = oneshot::channel();
        let _ = actor.cast(Message::Close(session.number, reply)); // it has just been started
        left.await.unwrap_or(Err(LeaveError::Ended))
    }

    /// To a driver that has ended nothing is to be said: whoever waits for an answer sees that it is dropped.
    fn send(&self, message: Message) {
        let _ = self.inner.actor.cast(message);
    }
}

/// Boxed by a function of this crate. Otherwise the whole session would be compiled again in each crate that opens one: a future is
/// compiled where it is awaited.
fn opened(
    store: SharedStore,
    clock: Clock,
    config: SessionConfig,
    wait: Patience,
    record: Option<PathBuf>,
    supervisor: Supervisor,
) -> BoxFuture<'static, Result<NodeSession, OpenSessionError>> {
    async move {
        let deadline = wait.usual();
        let core = Session::new(config.clone()).map_err(OpenSessionError::Timing)?;
        let until = clock.now() + deadline;
        let guard = guard_life(&store, &config, deadline).await?;
        let trust = TrustHandle::new(clock.clone(), guard);
        let current = Arc::default();
        let left = Arc::default();
        let (opened, outcome) = oneshot::channel();
        let patience = config.timing.lease;
        let mut state =
            State::new(core, store.clone(), trust.clone(), Arc::clone(&current), opened, patience);
        state.left = Arc::clone(&left);
        state.waits_for_former = matches!(wait, Patience::ForFormer(_));
        state.recorder = record.and_then(|dir| Recorder::begin(&dir, &header(&config), &config));
        state.supervisor = supervisor.clone();
        let ends = trust.clone();
        supervisor.on_failure(move |_| {
            ends.end();
            metrics::session_lapsed();
        });
        let actor = start(&supervisor, state).await?;
        let session = NodeSession { inner: Arc::new(Inner { actor, trust, current, left, store, config }) };
        session.send(Message::Input(Input::Start));
        session.send(Message::GiveUp(until));
        outcome.await.unwrap_or(Err(OpenSessionError::Ended))?;
        Ok(session)
    }
    .boxed()
}

async fn start(supervisor: &Supervisor, state: State) -> Result<ActorRef<Message>, OpenSessionError> {
    let started = supervisor.actor(PART, SessionActor, state).await;
    let (actor, part) = started.map_err(|_| OpenSessionError::Ended)?;
    let _ = actor.cast(Message::IsPart(part)); // it has just been started
    Ok(actor)
}

/// What the driver of the session is called among the parts of a node.
const PART: &str = "the session";

fn header(config: &SessionConfig) -> Header {
    Header {
        core: Core::Session,
        cluster: config.cluster.clone(),
        registry: None,
        node: config.node.clone(),
        incarnation: config.incarnation,
    }
}

async fn guard_life(
    store: &SharedStore,
    config: &SessionConfig,
    deadline: Duration,
) -> Result<Option<Box<dyn LifeGuard>>, OpenSessionError> {
    let (store, node, incarnation) = (Arc::clone(store), config.node.clone(), config.incarnation);
    let at_once = store.guards_at_once();
    let guard = move || store.guard_life(&node, incarnation);
    let guard = async {
        // It may touch files, and block.
        if at_once { Ok(guard()) } else { tokio::task::spawn_blocking(guard).await }
    };
    match tokio::time::timeout(deadline, guard).await {
        Ok(Ok(Ok(guard))) => Ok(guard),
        Ok(Ok(Err(StoreError::Unavailable(why)))) => Err(OpenSessionError::StoreUnavailable(why)),
        Ok(Err(panic)) => Err(OpenSessionError::StoreUnavailable(panic.to_string())),
        Err(_) => Err(OpenSessionError::StoreUnavailable("no answer in time".to_owned())),
    }
}

#[derive(Debug, RactorMessage)]
enum Message {
    Input(Input),
    Subscribe(UnboundedSender<SessionEvent>),
    Leave(oneshot::Sender<Result<(), LeaveError>>),
    /// Close what a driver that broke has left open.
    Close(SessionNumber, oneshot::Sender<Result<(), LeaveError>>),
    /// What this actor is to its node.
    IsPart(Part),
    /// `open` is to be given up at this time, if it is not done, and nothing is to be waited for longer.
    GiveUp(Time),
    /// Nobody holds the session any more.
    Dropped,
}

struct SessionActor;

struct State {
    core: Session,
    store: SharedStore,
    trust: TrustHandle,
    current: Arc<std::sync::Mutex<Option<SessionId>>>,
    opened: Option<oneshot::Sender<Result<(), OpenSessionError>>>,
    /// Whether a silent former incarnation is waited for longer than `open` was to take.
    waits_for_former: bool,
    leaving: Vec<oneshot::Sender<Result<(), LeaveError>>>,
    subscribers: Vec<UnboundedSender<SessionEvent>>,
    timer: Option<tokio::task::JoinHandle<()>>,
    /// How long the store may take before its answer is not waited for. The core gives up earlier, but still has a
    /// use for late answers.
    patience: Duration,
    recorder: Option<Recorder>,
    supervisor: Supervisor,
    part: Option<Part>,
    /// The session was opened once. Before that its failure is an answer to whoever opens it.
    has_opened: bool,
    /// How the session was left, for whoever asks later.
    left: Arc<OnceLock<Result<(), LeaveError>>>,
}

impl Actor for SessionActor {
    type Msg = Message;
    type State = State;
    type Arguments = State;

    async fn pre_start(&self, _: ActorRef<Message>, state: State) -> Result<State, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Input(input) => state.step(&myself, input),
            Message::Subscribe(subscriber) => state.subscribe(subscriber),
            Message::Leave(reply) => {
                state.leaving.push(reply);
                state.step(&myself, Input::Leave);
            }
            Message::Close(number, reply) => {
                state.leaving.push(reply);
                state.step(&myself, Input::Close(number));
            }
            Message::IsPart(part) => state.part = Some(part),
            Message::GiveUp(at) if state.opened.is_some() => {
                let longer = state.core.waits_until().filter(|_| state.waits_for_former);
                let at = at.max(longer.unwrap_or(at));
                if state.trust.clock().now() < at {
                    state.give_up_at(&myself, at);
                } else {
                    state.give_up(&myself);
                }
            }
            Message::Dropped if !state.core.is_leaving() => state.end(&myself),
            Message::GiveUp(_) | Message::Dropped => {}
        }
        if state.core.is_over() {
            state.end(&myself);
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Message>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.trust.lapse();
        metrics::session_lapsed();
        *lock(&state.current) = None;
        if let Some(recorder) = &mut state.recorder {
            recorder.finish();
        }
        Ok(())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

impl State {
    fn new(
        core: Session,
        store: SharedStore,
        trust: TrustHandle,
        current: Arc<std::sync::Mutex<Option<SessionId>>>,
        opened: oneshot::Sender<Result<(), OpenSessionError>>,
        patience: Duration,
    ) -> Self {
        Self {
            core,
            store,
            trust,
            current,
            opened: Some(opened),
            waits_for_former: false,
            leaving: Vec::new(),
            subscribers: Vec::new(),
            timer: None,
            patience,
            recorder: None,
            supervisor: Supervisor::new(),
            part: None,
            has_opened: false,
            left: Arc::default(),
        }
    }

    /// Ends the actor, as it was asked to; or, if its session cannot be kept, with its node.
    fn end(&mut self, myself: &ActorRef<Message>) {
        if let Some(part) = &self.part {
            match self.core.failure() {
                None | Some(SessionFailure::LeaveUnconfirmed { .. }) => part.may_end(),
                Some(_) if !self.has_opened => part.may_end(),
                Some(failure) => part.fails(failure.to_string()),
            }
        }
        myself.stop(None);
    }

    fn step(&mut self, myself: &ActorRef<Message>, input: Input) {
        let now = self.trust.clock().now();
        let mut effects = Vec::new();
        if let Some(recorder) = &mut self.recorder {
            recorder.before(&now, &input);
        }
        self.core.step(now, input, &mut effects);
        if let Some(recorder) = &mut self.recorder {
            recorder.after(&effects);
            recorder.flush();
        }
        *lock(&self.current) = self.core.session();
        let is_in_use = |effect: &Effect| matches!(effect, Effect::Emit(SessionEvent::NameInUse { .. }));
        let is_in_use = effects.iter().any(is_in_use);
        for effect in effects {
            self.carry_out(myself, effect);
        }
        if is_in_use {
            // A process that lives does not go away by being waited for. A node that had a session and lost it waits on.
            self.give_up(myself);
        }
        if self.core.is_over() {
            let outcome = self.core.failure().cloned().map_or(Ok(()), |f| Err(LeaveError::Failed(f)));
            let outcome = self.left.get_or_init(|| outcome);
            for reply in self.leaving.drain(..) {
                // Whoever waited may have given up.
                let _ = reply.send(outcome.clone());
            }
        }
    }

    fn carry_out(&mut self, myself: &ActorRef<Message>, effect: Effect) {
        match effect {
            Effect::Read { id, reads } => {
                let (store, patience) = (Arc::clone(&self.store), self.patience);
                self.answer(myself, async move {
                    let result = tokio::time::timeout(patience, store.read(reads))
                        .await
                        .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned())));
                    Input::ReadDone { id, result }
                });
            }
            Effect::Commit { id, transaction } => {
                let (store, patience) = (Arc::clone(&self.store), self.patience);
                self.answer(myself, async move {
                    let begun = tokio::time::Instant::now();
                    let outcome = tokio::time::timeout(patience, store.commit(transaction))
                        .await
                        .unwrap_or(CommitOutcome::Unknown);
                    metrics::session_commit(&outcome, begun.elapsed());
                    Input::CommitDone { id, outcome }
                });
            }
            Effect::Prove { node, incarnation } => {
                let store = Arc::clone(&self.store);
                self.answer(myself, async move {
                    let proof = store.proof_of_death(&node, incarnation).await;
                    Input::Proof { node, incarnation, proof }
                });
            }
            Effect::Trust { number, until } => {
                self.trust.grant(number, until);
                metrics::session_trusted();
            }
            Effect::Lapse => {
                self.trust.lapse();
                metrics::session_lapsed();
            }
            Effect::Emit(event) => self.emit(&event),
            Effect::WakeAt(at) => self.wake_at(myself, at),
        }
    }

    /// Sends the input that the store's answer is, whenever it comes.
    fn answer(&self, myself: &ActorRef<Message>, input: impl Future<Output = Input> + Send + 'static) {
        let myself = myself.clone();
        self.supervisor.task("a request of the session to the store", async move {
            // It may have ended meanwhile.
            let _ = myself.cast(Message::Input(input.await));
        });
    }

    fn emit(&mut self, event: &SessionEvent) {
        metrics::session_event(event);
        match event {
            SessionEvent::NameInUse { node, incarnation } => tracing::warn!(
                %node, %incarnation, "another process runs under this node's name, and lives"
            ),
            SessionEvent::StoreWentBack { shown } => {
                let shown: Vec<_> = shown.iter().map(|key| String::from_utf8_lossy(key)).collect();
                tracing::error!(
                    ?shown,
                    "the store went back: it does not have what it had acknowledged. All names of the cluster are lost, and \
                     registered anew after the longest lease"
                );
            }
            SessionEvent::Lapsed { .. }
            | SessionEvent::Lost { .. }
            | SessionEvent::Unreadable { .. }
            | SessionEvent::PeerUnreadable { .. }
            | SessionEvent::Failed(_) => tracing::warn!(?event, "session"),
            _ => tracing::info!(?event, "session"),
        }
        match event {
            SessionEvent::Opened { .. } => {
                self.has_opened = true;
                self.report(Ok(()));
            }
            SessionEvent::Left => self.report(Err(OpenSessionError::Ended)),
            SessionEvent::Failed(SessionFailure::Corrupt(e)) => {
                self.report(Err(OpenSessionError::Corrupt(e.clone())));
            }
            SessionEvent::Failed(failure) => self.report(Err(OpenSessionError::Failed(failure.clone()))),
            _ => {}
        }
        self.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }

    /// Answers `open`, once.
    fn report(&mut self, outcome: Result<(), OpenSessionError>) {
        if let Some(opened) = self.opened.take() {
            // Whoever opened it may have given up; then the session is dropped next.
            let _ = opened.send(outcome);
        }
    }

    fn subscribe(&mut self, subscriber: UnboundedSender<SessionEvent>) {
        if self.core.current().into_iter().all(|event| subscriber.send(event).is_ok()) {
            self.subscribers.push(subscriber);
        }
    }

    /// Asks again, at that time, whether to give up the opening.
    fn give_up_at(&mut self, myself: &ActorRef<Message>, at: Time) {
        let clock = self.trust.clock().clone();
        let myself = myself.clone();
        self.supervisor.task("the deadline of the session's opening", async move {
            clock.sleep_until(at).await;
            // It may have ended meanwhile.
            let _ = myself.cast(Message::GiveUp(at));
        });
    }

    /// Ends an opening that did not come about.
    fn give_up(&mut self, myself: &ActorRef<Message>) {
        if let Some(opened) = self.opened.take() {
            // Nobody waits for it any more.
            let _ = opened.send(Err(self.refusal()));
            self.step(myself, Input::Leave);
        }
    }

    fn refusal(&self) -> OpenSessionError {
        let node = self.core.node().clone();
        match self.core.obstacle() {
            Obstacle::NameInUse { incarnation } => OpenSessionError::NameInUse { node, incarnation },
            Obstacle::FormerOpen { incarnation } => OpenSessionError::FormerOpen { node, incarnation },
            other => OpenSessionError::StoreUnavailable(other.to_string()),
        }
    }

    fn wake_at(&mut self, myself: &ActorRef<Message>, at: Time) {
        let clock = self.trust.clock().clone();
        let myself = myself.clone();
        let timer = self.supervisor.task("the timer of the session", async move {
            clock.sleep_until(at).await;
            // It may have ended meanwhile.
            let _ = myself.cast(Message::Input(Input::Wake));
        });
        if let Some(former) = self.timer.replace(timer) {
            former.abort();
        }
    }
}

#[cfg(test)]
mod tests;
