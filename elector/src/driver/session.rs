//! Drives a node's [`Session`], as a part of its node: an actor that turns answers of the store and timers into inputs.

mod error;
mod steps;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use callsign_store::{
    CommitOutcome, LifeGuard, SharedStore, StoreError,
    clock::Clock,
    ids::SessionId,
    lock::lock,
    logged,
    supervision::{Part, Supervisor},
    time::Time,
};
use futures::{FutureExt, future::BoxFuture};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_cluster_derive::RactorMessage;
use tokio::sync::oneshot;

pub use self::{
    error::{LeaveError, OpenSessionError, Patience},
    steps::{CarriesOut, Steps},
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
};

/// What a session is opened with.
#[derive(Clone, Debug)]
pub struct SessionOpening<'a> {
    /// Where it is kept.
    pub store: SharedStore,
    /// What its times are measured by.
    pub clock: Clock,
    /// Whose it is. The core was made with the same.
    pub config: SessionConfig,
    /// How long the opening is waited for.
    pub patience: Patience,
    /// The directory in which it is recorded, if it is.
    pub record: Option<&'a Path>,
    /// Starts what runs here. When the node fails, nothing is trusted any more, and the node fails when the session does.
    pub supervisor: Supervisor,
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
    shared: Shared,
}

/// What the driver shares with whoever has a handle.
#[derive(Clone)]
struct Shared {
    core: Arc<dyn Steps>,
    trust: TrustHandle,
    current: Arc<std::sync::Mutex<Option<SessionId>>>,
    /// How the session was left, for whoever asks later.
    left: Arc<OnceLock<Result<(), LeaveError>>>,
    store: SharedStore,
    config: SessionConfig,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("node", &self.config.node).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.actor.cast(Message::Dropped);
    }
}

impl NodeSession {
    /// Opens a session, and waits until it is open. It is told to begin as a part of this core, and is stepped by nobody else.
    ///
    /// First lays down what proves this process's death (`guard_life`), where the store can. If a process of the same
    /// name was here before, waits until its session is over: at once if it left or is proven dead, else its lease. If that
    /// process is seen to live, it is `NameInUse`, at once.
    pub fn open(
        core: Arc<dyn Steps>,
        opening: SessionOpening<'_>,
    ) -> BoxFuture<'_, Result<Self, OpenSessionError>> {
        // Boxed here, so that no other crate compiles it once more.
        Self::opened(core, opening).boxed()
    }

    async fn opened(core: Arc<dyn Steps>, opening: SessionOpening<'_>) -> Result<Self, OpenSessionError> {
        let SessionOpening { store, clock, config, patience, record, supervisor } = opening;
        let deadline = patience.usual();
        let until = clock.now() + deadline;
        let guard = guard_life(&store, &config, deadline).await?;
        let trust = TrustHandle::new(clock, guard);
        let shared = Shared { core, trust, current: Arc::default(), left: Arc::default(), store, config };
        metrics::session_begins();
        let (opened, outcome) = oneshot::channel();
        let mut state = State::new(shared.clone(), supervisor.clone());
        state.opened = Some(opened);
        state.waits_for_former = matches!(patience, Patience::ForFormer(_));
        state.recorder = record.and_then(|dir| Recorder::begin(dir, &header(&shared.config), &shared.config));
        let ends = shared.trust.clone();
        supervisor.on_failure(move |_| {
            ends.end();
            metrics::session_lapsed();
        });
        let actor = start(&supervisor, state).await?;
        let session = Self { inner: Arc::new(Inner { actor, shared }) };
        session.send(Message::Input(Input::Start));
        session.send(Message::GiveUp(until));
        outcome.await.unwrap_or(Err(OpenSessionError::Ended))?;
        Ok(session)
    }

    /// Tells whether the session is trusted. What acts on behalf of the node asks it before each act.
    pub fn trust(&self) -> TrustHandle {
        self.inner.shared.trust.clone()
    }

    /// The session that the node holds, trusted or lapsed; `None` while it has lost one and not opened the next.
    pub fn session(&self) -> Option<SessionId> {
        lock(&self.inner.shared.current).clone()
    }

    /// Other parts of the node have told the session something: it is to be taken.
    pub fn is_told(&self) {
        self.send(Message::Told);
    }

    /// Stops trusting, closes the session, and waits until that is confirmed, at most half a lease. Asked again, it says
    /// what came of it the first time.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        let (reply, left) = oneshot::channel();
        self.send(Message::Leave(reply));
        left.await.unwrap_or_else(|_| self.ended())
    }

    /// Waits until the session is closed, as the other parts of the node have told it; at most half a lease. If this driver broke,
    /// another one closes what it left open.
    pub async fn close(&self) -> Result<(), LeaveError> {
        let (reply, closed) = oneshot::channel();
        self.send(Message::Close(reply));
        match closed.await.unwrap_or_else(|_| self.ended()) {
            Err(LeaveError::Ended) => {}
            outcome => return outcome,
        }
        let shared = self.inner.shared.clone();
        shared.core.start_over();
        let supervisor = Supervisor::new();
        let state = State::new(shared, supervisor.clone());
        let actor = start(&supervisor, state).await.map_err(|_| LeaveError::Ended)?;
        let (reply, closed) = oneshot::channel();
        let _ = actor.cast(Message::Close(reply)); // it has just been started
        closed.await.unwrap_or(Err(LeaveError::Ended))
    }

    /// How the session was left by a driver that has ended. It says so before it ends.
    fn ended(&self) -> Result<(), LeaveError> {
        self.inner.shared.left.get().cloned().unwrap_or(Err(LeaveError::Ended))
    }

    /// To a driver that has ended nothing is to be said: whoever waits for an answer sees that it is dropped.
    fn send(&self, message: Message) {
        let _ = self.inner.actor.cast(message);
    }
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
        Ok(Ok(Err(StoreError::Unavailable(why)))) => {
            Err(OpenSessionError::StoreUnavailable(Obstacle::Unavailable(why)))
        }
        Ok(Err(panic)) => Err(OpenSessionError::StoreUnavailable(Obstacle::Unavailable(panic.to_string()))),
        Err(_) => Err(OpenSessionError::StoreUnavailable(Obstacle::NoAnswer)),
    }
}

#[derive(Debug, RactorMessage)]
enum Message {
    Input(Input),
    /// Other parts of the node have told the session something.
    Told,
    Leave(oneshot::Sender<Result<(), LeaveError>>),
    /// The session is closed, as other parts of the node have told it: this one waits for that.
    Close(oneshot::Sender<Result<(), LeaveError>>),
    /// What this actor is to its node.
    IsPart(Part),
    /// `open` is to be given up at this time, if it is not done, and nothing is to be waited for longer.
    GiveUp(Time),
    /// Nobody holds the session any more.
    Dropped,
}

struct SessionActor;

struct State {
    shared: Shared,
    /// How the session is, as of its last step.
    seen: Seen,
    opened: Option<oneshot::Sender<Result<(), OpenSessionError>>>,
    /// Whether a silent former incarnation is waited for longer than `open` was to take.
    waits_for_former: bool,
    leaving: Vec<oneshot::Sender<Result<(), LeaveError>>>,
    timer: Option<tokio::task::JoinHandle<()>>,
    recorder: Option<Recorder>,
    supervisor: Supervisor,
    part: Option<Part>,
    /// The session was opened once. Before that its failure is an answer to whoever opens it.
    has_opened: bool,
}

/// What the driver needs to know of the session.
struct Seen {
    is_leaving: bool,
    is_over: bool,
    failure: Option<SessionFailure>,
    obstacle: Obstacle,
    waits_until: Option<Time>,
}

impl Seen {
    fn of(session: &Session) -> Self {
        Self {
            is_leaving: session.is_leaving(),
            is_over: session.is_over(),
            failure: session.failure().cloned(),
            obstacle: session.obstacle(),
            waits_until: session.waits_until(),
        }
    }
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
            Message::Told => state.take_told(&myself),
            Message::Leave(reply) => {
                state.leaving.push(reply);
                state.step(&myself, Input::Leave);
            }
            Message::Close(reply) => {
                state.leaving.push(reply);
                state.take_told(&myself);
            }
            Message::IsPart(part) => state.part = Some(part),
            Message::GiveUp(at) if state.opened.is_some() => {
                let longer = state.seen.waits_until.filter(|_| state.waits_for_former);
                let at = at.max(longer.unwrap_or(at));
                if state.shared.trust.clock().now() < at {
                    state.give_up_at(&myself, at);
                } else {
                    state.give_up(&myself);
                }
            }
            Message::Dropped if !state.seen.is_leaving => state.end(&myself),
            Message::GiveUp(_) | Message::Dropped => {}
        }
        if state.seen.is_over {
            state.tell_leavers();
            state.end(&myself);
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Message>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.shared.trust.lapse();
        metrics::session_lapsed();
        *lock(&state.shared.current) = None;
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
    /// Of a session that was told nothing yet.
    fn new(shared: Shared, supervisor: Supervisor) -> Self {
        let seen = Seen {
            is_leaving: false,
            is_over: false,
            failure: None,
            obstacle: Obstacle::Nothing,
            waits_until: None,
        };
        Self {
            shared,
            seen,
            opened: None,
            waits_for_former: false,
            leaving: Vec::new(),
            timer: None,
            recorder: None,
            supervisor,
            part: None,
            has_opened: false,
        }
    }

    /// Ends the actor, as it was asked to; or, if its session cannot be kept, with its node.
    fn end(&mut self, myself: &ActorRef<Message>) {
        if let Some(part) = &self.part {
            match &self.seen.failure {
                None | Some(SessionFailure::LeaveUnconfirmed { .. }) => part.may_end(),
                Some(_) if !self.has_opened => part.may_end(),
                Some(failure) => part.fails(failure.to_string()),
            }
        }
        myself.stop(None);
    }

    /// Tells the session what other parts of the node have to tell it.
    fn take_told(&mut self, myself: &ActorRef<Message>) {
        while let Some(input) = self.shared.core.take() {
            self.step(myself, input);
        }
    }

    fn step(&mut self, myself: &ActorRef<Message>, input: Input) {
        let (core, now) = (Arc::clone(&self.shared.core), self.shared.trust.clock().now());
        if let Some(recorder) = &mut self.recorder {
            recorder.before(&now, &input);
        }
        let mut turn = Turn { state: self, myself, is_in_use: false };
        core.step(now, input, &mut turn);
        if turn.is_in_use {
            // A process that lives does not go away by being waited for. A node that had a session and lost it waits on.
            self.give_up(myself);
        }
    }

    fn tell_leavers(&mut self) {
        let outcome = self.seen.failure.clone().map_or(Ok(()), |failure| Err(LeaveError::Failed(failure)));
        let outcome = self.shared.left.get_or_init(|| outcome);
        for reply in self.leaving.drain(..) {
            // Whoever waited may have given up.
            let _ = reply.send(outcome.clone());
        }
    }

    fn carry_out(&mut self, myself: &ActorRef<Message>, effect: Effect) {
        match effect {
            Effect::Read { id, reads } => {
                let (store, patience) = (Arc::clone(&self.shared.store), self.patience());
                self.answer(myself, async move {
                    let result = tokio::time::timeout(patience, store.read(reads))
                        .await
                        .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned())));
                    Input::ReadDone { id, result }
                });
            }
            Effect::Commit { id, transaction } => {
                let (store, patience) = (Arc::clone(&self.shared.store), self.patience());
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
                let store = Arc::clone(&self.shared.store);
                self.answer(myself, async move {
                    let proof = store.proof_of_death(&node, incarnation).await;
                    Input::Proof { node, incarnation, proof }
                });
            }
            Effect::Trust { number, until } => {
                self.shared.trust.grant(number, until);
                metrics::session_trusted();
            }
            Effect::Lapse => {
                self.shared.trust.lapse();
                metrics::session_lapsed();
            }
            Effect::Emit(event) => self.emit(&event),
            Effect::WakeAt(at) => self.wake_at(myself, at),
        }
    }

    /// How long the store may take before its answer is not waited for. The core gives up earlier, but still has a use for late
    /// answers.
    fn patience(&self) -> Duration {
        self.shared.config.timing.lease
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
        let node = &self.shared.config.node;
        match event {
            SessionEvent::StoreWentBack { .. } => logged!(error, %node, "{event}"),
            // That is how a node leaves.
            SessionEvent::Lapsed { .. } if self.seen.is_leaving => logged!(info, %node, "{event}"),
            SessionEvent::NameInUse { .. }
            | SessionEvent::Lapsed { .. }
            | SessionEvent::Lost { .. }
            | SessionEvent::Unreadable { .. }
            | SessionEvent::PeerUnreadable { .. }
            | SessionEvent::Failed(_) => logged!(warn, %node, "{event}"),
            _ => logged!(info, %node, "{event}"),
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
    }

    /// Answers `open`, once.
    fn report(&mut self, outcome: Result<(), OpenSessionError>) {
        if let Some(opened) = self.opened.take() {
            // Whoever opened it may have given up; then the session is dropped next.
            let _ = opened.send(outcome);
        }
    }

    /// Asks again, at that time, whether to give up the opening.
    fn give_up_at(&mut self, myself: &ActorRef<Message>, at: Time) {
        let clock = self.shared.trust.clock().clone();
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
        let node = self.shared.config.node.clone();
        match &self.seen.obstacle {
            Obstacle::NameInUse { incarnation } => {
                OpenSessionError::NameInUse { node, incarnation: *incarnation }
            }
            Obstacle::FormerOpen { incarnation } => {
                OpenSessionError::FormerOpen { node, incarnation: *incarnation }
            }
            other => OpenSessionError::StoreUnavailable(other.clone()),
        }
    }

    fn wake_at(&mut self, myself: &ActorRef<Message>, at: Time) {
        let clock = self.shared.trust.clock().clone();
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

/// The driver, while the session is stepped.
struct Turn<'a> {
    state: &'a mut State,
    myself: &'a ActorRef<Message>,
    /// Another process was seen that lives under the node's name.
    is_in_use: bool,
}

impl CarriesOut for Turn<'_> {
    fn has_stepped(&mut self, session: &Session, asked: &mut dyn Iterator<Item = &Effect>) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.after(&asked.collect::<Vec<_>>());
            recorder.flush();
        }
        self.state.seen = Seen::of(session);
        *lock(&self.state.shared.current) = session.session();
    }

    fn carry_out(&mut self, effect: Effect) {
        self.is_in_use |= matches!(effect, Effect::Emit(SessionEvent::NameInUse { .. }));
        self.state.carry_out(self.myself, effect);
    }
}

#[cfg(test)]
mod tests;
