//! The public face: join a registry, register, look up, leave.

use std::{convert::Infallible, future::Future, ops::ControlFlow, sync::Arc, time::Duration};

use callsign_elector::{
    settings::{InForce, Settings},
    state::most_members,
};
use callsign_store::{
    Clock,
    ids::{Epoch, NodeName, Position},
    supervision::NodeFailure,
};
use callsign_transport::{ActorAddress, Keys, KeysRefused, RemoteMessage, trace::SPANS};
use futures::FutureExt;
use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorStatus};
use tracing::{debug_span, field::Empty};

use crate::{
    config::Config,
    core::{
        caller::{Caller, CallerEffect, CallerInput, OnOutage},
        host::OnTake,
        input::{Answer, Call, Drained, Granted, Input, Notice, OnLapse},
        meta::Meta,
        name::{Name, check_name},
    },
    driver::{
        actor::{Keeps, Listener, Shared},
        node::Node,
        registration::{HeldClaim, Registration},
        take::{HandedTo, WhenTaken},
        traces::in_span,
    },
    error::{
        ConfigureError, JoinError, LeaveError, NotLive, NotReady, RegisterError, UnregisterError, WaitError,
    },
    status::{LeaderInfo, MemberInfo, Status},
};

/// A registry that this node has joined.
///
/// Cheap to clone. Dropping all clones does not leave: a node leaves by [`leave`](Self::leave), or is found dead.
#[derive(Clone)]
pub struct Registry {
    pub(crate) node: Arc<Node>,
    pub(crate) shared: Arc<Shared>,
}

/// What becomes of a registered actor when its node's session is not trusted any more.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum WhenLapsed {
    /// It is stopped. The default: who does not hear of it does nothing wrong either.
    #[default]
    Stop,
    /// It is told, on the registry's own task: the call must not block. A function that was given for several names of one
    /// actor is called once for all of them; of an actor with more than 256 names, once for each 256.
    Tell(Arc<dyn Fn(Notice) + Send + Sync>),
}

impl WhenLapsed {
    /// What the member does, and who is told.
    pub(super) fn split(self) -> (OnLapse, Option<Listener>) {
        match self {
            Self::Stop => (OnLapse::Stop, None),
            Self::Tell(listener) => (OnLapse::Suspend, Some(listener)),
        }
    }
}

/// How to register, where the default does not fit.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RegisterOptions {
    /// What becomes of the actor when the session lapses.
    pub when_lapsed: WhenLapsed,
    /// How long to wait for the verdict. Default: the node's
    /// [`request_timeout`](crate::Config::request_timeout).
    pub wait: Option<Duration>,
    /// What to do while the store takes no commits. Default: the node's [`on_outage`](crate::Config::on_outage).
    pub on_outage: Option<OnOutage>,
    /// What the actor says of itself: whoever finds the name reads it ([`Entry::meta`](crate::Entry::meta)). Default: nothing. If the same actor
    /// holds the name already, its metadata stays as it is.
    pub meta: Option<Meta>,
    /// Whether the actor gives the name to another actor that [takes](Registry::take) it. Default: it does not. If the same actor holds the
    /// name already, that stays as it is.
    pub when_taken: WhenTaken,
}

impl RegisterOptions {
    /// What becomes of the actor when the session lapses.
    #[must_use]
    pub fn when_lapsed(self, when_lapsed: WhenLapsed) -> Self {
        Self { when_lapsed, ..self }
    }

    /// Calls a function with what becomes of the actor's names, on the registry's own task: it must not block. In place of
    /// stopping the actor. If the same actor holds the name already, that goes on as it was asked for then: the function is called only if
    /// one was given. Of several functions of the same registration, the last 16 are kept.
    #[must_use]
    pub fn tell(self, tell: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        self.when_lapsed(WhenLapsed::Tell(Arc::new(tell)))
    }

    /// How long to wait for the verdict.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// What to do while the store takes no commits.
    #[must_use]
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        Self { on_outage: Some(on_outage), ..self }
    }

    /// Gives the name to an actor that takes it, with what this function returns: at most [`MAX_HANDED_BYTES`](crate::MAX_HANDED_BYTES).
    #[must_use]
    pub fn give<F>(self, give: impl Fn(HandedTo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, ActorProcessingErr>> + Send + 'static,
    {
        Self { when_taken: WhenTaken::give(give), ..self }
    }

    /// As [`give`](Self::give); and when this node [drains](Registry::drain), the name is offered to the nodes that have a
    /// [receiver](Registry::receive) for such actors.
    #[must_use]
    pub fn offer<F>(self, give: impl Fn(HandedTo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, ActorProcessingErr>> + Send + 'static,
    {
        Self { when_taken: WhenTaken::offer(give), ..self }
    }

    /// What the actor says of itself.
    #[must_use]
    pub fn meta(self, meta: Meta) -> Self {
        Self { meta: Some(meta), ..self }
    }
}

impl Registry {
    /// Starts a node and joins a registry. Returns when the node's session is open; [`ready`](Self::ready) waits
    /// until it serves.
    ///
    /// Takes milliseconds, but up to the lease (10 s) if a node of this name died without proof.
    pub async fn join(config: Config) -> Result<Self, JoinError> {
        let registry = config.registry.clone();
        let node = Node::start(config).await?;
        match node.join(&registry).await {
            Ok(shared) => Ok(Self { node, shared }),
            Err(error) => {
                // Nobody holds the node, so its session is given back; if that fails, the others close it.
                let _ = node.leave().await;
                Err(error)
            }
        }
    }

    /// Joins another registry on the same node: same session, same links.
    pub async fn join_beside(&self, registry: &str) -> Result<Self, JoinError> {
        Ok(Self { node: self.node.clone(), shared: self.node.join(registry).await? })
    }

    /// Registers a running actor of this node under a name, cluster-wide.
    ///
    /// When it returns `Ok`, the name is the actor's alone, and this node's own [`whereis`](Self::whereis) sees it.
    /// It stays so until it is unregistered, the actor ends, or the node's session ends; the actor is stopped when
    /// the session lapses ([`register_with`](Self::register_with) to be told instead). Registering the same actor
    /// again changes nothing, and returns the same token. Costs one commit of the store, shared with whatever else is registered
    /// meanwhile.
    pub async fn register<M: RemoteMessage>(
        &self,
        name: &str,
        actor: &ActorRef<M>,
    ) -> Result<Registration, RegisterError> {
        self.register_with(name, actor, RegisterOptions::default()).await
    }

    /// As [`register`](Self::register), with options.
    pub async fn register_with<M: RemoteMessage>(
        &self,
        name: &str,
        actor: &ActorRef<M>,
        options: RegisterOptions,
    ) -> Result<Registration, RegisterError> {
        check_name(name)?;
        let (cell, ActorAddress { pid: actor, kind, .. }) = (actor.get_cell(), self.local(actor)?);
        let name: Name = name.into();
        self.tell_of_ended_holder(&name);
        let of_name = name.clone();
        let call =
            |on_lapse, on_take, meta| Call::Register { name: of_name, actor, kind, on_lapse, on_take, meta };
        let registry = self.shared.registry.as_str();
        let span = debug_span!(target: SPANS, "register", registry, %name, token = Empty, error = Empty);
        let asked = self.ask_for(&name, cell, call, options);
        let held = in_span(span, asked, |held| Some(held.granted.token)).await?;
        Ok(Registration::new(name, held, self.shared.clone()))
    }

    /// An actor of this node, which peers can reach from here on.
    pub(super) fn local<M: RemoteMessage>(&self, actor: &ActorRef<M>) -> Result<ActorAddress, RegisterError> {
        let address = self.node.endpoint.address_of(actor);
        if !actor.get_id().is_local() {
            return Err(RegisterError::NotLocal { node: NodeName::new(&address.node).ok() });
        }
        if actor.get_status() >= ActorStatus::Stopping {
            return Err(RegisterError::ActorEnded);
        }
        Ok(address)
    }

    /// Asks for something that an actor is to hold, as long as its caller waits.
    pub(super) async fn ask_for(
        &self,
        name: &Name,
        cell: ActorCell,
        call: impl FnOnce(OnLapse, OnTake, Option<Meta>) -> Call,
        options: RegisterOptions,
    ) -> Result<HeldClaim, RegisterError> {
        let (on_lapse, listener) = options.when_lapsed.split();
        let (on_take, gives) = options.when_taken.split();
        let keeps = Keeps { listener, gives };
        let call = call(on_lapse, on_take, options.meta);
        let wait = options.wait.unwrap_or(self.shared.calls.timeout);
        let on_outage = options.on_outage.unwrap_or(self.shared.calls.on_outage);
        let caller = Caller::new(name.clone(), on_outage, self.clock().now(), wait);
        let mut last = None;
        let ask = |wait| {
            let (asked, answer) = self.shared.register(call.clone(), wait, keeps.clone(), cell.clone());
            last = Some(asked);
            // Mapped, as an `async` block would keep the future twice.
            answer.map(|answer| {
                ControlFlow::<Infallible, _>::Continue(match answer {
                    Some(Answer::Registered(answer)) => answer,
                    _ => Err(self.unasked()),
                })
            })
        };
        let ControlFlow::Continue(granted) = self.ask_by_core(caller, ask).await;
        Ok(HeldClaim::by(last, granted?, &self.shared))
    }

    /// Whoever registers a successor may have seen its predecessor end before the member hears of it. The member is told here,
    /// ahead of the request, which then waits until the name is released.
    pub(super) fn tell_of_ended_holder(&self, name: &str) {
        let held_here = self.shared.table.with(name, |row| {
            let is_ours =
                row.session.incarnation == self.node.incarnation && row.session.node == self.node.name;
            is_ours.then(|| row.actor()).flatten()
        });
        if let Some(actor) = held_here.flatten()
            && ractor::registry::where_is_pid(ActorId::Local(actor)).is_none()
        {
            self.shared.actor_ended(actor);
        }
    }

    /// Asks the member, when the core says so, and tells the core what came of it. `ask` may break off with an answer of its own.
    pub(super) async fn ask_by_core<B, F>(
        &self,
        mut caller: Caller,
        mut ask: impl FnMut(Duration) -> F,
    ) -> ControlFlow<B, Result<Granted, RegisterError>>
    where
        F: Future<Output = ControlFlow<B, Result<Granted, RegisterError>>>,
    {
        let mut trusted = self.shared.trusted.times();
        let mut input = CallerInput::Begin;
        while let Some(effect) = caller.step(self.shared.now(), self.node.outage.lasting(), input) {
            input = match effect {
                CallerEffect::Ask(wait) => {
                    // Before the call: trust that comes back while it is being refused is not missed.
                    trusted = self.shared.trusted.times();
                    CallerInput::Answered(ask(wait).await?)
                }
                CallerEffect::AwaitTrust(until) => tokio::select! {
                    biased;
                    () = self.shared.trusted.more_than(trusted) => CallerInput::Trusted,
                    () = self.clock().sleep_until(until) => CallerInput::Wake,
                },
                CallerEffect::Done(how) => return ControlFlow::Continue(how),
            };
        }
        // It was told of nothing else than what it waited for.
        ControlFlow::Continue(Err(caller.unknown(self.clock().now())))
    }

    /// What a call is told that the member did not answer.
    pub(super) fn unasked(&self) -> RegisterError {
        self.shared.failure().cloned().map_or(RegisterError::Left, RegisterError::Failed)
    }

    /// Gives up a name that an actor of this node holds. Returns the position from which it is free.
    pub async fn unregister(&self, name: &str) -> Result<Position, UnregisterError> {
        check_name(name)?;
        if let Some(lasting) = self.shared.calls.refused() {
            return Err(UnregisterError::StoreUnavailable { lasting });
        }
        let call = Call::Unregister { name: name.into() };
        let answered = self.shared.call(call, self.shared.calls.timeout).map(|answer| match answer {
            Some(Answer::Unregistered(result)) => result,
            _ => Err(self.shared.failure().cloned().map_or(UnregisterError::Left, UnregisterError::Failed)),
        });
        let registry = self.shared.registry.as_str();
        let span = debug_span!(target: SPANS, "unregister", registry, name, error = Empty);
        in_span(span, answered, |_| None).await
    }

    /// The members, as this node last read them.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.status().members.to_vec()
    }

    /// Who leads, as this node last read.
    pub fn leader(&self) -> Option<LeaderInfo> {
        self.status().leader
    }

    /// Gives up the seat of the registry, if this node leads in that epoch. It stays a member, and may be chosen again if
    /// there is no other. Returns at once; [`leader`](Self::leader) shows what came of it.
    pub fn resign(&self, epoch: Epoch) {
        self.node.resign(&self.shared.registry, epoch);
    }

    /// Sets something of the registry's elections for all its members alike, while it runs: the lock timeout, the silence after
    /// which a leader is deposed, who takes a vacant seat. What `change` does not name stays as it is. Returns what holds then,
    /// as this node read it. Any member may ask; nobody needs to lead.
    ///
    /// `OutOfBounds` if a time is not from 1 s to 10 min: nothing was asked. `Unknown` if it was not seen to be set within
    /// `wait`: it may be set yet, or was, and something else after it.
    pub async fn configure(&self, change: Settings, wait: Duration) -> Result<InForce, ConfigureError> {
        change.check()?;
        let clock = self.clock();
        let deadline = clock.now() + wait;
        let mut is_asked = false;
        loop {
            let changed = self.shared.changed.notified();
            if let Some(failure) = self.shared.failure() {
                return Err(ConfigureError::Failed(failure.clone()));
            }
            if self.shared.has_ended() {
                return Err(ConfigureError::Left);
            }
            let in_force = self.status().settings;
            if in_force.set.has(&change) {
                return Ok(in_force);
            }
            if !std::mem::replace(&mut is_asked, true) {
                self.node.configure(&self.shared.registry, change);
            }
            tokio::select! {
                biased;
                // First, so that a registry that always changes keeps nobody waiting.
                () = clock.sleep_until(deadline) => {
                    return Err(ConfigureError::Unknown { waited: wait, in_force });
                }
                () = changed => {}
            }
        }
    }

    /// The clock of the node, by which everything that is built on the registry waits.
    pub fn clock(&self) -> &Clock {
        &self.node.config.clock
    }

    /// Ends when what this node knows of the registry has changed after the call: a name, a link, the leader. Not when the
    /// session lapses or resumes. Call it before you look at [`status`](Self::status), and no change is missed.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + '_ {
        self.shared.changed.notified()
    }

    /// Asks the other members which links they have to each other, and where in the log they are. Returns at once: what they answer is in
    /// [`links_to`](MemberInfo::links_to) and [`behind`](MemberInfo::behind) of the [members](Self::members) a moment later, and for 5 s. They are asked once a second at the most,
    /// however often this is called, and never unless it is.
    pub fn ask_for_links(&self) {
        self.shared.push(Input::AskForLinks);
    }

    /// What this node knows of the registry. Does not wait for anything.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Ends when the node has failed: a part of it (an actor, a task or a thread of Callsign) panicked, or ended though nobody
    /// had asked it to. Nothing of the node goes on then. Its session is not trusted any more, and is closed if the store
    /// answers; its registered actors are stopped or told that their names are lost; calls that wait are answered, and reads
    /// say so. A program should end, or [`join`](Self::join) anew. Never ends for a node that leaves.
    pub async fn failed(&self) -> NodeFailure {
        self.node.supervisor.failed().await
    }

    /// Waits until this node serves: it is synced, its session is trusted, and a leader is there. An error says what it lacked
    /// when the time was over.
    pub async fn ready(&self, wait: Duration) -> Result<(), NotReady> {
        match self.shared.call(Call::Ready, wait).await {
            Some(Answer::Ready(true)) => Ok(()),
            Some(_) => {
                let most = most_members(self.node.store.limits().checks);
                Err(NotReady::of(&self.status(), most, self.shared.trust.check().is_ok(), wait))
            }
            None => Err(self.shared.failure().cloned().map_or(NotReady::Left, NotReady::Failed)),
        }
    }

    /// Whether this node's process does its work, for a probe: its member answers, and no part of the node has failed. This says nothing of the
    /// store, of other nodes, or of the session. A node that has lost all of these is live: it serves again by itself, and to start it anew
    /// would not help. So is one that leaves, or has left.
    ///
    /// # Errors
    /// See [`NotLive`]: the process has to be started anew. A member that hangs is noticed a second after `within`.
    pub async fn live(&self, within: Duration) -> Result<(), NotLive> {
        // Every replica has come that far, so the member answers at once, if it answers at all.
        match self.wait_for(Position(0), within).await {
            Ok(()) | Err(WaitError::Left) => Ok(()),
            Err(WaitError::Failed(failure)) => Err(NotLive::Failed(failure)),
            Err(WaitError::Behind { .. }) => Err(NotLive::Unanswered { waited: within }),
        }
    }

    /// Has the member hang for a time, while the process, its session, its elector and its links go on.
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    pub fn hang_member(&self, time: std::time::Duration) {
        self.shared.hang(time);
    }

    /// Begins to leave, for every registry of the node: no new names are registered
    /// ([`RegisterError::Draining`](crate::RegisterError) says whom to ask), singletons of the node end here, and a
    /// seat that it has is handed over. Names whose holders [offer](RegisterOptions::offer) them are offered to the nodes that have a
    /// [receiver](Self::receive), 64 at a time. A node that declines one, or is silent for 1 s, is passed over for the next.
    /// Everything else goes on: its names are held, may be given up, and looked up. There is
    /// no way back; [`leave`](Self::leave) comes next.
    ///
    /// Actors registered with [`WhenLapsed::Tell`] are told [`Notice::Draining`]; others see
    /// [`drain_started`](Self::drain_started). Between this and `leave` is the time to hand names over: give them up here
    /// and register them elsewhere.
    ///
    /// Returns when another member serves, or nobody else could, and no name is left that is on its way or could be taken; or after
    /// [`drain_timeout`](crate::Config::drain_timeout) (5 s). Names that did not move are freed by `leave`. It returns later if a singleton takes longer to
    /// [stop](crate::Singleton::stop). May be called again.
    pub async fn drain(&self) -> Drained {
        self.node.drain().await
    }

    /// Ends when this node has begun to leave: by [`drain`](Self::drain), [`leave`](Self::leave), or because its process was
    /// asked to end and does so.
    pub async fn drain_started(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.shared.status.load().draining || self.shared.has_ended() {
                return;
            }
            changed.await;
        }
    }

    /// Leaves, in this order: [drains](Self::drain); waits for what is undecided (1 s at the most); drops its names, whose
    /// actors are stopped or told, as registered; says in the store that it leaves (1 s); closes its session (5 s), which
    /// frees the names at once; says goodbye on the links (1 s).
    ///
    /// At most 9 s more than `drain` takes, also if the store does not answer: then the others close the session when its
    /// lease has run out. (The ninth is for a member that hangs.)
    pub async fn leave(&self) -> Result<(), LeaveError> {
        self.node.leave().await
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        self.node.name.as_str()
    }

    /// The incarnation of the node, drawn at its start.
    pub fn incarnation(&self) -> u64 {
        self.node.incarnation.0
    }

    /// Where the node listens for links.
    pub fn local_addr(&self) -> std::net::SocketAddr {
        self.node.endpoint.local_addr()
    }

    /// Replaces the secrets and certificates of the node, for all links that are made from now on; those that are there stay.
    /// But if the certificate says something else of what this node may do, all its links are made again, and it goes by that for all that
    /// is asked from now on. Returns whether anything changed. An error changes nothing.
    ///
    /// To change a secret on a living cluster without cutting it, each step on every node before the next: accept both
    /// (`[old, new]`), show the new one (`[new, old]`), accept only that (`[new]`). For authorities it is the same.
    pub fn set_keys(&self, keys: Keys) -> Result<bool, KeysRefused> {
        self.node.set_keys(keys)
    }
}
