//! What names can do besides being there: each figure beside a plain one of the same run.

mod groups;
mod moves;
mod starts;
mod unwatched;
mod watches;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    cluster::{BenchCluster, Setting},
    for_each,
    orders::{Names, Order, ProcessUsage, Took},
    per_second,
    phases::{median, register_all, register_shares},
};
use crate::measure::rounded;

/// Rounds of registrations, each without and with metadata.
const ROUNDS: u32 = 8;
/// Bytes of metadata.
const META: usize = 100;
/// Names of a page, and how many pages are selected.
const PAGE: usize = 100;
const PAGES: u32 = 20;

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NamesApi {
    registrations_per_s: f64,
    registrations_with_100_bytes_per_s: f64,
    /// The median over the rounds.
    with_100_bytes_ratio: f64,
    bytes_per_name: f64,
    /// Of a node that keeps names in order.
    bytes_per_name_ordered: f64,
    page_us: f64,
    page_ordered_us: f64,
    watches: watches::Watches,
    unwatched: unwatched::Unwatched,
    starts: starts::StartFigures,
    groups: groups::Groups,
    moves: moves::Moves,
}

/// How many steps it has.
pub(super) const STEPS: u64 = 8 + watches::STEPS + unwatched::STEPS;

/// Measures all of it.
pub(super) fn measure(setting: &Setting, names: u32) -> Result<NamesApi> {
    let mut figures = NamesApi::default();
    metadata(setting, names, &mut figures)?;
    order(setting, names, &mut figures)?;
    figures.watches = watches::measure(setting, names)?;
    figures.unwatched = unwatched::measure(setting, names)?;
    figures.starts = starts::measure(setting, names)?;
    figures.groups = groups::measure(setting, names)?;
    figures.moves = moves::measure(setting, names)?;
    Ok(figures)
}

/// Registrations without and with metadata, in turns.
fn metadata(setting: &Setting, names: u32, figures: &mut NamesApi) -> Result<()> {
    setting.begin(&format!("{names} registrations, half of them with {META} bytes of metadata"));
    let mut cluster = BenchCluster::start(setting, names / (2 * ROUNDS))?;
    let (mut plain, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for round in 0..ROUNDS {
        let mut rates = [0.0; 2];
        // Each comes first as often as the other: the table grows meanwhile.
        for turn in [round % 2, (round + 1) % 2] {
            let mut share = 0;
            for node in &mut cluster.nodes {
                if let Some(names) = &mut node.share {
                    names.prefix = format!("{}/{round}/{turn}-", node.name);
                    share += names.len();
                }
            }
            count += share as usize;
            let took = register_shares(&mut cluster, count, turn as usize * META)?;
            rates[turn as usize] = per_second(share, took)?;
        }
        let [without, has] = rates;
        plain.push(without);
        with.push(has);
        ratios.push(has / without);
    }
    figures.registrations_per_s = median(&plain)?;
    figures.registrations_with_100_bytes_per_s = median(&with)?;
    figures.with_100_bytes_ratio = (median(&ratios)? * 1000.0).round() / 1000.0;
    Ok(())
}

/// What it costs to keep names in order, and what a page costs with it and without.
fn order(setting: &Setting, names: u32, figures: &mut NamesApi) -> Result<()> {
    setting.begin(&format!("{names} names, in order on one node"));
    let mut cluster = BenchCluster::start(setting, names)?;
    let plain = setting.workers as usize;
    cluster.add("ordered", None, None, true)?;
    let ordered = cluster.nodes.len() - 1;
    cluster.on_all::<()>(|_| Order::Ready)?;
    let before: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    register_all(&mut cluster, names)?;
    let after: Vec<ProcessUsage> = cluster.on_all(|_| Order::Usage)?;
    let grown = |index: usize| for_each(before[index].memory_bytes, after[index].memory_bytes, names);
    figures.bytes_per_name = grown(plain)?;
    figures.bytes_per_name_ordered = grown(ordered)?;
    let share: Names = cluster.nodes[0].share.clone().context("a worker has no names")?;
    let mut page = |index: usize| -> Result<f64> {
        let order = Order::SelectPages { names: share.clone(), limit: PAGE, pages: PAGES };
        let took: Took = cluster.nodes[index].order(order)?;
        #[expect(clippy::cast_precision_loss)] // of a sample, not of a date
        let us = took.ns as f64 / 1e3;
        Ok(rounded(us))
    };
    figures.page_us = page(plain)?;
    figures.page_ordered_us = page(ordered)?;
    Ok(())
}

fn row(what: &str, value: String, beside: &str) -> Vec<String> {
    vec![what.to_owned(), value, beside.to_owned()]
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &NamesApi) -> Vec<Vec<String>> {
    let ratio = format!("{} x", figures.with_100_bytes_ratio);
    let more = format!("{:.0} bytes more", figures.bytes_per_name_ordered - figures.bytes_per_name);
    let mut rows = vec![
        row("registrations, visible everywhere", format!("{:.0} /s", figures.registrations_per_s), "1 x"),
        row(
            "  with 100 bytes of metadata",
            format!("{:.0} /s", figures.registrations_with_100_bytes_per_s),
            &ratio,
        ),
        row("memory per name on an observer", format!("{:.0} bytes", figures.bytes_per_name), ""),
        row("  that keeps names in order", format!("{:.0} bytes", figures.bytes_per_name_ordered), &more),
        row("select: a page of 100 names", format!("{} us", figures.page_us), ""),
        row("  where names are kept in order", format!("{} us", figures.page_ordered_us), ""),
    ];
    rows.extend(watches::rows(&figures.watches));
    rows.extend(unwatched::rows(&figures.unwatched));
    rows.extend(starts::rows(&figures.starts));
    rows.extend(groups::rows(&figures.groups));
    rows.extend(moves::rows(&figures.moves));
    rows
}
