//! Singletons on several nodes in one process, under a paused clock: real actors, real links in memory, the store in
//! memory. Each test runs over every oracle to which it applies.

mod children;
mod dying;
mod hand_over;
mod naming;
mod oracles;
mod seats;
mod supervising;
mod watching;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use callsign_election::{
    ElectionConfig, Fence, LeaseOptions, LeaseOracle, Policy, Timing,
    campaign::{self, Phase},
    oracle::RegistryElector,
};
use callsign_transport::{P, RactorClusterMessage, remote_message};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::{
    ChecksFence, ChildKind, Lead, NameRef, NameRefOptions, QueueOracle, Registry, RegistryOracle, Singleton,
    SingletonBuilder, SingletonEvent, SingletonEvents, SingletonPlan,
    tests::driver::{Cluster, TEST_DEADLINE, until},
};

/// What children are sent.
#[derive(RactorClusterMessage)]
enum Work {
    Exit,
    Crash,
    Panic,
    /// It takes half a second to end.
    Slow,
    /// It takes so many milliseconds to do this.
    Busy(P<u64>),
    /// It does nothing more, and does not listen.
    Hang,
    /// It holds its thread until [`RELEASED`] says otherwise.
    Block,
    Note(P<u8>),
    #[rpc]
    Who(RpcReplyPort<P<String>>),
    #[rpc]
    Leave(RpcReplyPort<P<Vec<u8>>>),
}
remote_message!(Work, "test.work/1");

/// The first child of a term to which this note is handed over does not start.
const STUMBLES: u8 = u8::MAX;

/// For the one test with a child that blocks.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// What children did, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<Line>>>);

#[derive(Clone, Debug)]
struct Line {
    at: tokio::time::Instant,
    node: String,
    kind: ChildKind,
    up: bool,
    /// It is down, and was asked to end: it was not cut.
    ended_well: bool,
    epoch: u64,
}

impl Journal {
    fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, node: &str) -> Vec<(ChildKind, bool)> {
        self.lines().iter().filter(|line| line.node == node).map(|line| (line.kind, line.up)).collect()
    }

    /// Everything that leader children did, on whichever node.
    fn leaders(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.kind == ChildKind::Leader).collect()
    }

    /// No leader child starts before the one before it is down.
    fn assert_no_overlap(&self) {
        let mut running: Option<Line> = None;
        for line in self.leaders() {
            if line.up {
                assert!(running.is_none(), "two at once: {:#?}", self.lines());
                running = Some(line);
            } else {
                assert!(running.take().is_some_and(|up| up.node == line.node));
            }
        }
    }
}

struct Child {
    journal: Journal,
    node: String,
    kind: ChildKind,
    epoch: u64,
    notes: Vec<u8>,
}

/// Says that it is down when it is, however that came about.
struct Alive {
    line: Line,
    journal: Journal,
    notes: Vec<u8>,
    slow: bool,
    ended_well: bool,
}

impl Drop for Alive {
    fn drop(&mut self) {
        let now = tokio::time::Instant::now();
        let line = Line { at: now, up: false, ended_well: self.ended_well, ..self.line.clone() };
        self.journal.0.lock().unwrap().push(line);
    }
}

impl Actor for Child {
    type Msg = Work;
    type State = Alive;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Work>, (): ()) -> Result<Alive, ActorProcessingErr> {
        let line = Line {
            at: tokio::time::Instant::now(),
            node: self.node.clone(),
            kind: self.kind,
            up: true,
            ended_well: false,
            epoch: self.epoch,
        };
        let is_first = !self.journal.leaders().iter().any(|line| line.epoch == self.epoch);
        self.journal.0.lock().unwrap().push(line.clone());
        let alive = Alive {
            line,
            journal: self.journal.clone(),
            notes: self.notes.clone(),
            slow: false,
            ended_well: false,
        };
        if is_first && self.notes.contains(&STUMBLES) { Err("it does not start".into()) } else { Ok(alive) }
    }

    async fn handle(
        &self,
        myself: ActorRef<Work>,
        message: Work,
        alive: &mut Alive,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Work::Exit => myself.stop(None),
            Work::Crash => return Err("crashed".into()),
            Work::Panic => panic!("the application's own mistake"),
            Work::Slow => alive.slow = true,
            Work::Busy(P(millis)) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Work::Hang => std::future::pending().await,
            Work::Block => {
                while !RELEASED.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Work::Note(P(note)) => alive.notes.push(note),
            Work::Who(reply) => drop(reply.send(P(format!("{} in {}", self.node, self.epoch)))),
            Work::Leave(reply) => drop(reply.send(P(alive.notes.clone()))),
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Work>, alive: &mut Alive) -> Result<(), ActorProcessingErr> {
        if alive.slow {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        alive.ended_well = true;
        Ok(())
    }
}

/// By which oracle.
trait Seats: 'static {
    type Oracle: RegistryElector;
    /// Whether a clock ends a term. If not, an old leader may go on for a while, and only its fence stops it.
    const HAS_CLOCK: bool = true;

    fn oracle(registry: &Registry) -> Self::Oracle;

    /// Has the authority end the term of the leader, so that its next refresh is denied.
    fn depose(leader: &Registry) -> impl Future<Output = ()>;
}

struct ByLease;
struct ByName;
struct BySeat;

const LEASE: Duration = Duration::from_secs(10);

fn timing() -> Timing {
    Timing::for_lease(LEASE)
}

impl Seats for ByLease {
    type Oracle = LeaseOracle;

    fn oracle(registry: &Registry) -> LeaseOracle {
        let options = LeaseOptions {
            config: Some(ElectionConfig::new(Policy::sticky(), LEASE)),
            clock: registry.clock().clone(),
            ..LeaseOptions::default()
        };
        LeaseOracle::new(registry.node.store.clone(), &registry.node.cluster, options)
    }

    async fn depose(leader: &Registry) {
        let election = callsign_election::Election::new(
            leader.node.store.clone(),
            &leader.node.cluster,
            &callsign_store::ids::ElectionName::new("reports").unwrap(),
            leader.clock().clone(),
        );
        election.disable(callsign_election::Disable::Stop).await.unwrap();
        election.enable().await.unwrap();
    }
}

impl Seats for ByName {
    type Oracle = RegistryOracle;

    fn oracle(registry: &Registry) -> RegistryOracle {
        RegistryOracle::new(registry, "reports/seat").unwrap()
    }

    async fn depose(leader: &Registry) {
        leader.unregister("reports/seat").await.unwrap();
    }
}

/// A sink that checks the fence, by promise.
struct Ledger;
impl ChecksFence for Ledger {}

impl Seats for BySeat {
    type Oracle = QueueOracle;
    const HAS_CLOCK: bool = false;

    fn oracle(registry: &Registry) -> QueueOracle {
        QueueOracle::new(registry, &Ledger)
    }

    async fn depose(leader: &Registry) {
        leader.resign(leader.status().epoch);
    }
}

/// Three nodes, each with its part in one singleton.
struct Sites<S: Seats> {
    cluster: Cluster,
    nodes: Vec<Registry>,
    singletons: Vec<Singleton<S::Oracle, Work>>,
    events: Vec<SingletonEvents>,
    journal: Journal,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How a test differs from the others.
type Tune<S> = fn(SingletonPlan<<S as Seats>::Oracle, Work>) -> SingletonPlan<<S as Seats>::Oracle, Work>;

impl<S: Seats> Sites<S> {
    async fn start(tune: Tune<S>) -> Self {
        let cluster = Cluster::new();
        // So that the death of a node shows by the end of its lease only.
        cluster.store.stop_proving_deaths();
        let mut sites = Self {
            nodes: cluster.three().await.into(),
            cluster,
            singletons: Vec::new(),
            events: Vec::new(),
            journal: Journal::default(),
        };
        for node in &sites.nodes {
            let singleton = plan::<S>(node, &sites.journal, tune).start().await.unwrap();
            sites.events.push(singleton.subscribe());
            sites.singletons.push(singleton);
        }
        sites.led(None).await;
        sites
    }

    fn leads(&self, n: usize) -> bool {
        self.singletons[n].status().phase == Phase::Leading && self.singletons[n].leadership().check().is_ok()
    }

    /// Waits until one leads, another than `but`, and its child can be reached from everywhere.
    async fn led(&self, but: Option<usize>) -> usize {
        let mut leader = 0;
        until("one leads", || {
            let found = (0..3).find(|n| Some(*n) != but && self.leads(*n));
            leader = found.unwrap_or(0);
            found.is_some()
        })
        .await;
        leader
    }

    fn epoch(&self, n: usize) -> u64 {
        self.singletons[n].leadership().check().unwrap().epoch.0
    }

    fn to(&self, n: usize) -> NameRef<Work> {
        self.singletons[n]
            .name_ref(NameRefOptions { deadline: TEST_DEADLINE, ..NameRefOptions::default() })
            .unwrap()
    }

    /// What the child says that is reached by name from a node.
    async fn who(&self, from: usize) -> String {
        self.to(from).call(Work::Who, TEST_DEADLINE).await.unwrap().0
    }

    /// Neither its links nor its store reach a node.
    fn isolate(&self, n: usize) {
        self.cluster.store.connect(NAMES[n]).outage();
        for other in (0..3).filter(|other| *other != n) {
            self.cluster.network.cut(Cluster::address(NAMES[n]), Cluster::address(NAMES[other]));
        }
    }

    fn heal(&self, n: usize) {
        self.cluster.store.connect(NAMES[n]).heal();
        for other in (0..3).filter(|other| *other != n) {
            self.cluster.network.heal(Cluster::address(NAMES[n]), Cluster::address(NAMES[other]));
        }
    }

    /// The next event that `pick` takes.
    async fn event<T>(&mut self, n: usize, pick: impl Fn(&SingletonEvent) -> Option<T>) -> T {
        let events = &mut self.events[n];
        let found = async {
            loop {
                if let Some(found) = pick(&events.next().await.unwrap()) {
                    return found;
                }
            }
        };
        tokio::time::timeout(TEST_DEADLINE, found).await.expect("the event comes")
    }

    /// The events that have come so far.
    async fn seen(&mut self, n: usize) -> Vec<SingletonEvent> {
        let mut seen = Vec::new();
        while let Ok(event) = tokio::time::timeout(Duration::ZERO, self.events[n].next()).await {
            seen.push(event.unwrap());
        }
        seen
    }
}

fn plan<S: Seats>(node: &Registry, journal: &Journal, tune: Tune<S>) -> SingletonPlan<S::Oracle, Work> {
    tune(children(Singleton::builder(node, "reports").over(S::oracle(node)), node, journal))
}

/// Both children write into the journal.
fn children<O: RegistryElector>(
    builder: SingletonBuilder<O>,
    node: &Registry,
    journal: &Journal,
) -> SingletonPlan<O, Work> {
    let child = {
        let (journal, node) = (journal.clone(), node.node().to_owned());
        move |kind, epoch, notes| {
            (Child { journal: journal.clone(), node: node.clone(), kind, epoch, notes }, ())
        }
    };
    let leader = child.clone();
    builder
        .leader(move |lead: Lead<Fence>| {
            let notes = lead.handed_over.unwrap_or_default();
            leader(ChildKind::Leader, lead.grant.term.epoch.0, notes)
        })
        .follower(move |_| child(ChildKind::Follower, 0, Vec::new()))
        .timing(timing())
}

fn as_it_is<S: Seats>(plan: SingletonPlan<S::Oracle, Work>) -> SingletonPlan<S::Oracle, Work> {
    plan
}

/// What happened in the election.
fn what(event: &SingletonEvent) -> Option<&campaign::CampaignEventKind> {
    match event {
        SingletonEvent::Election(event) => Some(&event.what),
        _ => None,
    }
}

/// Runs generic tests over each oracle.
macro_rules! over_every_oracle {
    ($($name:ident),* $(,)?) => {
        mod by_lease { $( #[tokio::test(start_paused = true)] async fn $name() {
            super::$name::<crate::tests::singleton::ByLease>().await;
        } )* }
        mod by_name { $( #[tokio::test(start_paused = true)] async fn $name() {
            super::$name::<crate::tests::singleton::ByName>().await;
        } )* }
        mod by_seat { $( #[tokio::test(start_paused = true)] async fn $name() {
            super::$name::<crate::tests::singleton::BySeat>().await;
        } )* }
    };
}
use over_every_oracle;
