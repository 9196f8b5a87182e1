//! Runs a [`Core`] as an actor: the supervisor of the children.
//!
//! Decides nothing: it turns what the role says and what becomes of children into inputs, and carries out effects.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use callsign_election::{Grant, Leadership, Term, role::Lost};
use callsign_store::{Clock, Time, in_full, lock::lock, supervision};
use callsign_transport::RemoteMessage;
use futures::FutureExt;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
};

use super::{
    child::{self, ChildHandle, Follow, FollowerFactory, Lead, LeaderFactory},
    events::{Publisher, SingletonEvent},
    hand_over::{Cell, HandOver},
    registrar,
};
use crate::{
    core::{
        name::Name,
        singleton::{ChildId, ChildKind, Core, Effect, Happened, Input, Restarts},
    },
    driver::registry::Registry,
};

/// What a supervisor is told.
pub(crate) enum Command<F, M> {
    Lead {
        grant: Grant<F>,
        handed_over: Option<Vec<u8>>,
        done: oneshot::Sender<Result<(), String>>,
    },
    Follow {
        leader: Option<Term>,
    },
    Rest {
        why: Lost,
        budget: Duration,
        done: oneshot::Sender<()>,
    },
    Abort,
    /// Asks when the child that was aborted is down.
    Aborted {
        done: oneshot::Sender<()>,
    },
    End,
    LeaderStarted {
        id: ChildId,
        child: ActorRef<M>,
    },
    FollowerStarted {
        id: ChildId,
        child: ActorCell,
    },
    Down {
        id: ChildId,
        why: Option<String>,
    },
    Unreachable {
        id: ChildId,
        why: String,
    },
    Wake,
}

impl<F: Send + 'static, M: Send + 'static> ractor::Message for Command<F, M> {}

/// How a supervisor is set up.
pub(crate) struct Plan<F, M> {
    pub(crate) registry: Registry,
    /// Under which the leader child is registered, and for how long that may be tried.
    pub(crate) name: Option<(Name, Duration)>,
    pub(crate) leader: LeaderFactory<F, M>,
    pub(crate) follower: Option<FollowerFactory>,
    pub(crate) hand_over: Option<(HandOver<M>, Duration)>,
    pub(crate) cell: Cell,
    pub(crate) restarts: Restarts,
    pub(crate) budget: Duration,
    /// Set before anybody is asked to lead.
    pub(crate) leadership: Arc<OnceLock<Leadership<F>>>,
    pub(crate) events: Publisher,
    /// Ends the child of the moment, past the supervisor.
    pub(crate) child_handle: Arc<Mutex<Option<ChildHandle>>>,
    /// Moves when the term is to be given up.
    pub(crate) given_up: watch::Sender<()>,
}

impl<F, M> Plan<F, M> {
    /// What starts the parts of the node: a singleton is a part of it.
    fn parts(&self) -> &supervision::Supervisor {
        &self.registry.node.supervisor
    }
}

pub(crate) struct Supervisor<F, M>(std::marker::PhantomData<fn(F, M)>);

impl<F, M> Supervisor<F, M> {
    pub(crate) fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

pub(crate) struct State<F, M> {
    plan: Plan<F, M>,
    core: Core,
    clock: Clock,
    /// Of the term: for children that are started again.
    grant: Option<Grant<F>>,
    handed_over: Option<Vec<u8>>,
    leader: Option<Term>,
    why: Lost,
    child: Option<RunningChild<M>>,
    /// What `ractor` said of the last child that ended.
    last_words: Option<(ActorId, String)>,
    leads: Option<oneshot::Sender<Result<(), String>>>,
    rests: Option<oneshot::Sender<()>>,
    timer: Option<(Time, AbortHandle)>,
}

/// What the supervisor has of a child.
struct RunningChild<M> {
    id: ChildId,
    child_handle: ChildHandle,
    actor: Option<Ref<M>>,
    /// Registers it, or stops it gently.
    task: Option<AbortHandle>,
    /// What it has of its name.
    granted: registrar::KeptRegistration,
}

enum Ref<M> {
    Leader(ActorRef<M>),
    Follower(ActorCell),
}

impl<F, M> Actor for Supervisor<F, M>
where
    F: Clone + Send + Sync + 'static,
    M: RemoteMessage,
{
    type Msg = Command<F, M>;
    type State = State<F, M>;
    type Arguments = Plan<F, M>;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        plan: Plan<F, M>,
    ) -> Result<State<F, M>, ActorProcessingErr> {
        Ok(State {
            core: Core::new(plan.restarts, plan.budget, plan.follower.is_some()),
            clock: plan.registry.clock().clone(),
            plan,
            grant: None,
            handed_over: None,
            leader: None,
            why: Lost::Shutdown,
            child: None,
            last_words: None,
            leads: None,
            rests: None,
            timer: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        command: Self::Msg,
        state: &mut State<F, M>,
    ) -> Result<(), ActorProcessingErr> {
        let input = state.input(command);
        let mut effects = Vec::new();
        state.core.step(state.clock.now(), input, &mut effects);
        for effect in effects {
            state.perform(&myself, effect);
        }
        state.set_timer(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut State<F, M>,
    ) -> Result<(), ActorProcessingErr> {
        // That it is down is known when its task has ended, and why is known from here.
        match event {
            SupervisionEvent::ActorTerminated(cell, _, why) => {
                state.last_words = Some((cell.get_id(), why.unwrap_or_else(|| "it ended".into())));
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                state.last_words = Some((cell.get_id(), in_full(&*error).to_string()));
            }
            _ => {}
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut State<F, M>,
    ) -> Result<(), ActorProcessingErr> {
        state.plan.events.end();
        Ok(())
    }
}

impl<F, M> Drop for State<F, M> {
    fn drop(&mut self) {
        // A supervisor that is killed takes its child along.
        if let Some(child) = &self.child {
            child.child_handle.cut();
        }
    }
}

impl<F, M> State<F, M>
where
    F: Clone + Send + Sync + 'static,
    M: RemoteMessage,
{
    fn input(&mut self, command: Command<F, M>) -> Input {
        match command {
            Command::Lead { grant, handed_over, done } => {
                self.grant = Some(grant);
                self.handed_over = handed_over;
                self.leads = Some(done);
                Input::Lead
            }
            Command::Follow { leader } => {
                self.leader = leader;
                Input::Follow
            }
            Command::Rest { why, budget, done } => {
                self.why = why;
                self.rests = Some(done);
                self.plan.events.tell(&SingletonEvent::Stopping { why });
                Input::Rest { budget }
            }
            Command::Abort => Input::Abort,
            Command::Aborted { done } => {
                self.rests = Some(done);
                Input::Rest { budget: Duration::ZERO }
            }
            Command::End => Input::End { budget: self.plan.budget },
            Command::LeaderStarted { id, child } => {
                self.handed_over = None; // the next one has to do without
                self.has_started(id, Ref::Leader(child))
            }
            Command::FollowerStarted { id, child } => self.has_started(id, Ref::Follower(child)),
            Command::Down { id, why } => {
                let child = self.child.take_if(|child| child.id == id);
                let actor = child.as_ref().and_then(|child| child.actor.as_ref().map(Ref::id));
                if let Some(task) = child.and_then(|child| child.task) {
                    task.abort();
                }
                let said = self.last_words.take_if(|(of, _)| Some(*of) == actor).map(|(_, why)| why);
                Input::Down { id, why: why.or(said).unwrap_or_else(|| "it ended".into()) }
            }
            Command::Unreachable { id, why } => Input::Unreachable { id, why },
            Command::Wake => Input::Wake,
        }
    }

    fn has_started(&mut self, id: ChildId, actor: Ref<M>) -> Input {
        if let Some(child) = self.child.as_mut().filter(|child| child.id == id) {
            child.actor = Some(actor);
        }
        Input::Started { id }
    }

    fn perform(&mut self, myself: &ActorRef<Command<F, M>>, effect: Effect) {
        match effect {
            Effect::Start { id, kind, restart } => self.start(myself, id, kind, restart),
            Effect::Stop { id, budget } => self.stop(id, budget),
            Effect::Kill { id } => {
                if let Some(child) = self.child.as_ref().filter(|child| child.id == id) {
                    child.child_handle.cut();
                }
            }
            Effect::Led(result) => {
                if result.is_ok() {
                    self.register(myself);
                }
                if let Some(done) = self.leads.take() {
                    let _ = done.send(result); // whoever asked may have been dropped
                }
            }
            Effect::Rested => {
                if let Some(done) = self.rests.take() {
                    let _ = done.send(());
                }
            }
            Effect::GiveUp { .. } => self.plan.given_up.send_replace(()),
            Effect::Over => myself.stop(None),
            Effect::Tell(happened) => {
                // A child that was started again is registered again.
                let is_again = matches!(
                    happened,
                    Happened::Started { kind: ChildKind::Leader, restart } if restart > 0
                );
                self.plan.events.tell(&happened.into());
                if is_again {
                    self.register(myself);
                }
            }
        }
    }

    fn start(&mut self, myself: &ActorRef<Command<F, M>>, id: ChildId, kind: ChildKind, restart: u32) {
        let child_handle = ChildHandle::new();
        let (child_handle_of, granted) = (child_handle.clone(), registrar::KeptRegistration::default());
        self.child =
            Some(RunningChild { id, child_handle: child_handle_of, actor: None, task: None, granted });
        *lock(&self.plan.child_handle) = Some(child_handle.clone());
        let (supervisor, told) = (myself.get_cell(), myself.clone());
        // Commands fail only when the supervisor has ended, and its children with it.
        match kind {
            ChildKind::Leader => {
                let given = self.grant.clone().zip(self.plan.leadership.get().cloned());
                let Some((grant, leadership)) = given else {
                    let _ = myself.cast(Command::Down { id, why: Some("there is no term".into()) });
                    return;
                };
                let make = self.plan.leader.clone();
                let lead = Lead { grant, leadership, handed_over: self.handed_over.clone(), restart };
                let started = myself.clone();
                self.plan.parts().task("a child of a singleton", async move {
                    let ended = child::run(
                        move || make(lead, supervisor),
                        ActorRef::get_cell,
                        child_handle,
                        move |child| drop(started.cast(Command::LeaderStarted { id, child })),
                    );
                    let _ = told.cast(Command::Down { id, why: ended.await.err() });
                });
            }
            ChildKind::Follower => {
                let Some(make) = self.plan.follower.clone() else { return };
                let follow = Follow { leader: self.leader.clone(), restart };
                let started = myself.clone();
                self.plan.parts().task("a child of a singleton", async move {
                    let ended = child::run(
                        move || make(follow, supervisor),
                        ActorCell::clone,
                        child_handle,
                        move |child| drop(started.cast(Command::FollowerStarted { id, child })),
                    );
                    let _ = told.cast(Command::Down { id, why: ended.await.err() });
                });
            }
        }
    }

    /// Registers the leader child, for as long as it lives.
    fn register(&mut self, myself: &ActorRef<Command<F, M>>) {
        let Some((name, within)) = self.plan.name.clone() else { return };
        let Some(child) = &mut self.child else { return };
        let (Some(Ref::Leader(actor)), None, id) = (&child.actor, &child.task, child.id) else { return };
        let (actor, registry) = (actor.clone(), self.plan.registry.clone());
        let granted = child.granted.clone();
        let (events, myself) = (self.plan.events.clone(), myself.clone());
        let task = self.plan.parts().task("the name of a singleton", async move {
            if let Err(why) = registrar::keep(&registry, &name, &actor, within, &granted, &events).await {
                let _ = myself.cast(Command::Unreachable { id, why });
            }
        });
        child.task = Some(task.abort_handle());
    }

    fn stop(&mut self, id: ChildId, budget: Duration) {
        let Some(child) = self.child.as_mut().filter(|child| child.id == id) else { return };
        if let Some(task) = child.task.take() {
            task.abort();
        }
        match &child.actor {
            // It has done nothing yet that would have to be ended well.
            None => child.child_handle.cut(),
            Some(Ref::Follower(cell)) => cell.stop(Some("callsign: the singleton leads here now".into())),
            Some(Ref::Leader(actor)) => {
                let is_clean = matches!(self.why, Lost::Shutdown | Lost::ResignRequested);
                if !is_clean || budget.is_zero() {
                    // Nothing that it still does counts, and its successor may be there.
                    actor.stop(Some(format!("callsign: {}", self.why)));
                    return;
                }
                let farewell = registrar::Farewell {
                    clock: self.clock.clone(),
                    granted: child.granted.clone(),
                    actor: actor.clone(),
                    epoch: self.grant.as_ref().map(|grant| grant.term.epoch),
                    hand_over: self.plan.hand_over.clone(),
                    cell: self.plan.cell.clone(),
                    events: self.plan.events.clone(),
                    budget,
                };
                let farewell = self.plan.parts().task("the end of a singleton's child", farewell.run());
                child.task = Some(farewell.abort_handle());
            }
        }
    }

    fn set_timer(&mut self, myself: &ActorRef<Command<F, M>>) {
        let at = self.core.wakes_at();
        if self.timer.as_ref().map(|(at, _)| *at) == at {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            timer.abort();
        }
        if let Some(at) = at {
            let (clock, myself) = (self.clock.clone(), myself.clone());
            let timer = self.plan.parts().task("the timer of a singleton", async move {
                clock.sleep_until(at).await;
                let _ = myself.cast(Command::Wake);
            });
            self.timer = Some((at, timer.abort_handle()));
        }
    }
}

impl<M> Ref<M> {
    fn id(&self) -> ActorId
    where
        M: ractor::Message,
    {
        match self {
            Self::Leader(actor) => actor.get_id(),
            Self::Follower(cell) => cell.get_id(),
        }
    }
}

/// Wraps what asks a child for what it leaves.
pub(crate) fn hand_over<M: RemoteMessage, Fut>(
    ask: impl Fn(ActorRef<M>) -> Fut + Send + Sync + 'static,
) -> HandOver<M>
where
    Fut: Future<Output = Option<Vec<u8>>> + Send + 'static,
{
    Arc::new(move |child| ask(child).boxed())
}
