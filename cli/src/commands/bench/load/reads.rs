//! Lookups and typed references, by one thread and by two at once, beside a bare map.

use anyhow::{Context, Result};

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::{Names, Order, Read},
        phases::{each_of_shares, spawn_shares},
    },
    row,
};

/// The most names that each of two workers holds here. The others hold none, however many there are.
const NAMES: u32 = 100_000;

pub(super) fn measure(setting: &Setting, names: u32, in_flight: u32) -> Result<Vec<Read>> {
    let each = names.min(NAMES);
    let names = 2 * each;
    let mut cluster = BenchCluster::start(setting, 0)?;
    let share = |node: usize| {
        (node < 2).then(|| Names { prefix: format!("w{}/actor-", node + 1), from: 0, to: each })
    };
    cluster.share_out((0..cluster.nodes.len()).map(share).collect());
    setting.begin(&format!("{names} names that are looked up"));
    spawn_shares(&mut cluster)?;
    let register = |names, start_ns| Order::RegisterEach { names, in_flight, start_ns };
    each_of_shares(&mut cluster, names as usize, register)?;
    setting.begin("lookups by one thread and by two");
    let share = |index: usize| cluster.nodes[index].share.clone().context("a worker has no names");
    let (local, remote) = (share(0)?, share(1)?);
    cluster.nodes[0].order(Order::Read { local, remote })
}

/// The figures in a row, for people.
pub(super) fn row_of(read: &Read) -> Vec<String> {
    let Read { place, names, threads, lookup_ns, whereis_ns, dashmap_get_ns } = read;
    let by = if *threads == 1 { "by one thread" } else { "by two threads at once" };
    row(
        format!("lookup {by}, {place}, of {names}"),
        format!("{lookup_ns} ns"),
        format!("whereis {whereis_ns} ns, a bare DashMap {dashmap_get_ns} ns"),
    )
}
