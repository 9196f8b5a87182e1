//! What watches cost whoever registers, and how late they are.

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        for_each,
        orders::{Names, Order, ProcessUsage},
        per_second,
        phases::{median, register_all},
    },
    row,
};
use crate::measure::rounded;

/// Rounds, each with all numbers of readers.
const ROUNDS: usize = 4;
/// How many steps it has.
pub(super) const STEPS: u64 = ROUNDS as u64 + 1;
/// Numbers of readers on the observer.
const READERS: [u32; 3] = [0, 1, 10];
/// Names that are watched one by one.
const SAMPLES: u32 = 500;

/// The figures. Ratios are medians over the rounds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Watches {
    with_1_watch_ratio: f64,
    with_10_watches_ratio: f64,
    cpu_us_per_event_and_watch: f64,
    /// How often, in all rounds together, one of the readers was too slow, or had to begin anew.
    gaps: u64,
    /// Of an event on another node, behind the acknowledgement.
    event_behind_p50_us: f64,
}

pub(super) fn measure(setting: &Setting, names: u32) -> Result<Watches> {
    let [mut with_1, mut with_10, mut cpus] = [const { Vec::new() }; 3];
    let mut gaps = 0;
    for round in 0..ROUNDS {
        setting.begin(&format!("{names} registrations without watches, with 1 and with 10"));
        let mut rates = [0.0; READERS.len()];
        let mut cpu = [0; READERS.len()];
        // Each kind comes first as often as the others. A node that was watched remembers for a while: each has a cluster of its own.
        for turn in 0..READERS.len() {
            let which = (round + turn) % READERS.len();
            let had;
            (rates[which], cpu[which], had) = one(setting, names, READERS[which])?;
            gaps += had;
        }
        with_1.push(rates[1] / rates[0]);
        with_10.push(rates[2] / rates[0]);
        cpus.push(for_each(cpu[1], cpu[2], names * (READERS[2] - READERS[1]))?);
    }
    let ratio = |ratios: &[f64]| anyhow::Ok((median(ratios)? * 1000.0).round() / 1000.0);
    Ok(Watches {
        with_1_watch_ratio: ratio(&with_1)?,
        with_10_watches_ratio: ratio(&with_10)?,
        cpu_us_per_event_and_watch: median(&cpus)?,
        gaps,
        event_behind_p50_us: behind(setting)?,
    })
}

/// The rate of registrations, the microseconds of CPU of the node that has the watches, and how many gaps their readers had.
fn one(setting: &Setting, names: u32, readers: u32) -> Result<(f64, u64, u64)> {
    let mut cluster = BenchCluster::start(setting, names)?;
    let watched = setting.workers as usize;
    cluster.nodes[watched].order::<()>(Order::Watch { readers })?;
    let before: ProcessUsage = cluster.nodes[watched].order(Order::Usage)?;
    let took = register_all(&mut cluster, names)?;
    let gaps = cluster.nodes[watched].order(Order::Watched { names: names.into() })?;
    let after: ProcessUsage = cluster.nodes[watched].order(Order::Usage)?;
    Ok((per_second(names, took)?, after.cpu_us - before.cpu_us, gaps))
}

/// One name after the other is registered on one node and watched on another.
fn behind(setting: &Setting) -> Result<f64> {
    setting.begin("names that are watched one by one");
    let mut cluster = BenchCluster::start(setting, SAMPLES)?;
    let prefix = "watched/".to_owned();
    let watched = setting.workers as usize;
    cluster.nodes[watched].order::<()>(Order::Note { prefix: prefix.clone() })?;
    let names = Names { prefix, from: 0, to: SAMPLES };
    let acknowledged: Vec<u64> = cluster.nodes[0].order(Order::Acknowledged { names })?;
    let noted: Vec<u64> = cluster.nodes[watched].order(Order::Noted { count: SAMPLES as usize })?;
    let late = |(event, answer): (&u64, &u64)| {
        #[expect(clippy::cast_precision_loss)] // of a sample, not of a date
        let micros = event.cast_signed().wrapping_sub(answer.cast_signed()) as f64 / 1e3;
        micros
    };
    let late: Vec<f64> = noted.iter().zip(&acknowledged).map(late).collect();
    Ok(rounded(median(&late).context("no names were watched")?))
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Watches) -> Vec<Vec<String>> {
    let cpu = format!("{} us", figures.cpu_us_per_event_and_watch);
    vec![
        row("registrations with 1 watch of all names", format!("{} x", figures.with_1_watch_ratio), ""),
        row("  with 10", format!("{} x", figures.with_10_watches_ratio), ""),
        row("  CPU for each event and watch", cpu, ""),
        row("  times that a reader was too slow", figures.gaps.to_string(), ""),
        row(
            "an event on another node: p50",
            format!("{} us", figures.event_behind_p50_us),
            "behind the acknowledgement; less than 0 is before it",
        ),
    ]
}
