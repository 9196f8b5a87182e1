//! A node of a chaos run: the library in a process of its own, with clients, acting actors and a singleton inside, which
//! write down everything that they ask, are told and do.
//!
//! SIGUSR1: clients stop, and what is to be kept is held. SIGUSR2: all of it is read once more. SIGTERM: the node leaves.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use callsign::{Config, Registry, Secret, SessionTiming, Singleton, election::Timing};
use callsign_sim::histories::{
    Journal as _,
    clients::{Calls, Client, Site},
};
use callsign_store::lock::lock;
use serde::{Deserialize, Serialize};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::sleep,
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::{
    event::Event,
    journal::{Journal, Places, now},
};

pub mod churn;
mod writer;

use self::{churn::Churners, writer::Writer};

/// The end of the name of the file that says that clients have stopped, and all that is to be kept is held.
pub const QUIET: &str = "quiet";
/// The same for: all of it was read once more.
pub const DONE: &str = "done";

/// Without one, nodes speak over loopback only.
const SECRET: &str = "what all nodes of a run know";
/// How often the node looks at what it knows.
const BELIEF_INTERVAL: Duration = Duration::from_millis(50);
/// Between two calls of a client, at least.
const CALL_PAUSE: Duration = Duration::from_millis(30);
/// Between two acts of an actor.
const ACT_EVERY: Duration = Duration::from_millis(50);
/// So many times rarer are both where a node also churns: runs are longer, and their histories are to be read at once.
const RARER: u32 = 4;
/// And so many bytes it remembers for those who watch: what is remembered is full soon, and grows no more.
const WATCH_MEMORY: usize = 256 << 10;
/// Before what failed is tried again.
const CAMPAIGN_AGAIN: Duration = Duration::from_millis(300);

/// What a node is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Its name.
    #[arg(long)]
    pub name: String,
    /// Where the cluster keeps what it agrees on.
    #[arg(long)]
    pub store: String,
    /// The cluster.
    #[arg(long)]
    pub cluster: String,
    /// The lease, in milliseconds.
    #[arg(long)]
    pub lease_ms: u64,
    /// Where the others reach it.
    #[arg(long)]
    pub advertise: String,
    /// Where it has to listen. Default: wherever there is a port on loopback.
    #[arg(long)]
    pub listen: Option<SocketAddr>,
    /// Where it records what its cores do. Default: nowhere.
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// Where it writes its history.
    #[arg(long)]
    pub history: PathBuf,
    /// The socket of the sink.
    #[arg(long)]
    pub sink: PathBuf,
    /// The names of all nodes.
    #[arg(long, value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// Seeds the choices of its clients.
    #[arg(long)]
    pub seed: u64,
    /// Many more names come and go, and the leader gives up its seat from time to time: what a soak needs.
    #[arg(long)]
    pub churn: bool,
    /// So many KiB a second are never given back, to see that found.
    #[arg(long, default_value_t = 0)]
    pub leak: u64,
    /// A defect to plant.
    #[cfg(feature = "planted")]
    #[arg(long)]
    pub plant: Option<String>,
}

/// The line with which a node says that it has joined.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Joined {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// What the parts of the process share.
pub(super) struct Shared {
    pub(super) site: Site,
    pub(super) args: Args,
}

/// Runs a node, until it is told to leave.
pub fn run(args: Args) -> Result<()> {
    #[cfg(feature = "planted")]
    callsign_store::planted::plant(args.plant.as_deref());
    let given = std::env::var("RUST_LOG").ok().and_then(|filter| filter.parse::<Targets>().ok());
    let filter = given.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    lines.with_max_level(LevelFilter::TRACE).finish().with(filter).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(serve(args));
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

fn config(args: &Args) -> Config {
    let lease = Duration::from_millis(args.lease_ms);
    let config = Config::new(&args.name, args.store.as_str());
    let config = match args.listen {
        Some(listen) => config.listen(listen).secret(Secret::new(SECRET).expect("it is long enough")),
        None => config,
    };
    let config = match &args.record {
        Some(record) => config.record(record),
        None => config,
    };
    let config = if args.churn { config.watch_memory(WATCH_MEMORY) } else { config };
    config
        .cluster(&args.cluster)
        .advertise(&args.advertise)
        .session_timing(SessionTiming::for_lease(lease))
        .join_timeout(lease * 3 / 2)
}

/// Joins, however long that takes: the store may be gone.
async fn join(args: &Args) -> Registry {
    loop {
        match Registry::join(config(args)).await {
            Ok(registry) => return registry,
            Err(error) => tracing::warn!("not joined: {error}"),
        }
        sleep(CAMPAIGN_AGAIN).await;
    }
}

async fn serve(args: Args) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let (quiet, check) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let journal = Arc::new(Journal::open(&args.history).context("the history cannot be written")?);
    let registry = tokio::select! {
        biased;
        registry = join(&args) => registry,
        _ = terminate.recv() => return Ok(()),
    };
    let (node, incarnation) = (args.name.clone(), registry.incarnation());
    journal.write(&Event::Started { at: now(), node, incarnation });
    println!("{}", serde_json::to_string(&Joined { listen: registry.local_addr() })?);
    let (working, works) = watch::channel(true);
    let rarer = if args.churn { RARER } else { 1 };
    let site = Site {
        registry: registry.clone(),
        journal: journal.clone(),
        name: args.name.clone(),
        nodes: args.nodes.clone(),
        seed: args.seed,
        pause: CALL_PAUSE * rarer,
        act_every: ACT_EVERY * rarer,
        panics: 0,
        positions: Arc::new(Places(args.history.parent().map(ToOwned::to_owned).unwrap_or_default())),
        granted: Arc::default(),
        works,
    };
    let shared = Arc::new(Shared { site, args });
    tokio::spawn(look(shared.clone()));
    tokio::spawn(offer(shared.clone()));
    let work = tokio::spawn(work(shared, working, quiet, check));
    terminate.recv().await;
    journal.write(&Event::Leaving { at: now() });
    let left = registry.leave().await;
    work.abort();
    left.context("the node has left, but not in good order")
}

/// The clients, until they are told to stop, and what comes then.
async fn work(shared: Arc<Shared>, working: watch::Sender<bool>, mut quiet: Signal, mut check: Signal) {
    let (site, calls) = (Arc::new(shared.site.clone()), Arc::new(Calls::default()));
    let churners = if shared.args.churn { Some(Churners::start(&shared).await) } else { None };
    let mut keeper = tokio::spawn(Client::new(&site, &calls, 0).keep());
    let others = [
        tokio::spawn(Client::new(&site, &calls, 1).contend(0)),
        tokio::spawn(Client::new(&site, &calls, 2).contend(1)),
        tokio::spawn(Client::new(&site, &calls, 3).ask_around()),
        tokio::spawn(Client::beside(&site, &calls, 0).move_names()),
        tokio::spawn(Client::beside(&site, &calls, 1).join_in()),
        tokio::spawn(Client::beside(&site, &calls, 2).watch_names()),
        tokio::spawn(Client::beside(&site, &calls, 3).lock_up()),
        tokio::spawn(Client::beside(&site, &calls, 4).pass_on()),
    ];
    quiet.recv().await;
    working.send_replace(false);
    for other in others {
        let _ = other.await;
    }
    let _ = (&mut keeper).await;
    let churned = match churners {
        Some(churners) => Some(churners.end().await),
        None => None,
    };
    let is = |state| std::fs::write(shared.args.history.with_extension(state), "");
    shared.site.journal.write(&Event::Quiet { at: now() });
    let _ = is(QUIET); // if not, the run says that this node never came so far
    check.recv().await;
    Client::new(&site, &calls, 4).read_all().await;
    Client::beside(&site, &calls, 2).see_all().await;
    Client::beside(&site, &calls, 3).lock_all().await;
    if let Some(churned) = churned {
        churned.check(&shared).await;
    }
    shared.site.journal.write(&Event::Done { at: now() });
    let _ = is(DONE);
}

/// Writes down what the node knows, when it changes.
async fn look(shared: Arc<Shared>) {
    let mut last = None;
    loop {
        // Those who may look at all actors do so in processes under seeds only: here they would pile up.
        lock(&shared.site.granted).clear();
        let status = shared.site.registry.status();
        let leader = status.leader.filter(|leader| leader.serving).map(|leader| leader.node.to_string());
        let wall = wall_ahead();
        // Beyond what reading two clocks one after the other can make.
        let moved = |before: i64| (before - wall).abs() > 1000;
        let seen = (status.epoch.0, leader, status.synced);
        if last.as_ref().is_none_or(|(before, at)| *before != seen || moved(*at)) {
            let (epoch, leader, synced) = seen.clone();
            shared.site.journal.write(&Event::Seen { at: now(), wall, epoch, leader, synced });
            last = Some((seen, wall));
        }
        sleep(BELIEF_INTERVAL).await;
    }
}

/// How far the wall clock of this process is ahead of the boot-time clock, in milliseconds.
fn wall_ahead() -> i64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = |at: u128| i64::try_from(at).unwrap_or(0);
    wall.map_or(0, |wall| millis(wall.as_millis())) - millis(u128::from(now()) / 1_000_000)
}

/// Takes part in the election of the one who may write.
async fn offer(shared: Arc<Shared>) {
    let timing = Timing::for_lease(Duration::from_millis(shared.args.lease_ms));
    loop {
        let child = shared.clone();
        let singleton = Singleton::builder(&shared.site.registry, "writer")
            .leader(move |lead| (Writer { shared: child.clone(), leadership: lead.leadership }, ()))
            .timing(timing)
            .start();
        match singleton.await {
            Ok(singleton) => {
                let ended = singleton.ended().await;
                tracing::warn!("the singleton has ended: {ended:?}");
            }
            Err(error) => tracing::warn!("no singleton: {error}"),
        }
        sleep(CAMPAIGN_AGAIN).await;
    }
}
