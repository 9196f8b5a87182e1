//! What it costs to start an actor where nobody has its name.

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Names, Order},
    },
    row,
};
use crate::commands::bench::orders::Starts as Started;

/// Names that are started one after the other.
const SAMPLES: u32 = 300;
/// Names that are started by many: one for so many names of the bench; and by how many on each node.
const NAMES_OF_A_START: u32 = 100;
const CALLERS: u32 = 7;

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StartFigures {
    start_p50_us: f64,
    two_commits_p50_us: f64,
    started_names: u32,
    spawned: u32,
    callers: u32,
}

pub(super) fn measure(setting: &Setting, names: u32) -> Result<StartFigures> {
    let together = names / NAMES_OF_A_START;
    setting.begin("actors that are started one after the other");
    let mut cluster = BenchCluster::start(setting, SAMPLES)?;
    let leader = cluster.leader()?;
    let follower = usize::from(leader == 0);
    let names = Names { prefix: "started/".into(), from: 0, to: SAMPLES };
    let store = setting.store.clone();
    let [start_p50_us, two_commits_p50_us] =
        cluster.nodes[follower].order(Order::StartOneByOne { names, store })?;

    let nodes = u32::try_from(cluster.nodes.len())?;
    let callers = nodes * CALLERS;
    setting.begin(&format!("{together} names that {callers} callers on {nodes} nodes start at once"));
    let order = Order::StartTogether {
        names: Names { prefix: "together/".into(), from: 0, to: together },
        callers: CALLERS,
    };
    let all: Vec<Started> = cluster.on_all(|_| order.clone())?;
    let [spawned, ours] =
        [|of: &Started| of.spawned, |of: &Started| of.ours].map(|of| all.iter().map(of).sum::<u32>());
    ensure!(ours >= together, "only {ours} of {together} names were started");
    Ok(StartFigures { start_p50_us, two_commits_p50_us, started_names: together, spawned, callers })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &StartFigures) -> Vec<Vec<String>> {
    let above = figures.start_p50_us - figures.two_commits_p50_us;
    let spawned = format!("{} spawns", figures.spawned);
    let of = format!("{} names, {} callers of each at once", figures.started_names, figures.callers);
    vec![
        row(
            "an actor is started, not on the leader: p50",
            format!("{} us", figures.start_p50_us),
            &format!("two bare commits + {above:.0} us"),
        ),
        row("started by many at once", spawned, &of),
    ]
}
