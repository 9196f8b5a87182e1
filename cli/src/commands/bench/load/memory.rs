//! What a name costs in memory: a node that knows it, the node that holds it, and the actor.

use anyhow::Result;
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        for_each,
        orders::{Names, Order, ProcessUsage},
        phases::{each_of_shares, spawn_shares},
    },
    row,
};

/// The figures, of a cluster in which one node that does not lead holds all names.
#[derive(Debug, Default, Serialize)]
#[expect(clippy::struct_field_names)] // they are keys of the JSON
pub(crate) struct Memory {
    /// Of a node that neither holds names nor leads.
    observer_bytes_per_name: f64,
    /// Of the holder, without what the actors took before they had names.
    holder_bytes_per_name: f64,
    /// The same with it: an actor without any state.
    holder_with_actor_bytes_per_name: f64,
}

pub(super) fn measure(setting: &Setting, names: u32, in_flight: u32) -> Result<Memory> {
    setting.begin(&format!("memory of {names} names that one node holds"));
    let mut cluster = BenchCluster::start(setting, 0)?;
    let leader = cluster.leader()?;
    let holder = usize::from(leader == 0);
    let observer = cluster.bystander(&[leader, holder])?;
    let all = Names { prefix: "held/actor-".into(), from: 0, to: names };
    cluster.share_out((0..cluster.nodes.len()).map(|node| (node == holder).then(|| all.clone())).collect());
    let usage = |cluster: &mut BenchCluster<'_>| cluster.on_all::<ProcessUsage>(|_| Order::Usage);
    let before = usage(&mut cluster)?;
    spawn_shares(&mut cluster)?;
    let spawned = usage(&mut cluster)?;
    let register = |names, start_ns| Order::RegisterEach { names, in_flight, start_ns };
    each_of_shares(&mut cluster, names as usize, register)?;
    let after = usage(&mut cluster)?;
    let grown = |since: &[ProcessUsage], node: usize| {
        for_each(since[node].memory_bytes, after[node].memory_bytes, names)
    };
    Ok(Memory {
        observer_bytes_per_name: grown(&before, observer)?,
        holder_bytes_per_name: grown(&spawned, holder)?,
        holder_with_actor_bytes_per_name: grown(&before, holder)?,
    })
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Memory) -> Vec<Vec<String>> {
    let bytes = |bytes: f64| format!("{bytes:.0} bytes");
    vec![
        row("memory for each name on an observer", bytes(figures.observer_bytes_per_name), ""),
        row("  on the node that holds it", bytes(figures.holder_bytes_per_name), "besides the actor"),
        row("  with its actor", bytes(figures.holder_with_actor_bytes_per_name), ""),
    ]
}
