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

/// Members, over all nodes: one for so many names of the bench.
const NAMES_OF_A_MEMBER: u32 = 10;
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

pub(super) fn measure(setting: &Setting, names: u32) -> Result<Groups> {
    let members = names / NAMES_OF_A_MEMBER;
    progress(&format!("a group of {members} members"));
    let mut cluster = Cluster::start(setting, members)?;
    let nodes = u32::try_from(cluster.nodes.len())?;
    let in_flight = setting.in_flight;
    let share = |index: u32| members / nodes + u32::from(index < members % nodes);
    let mut given = Vec::new();
    for (index, node) in (0..).zip(&mut cluster.nodes) {
        given.push(node.give(Order::JoinGroup { members: share(index), in_flight })?);
    }
    let mut begin = u64::MAX;
    for (node, given) in cluster.nodes.iter_mut().zip(&given) {
        begin = begin.min(node.report(given)?);
    }
    // Asked only now: to look at all members costs their number.
    let known: Vec<u64> = cluster.on_all(|_| Order::AwaitMembers { count: members as usize })?;
    let end = known.into_iter().max().context("there are no nodes")?;
    let joins_per_s = per_second(members, end.saturating_sub(begin))?;

    progress(&format!("broadcasts to {members} members"));
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
    let names = per_second(members, register_all(&mut cluster, members)?)?;
    Ok(Groups {
        members,
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
