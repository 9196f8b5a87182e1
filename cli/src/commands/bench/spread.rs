//! Registrations in several registries of each node, which share its store, beside as many in one.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::{
    cluster::{BenchCluster, Setting},
    none_failed,
    orders::{Names, Order, ProcessUsage, Registered, Sequential},
    per_second,
    phases::{LEAD, cpu_for_each, register_all},
};
use crate::measure::now_ns;

/// Registrations one after the other, at rest and while others are busy.
const SAMPLES: u32 = 100;
/// How many times the names are registered meanwhile.
const BUSY: u32 = 4;

/// What `--registries` measures.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    registries: u32,
    #[serde(flatten)]
    all: Rate,
    /// The same names in one registry, if there are several.
    in_one: Option<Rate>,
    /// One after the other in one registry, while the others are as busy as before.
    while_busy: Option<WhileBusy>,
}

#[derive(Debug, Serialize)]
struct Rate {
    registrations_per_s: f64,
    cpu_us_per_registration: f64,
    commits_per_registration: f64,
}

/// On a node that does not lead that registry, if there is one, beside bare fenced commits in between.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names)] // as they are published
struct WhileBusy {
    register_p50_us: f64,
    commit_p50_us: f64,
    register_at_rest_p50_us: f64,
    commit_at_rest_p50_us: f64,
    /// Until a byte has come back from a task of the leader's process, in which nothing of Callsign touches it.
    round_trip_p50_us: f64,
    round_trip_at_rest_p50_us: f64,
}

pub(super) fn steps(registries: u32) -> u64 {
    if registries > 1 { 4 } else { 1 }
}

pub(super) fn measure(setting: &Setting, registries: u32, names: u32) -> Result<Spread> {
    let in_one = (registries > 1).then(|| rate(setting, 1, names)).transpose()?.map(|(rate, _)| rate);
    let (all, mut cluster) = rate(setting, registries, names)?;
    let while_busy = (registries > 1).then(|| while_busy(&mut cluster)).transpose()?;
    Ok(Spread { registries, all, in_one, while_busy })
}

fn rate(setting: &Setting, registries: u32, names: u32) -> Result<(Rate, BenchCluster<'_>)> {
    setting.begin(&format!("{names} registrations in {registries} registries of each node"));
    let mut cluster = BenchCluster::of_registries(setting, registries, names)?;
    let before: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    let took = register_all(&mut cluster, names)?;
    let after: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    let commits = |usages: &[ProcessUsage]| usages.iter().map(|usage| usage.commits).sum::<u64>();
    #[expect(clippy::cast_precision_loss)] // far fewer than 2^52
    let committed = commits(&after).saturating_sub(commits(&before)) as f64;
    let rate = Rate {
        registrations_per_s: per_second(names, took)?,
        cpu_us_per_registration: cpu_for_each(&before, &after, names)?,
        commits_per_registration: (committed / f64::from(names) * 1e4).round() / 1e4,
    };
    Ok((rate, cluster))
}

fn while_busy(cluster: &mut BenchCluster<'_>) -> Result<WhileBusy> {
    // On a node that does not lead, if there is one.
    let leader = cluster.leader()?;
    let caller = usize::from(leader == 0).min(cluster.nodes.len() - 1);
    let one_by_one = |cluster: &mut BenchCluster<'_>, prefix: &str| {
        let names = Names { prefix: prefix.to_owned(), from: 0, to: SAMPLES };
        let echo = Some(cluster.nodes[leader].order(Order::Echo)?);
        let order = Order::Sequential { names, store: cluster.setting.store.clone(), echo };
        cluster.nodes[caller].order::<Sequential>(order)
    };
    cluster.setting.begin("registrations one after the other, at rest");
    let at_rest = one_by_one(cluster, "at-rest/")?;

    cluster.setting.begin("the same, while the other registries are busy");
    let (in_flight, start_ns) = (cluster.setting.in_flight, now_ns() + LEAD);
    let mut given = Vec::new();
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        let Some(share) = node.share.clone() else { continue };
        let names = Names { prefix: format!("{}busy-", share.prefix), from: 0, to: share.len() * BUSY };
        given.push((index, node.give(Order::Register { names, meta: 0, spared: 1, in_flight, start_ns })?));
    }
    thread::sleep(Duration::from_nanos(2 * LEAD));
    let busy = one_by_one(cluster, "while-busy/")?;
    let measured = now_ns();
    for (index, given) in given {
        let registered: Registered = cluster.nodes[index].report(&given)?;
        none_failed(&registered.failed)?;
        ensure!(
            registered.done_ns > measured,
            "the other registries were not busy long enough: give more --names"
        );
    }
    let round_trip = |times: &Sequential| times.round_trip_p50.context("no round trips");
    Ok(WhileBusy {
        register_p50_us: busy.register_p50,
        commit_p50_us: busy.commit_p50,
        register_at_rest_p50_us: at_rest.register_p50,
        commit_at_rest_p50_us: at_rest.commit_p50,
        round_trip_p50_us: round_trip(&busy)?,
        round_trip_at_rest_p50_us: round_trip(&at_rest)?,
    })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Spread) -> Vec<Vec<String>> {
    let row = |what: &str, value: String, beside: String| vec![what.to_owned(), value, beside];
    let mut rows = Vec::new();
    let mut rate = |of: &Rate, place: &str, beside: String| {
        rows.push(row(
            &format!("registrations in {place}"),
            format!("{:.0} /s", of.registrations_per_s),
            beside,
        ));
        rows.push(row(
            "  CPU for each, all processes",
            format!("{} us", of.cpu_us_per_registration),
            String::new(),
        ));
        rows.push(row("  commits for each", format!("{}", of.commits_per_registration), String::new()));
    };
    if let Some(one) = &figures.in_one {
        rate(one, "one registry", String::new());
        let ratio = format!("{:.2} x", figures.all.registrations_per_s / one.registrations_per_s);
        rate(&figures.all, &format!("{} registries of each node", figures.registries), ratio);
    } else {
        rate(&figures.all, &format!("{} registries of each node", figures.registries), String::new());
    }
    if let Some(busy) = &figures.while_busy {
        let commits = |us: f64| format!("{:.1} bare commits at rest", us / busy.commit_at_rest_p50_us);
        let us = |us: f64| format!("{us} us");
        rows.extend([
            row(
                "sequential register, at rest: p50",
                us(busy.register_at_rest_p50_us),
                commits(busy.register_at_rest_p50_us),
            ),
            row("  while the others are busy: p50", us(busy.register_p50_us), commits(busy.register_p50_us)),
            row(
                "  one bare fenced commit, at rest: p50",
                us(busy.commit_at_rest_p50_us),
                "in the same run".to_owned(),
            ),
            row("  while the others are busy: p50", us(busy.commit_p50_us), commits(busy.commit_p50_us)),
            row(
                "  one byte to the leader's process and back, at rest: p50",
                us(busy.round_trip_at_rest_p50_us),
                String::new(),
            ),
            row("  while the others are busy: p50", us(busy.round_trip_p50_us), String::new()),
        ]);
    }
    rows
}
