//! What it costs to join a large group, and to tell all of it something.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Heards, Names, Order},
        per_second,
        phases::{each_of_shares, median, register_shares, spawn_shares},
    },
    row,
};
use crate::measure::as_ms;

/// Members, over all nodes: one for so many names of the bench.
const NAMES_OF_A_MEMBER: u32 = 10;
/// Broadcasts.
const ROUNDS: u32 = 100;
/// Rounds of joins, each with registrations beside. Even: what comes first changes.
const JOIN_ROUNDS: u32 = 6;

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Groups {
    members: u32,
    /// The median over the rounds, as that of the ratios.
    joins_per_s: f64,
    /// Of the rate at which as many names are registered in the same round, all of one actor of each node.
    joins_ratio: f64,
    /// The same, where each name has an actor of its own, as each membership has.
    joins_ratio_own: f64,
    /// From the call until the message is in the last mailbox.
    broadcast_p50_ms: f64,
    /// From the call until the last member has heard it.
    broadcast_heard_p50_ms: f64,
}

pub(super) fn measure(setting: &Setting, names: u32) -> Result<Groups> {
    let members = names / NAMES_OF_A_MEMBER;
    setting.begin(&format!("a group of {members} members"));
    let mut cluster = BenchCluster::start(setting, members)?;
    let nodes = u32::try_from(cluster.nodes.len())?;
    let in_flight = setting.in_flight;
    let share = |index: u32| members / nodes + u32::from(index < members % nodes);
    let of_all = |prefix: &str| {
        let of_one = |index| Some(Names { prefix: format!("{prefix}/{index}/"), from: 0, to: share(index) });
        (0..nodes).map(of_one).collect::<Vec<_>>()
    };
    cluster.share_out(of_all("members"));
    spawn_shares(&mut cluster)?;
    let join = |group| move |_, start_ns| Order::JoinGroup { group, in_flight, start_ns };
    each_of_shares(&mut cluster, members as usize, join(0))?;

    setting.begin(&format!("broadcasts to {members} members"));
    let _: Vec<()> = cluster.on_all(|_| Order::JoinGroupApart)?;
    let _: Vec<u64> = cluster.on_all(|_| Order::AwaitMembers { count: (members + nodes) as usize })?;
    let (mut to_mailboxes, mut to_all) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let begin: u64 = cluster.nodes[0].order(Order::Broadcast)?;
        let (mut came, mut heard) = (0_u64, 0_u64);
        for index in 0..nodes {
            let of_node = Order::Heard { broadcasts: round };
            let at: Heards = cluster.nodes[index as usize].order(of_node)?;
            (came, heard) = (came.max(at.came_ns), heard.max(at.heard_ns));
        }
        let since = |ns: u64| as_ms(Duration::from_nanos(ns.saturating_sub(begin)));
        to_mailboxes.push(since(came));
        to_all.push(since(heard));
    }

    setting.begin(&format!("joins of {members} members, and registrations of as many names, in turns"));
    // A membership counts as a name.
    let mut known = (members + nodes) as usize;
    let (mut rates, mut ratios, mut ratios_own) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=JOIN_ROUNDS {
        let mut rate = [0.0; 3];
        for turn in 0..3 {
            let what = if round % 2 == 0 { turn } else { 2 - turn };
            known += members as usize;
            cluster.share_out(of_all(&format!("{round}/{what}")));
            let took_ns = match what {
                0 => register_shares(&mut cluster, known, 0)?,
                1 => {
                    spawn_shares(&mut cluster)?;
                    each_of_shares(&mut cluster, known, join(round))?.0
                }
                _ => {
                    spawn_shares(&mut cluster)?;
                    let order = |names, start_ns| Order::RegisterEach { names, in_flight, start_ns };
                    each_of_shares(&mut cluster, known, order)?.0
                }
            };
            rate[what] = per_second(members, took_ns)?;
        }
        let [names, joins, own] = rate;
        rates.push(joins);
        ratios.push(joins / names);
        ratios_own.push(joins / own);
    }
    let ratio = |ratios: &[f64]| anyhow::Ok((median(ratios)? * 100.0).round() / 100.0);
    Ok(Groups {
        members,
        joins_per_s: median(&rates)?,
        joins_ratio: ratio(&ratios)?,
        joins_ratio_own: ratio(&ratios_own)?,
        broadcast_p50_ms: median(&to_mailboxes).context("nothing was sent")?,
        broadcast_heard_p50_ms: median(&to_all).context("nothing was sent")?,
    })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Groups) -> Vec<Vec<String>> {
    let Groups { joins_ratio, joins_ratio_own, .. } = figures;
    let beside =
        format!("{joins_ratio} x registrations of as many names, {joins_ratio_own} x if each has its actor");
    let heard =
        format!("{} members; all have heard it after {} ms", figures.members, figures.broadcast_heard_p50_ms);
    vec![
        row("joins of one group", format!("{:.0} /s", figures.joins_per_s), &beside),
        row("32 bytes to the last mailbox: p50", format!("{} ms", figures.broadcast_p50_ms), &heard),
    ]
}
