//! What is measured, in order.

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

use super::{
    Failovers, Figures, Notes,
    cluster::{BenchCluster, Setting},
    failover, for_each, ms, none_failed,
    orders::{Contested, Done, Lookups, Names, Order, ProcessUsage, Registered, Sequential},
    per_second,
};
use crate::measure::{now_ns, quantile};

/// Names that two nodes claim at once.
const CONTESTED: u32 = 5_000;

/// How many of them each claims at once.
const CLAIMS: u32 = 16;

/// Registrations one after the other.
const SAMPLES: u32 = 500;

/// Rounds of lookups, and how many of each kind in a round: two million and more of each.
const CONTESTED_ROUNDS: u32 = 50;
const LOOKUPS: u32 = 40_000;

/// From an order to the moment at which it is obeyed by all at once, in nanoseconds.
pub(super) const LEAD: u64 = 100_000_000;

/// How many steps [`failovers`] has, and [`measure`].
pub(super) const STEPS_OF_FAILOVERS: u64 = failover::STEPS + failover::STEPS_OF_SILENCE;
pub(super) const STEPS: u64 = 2 * failover::STEPS + 5;

/// What it takes until the next registration, when the leader is killed and when it falls silent.
pub(super) fn failovers(setting: &Setting) -> Result<Failovers> {
    setting.begin("failover at 1000 names");
    let mut cluster = BenchCluster::start(setting, 1000)?;
    register_all(&mut cluster, 1000)?;
    let killed = failover::measure(&mut cluster, 1000)?;
    setting.begin("the leader falls silent");
    let stopped = failover::measure_silence(&mut cluster)?;
    Ok(Failovers { after_sigkill_ms: killed, after_sigstop_ms: stopped })
}

pub(super) fn measure(setting: &Setting, names: u32, figures: &mut Figures, notes: &mut Notes) -> Result<()> {
    setting.begin("failover at 1000 names");
    let mut small = BenchCluster::start(setting, 1000)?;
    register_all(&mut small, 1000)?;
    notes.failovers_1k = failover::measure(&mut small, 1000)?;
    figures.failover_ms_1k = median(&notes.failovers_1k)?;
    drop(small);

    let mut cluster = BenchCluster::start(setting, names)?;
    let observer = setting.workers as usize;
    setting.begin(&format!("{names} registrations"));
    let before: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    let took = register_all(&mut cluster, names)?;
    let after: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    figures.registrations_per_s = per_second(names, took)?;
    figures.cpu_us_per_registration = cpu_for_each(&before, &after, names)?;
    figures.bytes_per_name = for_each(before[observer].memory_bytes, after[observer].memory_bytes, names)?;
    let mut count = names as usize;

    setting.begin(&format!("a new node that joins {count} names"));
    figures.join_ms = ms(cluster.add("joiner", None, Some(count), false)?);
    // It is not needed any more, and leaves no names.
    cluster.nodes.pop();

    setting.begin("lookups");
    look_up(&mut cluster, figures)?;
    setting.begin(&format!("{CONTESTED} names claimed by two nodes at once"));
    contest(&mut cluster, figures)?;
    count += CONTESTED as usize;
    cluster.await_count(count)?;
    setting.begin("registrations one after the other");
    sequential(&mut cluster, figures)?;
    count += 2 * SAMPLES as usize;
    cluster.await_count(count)?;

    setting.begin(&format!("failover at {count} names"));
    notes.failovers_n = failover::measure(&mut cluster, count)?;
    figures.failover_ms_n = median(&notes.failovers_n)?;
    Ok(())
}

/// Microseconds of CPU of all processes for each of so many.
pub(super) fn cpu_for_each(before: &[ProcessUsage], after: &[ProcessUsage], count: u32) -> Result<f64> {
    let cpu = |usages: &[ProcessUsage]| usages.iter().map(|usage| usage.cpu_us).sum();
    for_each(cpu(before), cpu(after), count)
}

/// Only registrations one after the other.
pub(super) fn latency(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let mut cluster = BenchCluster::start(setting, 1000)?;
    setting.begin("registrations one after the other");
    sequential(&mut cluster, figures)
}

pub(super) fn median(runs: &[f64]) -> Result<f64> {
    quantile(&mut runs.to_vec(), 0.5).context("nothing was measured")
}

/// All workers register their names, from the same moment on. Returns the nanoseconds
/// until every name is acknowledged, and every node knows it.
pub(super) fn register_all(cluster: &mut BenchCluster<'_>, names: u32) -> Result<u64> {
    register_shares(cluster, names as usize, 0)
}

/// The same, with so many bytes of metadata for each name. `count`: how many names each node knows in the end.
pub(super) fn register_shares(cluster: &mut BenchCluster<'_>, count: usize, meta: usize) -> Result<u64> {
    let names: u32 = cluster.nodes.iter().filter_map(|node| node.share.as_ref()).map(Names::len).sum();
    let in_flight = cluster.setting.in_flight;
    let order = |names, start_ns| Order::Register { names, meta, spared: 0, in_flight, start_ns };
    let (start, mut done, all) = on_shares::<Registered>(cluster, count, order)?;
    let mut acknowledged = 0;
    for registered in all {
        none_failed(&registered.failed)?;
        acknowledged += registered.acknowledged;
        done = done.max(registered.done_ns);
    }
    ensure!(acknowledged == names, "{acknowledged} of {names} registrations were acknowledged");
    Ok(done.saturating_sub(start))
}

/// Every node with a share does something with its names, all from the same moment on. Returns that moment, the one at which every
/// node knows so many names, and what they report.
pub(super) fn on_shares<T: DeserializeOwned>(
    cluster: &mut BenchCluster<'_>,
    count: usize,
    order: impl Fn(Names, u64) -> Order,
) -> Result<(u64, u64, Vec<T>)> {
    let start = now_ns() + LEAD;
    let mut given = Vec::new();
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        if let Some(names) = node.share.clone() {
            given.push((index, node.give(order(names, start))?));
        }
    }
    let known = cluster.await_count(count)?;
    let reports = given.iter().map(|(index, given)| cluster.nodes[*index].report(given));
    Ok((start, known, reports.collect::<Result<_>>()?))
}

/// Spawns an actor for each name of each share, or as many as a node is to have at most.
pub(super) fn spawn_shares(cluster: &mut BenchCluster<'_>) -> Result<()> {
    let most = cluster.setting.actors;
    cluster
        .on_all::<()>(|node| Order::Spawn { actors: node.share.as_ref().map_or(0, Names::len).min(most) })?;
    Ok(())
}

/// The actors that were spawned for the names of the shares are registered, or their names unregistered: `order` says which. Returns the
/// nanoseconds until each call is answered and every node knows so many names, and how long single calls took, in microseconds.
pub(super) fn each_of_shares(
    cluster: &mut BenchCluster<'_>,
    count: usize,
    order: impl Fn(Names, u64) -> Order,
) -> Result<(u64, Vec<f64>)> {
    let (start, known, all) = on_shares::<Done>(cluster, count, order)?;
    let done = all.iter().map(|done| done.done_ns).fold(known, u64::max);
    let took = all.into_iter().flat_map(|done| done.took_us).collect();
    Ok((done.saturating_sub(start), took))
}

fn look_up(cluster: &mut BenchCluster<'_>, figures: &mut Figures) -> Result<()> {
    let share = |index: usize| cluster.nodes[index].share.clone().context("a worker has no names");
    let (local, remote) = (share(0)?, share(1)?);
    let order = Order::LookUp { local, remote, rounds: CONTESTED_ROUNDS, each: LOOKUPS };
    let lookups: Lookups = cluster.nodes[0].order(order)?;
    figures.lookup_local_ns = lookups.local;
    figures.lookup_remote_ns = lookups.remote;
    figures.dashmap_get_ns = lookups.bare;
    Ok(())
}

/// Two workers claim the same names from the same moment on. Each has to be granted to exactly one of them.
fn contest(cluster: &mut BenchCluster<'_>, figures: &mut Figures) -> Result<()> {
    let names = Names { prefix: "contested/".into(), from: 0, to: CONTESTED };
    let order = Order::Contest { names: names.clone(), in_flight: CLAIMS, start_ns: now_ns() + LEAD };
    let [first, second] = [0, 1].map(|index| cluster.nodes[index].give(order.clone()));
    let mut granted = vec![Vec::new(); CONTESTED as usize];
    for (index, given) in [first?, second?].iter().enumerate() {
        let contested: Contested = cluster.nodes[index].report(given)?;
        none_failed(&contested.failed)?;
        for number in &contested.granted {
            granted[*number as usize].push(cluster.nodes[index].name.clone());
        }
        cluster.nodes[index].others += contested.granted.len();
    }
    figures.contested = CONTESTED;
    figures.double_grants = u32::try_from(granted.iter().filter(|to| to.len() > 1).count())?;
    if granted.iter().any(Vec::is_empty) {
        bail!("some contested names were granted to neither");
    }
    if figures.double_grants > 0 {
        return Ok(());
    }
    let holders: Vec<Option<String>> = granted.into_iter().map(|mut to| to.pop()).collect();
    // Both had a verdict on every name, so both replicas are at the last of them.
    for index in [0, 1] {
        let known: Vec<Option<String>> =
            cluster.nodes[index].order(Order::Holders { names: names.clone() })?;
        ensure!(known == holders, "a contested name is held by another node than it was granted to");
    }
    Ok(())
}

/// One registration after the other, on an otherwise idle cluster: on a worker that does not lead, and on the leader.
fn sequential(cluster: &mut BenchCluster<'_>, figures: &mut Figures) -> Result<()> {
    let leader = cluster.leader()?;
    let follower = usize::from(leader == 0);
    for (index, prefix) in [(follower, "one-by-one/follower-"), (leader, "one-by-one/leader-")] {
        let names = Names { prefix: prefix.into(), from: 0, to: SAMPLES };
        let store = cluster.setting.store.clone();
        let times: Sequential = cluster.nodes[index].order(Order::Sequential { names, store, echo: None })?;
        cluster.nodes[index].others += SAMPLES as usize;
        if index == follower {
            figures.register_p50_us = times.register_p50;
            figures.register_p99_us = times.register_p99;
            figures.commit_p50_us = times.commit_p50;
        } else {
            figures.register_on_leader_p50_us = times.register_p50;
            figures.register_on_leader_p99_us = times.register_p99;
            figures.commit_on_leader_p50_us = times.commit_p50;
        }
    }
    Ok(())
}
