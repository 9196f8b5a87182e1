//! The nodes of a run, and what their clients do.
#![allow(clippy::disallowed_methods)] // tasks are started here, and time passes

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{Clock, Config, Entropy, LinkLimits, MemoryNetwork, Network, Registry, SessionTiming, Turns};
use callsign_store::{lock::lock, memory::MemoryStore, random::splitmix};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    audit::{NodesSaid, audit},
    clock::Drifting,
    counts::NodeCounts,
    edge::{Edge, Sky},
    life::Life,
    office::offer,
    plan::RunPlan,
    second::Second,
    trace::RunTrace,
};
use crate::{
    histories::{
        InMemory, Journal,
        clients::{CONTENDERS, Calls, Client, Site},
        event::Event,
    },
    rng::Rng,
};

/// Before what failed is tried again.
const OFFER_AGAIN: Duration = Duration::from_millis(300);
/// So many listeners of a thousand panic.
const PANICS: u64 = 100;
/// What a narrow connection holds, and what the queue before it does.
const PIPE: usize = 256;
const QUEUE: usize = 3 << 10;
/// Between two acts of an actor.
const ACT_EVERY: Duration = Duration::from_millis(400);

/// What the clients of all nodes are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Go on.
    Work,
    /// Give up what is contested, and hold what is to be kept.
    Rest,
    /// Read all of it once more.
    Check,
}

/// A run.
#[derive(Debug)]
pub struct NodesWorld {
    /// What the seed decided.
    pub plan: RunPlan,
    /// When it began.
    pub begin: Instant,
    /// What happened.
    pub trace: RunTrace,
    /// What was met.
    pub counts: NodeCounts,
    /// The network of all.
    pub network: MemoryNetwork,
    /// What all edges have in common.
    pub sky: Arc<Sky>,
    store: MemoryStore,
    /// Where nodes record what they do.
    records: Option<PathBuf>,
    /// The nodes, by index.
    places: Mutex<Vec<NodePlace>>,
    /// All that have lived.
    lives: Mutex<Vec<Arc<Life>>>,
    breaches: Mutex<Vec<String>>,
    /// The registry that a node joins first, and the second one, if nodes have two.
    registries: [RegistryShared; 2],
    /// The lives of nodes in the second registry.
    seconds: Mutex<Vec<Arc<Second>>>,
    phase: watch::Sender<Phase>,
    works: watch::Sender<bool>,
}

/// What the nodes of a registry have in common.
#[derive(Debug, Default)]
struct RegistryShared {
    said: NodesSaid,
    /// How far the watches of all nodes are.
    positions: InMemory,
}

/// A node that lives, or is to.
#[derive(Clone, Debug)]
pub struct NodePlace {
    /// Its present life.
    pub life: Arc<Life>,
    /// Its way to the store.
    pub edge: Edge,
    /// Where it listens.
    pub listen: SocketAddr,
}

impl NodesWorld {
    /// A world with all its nodes, which begin to join, and record if it says where; what is met is counted there.
    pub fn new(plan: RunPlan, keeps: bool, records: Option<PathBuf>, counts: NodeCounts) -> Arc<Self> {
        let world = Arc::new(Self {
            begin: Instant::now(),
            trace: RunTrace::new(keeps),
            counts,
            network: if plan.is_narrow { MemoryNetwork::narrow(PIPE) } else { MemoryNetwork::new() },
            sky: Arc::new(Sky::new(plan.proves_deaths)),
            store: MemoryStore::new(),
            records,
            places: Mutex::default(),
            lives: Mutex::default(),
            breaches: Mutex::default(),
            registries: Default::default(),
            seconds: Mutex::default(),
            phase: watch::Sender::new(Phase::Work),
            works: watch::Sender::new(true),
            plan,
        });
        for index in 0..world.plan.nodes {
            let place = world.start(index);
            lock(&world.places).push(place);
        }
        world
    }

    /// Writes a line of the trace.
    pub fn say(&self, what: &str) {
        self.trace.line(self.begin.elapsed(), "", what);
    }

    /// Something that must not be.
    pub fn breach(&self, what: String) {
        self.say(&format!("BREACH {what}"));
        lock(&self.breaches).push(what);
    }

    /// All of that.
    pub fn breaches(&self) -> Vec<String> {
        lock(&self.breaches).clone()
    }

    /// A node.
    pub fn place(&self, index: usize) -> NodePlace {
        lock(&self.places)[index].clone()
    }

    /// All that have lived.
    pub fn lives(&self) -> Vec<Arc<Life>> {
        lock(&self.lives).clone()
    }

    /// The lives of nodes in the second registry.
    pub fn seconds(&self) -> Vec<Arc<Second>> {
        lock(&self.seconds).clone()
    }

    /// Has the clients of all nodes do something else.
    pub fn enter(&self, phase: Phase) {
        self.say(&format!("{phase:?}"));
        self.works.send_replace(phase == Phase::Work);
        self.phase.send_replace(phase);
    }

    /// Starts the next life of a node in place of the present one.
    pub fn restart(self: &Arc<Self>, index: usize) {
        let place = self.start(index);
        lock(&self.places)[index] = place;
    }

    /// Starts another life of a node, whatever its present one does.
    pub fn start(self: &Arc<Self>, index: usize) -> NodePlace {
        let number = lock(&self.lives).len() as u64 + 1;
        let node = &self.plan.names()[index];
        let seed = splitmix(splitmix(self.plan.seed) ^ number);
        let life = Life::new(node, number, self.begin, seed, &self.trace, &self.counts);
        lock(&self.lives).push(life.clone());
        let edge = Edge::new(&self.store, &life, &self.sky, splitmix(seed ^ 1), &self.counts);
        let unsure = self.plan.unsure;
        edge.change(|weather| (weather.unsure, weather.blind) = (unsure, unsure));
        let listen = SocketAddr::from(([127, 0, 0, 1], 7000 + u16::try_from(number).unwrap_or(0)));
        let place = NodePlace { life: life.clone(), edge, listen };
        life.say("starts");
        tokio::spawn(live(self.clone(), place.clone(), seed));
        place
    }

    fn config(&self, place: &NodePlace, seed: u64) -> Config {
        let mut rng = Rng::new(splitmix(seed ^ 2));
        let ahead = Duration::from_secs(1000) + rng.duration(Duration::from_secs(1000));
        // Two clocks may come apart by 1000 parts of a million.
        let ppm = i64::try_from(rng.below(1000)).unwrap_or(0) - 500;
        let clock = Drifting::new(self.begin, ahead, ppm);
        let store: callsign::SharedStore = Arc::new(place.edge.clone());
        let usual = LinkLimits::default();
        let narrow = usual.with(|limits| {
            (limits.frame, limits.control_queue, limits.bulk_queue) = (QUEUE, QUEUE, QUEUE);
        });
        let config = Config::new(&place.life.node, store);
        let config = self.records.iter().fold(config, Config::record);
        config
            .listen(place.listen)
            .network(Network::Memory(self.network.clone()))
            .clock(Clock::Own(Arc::new(clock)))
            .entropy(Entropy::seeded(splitmix(seed ^ 3)))
            .turns(place.life.clone())
            .snapshot_chunk(self.plan.chunk)
            .observers(self.plan.observers)
            .watch_room(if self.plan.is_narrow { 4 } else { 1024 })
            .watch_memory(if self.plan.is_narrow { 4 << 10 } else { 4 << 20 })
            .link_limits(if self.plan.is_narrow { narrow } else { usual })
            .session_timing(SessionTiming::for_lease(self.plan.lease))
            .join_timeout(self.plan.lease * 2)
            // Pages of names are found in one way or in the other.
            .ordered(splitmix(seed ^ 7).is_multiple_of(2))
            .request_timeout(Duration::from_secs(3))
    }
}

/// A life of a node, from its start to its end.
async fn live(world: Arc<NodesWorld>, place: NodePlace, seed: u64) {
    let life = place.life.clone();
    let death = life.death();
    let whole = async {
        let registry = join(&world, &place, seed).await;
        let _ = life.registry.set(registry.clone());
        let [first, _] = &world.registries;
        tokio::select! {
            biased;
            failure = registry.failed() => {
                world.breach(format!("P9: {} has failed: {failure}", life.who));
            }
            () = left(&world, &life, &registry) => {}
            () = serve(&world, first, &life, &registry, life.clone(), splitmix(seed ^ 4)) => {}
            () = offer(&world, &life, &registry, splitmix(seed ^ 5)), if world.plan.has_office => {}
            () = serve_second(&world, &life, &registry, splitmix(seed ^ 6)), if world.plan.registries > 1 => {}
        }
    };
    tokio::select! {
        biased;
        () = death => {}
        () = whole => life.die(),
    }
}

async fn join(world: &NodesWorld, place: &NodePlace, seed: u64) -> Registry {
    let config = world.config(place, seed);
    loop {
        match Registry::join(config.clone()).await {
            Ok(registry) => return registry,
            Err(error) => place.life.say(&format!("has not joined: {error}")),
        }
        sleep(OFFER_AGAIN).await;
    }
}

/// What a life does in a registry that it has joined, and writes down there.
async fn serve(
    world: &NodesWorld,
    shared: &RegistryShared,
    life: &Life,
    registry: &Registry,
    journal: Arc<dyn Journal>,
    seed: u64,
) {
    let (at, node, incarnation) = (life.now(), life.node.clone(), registry.incarnation());
    journal.write(&Event::Started { at, node, incarnation });
    let site = Arc::new(Site {
        registry: registry.clone(),
        journal,
        name: life.node.clone(),
        nodes: world.plan.names(),
        seed,
        pause: world.plan.pause,
        act_every: ACT_EVERY,
        panics: PANICS,
        positions: Arc::new(shared.positions.clone()),
        granted: Arc::default(),
        works: world.works.subscribe(),
    });
    tokio::select! {
        biased;
        () = audit(world, &shared.said, life, &site) => {}
        () = clients(world, &site) => std::future::pending().await,
    }
}

/// The same in a second registry: the names there are others, though they are called the same.
async fn serve_second(world: &NodesWorld, life: &Arc<Life>, first: &Registry, seed: u64) {
    let registry = loop {
        match first.join_beside("second").await {
            Ok(registry) => break registry,
            Err(error) => life.say(&format!("has not joined the second registry: {error}")),
        }
        sleep(OFFER_AGAIN).await;
    };
    let second = Second::new(life, registry.clone());
    lock(&world.seconds).push(second.clone());
    let [_, shared] = &world.registries;
    serve(world, shared, life, &registry, second, seed).await;
}

/// Ends when the node has left in good order, after it was told to.
async fn left(world: &NodesWorld, life: &Life, registry: &Registry) {
    life.leaves().await;
    life.write(&Event::Leaving { at: life.now() });
    for second in world.seconds().iter().filter(|second| second.is_of(life)) {
        second.write(&Event::Leaving { at: life.now() });
    }
    let left = registry.leave().await;
    world.counts.met("a node leaves");
    life.say(&format!("has left: {left:?}"));
}

/// What the clients of a node do, in all phases.
async fn clients(world: &NodesWorld, site: &Arc<Site>) {
    let calls = Arc::new(Calls::default());
    let client = |number| Client::new(site, &calls, number);
    let contenders = (0..CONTENDERS).map(|number| client(number + 1).contend(number));
    let asks = client(CONTENDERS + 1).ask_around();
    let juggles = client(CONTENDERS + 3).juggle();
    let beside = |number| Client::beside(site, &calls, number);
    let others =
        async { futures::join!(beside(0).move_names(), beside(1).join_in(), beside(2).watch_names()) };
    let more = async { futures::join!(beside(3).lock_up(), beside(4).pass_on()) };
    // In this one task, so that they end with it.
    futures::join!(futures::future::join_all(contenders), asks, juggles, others, more, client(0).keep());
    site.journal.write(&Event::Quiet { at: site.journal.now() });
    let mut phase = world.phase.subscribe();
    while *phase.borrow_and_update() != Phase::Check {
        sleep(OFFER_AGAIN).await;
    }
    client(CONTENDERS + 2).read_all().await;
    beside(2).see_all().await;
    beside(3).lock_all().await;
    site.journal.write(&Event::Done { at: site.journal.now() });
}
