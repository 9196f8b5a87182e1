//! Start if absent: an actor that is started only where the name is held already.
//!
//! The name is taken first, and then the actor is started: so nobody starts one in vain, and at most one start of a name runs whose
//! check passes. Who starts, who waits and what is bound is decided in `core/host/starts.rs`.

use std::{
    fmt,
    future::Future,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{
    ids::{NodeName, Position},
    in_full,
    lock::lock,
    supervision::{Supervisor, caught},
};
use callsign_transport::{Endpoint, Kind, RemoteMessage, trace::SPANS};
use futures::future::BoxFuture;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, ActorStatus};
use tracing::{Instrument, debug_span, field::Empty};

use crate::{
    core::{
        caller::{Caller, OnOutage},
        entry::Entry,
        input::{Answer, Call, CallId, Granted, Input, StartedAs, Yielded},
        meta::Meta,
        name::{Name, check_name},
    },
    driver::{
        actor::{Keeps, Shared},
        registration::{HeldClaim, NotHeld, Registration},
        registry::{Registry, WhenLapsed},
        take::WhenTaken,
        traces::in_span,
    },
    error::{NotStarted, RegisterError},
};

/// How long a start may take, if nobody says. Shorter: actors that load much are never started. Longer: everybody else waits for
/// one that hangs.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Who holds a name, and since when: what [`Registry::start`] came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Started {
    /// The actor that was started by this call. The name is its own.
    Ours(Registration),
    /// Another one, which held the name before, or was started by somebody else meanwhile. Nothing was started by this call.
    Theirs(Entry),
}

/// A name that is held while its actor is being started. Cheap to clone; it may be given to the actor.
#[derive(Clone)]
pub struct Starting {
    registration: Registration,
}

impl Starting {
    /// The name.
    pub fn name(&self) -> &str {
        self.registration.name()
    }

    /// The fencing token. The registration that comes of the start has the same.
    pub fn token(&self) -> Position {
        self.registration.token()
    }

    /// Asks before an act whether nobody else can hold the name, or start an actor for it. Costs what
    /// [`Registration::check`] costs, and goes on passing when the actor holds the name.
    ///
    /// # Errors
    /// `NotTrusted` while the session is not trusted. `Ended`, for good, from the moment at which the session was found lapsed during
    /// the start, the start was too slow, or the name was lost: an actor that is started by then is stopped.
    pub fn check(&self) -> Result<(), NotHeld> {
        self.registration.check()
    }
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token();
        f.debug_struct("Starting").field("name", &self.name()).field("token", &token).finish_non_exhaustive()
    }
}

/// How to start, where the default does not fit.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct StartOptions {
    /// What becomes of the actor when the session lapses. A start that runs when it lapses is given up in any case.
    pub when_lapsed: WhenLapsed,
    /// How long the function may take. Default 30 s. Shorter: actors that load much are never started. Longer: everybody waits
    /// for a start that hangs.
    pub limit: Option<Duration>,
    /// How long to wait while others start the actor. Default: the limit, and twice the node's
    /// [`request_timeout`](crate::Config::request_timeout).
    pub wait: Option<Duration>,
    /// What to do while the store takes no commits. Default: the node's [`on_outage`](crate::Config::on_outage).
    pub on_outage: Option<OnOutage>,
    /// What the actor says of itself as soon as it holds the name. Default: nothing.
    pub meta: Option<Meta>,
    /// Whether the actor gives the name to another actor that [takes](Registry::take) it. Default: it does not.
    pub when_taken: WhenTaken,
}

impl StartOptions {
    /// What becomes of the actor when the session lapses.
    #[must_use]
    pub fn when_lapsed(self, when_lapsed: WhenLapsed) -> Self {
        Self { when_lapsed, ..self }
    }

    /// How long the function may take.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// How long to wait while others start the actor.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// What to do while the store takes no commits.
    #[must_use]
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        Self { on_outage: Some(on_outage), ..self }
    }

    /// Whether the actor gives the name away.
    #[must_use]
    pub fn when_taken(self, when_taken: WhenTaken) -> Self {
        Self { when_taken, ..self }
    }

    /// What the actor says of itself.
    #[must_use]
    pub fn meta(self, meta: Meta) -> Self {
        Self { meta: Some(meta), ..self }
    }
}

/// What a start came to, and the actor, which somebody has to stop if the member does not hear of it.
type Done = (Yielded, Option<ActorCell>);

type Begin = Box<dyn FnOnce(Starting) -> BoxFuture<'static, Done> + Send>;

/// What is to be done to start an actor: taken once, by the member or by the caller who goes away.
#[derive(Clone)]
pub(crate) struct StartSlot(Arc<Mutex<Option<Begin>>>);

impl StartSlot {
    fn take(&self) -> Option<Begin> {
        lock(&self.0).take()
    }
}

/// A caller. One that goes away before the start has begun wants none.
struct WaitsForStart(StartSlot);

impl Drop for WaitsForStart {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl Registry {
    /// Finds the actor that holds a name, or starts one: one start for the whole cluster, however many ask at the same time.
    ///
    /// The name is taken first. Then `start` is run, on this node, in a task of its own, and the actor that it returns holds the
    /// name. A caller that asks meanwhile, on whichever node, waits for that, and gets [`Started::Theirs`]. While it runs, a lookup finds
    /// an entry that [is starting](Entry::is_starting), [`NameRef`](crate::NameRef)s wait, and `register` answers "taken".
    ///
    /// `start` gets the name's fencing token, and a check. At most one start of a name runs whose check passes: ask it before each
    /// act that must not be done twice. When the session lapses, or the name is lost, or the start takes longer than
    /// [`limit`](StartOptions::limit) (30 s), the check fails for good; `start` is not dropped, and the actor that it returns is
    /// stopped. If it fails, panics, or returns an actor that cannot hold the name, the name is given up with the reason, and
    /// whoever waits tries in its turn.
    ///
    /// Dropped before the start has begun, nothing is started. Dropped later, the start goes on, and the actor holds the name.
    /// Costs two commits of the store, and one lookup if somebody holds the name.
    ///
    /// ```no_run
    /// # use callsign::{Registry, Started};
    /// # use ractor::{Actor, ActorProcessingErr, ActorRef};
    /// # #[callsign::message("shop.cart/1")] enum Cart { #[allow(unused)] Clear }
    /// # struct CartActor;
    /// # impl Actor for CartActor {
    /// #     type Msg = Cart; type State = (); type Arguments = ();
    /// #     async fn pre_start(&self, _: ActorRef<Cart>, (): ()) -> Result<(), ActorProcessingErr> { Ok(()) }
    /// # }
    /// # async fn run(registry: Registry) -> Result<(), Box<dyn std::error::Error>> {
    /// let started = registry.start("cart/7", |_starting| async {
    ///     let (actor, _) = Actor::spawn(None, CartActor, ()).await?;
    ///     Ok(actor)
    /// });
    /// match started.await? {
    ///     Started::Ours(held) => println!("started here, under token {}", held.token()),
    ///     Started::Theirs(entry) => println!("runs on {}", entry.node()),
    ///     _ => {}
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`NotStarted`].
    pub async fn start<M, F, S>(&self, name: &str, start: F) -> Result<Started, NotStarted>
    where
        M: RemoteMessage,
        F: FnOnce(Starting) -> S + Send + 'static,
        S: Future<Output = Result<ActorRef<M>, ActorProcessingErr>> + Send + 'static,
    {
        self.start_with(name, StartOptions::default(), start).await
    }

    /// As [`start`](Self::start), with options.
    ///
    /// # Errors
    /// See [`NotStarted`].
    pub async fn start_with<M, F, S>(
        &self,
        name: &str,
        options: StartOptions,
        start: F,
    ) -> Result<Started, NotStarted>
    where
        M: RemoteMessage,
        F: FnOnce(Starting) -> S + Send + 'static,
        S: Future<Output = Result<ActorRef<M>, ActorProcessingErr>> + Send + 'static,
    {
        check_name(name).map_err(RegisterError::from)?;
        let registry = self.shared.registry.as_str();
        let span = debug_span!(target: SPANS, "start", registry, name, token = Empty, error = Empty);
        let endpoint = self.node.endpoint.clone();
        // What is started is done in a task of its own, but for this call.
        let of = span.clone();
        let begin: Begin = Box::new(move |starting| Box::pin(run(endpoint, starting, start).instrument(of)));
        let token = |started: &Started| match started {
            Started::Ours(held) => Some(held.token()),
            Started::Theirs(entry) => Some(entry.token()),
        };
        in_span(span, self.start_boxed(name.into(), options, Kind::of_messages::<M>(), begin), token).await
    }

    async fn start_boxed(
        &self,
        name: Name,
        options: StartOptions,
        kind: Kind,
        begin: Begin,
    ) -> Result<Started, NotStarted> {
        let (on_lapse, listener) = options.when_lapsed.split();
        let (on_take, gives) = options.when_taken.split();
        let keeps = Keeps { listener, gives };
        let request = self.shared.calls.timeout;
        let limit = options.limit.unwrap_or(START_LIMIT);
        // An application may wait for ever, and says so by the longest duration.
        let usual = limit.saturating_add(request.saturating_mul(2));
        let patience = options.wait.unwrap_or(usual);
        let on_outage = options.on_outage.unwrap_or(self.shared.calls.on_outage);
        self.tell_of_ended_holder(&name);
        let meta = options.meta;
        let call = Call::Start { name: name.clone(), kind, on_lapse, on_take, meta, limit, patience };
        let waits = WaitsForStart(StartSlot(Arc::new(Mutex::new(Some(begin)))));
        let caller = Caller::new(name.clone(), on_outage, self.clock().now(), request);
        let ask = |_| {
            let asked = self.shared.start(call.clone(), request, keeps.clone(), waits.0.clone());
            async {
                match asked.await {
                    Some(Answer::Started(Ok(StartedAs::Ours(granted)))) => ControlFlow::Continue(Ok(granted)),
                    Some(Answer::Started(Ok(StartedAs::Theirs(entry)))) => {
                        ControlFlow::Break(Ok(Started::Theirs(entry)))
                    }
                    Some(Answer::Started(Err(NotStarted::Register(error)))) => {
                        ControlFlow::Continue(Err(error))
                    }
                    Some(Answer::Started(Err(error))) => ControlFlow::Break(Err(error)),
                    _ => ControlFlow::Continue(Err(self.unasked())),
                }
            }
        };
        match self.ask_by_core(caller, ask).await {
            ControlFlow::Continue(granted) => {
                let held = HeldClaim::by(None, granted?, &self.shared);
                Ok(Started::Ours(Registration::new(name, held, self.shared.clone())))
            }
            ControlFlow::Break(answer) => answer,
        }
    }
}

/// Runs what the application does to start an actor. A panic in it costs this start only.
async fn run<M, F, S>(endpoint: Endpoint, starting: Starting, start: F) -> Done
where
    M: RemoteMessage,
    F: FnOnce(Starting) -> S,
    S: Future<Output = Result<ActorRef<M>, ActorProcessingErr>>,
{
    let actor = match caught("the start of a name", async move { start(starting).await }).await {
        Ok(Ok(actor)) => actor,
        Ok(Err(error)) => return (Yielded::Failed { reason: in_full(&*error).to_string() }, None),
        Err(reason) => return (Yielded::Panicked { reason }, None),
    };
    // Has peers reach it, and says where it is.
    let address = endpoint.address_of(&actor);
    if !actor.get_id().is_local() {
        return (Yielded::Foreign { node: NodeName::new(&address.node).ok() }, None);
    }
    if actor.get_status() >= ActorStatus::Stopping {
        return (Yielded::Ended, None);
    }
    let cell = actor.get_cell();
    let takes = cell.is_message_type_of::<M>() != Some(false);
    (Yielded::Actor { actor: address.pid, kind: takes.then_some(address.kind) }, Some(cell))
}

/// Has an actor started, in a task of its own: nobody who waits for it drops it.
pub(super) fn begin(supervisor: &Supervisor, shared: &Arc<Shared>, name: Name, granted: Granted) {
    let (claim, shared) = (granted.claim, shared.clone());
    let registration = Registration::new(name.clone(), HeldClaim::by(None, granted, &shared), shared.clone());
    let begin = shared.slot_of(claim).and_then(|slot| slot.take());
    supervisor.task("the start of an actor for a name", async move {
        let (yielded, cell) = match begin {
            Some(begin) => begin(Starting { registration }).await,
            None => (Yielded::Abandoned, None),
        };
        shared.start_ended(name, claim, yielded, cell);
    });
}

impl Shared {
    /// The member is told what a start came to. If it ends before it has heard that, the actor is stopped.
    fn start_ended(&self, name: Name, claim: CallId, yielded: Yielded, cell: Option<ActorCell>) {
        if let (Some(actor), Some(cell)) = (yielded.actor(), cell) {
            self.yields(claim, actor, cell);
        }
        self.push(Input::StartEnded { name, claim, yielded });
        if self.has_ended() {
            self.stop_yields();
        }
    }
}
