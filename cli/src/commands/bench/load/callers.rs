//! Registrations, and unregistrations of the same names, by so many callers at once.

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Order, ProcessUsage},
        per_second,
        phases::{cpu_for_each, each_of_shares, spawn_shares},
    },
    row,
};
use crate::measure::{quantile, rounded};

/// One caller at a time would take hours to register millions of names.
const NAMES_OF_A_CALLER: u32 = 10_000;

/// The figures of one number of callers.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Asked {
    /// Calls that each worker has under way at once.
    callers: u32,
    /// Names that were registered, by all workers: fewer for few callers.
    names: u32,
    /// Acknowledged, and known to every node.
    registrations_per_s: f64,
    /// Of all processes.
    cpu_us_per_registration: f64,
    register_p50_us: f64,
    register_p99_us: f64,
    register_longest_us: f64,
    /// Commits of the leader: batches, and cuts of the log.
    commits_per_registration: f64,
    /// What all processes caused to be written to files, in whole pages. A server's own writes are not in it.
    written_bytes_per_registration: Option<f64>,
    /// Of all processes, to read and to write; those of sockets are mostly others.
    system_calls_per_registration: Option<f64>,
    /// Voluntary ones, of all threads of all processes.
    switches_per_registration: Option<f64>,
    unregistrations_per_s: f64,
    cpu_us_per_unregistration: f64,
}

pub(super) fn measure(setting: &Setting, names: u32, callers: u32) -> Result<Asked> {
    let names = names.min(callers.saturating_mul(setting.workers).saturating_mul(NAMES_OF_A_CALLER));
    let mut cluster = BenchCluster::start(setting, names)?;
    setting.begin(&format!("{names} actors"));
    spawn_shares(&mut cluster)?;
    setting.begin(&format!("{names} registrations, {callers} under way on each worker"));
    let usage = |cluster: &mut BenchCluster<'_>| cluster.on_all::<ProcessUsage>(|_| Order::Usage);
    let before = usage(&mut cluster)?;
    let register = |names, start_ns| Order::RegisterEach { names, in_flight: callers, start_ns };
    let (registering, mut took) = each_of_shares(&mut cluster, names as usize, register)?;
    let registered = usage(&mut cluster)?;
    setting.begin(&format!("{names} unregistrations"));
    let unregister = |names, start_ns| Order::UnregisterEach { names, in_flight: callers, start_ns };
    let (unregistering, _) = each_of_shares(&mut cluster, 0, unregister)?;
    let unregistered = usage(&mut cluster)?;

    let commits = |usages: &[ProcessUsage]| usages.iter().map(|usage| usage.commits).sum::<u64>();
    let commits = commits(&registered) - commits(&before);
    let grown = |of: fn(&ProcessUsage) -> Option<u64>| {
        let sum = |usages: &[ProcessUsage]| usages.iter().map(of).sum::<Option<u64>>();
        let both = sum(&before).zip(sum(&registered));
        // A thread that has ended takes its counters along.
        both.map(|(before, after)| share(after.saturating_sub(before), names))
    };
    let mut of = |share| quantile(&mut took, share).map(rounded).context("nothing was registered");
    Ok(Asked {
        callers,
        names,
        registrations_per_s: per_second(names, registering)?,
        cpu_us_per_registration: cpu_for_each(&before, &registered, names)?,
        register_p50_us: of(0.5)?,
        register_p99_us: of(0.99)?,
        register_longest_us: of(1.0)?,
        commits_per_registration: fine(share(commits, names)),
        written_bytes_per_registration: grown(|usage| usage.written_bytes).map(rounded),
        system_calls_per_registration: grown(|usage| usage.system_calls).map(fine),
        switches_per_registration: grown(|usage| usage.switches).map(fine),
        unregistrations_per_s: per_second(names, unregistering)?,
        cpu_us_per_unregistration: cpu_for_each(&registered, &unregistered, names)?,
    })
}

#[expect(clippy::cast_precision_loss)] // a few decimals are kept
fn share(count: u64, names: u32) -> f64 {
    count as f64 / f64::from(names)
}

/// A batch has hundreds of registrations: one decimal would be none.
fn fine(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Asked) -> Vec<Vec<String>> {
    let Asked { callers, names, .. } = figures;
    let Asked { register_p99_us: p99, register_longest_us: longest, .. } = figures;
    let written = figures.written_bytes_per_registration;
    let written = written.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0} bytes written to files"));
    let or_unknown = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    let switches = or_unknown(figures.switches_per_registration);
    vec![
        row(
            format!("registrations by {callers} callers on each worker"),
            format!("{:.0} /s", figures.registrations_per_s),
            format!("{names} names, each with an actor of its own"),
        ),
        row(
            "  one of them: p50",
            format!("{} us", figures.register_p50_us),
            format!("p99 {p99} us, the longest {longest} us"),
        ),
        row("  CPU, all processes", format!("{} us", figures.cpu_us_per_registration), ""),
        row("  commits for each", figures.commits_per_registration.to_string(), written),
        row(
            "  system calls for each, to read and to write",
            or_unknown(figures.system_calls_per_registration),
            format!("voluntary switches of threads: {switches}"),
        ),
        row(
            "  unregistrations",
            format!("{:.0} /s", figures.unregistrations_per_s),
            format!("{} us of CPU each", figures.cpu_us_per_unregistration),
        ),
    ]
}
