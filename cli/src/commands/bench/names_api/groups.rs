//! What it costs to join a large group, and to tell all of it something.

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{Cluster, Setting},
        orders::Order,
        per_second,
        phases::{median, progress, register_all},
    },
    row,
};
use crate::measure::as_ms;

/// Members, over all nodes.
const MEMBERS: u32 = 10_000;
/// Broadcasts.
const ROUNDS: u32 = 20;

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Groups {
    members: u32,
    joins_per_s: f64,
    /// Of the rate at which as many names are registered in the same cluster right after.
    joins_ratio: f64,
    broadcast_p50_ms: f64,
}

pub(super) fn measure(setting: &Setting) -> Result<Groups> {
    progress(&format!("a group of {MEMBERS} members"));
    let mut cluster = Cluster::start(setting, MEMBERS)?;
    let nodes = u32::try_from(cluster.nodes.len())?;
    let in_flight = setting.in_flight;
    let share = |index: u32| MEMBERS / nodes + u32::from(index < MEMBERS % nodes);
    let mut given = Vec::new();
    for (index, node) in (0..).zip(&mut cluster.nodes) {
        given.push(node.give(Order::JoinGroup { members: share(index), in_flight })?);
    }
    let known: Vec<u64> = cluster.on_all(|_| Order::AwaitMembers { count: MEMBERS as usize })?;
    let (mut begin, mut end) = (u64::MAX, 0);
    for ((node, given), known) in cluster.nodes.iter_mut().zip(&given).zip(known) {
        let [first, last]: [u64; 2] = node.report(given)?;
        (begin, end) = (begin.min(first), end.max(last).max(known));
    }
    let joins_per_s = per_second(MEMBERS, end.saturating_sub(begin))?;

    progress(&format!("broadcasts to {MEMBERS} members"));
    let mut took = Vec::new();
    for round in 1..=ROUNDS {
        let begin: u64 = cluster.nodes[0].order(Order::Broadcast)?;
        let mut last = 0_u64;
        for index in 0..nodes {
            let heard = Order::Heard { count: round * share(index) };
            last = last.max(cluster.nodes[index as usize].order::<u64>(heard)?);
        }
        took.push(as_ms(std::time::Duration::from_nanos(last.saturating_sub(begin))));
    }
    let names = per_second(MEMBERS, register_all(&mut cluster, MEMBERS)?)?;
    Ok(Groups {
        members: MEMBERS,
        joins_per_s,
        joins_ratio: (joins_per_s / names * 100.0).round() / 100.0,
        broadcast_p50_ms: median(&took).context("nothing was sent")?,
    })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Groups) -> Vec<Vec<String>> {
    let beside = format!("{} x registrations of as many names", figures.joins_ratio);
    let members = format!("{} members", figures.members);
    vec![
        row("joins of one group", format!("{:.0} /s", figures.joins_per_s), &beside),
        row("32 bytes to all members: p50", format!("{} ms", figures.broadcast_p50_ms), &members),
    ]
}
