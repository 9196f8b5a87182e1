//! Runs a [`RegistryCore`] as an actor.
//!
//! Decides nothing: it turns messages, timers and completions into inputs, and carries out effects in order. A rule
//! of the protocol found here is in the wrong place.

use std::{future::poll_fn, sync::Arc, task::Poll};

use callsign_elector::{
    elector::{self, ElectorConfig, driver::UnderWay},
    session::TrustHandle,
};
use callsign_store::{
    Clock, SharedStore,
    ids::RegistryName,
    logged,
    supervision::{Part, Supervisor},
};
use callsign_transport::{Endpoint, LinkId, Subscription, Watches};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use ractor_cluster_derive::RactorMessage;

use crate::{
    core::{
        input::{Input, Now},
        member::MemberConfig,
        node::NodeInput,
        registry::{RegistryCore, RegistryEffect, Told},
    },
    driver::{metrics::OfRegistry, shared::SharedTable},
    status::{Status, of_member::MemberRows},
};

mod callers;
mod effects;
mod failing;
mod flag;
mod from_links;
mod holding;
mod recorders;
mod repeated;
mod timer;
mod traced;
mod trusted;
mod watched;
mod watching;

#[cfg(test)]
pub(crate) use callers::LISTENERS;
pub(crate) use callers::{AskedClaim, Calls, Keeps, Listener, Shared};
pub(crate) use flag::{Flag, Flagged};
use from_links::FromLinks;
pub(crate) use recorders::Recorders;
use repeated::Repeated;
use timer::Timer;

/// There are inputs to take.
#[derive(Debug, RactorMessage)]
pub(crate) struct Kick;

/// Room for so many inputs is kept from turn to turn.
const KEPT_INPUTS: usize = 4096;

/// Told what the node is to be told.
pub(crate) type ToNode = Box<dyn Fn(NodeInput) + Send + Sync>;

/// What a member actor is started with.
pub(crate) struct Parts {
    pub(crate) config: MemberConfig,
    /// Whether the table keeps the names in their order.
    pub(crate) ordered: bool,
    pub(crate) elector: ElectorConfig,
    pub(crate) registry: RegistryName,
    pub(crate) channel: String,
    pub(crate) store: SharedStore,
    pub(crate) clock: Clock,
    pub(crate) trust: TrustHandle,
    pub(crate) endpoint: Endpoint,
    /// Told what the node is to be told.
    pub(crate) to_node: ToNode,
    pub(crate) recorders: Option<Recorders>,
    pub(crate) supervisor: Supervisor,
}

/// A member that runs.
pub(crate) struct StartedMember {
    pub(crate) shared: Arc<Shared>,
    pub(crate) actor: ActorCell,
    pub(crate) part: Part,
}

/// Starts a member.
pub(crate) async fn start(parts: Parts, calls: Calls) -> Result<StartedMember, ractor::SpawnErr> {
    // A recording can be replayed only if the order of the table is in it, or none of it.
    let seed = parts.config.seed;
    let table = SharedTable::new(seed, parts.ordered);
    let shared = Arc::new(Shared::new(&parts, calls, &table));
    let (supervisor, name) = (parts.supervisor.clone(), format!("the member of registry {}", parts.registry));
    let arguments = (shared.clone(), parts, table);
    let (actor, part) = supervisor.actor(name, MemberActor, arguments).await?;
    shared.tell_elector(elector::Input::Wake);
    shared.runs_in(actor.clone());
    Ok(StartedMember { shared, actor: actor.get_cell(), part })
}

/// Has the task wait behind those that can run. Unlike what `tokio::task::yield_now` sets aside, another worker can take it over: one of the
/// others may block this one.
async fn behind_others() {
    let mut is_behind = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_behind, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct MemberActor;

/// Everything that the driver keeps besides the core.
struct Driver {
    core: RegistryCore<SharedTable>,
    /// What the elector asked for.
    under_way: UnderWay,
    shared: Arc<Shared>,
    store: SharedStore,
    endpoint: Endpoint,
    /// Hears of the ends of actors that hold names or ask for them.
    watches: Watches,
    channel: String,
    /// The members as they were last published.
    rows: MemberRows,
    /// How many were up when it was last counted.
    links: usize,
    timer: Arc<Timer>,
    effects: Vec<RegistryEffect>,
    /// Where the inputs were that were taken last. Empty.
    taken: Vec<Told>,
    /// What was committed last is one request: little happens.
    is_one_request: bool,
    /// Links on which something was sent that nobody writes yet.
    posted: Vec<LinkId>,
    to_node: ToNode,
    /// Why the log could not be read.
    corrupt: Repeated,
    timer_task: tokio::task::JoinHandle<()>,
    _subscription: Subscription,
    recorders: Option<Recorders>,
    supervisor: Supervisor,
    metrics: OfRegistry,
}

/// Also after a panic, when nothing else is run.
impl Drop for Driver {
    fn drop(&mut self) {
        self.timer_task.abort();
        self.metrics.ended();
    }
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
        let timer = Arc::new(Timer::new());
        let metrics = OfRegistry::new(parts.registry.as_str());
        metrics.links(0);
        let from_links = FromLinks::new(shared.clone(), metrics.of_links());
        let links = move |event, room| from_links.take(event, room);
        let subscription = parts.endpoint.subscribe_with(&parts.channel, links);
        let supervisor = parts.supervisor;
        let wakes = timer::wake(shared.clone(), parts.clock.clone(), timer.clone());
        let timer_task = supervisor.task("the timer of a registry", wakes);
        let told = shared.clone();
        let watches = parts.endpoint.on_ends(move |actor| {
            if told.watched.remove(actor).is_some() {
                // Not taken at once: ends that come together go together.
                told.actor_ended(actor);
            }
        });
        let told = shared.clone();
        let (store, clock) = (parts.store.clone(), parts.clock.clone());
        let under_way =
            UnderWay::new(store, clock, supervisor.clone(), move |input| told.tell_elector(input));
        Ok(Driver {
            core: RegistryCore::new(parts.elector, parts.config, table),
            under_way,
            shared,
            store: parts.store,
            watches,
            endpoint: parts.endpoint,
            channel: parts.channel,
            rows: MemberRows::default(),
            links: 0,
            timer,
            effects: Vec::new(),
            taken: Vec::new(),
            is_one_request: false,
            posted: Vec::new(),
            to_node: parts.to_node,
            corrupt: Repeated::default(),
            timer_task,
            _subscription: subscription,
            recorders: parts.recorders,
            supervisor,
            metrics,
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Kick>,
        _kick: Kick,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(feature = "faults")]
        {
            if let Some(time) = driver.shared.hangs() {
                tokio::time::sleep(time).await;
            }
        }
        // A worker of the runtime runs next what was woken last: the member, before other callers who are about to ask. Let them ask
        // first, or what a turn costs is paid for each call, and the first one has a commit alone. What the store or another node has
        // answered is waited for already.
        if driver.shared.inbox.has_calls_only() {
            behind_others().await;
        }
        driver.take_all();
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Kick>,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        driver.shared.ends();
        if let Some(recorders) = &mut driver.recorders {
            recorders.finish();
        }
        driver.shared.answers_nobody();
        Ok(())
    }
}

impl Driver {
    fn take_all(&mut self) {
        let (mut inputs, bytes) = self.shared.inbox.take(std::mem::take(&mut self.taken));
        self.metrics.received_bytes(bytes);
        let now = self.shared.now();
        for told in inputs.drain(..) {
            self.step(now, told);
        }
        // About as much comes next.
        inputs.shrink_to(KEPT_INPUTS);
        self.taken = inputs;
        while let Some(told) = self.core.next_told() {
            self.step(now, told);
        }
        // Others wait for it. What follows is for this node.
        self.flush_links();
        self.publish();
        self.metrics.tell();
        self.timer.set(self.core.member().wakes_at(now.time));
    }

    fn step(&mut self, now: Now, told: Told) {
        // What former steps sent is written meanwhile.
        self.flush_links();
        self.count(&told);
        let ended = match &told {
            Told::Member(Input::StartEnded { claim, .. }) => Some(*claim),
            _ => None,
        };
        let mut effects = std::mem::take(&mut self.effects);
        match &mut self.recorders {
            None => self.core.step(now, told, &mut effects),
            Some(recorders) => recorders.step(&mut self.core, now, told, &mut effects),
        }
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
        if let Some(claim) = ended {
            self.shared.has_yielded(claim);
        }
    }

    fn count(&mut self, told: &Told) {
        match told {
            Told::Member(Input::LinkUp { .. }) => self.metrics.link("up"),
            Told::Member(Input::LinkDown { .. }) => self.metrics.link("down"),
            Told::Member(Input::Message { message, .. }) => self.metrics.received(message),
            Told::Member(Input::RunHandoff { epoch, .. }) => self.metrics.handoff_begins(*epoch),
            _ => {}
        }
    }

    fn publish(&mut self) {
        if std::mem::replace(&mut self.links, self.core.member().links()) != self.links {
            self.metrics.links(self.links);
        }
        let status = Status::of(self.core.member(), &mut self.rows);
        self.shared.set_synced(status.synced);
        let term = &self.core.member().view().term;
        if **self.shared.term.load() != *term {
            self.shared.term.store(Arc::new(term.clone()));
        }
        let former = self.shared.status.load();
        if **former != status {
            if status.nobody_may_lead() && !former.nobody_may_lead() {
                let (registry, node) = (self.shared.registry.as_str(), &status.node);
                logged!(warn, registry, %node, "nobody leads, and by their certificates or priorities no member may");
            }
            self.metrics.status(&status, self.shared.table.count());
            self.shared.status.store(Arc::new(status));
            self.shared.changed.notify_waiters();
        }
    }
}
