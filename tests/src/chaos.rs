//! Chaos: real processes, and everything that can be done to them, from a seed; then what they wrote down is judged.
//!
//! ```text
//! schedule ---- nemesis ----> world: processes, links, clocks, store        a seed decides what comes when
//!                               | a line for every call, answer, act and term, in boot time (event)
//! judge <-----------------------+ recordings of the cores, the sinks' counts
//! ```
//!
//! Nodes are processes of this same program (`callsign-chaos node`), which embed the library as any application does. The
//! same seed gives the same schedule. What the processes make of it differs, as on any machine.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

mod failovers;
pub mod holders;
pub mod journal;
pub mod nemesis;
pub mod node;
pub mod report;
pub mod schedule;
pub mod sink;
pub mod timeline;
pub mod world;

pub use callsign_sim::histories::{event, judge};

use self::{
    event::At,
    nemesis::{Aim, Kind},
    report::ChaosReport,
    schedule::{AtWhom, Planned, plan},
    world::{Setup, World},
};
use crate::{binary::callsign_beside, store::TestStore, wait::wait_for};

/// Tells a node whose child it is.
const PARENT: &str = "CALLSIGN_PARENT";

/// How often is looked after the processes.
const PROCESS_INTERVAL: Duration = Duration::from_millis(50);
/// Within this, and some leases, the cluster serves again once nothing is done to it any more.
const HEALED: Duration = Duration::from_secs(60);

/// What to do.
#[derive(Clone, Debug)]
pub struct ChaosOptions {
    /// For how long faults come.
    pub time: Duration,
    /// Decides the schedule.
    pub seed: u64,
    /// `sqlite`, `postgres`, `postgres-ha` or `etcd` (private, gone afterwards), or a URL.
    pub store: String,
    /// How many nodes.
    pub nodes: usize,
    /// The lease of sessions and of the singleton.
    pub lease: Duration,
    /// The kinds of faults.
    pub kinds: Vec<Kind>,
    /// A defect to plant in every node: with the feature `planted` only.
    pub plant: Option<String>,
    /// Whether each node has a network namespace of its own; proxies on loopback otherwise.
    pub netns: bool,
    /// Where everything is written. It must be empty, or not there.
    pub directory: PathBuf,
}

/// What a run says while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// Something happens.
    Line(&'a str),
    /// Faults have come for so long.
    At(Duration),
}

/// A fault that came.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// At whom.
    pub node: String,
    /// How.
    pub how: String,
    /// When it began.
    pub from: At,
    /// When it ended.
    pub to: At,
    /// Why it has not come to what it is there for, if so.
    pub lacks: Option<String>,
}

/// In a node: has the kernel kill it when the run ends, however that ends.
pub fn die_with_parent() -> Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let parent = std::env::var(PARENT).context("nodes are started by a run")?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
    if is_there { Ok(()) } else { bail!("the run has ended") }
}

/// A store by the name of its kind, whose file, if it has one, is in the directory; or the one at a URL.
pub(crate) fn place(store: &str, directory: &Path) -> Result<TestStore> {
    match store {
        "sqlite" => Ok(TestStore::file(directory)),
        "postgres" => TestStore::postgres().context("Postgres is not installed"),
        "postgres-ha" => TestStore::postgres_pair().context("Postgres is not installed"),
        "etcd" => TestStore::etcd().context("etcd is not installed"),
        url if url.contains(':') => Ok(TestStore::at(url)),
        other => bail!("--store {other:?}: sqlite, postgres, postgres-ha, etcd, or a URL"),
    }
}

/// Makes the directory of a run, which must be empty if it is there.
pub(crate) fn make_directory(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).context("the directory cannot be made")?;
    if std::fs::read_dir(directory)?.next().is_some() {
        bail!("{} is not empty", directory.display());
    }
    Ok(())
}

/// Runs, and judges. `say` is told what happens meanwhile.
pub fn run(options: &ChaosOptions, say: &mut dyn FnMut(Said<'_>)) -> Result<ChaosReport> {
    make_directory(&options.directory)?;
    let program = std::env::current_exe().context("a running program has a file")?;
    let mut missing = Vec::new();
    let callsign = callsign_beside(&program);
    if callsign.is_none() {
        missing.push(
            "not done: `callsign hold` under faults: `callsign` was not built beside this program".to_owned(),
        );
    }
    let setup = Setup {
        nodes: options.nodes,
        lease: options.lease,
        seed: options.seed,
        clocks: options.kinds.contains(&Kind::Clock),
        plant: options.plant.clone(),
        netns: options.netns,
        program,
        records: true,
        callsign,
        arguments: Vec::new(),
    };
    let mut world = World::new(&options.directory, place(&options.store, &options.directory)?, setup)?;
    let mut kinds = options.kinds.clone();
    kinds.retain(|kind| match kind.missing(&world) {
        // Everybody knows that: it is not said of a run that asks for everything.
        Some(_) if kind.is_of_a_store() && options.kinds == Kind::ALL => false,
        Some(why) => {
            missing.push(format!("not done: {}: {why}", kind.name()));
            false
        }
        None => true,
    });
    let planned = plan(options.seed, options.time, options.lease, &kinds, options.nodes);
    for name in world.names() {
        world.launch(&name);
    }
    let from = journal::now();
    let faults = inflict(&mut world, &planned, options.time, say);
    say(Said::Line("healed: waiting until everything serves again"));
    let came_back =
        settle(&world, patience(options.lease)).and_then(|()| world.await_holder(patience(options.lease)));
    let to = journal::now();
    world.end()?;
    if let Err(why) = came_back {
        world.breaches.push(why);
    }
    say(Said::Line("judging what was written down"));
    report::make(options, &world, (&kinds, &faults), planned.len(), missing, (from, to))
}

/// Does what is planned, when it is time.
fn inflict(
    world: &mut World,
    planned: &[Planned],
    time: Duration,
    say: &mut dyn FnMut(Said<'_>),
) -> Vec<Fault> {
    let start = Instant::now();
    let mut coming = planned.iter().peekable();
    let mut lasting: Vec<(Duration, Aim, Fault)> = Vec::new();
    let mut over = Vec::new();
    loop {
        let at = start.elapsed();
        say(Said::At(at));
        while let Some(index) = lasting.iter().position(|(until, ..)| *until <= at) {
            let (_, aim, mut fault) = lasting.remove(index);
            fault.lacks = fault.kind.came(world, &aim).err();
            fault.kind.end(world, &aim);
            fault.to = journal::now();
            over.push(fault);
        }
        // What hits all has nothing beside it, also where it takes its time to be undone and the next one is late.
        while let Some(next) =
            coming.next_if(|next| next.at <= at && !lasting.iter().any(|(_, _, fault)| fault.kind.hits_all()))
        {
            // What is not there or stands still is not aimed at again.
            let busy: BTreeSet<_> = lasting
                .iter()
                .filter(|(_, _, fault)| fault.kind.takes_the_process())
                .map(|(_, aim, _)| aim.node.clone())
                .collect();
            let Some(aim) = aim(world, next, &busy) else { continue };
            let how = next.kind.begin(world, &aim);
            let (from, node) = (journal::now(), aim.node.clone());
            let line = format!("{:7.2} s  {} {node}: {how}", at.as_secs_f64(), next.kind.name());
            say(Said::Line(&line));
            let fault = Fault { kind: next.kind, node, how, from, to: from, lacks: None };
            lasting.push((at + next.lasts, aim, fault));
        }
        for (_, aim, fault) in &lasting {
            fault.kind.go_on(world, aim);
        }
        let leaving = lasting.iter().filter(|(_, _, fault)| fault.kind == Kind::Restart);
        world.look(&leaving.map(|(_, aim, _)| aim.node.clone()).collect());
        if at >= time && lasting.is_empty() && coming.peek().is_none() {
            return over;
        }
        thread::sleep(PROCESS_INTERVAL);
    }
}

fn aim(world: &World, planned: &Planned, busy: &BTreeSet<String>) -> Option<Aim> {
    let names = world.names();
    let meant = match planned.at_whom {
        AtWhom::Any => None,
        AtWhom::Leader => world.leader(),
        AtWhom::Singleton => world.writer(),
        AtWhom::Holder => world.holder(),
    };
    let mut order: Vec<_> = planned.order.iter().filter_map(|index| names.get(*index).cloned()).collect();
    order.sort_by_key(|name| Some(name) != meant.as_ref());
    let at = order.iter().position(|name| !busy.contains(name))?;
    let node = order.remove(at);
    Some(Aim { node, others: order, draw: planned.draw })
}

/// How long everything may take to come back once nothing is done any more.
pub(crate) fn patience(lease: Duration) -> Duration {
    HEALED + lease * 6
}

/// Nothing is done any more: everything comes back, what is to be kept is held, and everybody reads it. If not within
/// this patience each, says what is missing.
pub fn settle(world: &World, patience: Duration) -> Result<(), String> {
    world.links.heal_all();
    for (state, tell) in [(node::QUIET, World::quieten as fn(&World)), (node::DONE, World::read_all)] {
        // Again and again: who has just been started may not listen yet.
        let mut told = None;
        let is = wait_for(patience, || {
            if told.is_none_or(|at: Instant| at.elapsed() > Duration::from_secs(1)) {
                tell(world);
                told = Some(Instant::now());
            }
            thread::sleep(PROCESS_INTERVAL);
            world.all_are(state).then_some(())
        });
        if is.is_none() {
            return Err(format!("P8: not all are {state:?} within {patience:?} after the last fault"));
        }
    }
    Ok(())
}
