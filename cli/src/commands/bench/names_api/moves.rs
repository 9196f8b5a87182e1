//! What it takes to move the names of a node that drains.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Looked, Names, Order, Took},
    },
    row,
};
use crate::measure::as_ms;

/// Names that move: one for so many names of the bench.
const NAMES_OF_A_MOVE: u32 = 100;

/// How long the observer may take to hear of moves, once the drain has ended.
const SETTLED: Duration = Duration::from_secs(5);

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Moves {
    moved_names: u32,
    /// How many of them another node holds when the drain has ended.
    held_elsewhere: u32,
    drain_ms: f64,
    /// Lookups of these names on another node meanwhile, and how many found nobody.
    lookups: u64,
    found_free: u64,
}

pub(super) fn measure(setting: &Setting, names: u32) -> Result<Moves> {
    let moved = names / NAMES_OF_A_MOVE;
    setting.begin(&format!("{moved} names that move when their node drains"));
    let mut cluster = BenchCluster::start(setting, moved)?;
    let leader = cluster.leader()?;
    let drained = usize::from(leader == 0);
    let observer = cluster.nodes.len() - 1;
    let names = Names { prefix: "moved/".into(), from: 0, to: moved };
    cluster.on_all::<()>(|_| Order::ReceiveNames)?;
    cluster.nodes[drained].order::<()>(Order::OfferNames { names: names.clone() })?;
    cluster.on_all::<u64>(|_| Order::AwaitCount { count: moved as usize })?;
    cluster.nodes[observer].order::<()>(Order::LookOn { names: names.clone() })?;
    let Took { ns } = cluster.nodes[drained].order(Order::Drain)?;
    let Looked { lookups, free } = cluster.nodes[observer].order(Order::LookedOn)?;
    // The observer may hear of the last moves a little later than the node that drains.
    let deadline = Instant::now() + SETTLED;
    let (mut held, stayed) = loop {
        let order = Order::Holders { names: names.clone() };
        let holders: Vec<Option<String>> = cluster.nodes[observer].order(order)?;
        let mut held: BTreeMap<Option<String>, u32> = BTreeMap::new();
        for holder in holders {
            *held.entry(holder).or_default() += 1;
        }
        let stayed = held.remove(&Some(cluster.nodes[drained].name.clone())).unwrap_or_default();
        if stayed == 0 || Instant::now() > deadline {
            break (held, stayed);
        }
    };
    let free_now = held.remove(&None).unwrap_or_default();
    ensure!(lookups > 0, "nobody looked on");
    Ok(Moves {
        moved_names: moved,
        held_elsewhere: moved.checked_sub(stayed + free_now).context("there are names too many")?,
        drain_ms: as_ms(Duration::from_nanos(ns)),
        lookups,
        found_free: free,
    })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Moves) -> Vec<Vec<String>> {
    let Moves { moved_names, held_elsewhere, drain_ms, lookups, found_free } = figures;
    vec![
        row(
            "a node drains, and its names move",
            format!("{drain_ms} ms"),
            &format!("{held_elsewhere} of {moved_names} moved"),
        ),
        row(
            "  looked up meanwhile on another node",
            format!("{found_free} times free"),
            &format!("{lookups} lookups"),
        ),
    ]
}
