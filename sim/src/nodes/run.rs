//! One seed, from its start to its verdict.
#![allow(clippy::disallowed_methods)] // time passes here

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use callsign::Registry;

use super::{
    counts::NodeCounts,
    life::Life,
    nemesis::{Kind, heal, torment},
    plan::{RunPlan, STANDARD},
    queues::Queues,
    second::Second,
    world::{NodesWorld, Phase},
};
use crate::{
    histories::{
        Journal,
        acting::Acting,
        event::Event,
        judge::{ProcessHistory, judge},
    },
    recording::check_messages,
};

/// Within this, and a few leases, all nodes serve again after everything is healed.
const HEALED: Duration = Duration::from_secs(30);
/// In every seed of this number nodes record what they do: for what no client sees.
const RECORDED: u64 = 10;
/// Between two looks.
const REST_INTERVAL: Duration = Duration::from_millis(200);

/// What a seed came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// What must not be, and was.
    pub breaches: Vec<String>,
    /// Stands for everything that happened.
    pub hash: u64,
    /// How many lines that were.
    pub lines: u64,
    /// How many seconds of virtual time.
    pub seconds: f64,
    /// How many calls were made.
    pub calls: u64,
    /// How many faults were drawn.
    pub faults: u64,
    /// How often each was met at an edge.
    pub met: BTreeMap<String, u64>,
    /// How often each check was exercised.
    pub checked: BTreeMap<String, u64>,
    /// How often each call had each answer.
    pub answers: BTreeMap<String, u64>,
    /// Names whose calls were too many at a time to be put in order.
    pub not_ordered: usize,
    /// The trace, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs a seed, without a kind of fault if one is named. Only the first run of a process means what the seed says: `ractor` numbers actors for all of it.
///
/// # Panics
/// If there is no runtime to be had.
pub fn run(seed: u64, without: Option<Kind>, keeps_trace: bool) -> SeedOutcome {
    let records =
        seed.is_multiple_of(RECORDED).then(|| tempfile::tempdir().expect("there is room for files"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread needs no more than memory");
    let (plan, counts) = (RunPlan { without, ..RunPlan::of(seed) }, NodeCounts::default());
    let dir = records.as_ref().map(|records| records.path().to_owned());
    let whole = || runtime.block_on(whole(plan, keeps_trace, dir, counts.clone()));
    let mut outcome = metrics::with_local_recorder(&Queues::new(&counts), whole);
    if let Some(records) = &records {
        // All of it is written once no part of a node is left.
        drop(runtime);
        match check_messages(records.path()) {
            Ok(count) => {
                let checked = &mut outcome.checked;
                checked.insert("messages at the incarnation for which they were asked".to_owned(), count);
            }
            Err(error) => outcome.breaches.push(format!("SentAsAsked: {error}")),
        }
    }
    outcome
}

async fn whole(
    plan: RunPlan,
    keeps_trace: bool,
    records: Option<PathBuf>,
    counts: NodeCounts,
) -> SeedOutcome {
    let world = NodesWorld::new(plan.clone(), keeps_trace, records, counts);
    world.say(&format!("{plan:?}"));
    let faults = torment(&world).await;
    heal(&world);
    rest(&world).await;
    let processes: Vec<ProcessHistory> = world
        .lives()
        .iter()
        .map(|life| ProcessHistory::new(&life.node, life.killed(), life.take_events()))
        .collect();
    let verdict = judge(&processes);
    let beside = judge(&in_second(&world));
    let mut breaches = world.breaches();
    for (words, verdict) in [("", &verdict), ("in the second registry: ", &beside)] {
        for breach in &verdict.breaches {
            world.say(&format!("BREACH {words}{breach}"));
            breaches.push(format!("{words}{breach}"));
        }
    }
    let (hash, lines) = world.trace.sum();
    let verdicts = [&verdict, &beside];
    let answers = verdicts.iter().flat_map(|verdict| &verdict.answers);
    let answers = answers.map(|((ask, told), count)| (format!("{ask}: {told}"), *count));
    let counts = world.counts.checks();
    let checked = verdicts.iter().flat_map(|verdict| &verdict.checked).chain(&counts);
    SeedOutcome {
        seed: plan.seed,
        breaches,
        hash,
        lines,
        seconds: world.begin.elapsed().as_secs_f64(),
        calls: verdicts.iter().flat_map(|verdict| verdict.answers.values()).sum(),
        faults,
        met: world.counts.faults().into_iter().map(|(what, count)| (what.to_owned(), count)).collect(),
        checked: summed(checked.map(|(what, count)| ((*what).to_owned(), *count))),
        answers: summed(answers),
        not_ordered: verdicts.iter().map(|verdict| verdict.not_ordered.len()).sum(),
        trace: world.trace.lines(),
    }
}

/// What was written down in the second registry, for each life of a node that joined it.
fn in_second(world: &NodesWorld) -> Vec<ProcessHistory> {
    let seconds = world.seconds();
    let process = |second: &Arc<Second>| {
        ProcessHistory::new(&second.life.node, second.life.killed(), second.take_events())
    };
    seconds.iter().map(process).collect()
}

/// What is counted twice is added up.
fn summed(counts: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (what, count) in counts {
        *sums.entry(what).or_default() += count;
    }
    sums
}

/// After everything is healed: all serve, hold what they are to keep, and find it.
async fn rest(world: &Arc<NodesWorld>) {
    let bound = HEALED + world.plan.lease * 4;
    if !serves(world, bound).await || !serves_second(world, bound).await {
        return;
    }
    let left = STANDARD.saturating_sub(world.begin.elapsed());
    sleep(left).await;
    world.enter(Phase::Rest);
    let is = |event: &Event| matches!(event, Event::Quiet { .. });
    if !all(world, bound, "hold what they are to keep", is).await {
        return;
    }
    sleep(Duration::from_secs(1)).await;
    world.enter(Phase::Check);
    if all(world, bound, "find all that is kept", |event| matches!(event, Event::Done { .. })).await {
        are_alike(world, bound).await;
    }
}

/// P5: once nobody asks for anything, all replicas come to hold the same names under the same tokens.
async fn are_alike(world: &Arc<NodesWorld>, bound: Duration) {
    let until = world.begin.elapsed() + bound;
    let lives: Vec<_> = (0..world.plan.nodes).map(|index| world.place(index).life).collect();
    let firsts = lives.iter().map(|life| life.registry.get().cloned());
    let seconds = lives.iter().map(|life| second_of(world, life).map(|second| second.registry.clone()));
    for replicas in [firsts.collect::<Vec<_>>(), seconds.collect()] {
        // There may be no second registry.
        let replicas: Vec<_> = replicas.into_iter().flatten().collect();
        let Some((first, others)) = replicas.split_first() else { continue };
        for other in others {
            while names(first).is_none() || names(first) != names(other) {
                if world.begin.elapsed() > until {
                    world.breach(unlike(first, other, bound));
                    return;
                }
                sleep(REST_INTERVAL).await;
            }
            world.counts.checked("replicas that are alike in the end", 1);
        }
    }
}

/// How two replicas differ.
fn unlike(first: &Registry, other: &Registry, bound: Duration) -> String {
    let (ours, theirs) = (names(first).unwrap_or_default(), names(other).unwrap_or_default());
    let differ: Vec<_> = ours.iter().filter(|name| !theirs.contains(name)).collect();
    let instead: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).collect();
    let (one, two) = (first.node(), other.node());
    format!("P5: {one} has {differ:?}, and {two} has {instead:?} instead, {bound:?} after rest")
}

/// What a replica says, in the order of the names: none, if it says nothing or changes meanwhile.
fn names(registry: &Registry) -> Option<Vec<(String, u64)>> {
    let mut names = registry.names().ok()?;
    names.sort_unstable();
    let entry = |name: &callsign::Name| Some((name.to_string(), registry.lookup(name).ok()??.token().0));
    names.iter().map(entry).collect()
}

/// P8: all nodes serve within the bound.
async fn serves(world: &Arc<NodesWorld>, bound: Duration) -> bool {
    let until = world.begin.elapsed() + bound;
    for index in 0..world.plan.nodes {
        let life = world.place(index).life;
        let joined = async {
            while life.registry.get().is_none() {
                sleep(REST_INTERVAL).await;
            }
        };
        let left = until.saturating_sub(world.begin.elapsed());
        if tokio::time::timeout(left, joined).await.is_err() {
            world.breach(format!("P8: {} has not joined {bound:?} after all was healed", life.who));
            return false;
        }
        let left = until.saturating_sub(world.begin.elapsed());
        let Some(registry) = life.registry.get() else { continue };
        if registry.ready(left).await.is_err() {
            let status = registry.status();
            world.breach(format!(
                "P8: {} does not serve {bound:?} after all was healed: {status:?}",
                life.who
            ));
            return false;
        }
        world.counts.checked("nodes that serve after all was healed", 1);
        let Some(beside) = life.beside.get() else { continue };
        if !registers(beside, &life, until).await {
            let status = beside.status();
            let who = &life.who;
            world.breach(format!("P8: the registry that {who} joined beside takes no name: {status:?}"));
            return false;
        }
        world.counts.checked("registries joined beside that serve in the end", 1);
    }
    true
}

/// P8: all nodes serve their second registry within the bound, if they have one.
async fn serves_second(world: &Arc<NodesWorld>, bound: Duration) -> bool {
    let until = world.begin.elapsed() + bound;
    let nodes = if world.plan.registries > 1 { world.plan.nodes } else { 0 };
    for index in 0..nodes {
        let life = world.place(index).life;
        let ready = async {
            loop {
                match second_of(world, &life) {
                    Some(second) if second.registry.ready(bound).await.is_ok() => return,
                    _ => sleep(REST_INTERVAL).await,
                }
            }
        };
        let left = until.saturating_sub(world.begin.elapsed());
        if tokio::time::timeout(left, ready).await.is_err() {
            let status = second_of(world, &life).map(|second| second.registry.status());
            let who = &life.who;
            world.breach(format!("P8: {who} does not serve its second registry {bound:?} later: {status:?}"));
            return false;
        }
        world.counts.checked("nodes that serve their second registry after all was healed", 1);
    }
    true
}

/// A life in the second registry, if it has joined it.
fn second_of(world: &NodesWorld, life: &Life) -> Option<Arc<Second>> {
    world.seconds().into_iter().find(|second| second.is_of(life))
}

/// Whether a registry takes a name, within the time that is left.
async fn registers(registry: &Registry, life: &Arc<Life>, until: Duration) -> bool {
    let journal: Arc<dyn Journal> = life.clone();
    let Ok(acting) = Acting::spawn(0, Duration::from_secs(3600), &journal).await else { return false };
    let now = || Duration::from_nanos(journal.now());
    while now() < until {
        if registry.register(&life.who, &acting.actor).await.is_ok() {
            return true;
        }
        sleep(REST_INTERVAL).await;
    }
    false
}

/// P8: all nodes come so far within the bound.
async fn all(world: &Arc<NodesWorld>, bound: Duration, what: &str, has: impl Fn(&Event) -> bool) -> bool {
    let until = world.begin.elapsed() + bound;
    for index in 0..world.plan.nodes {
        let life = world.place(index).life;
        let second = second_of(world, &life);
        while !life.has_written(&has) || second.as_ref().is_some_and(|second| !second.has_written(&has)) {
            if world.begin.elapsed() > until {
                world.breach(format!("P8: {} does not {what} within {bound:?} of rest", life.who));
                return false;
            }
            sleep(REST_INTERVAL).await;
        }
    }
    true
}
