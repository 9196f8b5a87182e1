//! What nodes need while nothing happens: nobody registers, joins or leaves.

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Order, ProcessUsage},
    },
    row,
};
use crate::measure::{micros, now_ns, rounded};

/// What the nodes still do after a start is over by then.
const SETTLING: Duration = Duration::from_secs(5);

/// The figures, of a cluster that has no names.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Resting {
    seconds: u32,
    /// The share of a processor that one node takes, on average of all.
    idle_cpu_percent: f64,
    /// That of the node which takes most.
    idle_cpu_percent_most: f64,
    /// Of one node, to read and to write.
    idle_system_calls_per_s: Option<f64>,
    /// Voluntary ones, of the threads of one node.
    idle_switches_per_s: Option<f64>,
}

pub(super) fn measure(setting: &Setting, seconds: u32) -> Result<Resting> {
    setting.begin(&format!("{seconds} s in which nothing happens"));
    let mut cluster = BenchCluster::start(setting, 0)?;
    cluster.leader()?;
    thread::sleep(SETTLING);
    let usage = |cluster: &mut BenchCluster<'_>| cluster.on_all::<ProcessUsage>(|_| Order::Usage);
    let (before, start) = (usage(&mut cluster)?, now_ns());
    thread::sleep(Duration::from_secs(seconds.into()));
    let (after, end) = (usage(&mut cluster)?, now_ns());

    let took_s = micros(end - start) / 1e6;
    let nodes = f64::from(u32::try_from(after.len())?);
    let pairs = || before.iter().zip(&after);
    // Microseconds a second: ten thousand of them are a hundredth of a processor.
    let percent = |cpu_us: u64| a_second(cpu_us, took_s) / 1e4;
    let shares: Vec<f64> =
        pairs().map(|(before, after)| percent(after.cpu_us.saturating_sub(before.cpu_us))).collect();
    let grown = |of: fn(&ProcessUsage) -> Option<u64>| {
        let each = pairs().map(|(before, after)| Some(of(after)?.saturating_sub(of(before)?)));
        each.sum::<Option<u64>>().map(|grown| rounded(a_second(grown, took_s) / nodes))
    };
    Ok(Resting {
        seconds,
        idle_cpu_percent: fine(shares.iter().sum::<f64>() / nodes),
        idle_cpu_percent_most: fine(shares.into_iter().reduce(f64::max).context("there are no nodes")?),
        idle_system_calls_per_s: grown(|usage| usage.system_calls),
        idle_switches_per_s: grown(|usage| usage.switches),
    })
}

#[expect(clippy::cast_precision_loss)] // a few decimals are kept
fn a_second(count: u64, took_s: f64) -> f64 {
    count as f64 / took_s
}

/// One decimal would be none of a tenth of a percent.
fn fine(percent: f64) -> f64 {
    (percent * 1e3).round() / 1e3
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Resting) -> Vec<Vec<String>> {
    let Resting { seconds, idle_cpu_percent_most: most, .. } = figures;
    let or_unknown = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    vec![
        row(
            format!("{seconds} s in which nothing happens, CPU of each node"),
            format!("{} % of a processor", figures.idle_cpu_percent),
            format!("{most} % on the node that takes most"),
        ),
        row(
            "  system calls of each node, to read and to write",
            format!("{} /s", or_unknown(figures.idle_system_calls_per_s)),
            format!("voluntary switches of threads: {} /s", or_unknown(figures.idle_switches_per_s)),
        ),
    ]
}
