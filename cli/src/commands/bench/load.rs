//! What users see: each name has an actor of its own, and few callers ask at once, or many.

mod callers;
mod disturbed;
mod idle;
mod memory;
mod reads;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use super::{Args, cluster::Setting, orders::Read};

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Registrations and unregistrations by so many callers.
    Callers,
    /// Lookups and `whereis`.
    Reads,
    /// Memory for each name.
    Memory,
    /// Registrations while a node joins, while actors end, and while a node dies.
    Disturbed,
    /// What nodes need while nothing happens.
    Idle,
}

/// The figures. Each part says what its own mean, and is empty or null if it was not measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Load {
    names: u32,
    /// All nodes, and how many of them register names.
    nodes: u32,
    workers: u32,
    callers: Vec<callers::Asked>,
    reads: Vec<Read>,
    memory: Option<memory::Memory>,
    disturbed: Option<disturbed::Disturbed>,
    idle: Option<idle::Resting>,
}

/// How many steps there are.
pub(super) fn steps(callers: &[u32], only: &[Part]) -> u64 {
    let of = |part: Part| match part {
        Part::Callers => 3 * callers.len() as u64,
        Part::Reads => 2,
        Part::Memory | Part::Idle => 1,
        Part::Disturbed => 5,
    };
    Part::value_variants().iter().filter(|part| is_asked(only, **part)).map(|part| of(*part)).sum()
}

fn is_asked(only: &[Part], part: Part) -> bool {
    only.is_empty() || only.contains(&part)
}

/// Measures the parts in `args.only`, or all if there are none. `args.callers` are the numbers of calls that each worker has under
/// way at once, each for a cluster of its own.
pub(super) fn measure(setting: &Setting, names: u32, args: &Args) -> Result<Load> {
    let Args { callers, only, .. } = args;
    let Some(most) = callers.iter().copied().max() else { bail!("--callers is empty") };
    let is_asked = |part| is_asked(only, part);
    let asked: &[u32] = if is_asked(Part::Callers) { callers } else { &[] };
    Ok(Load {
        names,
        nodes: setting.workers + setting.observers,
        workers: setting.workers,
        callers: asked
            .iter()
            .map(|callers| callers::measure(setting, names, *callers))
            .collect::<Result<_>>()?,
        reads: if is_asked(Part::Reads) { reads::measure(setting, names, most)? } else { Vec::new() },
        memory: is_asked(Part::Memory).then(|| memory::measure(setting, names, most)).transpose()?,
        disturbed: is_asked(Part::Disturbed).then(|| disturbed::measure(setting, names, most)).transpose()?,
        idle: is_asked(Part::Idle).then(|| idle::measure(setting, args.idle)).transpose()?,
    })
}

fn row(what: impl Into<String>, value: String, beside: impl Into<String>) -> Vec<String> {
    vec![what.into(), value, beside.into()]
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Load) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = figures.callers.iter().flat_map(callers::rows).collect();
    rows.extend(figures.reads.iter().map(reads::row_of));
    rows.extend(figures.memory.iter().flat_map(memory::rows));
    rows.extend(figures.disturbed.iter().flat_map(disturbed::rows));
    rows.extend(figures.idle.iter().flat_map(idle::rows));
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn keys(figures: &Value) -> String {
        let mut keys: Vec<_> = figures.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(", ")
    }

    #[test]
    fn the_figures_have_the_published_keys() {
        let figures = Load {
            callers: vec![callers::Asked::default()],
            reads: vec![Read::default()],
            memory: Some(memory::Memory::default()),
            disturbed: Some(disturbed::Disturbed::default()),
            idle: Some(idle::Resting::default()),
            ..Load::default()
        };
        let figures = serde_json::to_value(figures).unwrap();
        assert_eq!(keys(&figures), "callers, disturbed, idle, memory, names, nodes, reads, workers");
        assert_eq!(
            keys(&figures["callers"][0]),
            "callers, commits_per_registration, cpu_us_per_registration, cpu_us_per_unregistration, names, \
             register_longest_us, register_p50_us, register_p99_us, registrations_per_s, switches_per_registration, \
             system_calls_per_registration, unregistrations_per_s, written_bytes_per_registration"
        );
        assert_eq!(
            keys(&figures["reads"][0]),
            "dashmap_get_ns, lookup_ns, names, place, threads, whereis_ns"
        );
        assert_eq!(
            keys(&figures["memory"]),
            "holder_bytes_per_name, holder_with_actor_bytes_per_name, observer_bytes_per_name"
        );
        assert_eq!(
            keys(&figures["disturbed"]),
            "death_freed_ms, death_longest_gap_ms, death_longest_wait_ms, death_p9999_ms, death_registrations, \
             ended_actors, ended_names, ends_freed_ms, failover_ms, join_longest_gap_ms, join_longest_wait_ms, \
             join_ms, join_p9999_ms, join_registrations, lost_names"
        );
        assert_eq!(
            keys(&figures["idle"]),
            "idle_cpu_percent, idle_cpu_percent_most, idle_switches_per_s, idle_system_calls_per_s, seconds"
        );
    }
}
