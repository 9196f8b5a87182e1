//! A node: what all registries of one process share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use callsign_elector::{
    elector::{self, ElectorConfig, Notice},
    session::{NodeSession, OpenSessionError, SessionConfig, SessionOpening, SessionSight},
    settings::Settings,
};
use callsign_store::{
    SharedStore,
    ids::{ClusterName, Epoch, Incarnation, NodeName, RegistryName, SessionId},
    keys::ClusterKeys,
    lock::lock,
    logged,
    supervision::{Part, Supervisor},
};
use callsign_transport::{Endpoint, EndpointConfig, Keys, KeysRefused, PeerId, Permits, Tasks};
use futures::{FutureExt, future::BoxFuture};

use crate::{
    config::Config,
    core::{
        member::MemberConfig,
        node::{NodeCore, NodeEffect, NodeInput},
        tuning::Tuning,
    },
    driver::{
        actor::{self, Calls, Parts, Recorders, Shared, StartedMember},
        outage::{Observed, Outage},
    },
    error::JoinError,
};

mod failing;
mod leaving;
mod observer;
mod opening;
mod stepped;

#[cfg(feature = "election")]
pub(crate) use leaving::Ends;
use leaving::Leaves;
pub use observer::observe;
use stepped::{NoSession, Stepped};

/// One registry that the node has joined.
struct JoinedRegistry {
    shared: Arc<Shared>,
    stop: Stop,
}

/// What of a registry has to be stopped.
#[derive(Clone)]
struct Stop {
    actor: ractor::ActorCell,
    part: Part,
}

impl Stop {
    fn stop(&self, why: &str) {
        self.part.may_end();
        self.actor.stop(Some(format!("callsign: {why}")));
    }
}

/// What all registries of one process share: store, session, links.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) name: NodeName,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: ClusterName,
    pub(crate) store: SharedStore,
    pub(crate) outage: Arc<Outage>,
    pub(crate) session: NodeSession,
    pub(crate) endpoint: Endpoint,
    address: String,
    /// Starts everything that runs here, and learns when it ends.
    pub(crate) supervisor: Supervisor,
    /// Registries that are joined, or being joined.
    reserved: Mutex<BTreeSet<RegistryName>>,
    joined: Mutex<BTreeMap<RegistryName, JoinedRegistry>>,
    core: Arc<Stepped>,
    leaves: Leaves,
    /// One at a time.
    changing_keys: Mutex<()>,
}

impl Node {
    /// Boxed, so that a node is compiled here, and not again in each program that starts one: a future is compiled where it is
    /// awaited.
    pub(crate) fn start(config: Config) -> BoxFuture<'static, Result<Arc<Self>, JoinError>> {
        Self::started(config).boxed()
    }

    async fn started(config: Config) -> Result<Arc<Self>, JoinError> {
        let name = NodeName::new(&config.node)?;
        let cluster = ClusterName::new(&config.cluster)?;
        RegistryName::new(&config.registry)?;
        let (store, patience) = opening::store(&config).await?;
        let outage = Outage::new(config.clock.clone());
        let store = Observed::over(store, outage.clone());
        let supervisor = Supervisor::in_turns("the node", config.turns.clone());
        let entropy = config.entropy.clone();
        let (starts, steps) = (supervisor.clone(), supervisor.clone());
        // Nobody else has it: not a former self, nor a process that took the same name.
        let incarnation = Incarnation((entropy.draw() >> 1).max(1));
        let endpoint = Endpoint::start(EndpointConfig {
            cluster: cluster.to_string(),
            node: name.as_str().into(),
            incarnation: incarnation.0,
            listen: config.listen,
            keys: config.keys.clone(),
            timing: config.link,
            limits: config.limits,
            network: config.network.clone(),
            seed: entropy.draw(),
            entropy: entropy.clone(),
            tasks: Tasks::started_by(move |part, work| drop(starts.task(part, work))).stepped_by(
                move |part, work| {
                    steps.step(part, work);
                },
            ),
        })
        .await?;
        let session = SessionConfig {
            cluster: cluster.clone(),
            node: name.clone(),
            incarnation,
            timing: config.session,
            seed: entropy.draw(),
        };
        let times = leaving::times(config.drain_timeout);
        let core = NodeCore::new(session.clone(), times).map_err(OpenSessionError::Timing);
        let opening = SessionOpening {
            store: store.clone(),
            clock: config.clock.clone(),
            config: session,
            patience,
            record: config.record.as_deref(),
            supervisor: supervisor.clone(),
        };
        let opened: Result<_, OpenSessionError> = async {
            let core = Arc::new(Stepped::new(core?));
            Ok((core.clone(), NodeSession::open(core, opening).await?))
        }
        .await;
        let (core, session) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                supervisor.end();
                endpoint.leave().await;
                return Err(error.into());
            }
        };
        let address = config.advertise.clone().unwrap_or_else(|| endpoint.local_addr().to_string());
        let node = Arc::new(Self {
            config,
            name,
            core,
            leaves: Leaves::default(),
            changing_keys: Mutex::new(()),
            incarnation,
            cluster,
            store,
            outage,
            session,
            endpoint,
            address,
            supervisor,
            reserved: Mutex::new(BTreeSet::new()),
            joined: Mutex::new(BTreeMap::new()),
        });
        node.core.belongs_to(&node);
        node.takes_permits(&Permits::default());
        failing::supervise(&node);
        Ok(node)
    }

    /// Joins a registry: starts its elector and its member.
    pub(crate) fn join<'a>(
        self: &'a Arc<Self>,
        registry: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Shared>, JoinError>> {
        self.joined_by(registry).boxed()
    }

    async fn joined_by(self: &Arc<Self>, registry: &str) -> Result<Arc<Shared>, JoinError> {
        let registry = RegistryName::new(registry)?;
        // Taken before anything is started, so that of two who join at once one is refused.
        if !lock(&self.reserved).insert(registry.clone()) {
            return Err(JoinError::AlreadyJoined { registry: registry.to_string() });
        }
        let joined = self.start_member(registry.clone()).await;
        if joined.is_err() {
            lock(&self.reserved).remove(&registry);
        }
        joined
    }

    async fn start_member(self: &Arc<Self>, registry: RegistryName) -> Result<Arc<Shared>, JoinError> {
        // A node that has lost its session opens another, of which the registry will hear.
        if let Some(failure) = self.supervisor.failure() {
            return Err(JoinError::Failed(failure));
        }
        if self.is_draining() {
            return Err(JoinError::Left);
        }
        let elector = ElectorConfig {
            registry: registry.clone(),
            cluster: self.cluster.clone(),
            node: self.name.clone(),
            address: self.address.clone(),
            admin: self.config.admin.clone(),
            priority: self.config.priority,
            timing: self.config.elector,
            seed: self.config.entropy.draw(),
            most_checks: self.store.limits().checks,
        };
        let tuning = Tuning::default();
        let config = MemberConfig {
            me: self.name.clone(),
            incarnation: self.incarnation,
            keys: ClusterKeys::new(&self.cluster).registry(&registry),
            seed: self.config.entropy.draw(),
            tuning: Tuning {
                chunk_names: self.config.snapshot_chunk,
                observers: self.config.observers,
                watch_bytes: self.config.watch_memory,
                missed_bytes: self.config.watch_memory.min(tuning.missed_bytes),
                counts_checks: self.store.limits().checks.is_some(),
                ..tuning
            },
        };
        let begin = |dir: &std::path::Path| {
            let (of, by) = ((&self.cluster, &registry), (&self.name, self.incarnation));
            Recorders::begin(dir, of, by, (&elector, &config))
        };
        let recorders = self.config.record.as_deref().map(begin);
        let node = Arc::downgrade(self);
        let parts = Parts {
            ordered: self.config.ordered,
            recorders,
            supervisor: self.supervisor.clone(),
            config,
            elector,
            registry: registry.clone(),
            channel: format!("registry/{registry}"),
            store: self.store.clone(),
            clock: self.config.clock.clone(),
            trust: self.session.trust(),
            endpoint: self.endpoint.clone(),
            to_node: Box::new(move |input| {
                if let Some(node) = node.upgrade() {
                    node.step(input);
                }
            }),
        };
        let calls = Calls {
            watch_room: self.config.watch_room,
            timeout: self.config.request_timeout,
            on_outage: self.config.on_outage,
            outage: self.outage.clone(),
        };
        let ended = |_| JoinError::Left;
        let StartedMember { shared, actor, part } = actor::start(parts, calls).await.map_err(ended)?;
        let stop = Stop { actor, part };
        let (fails, stops) = (shared.clone(), stop.clone());
        self.supervisor.on_failure(move |failure| {
            fails.fails(failure);
            stops.stop("the node has failed");
        });
        let joined = JoinedRegistry { shared: shared.clone(), stop: stop.clone() };
        lock(&self.joined).insert(registry.clone(), joined);
        let joins = {
            let (mut core, mut effects) = (self.core.lock(), Vec::new());
            let joins = core.join(&registry, &mut effects);
            for effect in effects {
                self.carry_out(effect);
            }
            joins
        };
        if !joins {
            // The node has begun to leave meanwhile, and does not wait for this one.
            lock(&self.joined).remove(&registry);
            stop.stop("the node leaves");
            return Err(self.supervisor.failure().map_or(JoinError::Left, JoinError::Failed));
        }
        Ok(shared)
    }

    /// Tells the core what has happened, and does what it asks for.
    fn step(self: &Arc<Self>, input: NodeInput) {
        self.core.step(self.config.clock.now(), input, &mut NoSession);
    }

    fn carry_out(self: &Arc<Self>, effect: NodeEffect) {
        match effect {
            // The driver of the session has it.
            NodeEffect::Session(_) => {}
            NodeEffect::SessionIsTold => self.session.is_told(),
            NodeEffect::ToRegistry(registry, told) => {
                if let Some(shared) = self.shared_of(&registry) {
                    shared.tell(told);
                }
            }
            NodeEffect::Trusted(registry) => {
                if let Some(shared) = self.shared_of(&registry) {
                    shared.trusted.tell();
                }
            }
            NodeEffect::Peers(peers) => {
                let peers = peers.into_iter().map(|(node, address)| (node.as_str().into(), address));
                self.endpoint.set_peers(peers.collect());
            }
            NodeEffect::Confirmed(node, incarnation) => {
                self.endpoint.confirm(&PeerId::new(node.as_str(), incarnation.0));
            }
            NodeEffect::Leaving(effect) => self.carry_out_leaving(effect),
        }
    }

    /// Replaces secrets and certificates. What this node may do by the new ones its registries hear before this returns.
    pub(crate) fn set_keys(self: &Arc<Self>, keys: Keys) -> Result<bool, KeysRefused> {
        let _alone = lock(&self.changing_keys); // so that nobody is told last of keys that were replaced before
        let former = self.endpoint.permits();
        let has_changed = self.endpoint.set_keys(keys)?;
        self.takes_permits(&former);
        Ok(has_changed)
    }

    fn takes_permits(self: &Arc<Self>, former: &Permits) {
        let permits = self.endpoint.permits();
        if permits != *former {
            logged!(info, node = %self.name, "by the certificate of this node, {permits}");
        }
        self.step(NodeInput::Permits(permits));
    }

    /// What this node has seen of a session of its cluster. `None`: it does not know it to be open.
    pub(crate) fn sight_of(&self, session: &SessionId) -> Option<SessionSight> {
        let now = self.config.clock.now();
        self.core.lock().session().sight_of(now, session)
    }

    /// Has the own member say what is to be set for all members of a registry.
    pub(crate) fn configure(&self, registry: &RegistryName, change: Settings) {
        if let Some(joined) = lock(&self.joined).get(registry) {
            joined.shared.tell_elector(elector::Input::Notice(Notice::Configure(change)));
        }
    }

    /// Has the own member give up the seat of a registry, and stay a member. Nothing, unless it leads in that epoch.
    pub(crate) fn resign(&self, registry: &RegistryName, epoch: Epoch) {
        if let Some(joined) = lock(&self.joined).get(registry) {
            joined.shared.tell_elector(elector::Input::Notice(Notice::Resign { epoch }));
        }
    }
}

impl From<OpenSessionError> for JoinError {
    fn from(error: OpenSessionError) -> Self {
        match error {
            OpenSessionError::NameInUse { node, incarnation } => Self::NameInUse { node, incarnation },
            OpenSessionError::FormerOpen { node, incarnation } => Self::FormerOpen { node, incarnation },
            OpenSessionError::Timing(error) => Self::Timing(error),
            OpenSessionError::Corrupt(error) => Self::Corrupt(error),
            other => Self::StoreUnavailable(other),
        }
    }
}
