//! How a singleton is set up.

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use callsign_election::{
    Campaign, CampaignSettings, CampaignStarted, ElectionConfig, Fence, LeaseOptions, LeaseOracle, Oracle,
    Policy, Timing,
    campaign::{self, OnLoss, Trouble},
    oracle::RegistryElector,
};
use callsign_store::{
    ids::{ElectionName, Incarnation, InvalidName, MemberId},
    supervision::NodeFailure,
};
use callsign_transport::RemoteMessage;
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use tokio::sync::watch;

use super::{
    Inner, Singleton,
    child::{self, Follow, FollowerFactory, Lead, LeaderFactory},
    events::{Publisher, SingletonEvent},
    hand_over::{Cell, HandOver},
    role::Supervised,
    supervisor::{self, Plan, Supervisor},
};
use crate::{
    core::{name::BadName, singleton::Restarts},
    driver::{
        oracle::{MonitorSettings, Monitored},
        registry::Registry,
    },
};

/// Why a singleton was not started. Nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SingletonError {
    /// Its name cannot be that of an election.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The name to register under cannot be one.
    #[error(transparent)]
    Registered(#[from] BadName),
    /// The campaign did not start.
    #[error(transparent)]
    Campaign(#[from] campaign::CampaignStartError),
    /// The node is about to leave, and runs nothing new.
    #[error("the node is about to leave")]
    Draining,
    /// The node has failed, and runs nothing new.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
    /// The oracle declined: there is no election here.
    #[error("the oracle takes no part")]
    Ignored,
    /// The supervisor did not start.
    #[error("the supervisor did not start")]
    Supervisor(#[from] SpawnErr),
}

type MakeOracle<O> = Box<dyn FnOnce(&Registry, &Timing) -> O + Send>;

/// A singleton that still lacks its child. See [`Singleton::builder`].
pub struct SingletonBuilder<O> {
    registry: Registry,
    name: String,
    oracle: MakeOracle<O>,
}

impl SingletonBuilder<LeaseOracle> {
    pub(super) fn new(registry: &Registry, name: &str) -> Self {
        let oracle = |registry: &Registry, timing: &Timing| {
            let options = LeaseOptions {
                config: Some(ElectionConfig::new(Policy::sticky(), timing.lease)),
                clock: registry.clock().clone(),
                ..LeaseOptions::default()
            };
            LeaseOracle::new(registry.node.store.clone(), &registry.node.cluster, options)
        };
        Self { registry: registry.clone(), name: name.to_owned(), oracle: Box::new(oracle) }
    }
}

impl<O> SingletonBuilder<O> {
    /// Has another oracle decide. It must be one whose grants carry a fence, so that what the child writes to can refuse
    /// the writes of its predecessor:
    ///
    /// ```compile_fail,E0271
    /// # use callsign::{Registry, Singleton, election::Oracle};
    /// fn over_an_oracle_that_only_advises<O: Oracle<Fence = ()>>(registry: &Registry, oracle: O) {
    ///     let _ = Singleton::builder(registry, "reports").over(oracle);
    /// }
    /// ```
    ///
    /// [`advised_by`](Self::advised_by) takes the others.
    pub fn over<P: RegistryElector>(self, oracle: P) -> SingletonBuilder<P> {
        self.with(oracle)
    }

    /// Has an oracle decide that only advises: one without a fence. Then time alone keeps two children from working at
    /// once, and nothing can refuse a write that was under way when the term ended.
    ///
    /// ```
    /// # use callsign::{Registry, Singleton, election::Oracle};
    /// fn advised<O: Oracle<Fence = ()>>(registry: &Registry, oracle: O) {
    ///     let _ = Singleton::builder(registry, "reports").advised_by(oracle);
    /// }
    /// ```
    pub fn advised_by<P: Oracle<Fence = ()>>(self, oracle: P) -> SingletonBuilder<P> {
        self.with(oracle)
    }

    fn with<P: Send + 'static>(self, oracle: P) -> SingletonBuilder<P> {
        SingletonBuilder { registry: self.registry, name: self.name, oracle: Box::new(move |_, _| oracle) }
    }
}

impl<O: Oracle> SingletonBuilder<O> {
    /// What makes the leader child: an actor and its arguments. It is called for each term, and for each restart.
    ///
    /// The child's `pre_start` belongs to taking up the term: nobody is told of the leader before it has ended well, and if
    /// it fails three times the term is given back.
    pub fn leader<A>(
        self,
        make: impl Fn(Lead<O::Fence>) -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> SingletonPlan<O, A::Msg>
    where
        A: Actor,
        A::Msg: RemoteMessage,
    {
        SingletonPlan {
            name: Some(self.name.clone()),
            builder: self,
            leader: child::leader_factory(make),
            follower: None,
            hand_over: None,
            restarts: Restarts::default(),
            timing: Timing::default(),
            stop_budget: None,
            on_loss: OnLoss::default(),
            monitor: Some(MonitorSettings::default()),
            register_within: Duration::from_secs(30),
            settings: Box::new(|settings| settings),
        }
    }
}

/// A singleton that can be started. Everything has a default.
#[must_use = "it does nothing until it is started"]
pub struct SingletonPlan<O: Oracle, M> {
    builder: SingletonBuilder<O>,
    leader: LeaderFactory<O::Fence, M>,
    follower: Option<FollowerFactory>,
    hand_over: Option<(HandOver<M>, Duration)>,
    restarts: Restarts,
    timing: Timing,
    stop_budget: Option<Duration>,
    on_loss: OnLoss,
    monitor: Option<MonitorSettings>,
    name: Option<String>,
    register_within: Duration,
    settings: Box<dyn FnOnce(CampaignSettings) -> CampaignSettings + Send>,
}

impl<O: Oracle, M: RemoteMessage> SingletonPlan<O, M> {
    /// What makes the child that runs while this node follows. It is down before the leader child starts, and stays the same
    /// as long as this node follows. Default: none.
    pub fn follower<A: Actor>(
        mut self,
        make: impl Fn(Follow) -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        self.follower = Some(child::follower_factory(make));
        self
    }

    /// Asks a leader child that is to end what it leaves to its successor, which gets it as
    /// [`Lead::handed_over`]. Within `limit` (and half of the stop budget), at most
    /// [`MAX_HAND_OVER`](super::MAX_HAND_OVER) bytes, and best effort: a successor must be able to do without.
    ///
    /// It is asked when its term ends cleanly: at [`stop`](Singleton::stop), and when it was asked to resign. The question
    /// arrives behind everything that the child was sent before. The data goes through a cell of the store, where it is
    /// before the seat is given back; only the very next term gets it. Reading it costs a read and a commit per term, and at
    /// most `limit`. Default: nothing is handed over.
    pub fn hand_over<Fut>(
        mut self,
        limit: Duration,
        ask: impl Fn(ActorRef<M>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Option<Vec<u8>>> + Send + 'static,
    {
        self.hand_over = Some((supervisor::hand_over(ask), limit));
        self
    }

    /// How often a leader child that ended, in whatever way, is started again in place before the term is given up; a
    /// follower child, before it is left off. Those that are longer ago than `within` are not counted. 0: its end is the end of the term. Default: 3 times within 30 s.
    pub fn restarts(mut self, at_most: u32, within: Duration) -> Self {
        self.restarts = Restarts { at_most, within };
        self
    }

    /// The durations of the election. Default: those for a lease of 10 s. Of them, [`stop_budget`](Self::stop_budget) changes one.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// How long a child has to stop. It comes off the time for which the leadership is trusted, so the child is down, or was
    /// aborted, before another node can have it. Default: 2 s, a fifth of the lease.
    pub fn stop_budget(mut self, budget: Duration) -> Self {
        self.stop_budget = Some(budget);
        self
    }

    /// What happens after a term. Default: this node follows, and claims again.
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// How a follower watches the leader's actor. `None`: not at all; then the poll and the oracle's own signals tell. Default:
    /// [`MonitorSettings::default`].
    pub fn monitor(mut self, settings: Option<MonitorSettings>) -> Self {
        self.monitor = settings;
        self
    }

    /// Under which name the leader child is registered; `None`: under none. Default: the singleton's.
    pub fn registered_as(mut self, name: Option<&str>) -> Self {
        self.name = name.map(ToOwned::to_owned);
        self
    }

    /// How long the child may be without its name before the term is given up: the name of a former child whose node died
    /// without proof is held until its session is over. Default 30 s.
    pub fn register_within(mut self, within: Duration) -> Self {
        self.register_within = within;
        self
    }

    /// Changes whatever else the campaign can be set: claim delay, cool-down, tries. The last function counts.
    pub fn settings(
        mut self,
        change: impl FnOnce(CampaignSettings) -> CampaignSettings + Send + 'static,
    ) -> Self {
        self.settings = Box::new(change);
        self
    }

    /// Takes part. Answers when the oracle is prepared; [`Singleton::transitions`] tells who leads.
    pub async fn start(self) -> Result<Singleton<O, M>, SingletonError> {
        self.start_under(None).await
    }

    /// As [`start`](Self::start), with the supervisor linked to another actor, which hears when it ends.
    pub async fn start_linked(self, parent: ActorCell) -> Result<Singleton<O, M>, SingletonError> {
        self.start_under(Some(parent)).await
    }

    async fn start_under(self, parent: Option<ActorCell>) -> Result<Singleton<O, M>, SingletonError> {
        let SingletonBuilder { registry, name, oracle } = self.builder;
        if let Some(failure) = registry.node.supervisor.failure() {
            return Err(SingletonError::Failed(failure));
        }
        if registry.node.is_draining() {
            return Err(SingletonError::Draining); // it would win the seat and have to give it up again
        }
        let election = ElectionName::new(&name)?;
        let member = MemberId::new(registry.node())?;
        let registered = self.name.as_deref();

        let events = Publisher::new(&name);
        let watched = registered.unwrap_or(&name);
        let monitor = self.monitor.filter(|_| registered.is_some());
        let (of_monitor, of_campaign) = (events.clone(), events.clone());
        let timing = match self.stop_budget {
            Some(stop_budget) => Timing { stop_budget, ..self.timing },
            None => self.timing,
        };
        let oracle = Monitored::new(oracle(&registry, &timing), &registry, watched, monitor)?
            .observed_by(move |event| of_monitor.tell(&SingletonEvent::Monitor(event)));
        let mut settings = CampaignSettings::new(election.clone(), member).with_timing(timing);
        settings.clock = registry.clock().clone();
        let entropy = &registry.node.config.entropy;
        (settings.incarnation, settings.seed) = (Incarnation(entropy.draw()), entropy.draw());
        settings.on_loss = self.on_loss;
        settings.observer =
            Some(Arc::new(move |event| of_campaign.tell(&SingletonEvent::Election(event.clone()))));
        let settings = (self.settings)(settings);

        let cell = Cell::new(registry.node.store.clone(), &registry.node.cluster, &election, entropy.clone());
        let takes = self.hand_over.as_ref().map(|(_, limit)| (cell.clone(), *limit));
        let (child_handle, leadership) = (Arc::new(Mutex::new(None)), Arc::new(OnceLock::new()));
        let (given_up, gives_up) = watch::channel(());
        let plan = Plan {
            registry: registry.clone(),
            name: registered.map(|name| (name.into(), self.register_within)),
            leader: self.leader,
            follower: self.follower,
            hand_over: self.hand_over,
            cell,
            restarts: self.restarts,
            budget: settings.timing.stop_budget,
            leadership: leadership.clone(),
            events: events.clone(),
            child_handle: child_handle.clone(),
            given_up,
        };
        let budget = settings.timing.stop_budget;
        let actor = Supervisor::<O::Fence, M>::new();
        let parts = registry.node.supervisor.clone();
        let part = format!("the supervisor of singleton {name}");
        let (supervisor, part) = parts.actor_under(parent, part, actor, plan).await?;
        part.may_end(); // who stops it stops the singleton; a panic is another matter
        let mut starting = LoneSupervisor(Some(supervisor.get_cell()));
        let role = {
            let (supervisor, events, clock) = (supervisor.clone(), events.clone(), registry.clock().clone());
            |leads| {
                // Set once, and before anybody is asked to lead.
                let _ = leadership.set(leads);
                Supervised { supervisor, child_handle, given_up: gives_up, takes, taken: None, events, clock }
            }
        };
        let campaign = match Campaign::start_with(oracle, settings, role).await? {
            CampaignStarted::Running(campaign) => campaign,
            CampaignStarted::Ignored => return Err(SingletonError::Ignored),
        };
        starting.0 = None;
        let name_of_child = registered.map(ToOwned::to_owned);
        let supervisor = supervisor.get_cell();
        let inner = Arc::new(Inner { campaign, supervisor, events, registry, name_of_child, budget });
        spawn_watch(&inner);
        let weak = Arc::downgrade(&inner);
        if !inner.registry.node.end_with(weak) {
            let _ = inner.stop().await; // it leads no more, whatever this says
            return Err(SingletonError::Draining);
        }
        Ok(Singleton { inner, _messages: std::marker::PhantomData })
    }
}

/// A supervisor without a campaign. It is stopped with the attempt to start one, however that ends: nobody else would stop it.
struct LoneSupervisor(Option<ActorCell>);

impl Drop for LoneSupervisor {
    fn drop(&mut self) {
        if let Some(supervisor) = self.0.take() {
            supervisor.stop(None);
        }
    }
}

/// What ends together: a supervisor that somebody else stopped does not lead; a campaign that died, and a node that has failed, end
/// each other.
fn spawn_watch<O: Oracle>(inner: &Arc<Inner<O>>) {
    let node = inner.registry.node.supervisor.clone();
    let (supervisor, stops) = (inner.supervisor.clone(), Arc::downgrade(inner));
    node.task("the watch over a singleton's supervisor", async move {
        let _ = supervisor.wait(None).await;
        if let Some(inner) = Weak::upgrade(&stops) {
            let _ = inner.campaign.stop().await;
        }
    });
    let (mut transitions, died, fails) = (inner.campaign.subscribe(), Arc::downgrade(inner), node.clone());
    node.task("the watch over a singleton's campaign", async move {
        while transitions.next().await.is_ok() {}
        let status = Weak::upgrade(&died).map(|inner| inner.campaign.status());
        if let Some(Trouble::Died(how)) = status.and_then(|status| status.trouble) {
            fails.fail("the campaign of a singleton", how);
        }
    });
    node.on_failure_of(Arc::downgrade(inner), |inner, _| inner.campaign.halt());
}

/// The default oracle grants with a fence.
const _: fn() = || {
    fn fenced<O: Oracle<Fence = Fence>>() {}
    fenced::<LeaseOracle>();
};
