//! The nodes of a run, and what their clients do.
#![allow(clippy::disallowed_methods)] // tasks are started here, and time passes

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{
    Clock, Config, Entropy, LinkLimits, LookupError, MemoryNetwork, Network, Registry, SessionTiming, Turns,
};
use callsign_store::{lock::lock, memory::MemoryStore, random::splitmix};
use foldhash::quality::FixedState;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    clock::Drifting,
    counts::Counts,
    edge::{Edge, Sky},
    life::Life,
    office::offer,
    plan::Plan,
    trace::Trace,
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
/// Between two looks of an audit.
const AUDIT_INTERVAL: Duration = Duration::from_millis(80);
/// So many of them for each look at all that a replica says.
const LOOKS_BETWEEN_REPLICAS: u32 = 5;
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
pub struct World {
    /// What the seed decided.
    pub plan: Plan,
    /// When it began.
    pub begin: Instant,
    /// What happened.
    pub trace: Trace,
    /// What was met.
    pub counts: Counts,
    /// The network of all.
    pub network: MemoryNetwork,
    /// What all edges have in common.
    pub sky: Arc<Sky>,
    store: MemoryStore,
    /// Where nodes record what they do.
    records: Option<PathBuf>,
    /// The nodes, by index.
    places: Mutex<Vec<Place>>,
    /// All that have lived.
    lives: Mutex<Vec<Arc<Life>>>,
    breaches: Mutex<Vec<String>>,
    /// Who led in each epoch.
    led: Mutex<BTreeMap<u64, String>>,
    /// What a replica says at each position, by a number that stands for it, and whose it was.
    said: Mutex<BTreeMap<u64, (u64, String)>>,
    /// How far the watches of all nodes are.
    positions: InMemory,
    phase: watch::Sender<Phase>,
    works: watch::Sender<bool>,
}

/// A node that lives, or is to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its present life.
    pub life: Arc<Life>,
    /// Its way to the store.
    pub edge: Edge,
    /// Where it listens.
    pub listen: SocketAddr,
}

impl World {
    /// A world with all its nodes, which begin to join, and record if it says where; what is met is counted there.
    pub fn new(plan: Plan, keeps: bool, records: Option<PathBuf>, counts: Counts) -> Arc<Self> {
        let world = Arc::new(Self {
            begin: Instant::now(),
            trace: Trace::new(keeps),
            counts,
            network: if plan.is_narrow { MemoryNetwork::narrow(PIPE) } else { MemoryNetwork::new() },
            sky: Arc::new(Sky::new(plan.proves_deaths)),
            store: MemoryStore::new(),
            records,
            places: Mutex::default(),
            lives: Mutex::default(),
            breaches: Mutex::default(),
            led: Mutex::default(),
            said: Mutex::default(),
            positions: InMemory::default(),
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
    pub fn place(&self, index: usize) -> Place {
        lock(&self.places)[index].clone()
    }

    /// All that have lived.
    pub fn lives(&self) -> Vec<Arc<Life>> {
        lock(&self.lives).clone()
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
    pub fn start(self: &Arc<Self>, index: usize) -> Place {
        let number = lock(&self.lives).len() as u64 + 1;
        let node = &self.plan.names()[index];
        let seed = splitmix(splitmix(self.plan.seed) ^ number);
        let life = Life::new(node, number, self.begin, seed, &self.trace, &self.counts);
        lock(&self.lives).push(life.clone());
        let edge = Edge::new(&self.store, &life, &self.sky, splitmix(seed ^ 1), &self.counts);
        let unsure = self.plan.unsure;
        edge.change(|weather| (weather.unsure, weather.blind) = (unsure, unsure));
        let listen = SocketAddr::from(([127, 0, 0, 1], 7000 + u16::try_from(number).unwrap_or(0)));
        let place = Place { life: life.clone(), edge, listen };
        life.say("starts");
        tokio::spawn(live(self.clone(), place.clone(), seed));
        place
    }

    fn config(&self, place: &Place, seed: u64) -> Config {
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
            .request_timeout(Duration::from_secs(3))
    }
}

/// A life of a node, from its start to its end.
async fn live(world: Arc<World>, place: Place, seed: u64) {
    let life = place.life.clone();
    let death = life.death();
    let whole = async {
        let registry = join(&world, &place, seed).await;
        let _ = life.registry.set(registry.clone());
        let (node, incarnation) = (life.node.clone(), registry.incarnation());
        life.write(&Event::Started { at: life.now(), node, incarnation });
        let site = Arc::new(Site {
            registry: registry.clone(),
            journal: life.clone(),
            name: life.node.clone(),
            nodes: world.plan.names(),
            seed: splitmix(seed ^ 4),
            pause: world.plan.pause,
            act_every: ACT_EVERY,
            panics: PANICS,
            positions: Arc::new(world.positions.clone()),
            granted: Arc::default(),
            works: world.works.subscribe(),
        });
        tokio::select! {
            biased;
            failure = registry.failed() => {
                world.breach(format!("P9: {} has failed: {failure}", life.who));
            }
            () = left(&world, &life, &registry) => {}
            () = audit(&world, &life, &site) => {}
            () = offer(&world, &life, &registry, splitmix(seed ^ 5)), if world.plan.has_office => {}
            () = clients(&world, &site) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = death => {}
        () = whole => life.die(),
    }
}

async fn join(world: &World, place: &Place, seed: u64) -> Registry {
    let config = world.config(place, seed);
    loop {
        match Registry::join(config.clone()).await {
            Ok(registry) => return registry,
            Err(error) => place.life.say(&format!("has not joined: {error}")),
        }
        sleep(OFFER_AGAIN).await;
    }
}

/// Ends when the node has left in good order, after it was told to.
async fn left(world: &World, life: &Life, registry: &Registry) {
    life.leaves().await;
    life.write(&Event::Leaving { at: life.now() });
    let left = registry.leave().await;
    world.counts.met("a node leaves");
    life.say(&format!("has left: {left:?}"));
}

/// Looks at what the node says of itself, again and again.
async fn audit(world: &World, life: &Life, site: &Site) {
    let (mut told, mut leads, mut replica) = (Tellings::default(), Leads::default(), ReplicaAudit::default());
    loop {
        for _ in 0..LOOKS_BETWEEN_REPLICAS {
            sleep(AUDIT_INTERVAL).await;
            told.look(world, life, site);
            leads.look(world, life, &site.registry);
        }
        replica.look(world, life, &site.registry);
    }
}

/// Whoever holds a name is told, or stopped, before a read says that the session has lapsed.
#[derive(Default)]
struct Tellings {
    may_be_lapsed: bool,
    late: BTreeSet<u64>,
}

impl Tellings {
    fn look(&mut self, world: &World, life: &Life, site: &Site) {
        let is_lapsed = matches!(site.registry.lookup(""), Err(LookupError::Lapsed { .. }));
        let stands_still = life.stands_still();
        // What stands still says nothing, though its session may be lost meanwhile.
        let may_be_lapsed = is_lapsed || stands_still;
        if std::mem::replace(&mut self.may_be_lapsed, may_be_lapsed) != may_be_lapsed {
            life.write(&Event::Lapsed { at: life.now() });
        }
        // A member that stands still tells nobody.
        if !is_lapsed || stands_still {
            self.late.clear();
            return;
        }
        let granted = lock(&site.granted).clone();
        let untold: BTreeMap<u64, String> =
            granted.iter().filter_map(|acting| Some((acting.number, acting.should_be_told()?))).collect();
        let holders = granted.len() as u64;
        world.counts.checked("holders of a lapsed node that have to be told or stopped", holders);
        // Whoever was to be stopped may take a moment.
        if let Some((actor, name)) = untold.iter().find(|(actor, _)| self.late.contains(*actor)) {
            let who = &life.who;
            world.breach(format!(
                "lapse: actor {actor} of {who} holds {name}, and was neither told nor stopped"
            ));
        }
        self.late = untold.into_keys().collect();
    }
}

/// P2: in an epoch one life of one node serves as the leader. What a node knows of epochs never goes back.
#[derive(Default)]
struct Leads {
    epoch: u64,
    led: Option<u64>,
}

impl Leads {
    fn look(&mut self, world: &World, life: &Life, registry: &Registry) {
        let status = registry.status();
        let epoch = status.epoch.0;
        if epoch < self.epoch {
            world.breach(format!("P2: {} knew of epoch {}, and now of {epoch}", life.who, self.epoch));
        }
        self.epoch = epoch;
        if status.leads && self.led != Some(epoch) {
            self.led = Some(epoch);
            let first = lock(&world.led).entry(epoch).or_insert_with(|| life.who.clone()).clone();
            world.counts.checked("epochs with one leader", 1);
            if first != life.who {
                world.breach(format!("P2: {first} and {} both lead in epoch {epoch}", life.who));
            }
        }
    }
}

/// P2 and P5: every replica is a prefix of one log, so that at one position all say the same.
#[derive(Default)]
struct ReplicaAudit {
    position: u64,
}

impl ReplicaAudit {
    fn look(&mut self, world: &World, life: &Life, registry: &Registry) {
        let position = registry.status().position.0;
        if position == self.position {
            return;
        }
        let Ok(names) = registry.names() else { return };
        self.position = position;
        // In whatever order.
        let said = names.iter().fold(0, |sum: u64, name| {
            let token = registry.lookup(name).ok().flatten().map_or(0, |entry| entry.token().0);
            sum.wrapping_add(FixedState::with_seed(token).hash_one(&**name))
        });
        let mut first = lock(&world.said);
        let (theirs, who) = first.entry(position).or_insert_with(|| (said, life.who.clone()));
        if *who == life.who {
            return;
        }
        world.counts.checked("positions at which replicas are alike", 1);
        if *theirs != said {
            let who = who.clone();
            drop(first);
            world.breach(format!(
                "P5: at position {position} {} says something else than {who} did",
                life.who
            ));
        }
    }
}

/// What the clients of a node do, in all phases.
async fn clients(world: &World, site: &Arc<Site>) {
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
