//! Drives a node's [`Session`]: an actor that turns answers of the store and timers into inputs.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

use std::{path::Path, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_cluster_derive::RactorMessage;
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use super::{
    Effect, Input, Obstacle, Session, SessionConfig, SessionEvent, SessionFailure, TimingError,
    trust::TrustHandle,
};
use crate::{
    clock::Clock,
    ids::{Incarnation, NodeName, SessionId},
    metrics,
    record::CorruptRecord,
    recording::{Core, Header, Recorder},
    store::{CommitOutcome, LifeGuard, SharedStore, StoreError},
    time::Time,
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

/// A node's session in a cluster: opens it, keeps it, and opens the next when it is lost. Cheap to clone.
///
/// When the last clone is dropped without [`leave`](Self::leave), the node stops beating and trusting, and the
/// session stays open until other nodes close it: after its lease, or once the store can prove the death.
/// If the driver panics, trust runs out by itself, at the time that the last beat allows.
#[derive(Clone, Debug)]
pub struct NodeSession {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    actor: ActorRef<Message>,
    trust: TrustHandle,
    current: Arc<std::sync::Mutex<Option<SessionId>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.actor.cast(Message::Dropped);
    }
}

impl NodeSession {
    /// Opens a session, and waits until it is open, for at most `deadline`.
    ///
    /// First lays down what proves this process's death (`guard_life`), where the store can. If a process of the same
    /// name was here before, waits until its session is over: at once if it left or is proven dead, else its lease.
    pub async fn open(
        store: SharedStore,
        clock: Clock,
        config: SessionConfig,
        deadline: Duration,
    ) -> Result<Self, OpenSessionError> {
        Self::open_recorded(store, clock, config, deadline, None).await
    }

    /// As [`open`](Self::open), and records the session in a directory, if one is given.
    pub async fn open_recorded(
        store: SharedStore,
        clock: Clock,
        config: SessionConfig,
        deadline: Duration,
        record: Option<&Path>,
    ) -> Result<Self, OpenSessionError> {
        let core = Session::new(config.clone()).map_err(OpenSessionError::Timing)?;
        let until = clock.now() + deadline;
        let guard = guard_life(&store, &config, deadline).await?;
        let trust = TrustHandle::new(clock.clone(), guard);
        let current = Arc::default();
        let (opened, outcome) = oneshot::channel();
        let patience = config.timing.lease;
        let mut state = State::new(core, store, trust.clone(), Arc::clone(&current), opened, patience);
        state.recorder = record.and_then(|dir| Recorder::begin(dir, &header(&config), &config));
        let (actor, _) =
            Actor::spawn(None, SessionActor, state).await.map_err(|_| OpenSessionError::Ended)?;
        let session = Self { inner: Arc::new(Inner { actor, trust, current }) };
        session.send(Message::Input(Input::Start));
        let waiting = async {
            clock.sleep_until(until).await;
            session.send(Message::GiveUp);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = outcome => outcome.unwrap_or(Err(OpenSessionError::Ended))?,
            () = waiting => {}
        }
        Ok(session)
    }

    /// Tells whether the session is trusted. What acts on behalf of the node asks it before each act.
    pub fn trust(&self) -> TrustHandle {
        self.inner.trust.clone()
    }

    /// The session that the node holds, trusted or lapsed; `None` while it has lost one and not opened the next.
    pub fn session(&self) -> Option<SessionId> {
        lock(&self.inner.current).clone()
    }

    /// Subscribes: first the current state (this node's session as `Opened` or `Lapsed`, and each closed session that
    /// is known as `PeerClosed`), then each change, in order. None is lost; unread ones take memory. The stream ends
    /// after `Left` and `Failed`, and when the driver ends.
    pub fn subscribe(&self) -> UnboundedReceiver<SessionEvent> {
        let (sender, receiver) = unbounded_channel();
        self.send(Message::Subscribe(sender));
        receiver
    }

    /// Says that there is reason to ask whether an incarnation is dead: the link to it closed.
    pub fn suspect(&self, node: &NodeName, incarnation: Incarnation) {
        self.send(Message::Input(Input::Suspect { node: node.clone(), incarnation }));
    }

    /// Says whether some member of this node leads. Leaders close silent sessions first.
    pub fn lead(&self, leads: bool) {
        self.send(Message::Input(Input::Leads(leads)));
    }

    /// Stops trusting, closes the session, and waits until that is confirmed, at most half a lease.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        let (reply, left) = oneshot::channel();
        self.send(Message::Leave(reply));
        left.await.unwrap_or(Err(LeaveError::Ended))
    }

    /// To a driver that has ended nothing is to be said: whoever waits for an answer sees that it is dropped.
    fn send(&self, message: Message) {
        let _ = self.inner.actor.cast(message);
    }
}

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
    // It may touch files, and block.
    let guard = tokio::task::spawn_blocking(move || store.guard_life(&node, incarnation));
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
    /// The deadline of `open` has passed.
    GiveUp,
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
    leaving: Vec<oneshot::Sender<Result<(), LeaveError>>>,
    subscribers: Vec<UnboundedSender<SessionEvent>>,
    timer: Option<tokio::task::JoinHandle<()>>,
    /// How long the store may take before its answer is not waited for. The core gives up earlier, but still has a
    /// use for late answers.
    patience: Duration,
    recorder: Option<Recorder>,
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
            Message::GiveUp => {
                if let Some(opened) = state.opened.take() {
                    // Nobody waits for it any more.
                    let _ = opened.send(Err(state.refusal()));
                    state.step(&myself, Input::Leave);
                }
            }
            Message::Dropped if !state.core.is_leaving() => myself.stop(None),
            Message::Dropped => {}
        }
        if state.core.is_over() {
            myself.stop(None);
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
            leaving: Vec::new(),
            subscribers: Vec::new(),
            timer: None,
            patience,
            recorder: None,
        }
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
        for effect in effects {
            self.carry_out(myself, effect);
        }
        if self.core.is_over() {
            for reply in self.leaving.drain(..) {
                let outcome = self.core.failure().cloned().map_or(Ok(()), |f| Err(LeaveError::Failed(f)));
                // Whoever waited may have given up.
                let _ = reply.send(outcome);
            }
        }
    }

    fn carry_out(&mut self, myself: &ActorRef<Message>, effect: Effect) {
        match effect {
            Effect::Read { id, reads } => {
                let (store, patience) = (Arc::clone(&self.store), self.patience);
                answer(myself, async move {
                    let result = tokio::time::timeout(patience, store.read(reads))
                        .await
                        .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned())));
                    Input::ReadDone { id, result }
                });
            }
            Effect::Commit { id, transaction } => {
                let (store, patience) = (Arc::clone(&self.store), self.patience);
                answer(myself, async move {
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
                answer(myself, async move {
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

    fn emit(&mut self, event: &SessionEvent) {
        metrics::session_event(event);
        match event {
            SessionEvent::Lapsed { .. }
            | SessionEvent::Lost { .. }
            | SessionEvent::NameInUse { .. }
            | SessionEvent::Unreadable { .. }
            | SessionEvent::PeerUnreadable { .. }
            | SessionEvent::Failed(_) => tracing::warn!(?event, "session"),
            _ => tracing::info!(?event, "session"),
        }
        match event {
            SessionEvent::Opened { .. } => self.report(Ok(())),
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
        let timer = tokio::spawn(async move {
            clock.sleep_until(at).await;
            // It may have ended meanwhile.
            let _ = myself.cast(Message::Input(Input::Wake));
        });
        if let Some(former) = self.timer.replace(timer) {
            former.abort();
        }
    }
}

/// Sends the input that the store's answer is, whenever it comes. A store that panics gives no answer.
fn answer(myself: &ActorRef<Message>, input: impl Future<Output = Input> + Send + 'static) {
    let myself = myself.clone();
    tokio::spawn(async move {
        // It may have ended meanwhile.
        let _ = myself.cast(Message::Input(input.await));
    });
}

/// Nothing that could panic happens under this lock.
fn lock(current: &std::sync::Mutex<Option<SessionId>>) -> std::sync::MutexGuard<'_, Option<SessionId>> {
    current.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
