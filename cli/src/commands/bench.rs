//! `callsign bench`: measures a cluster of processes.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::{
    colour::Colours,
    commands::demo::shared_store,
    measure::rounded,
    output::{Steps, Work, answer, table, tell},
};

mod cluster;
mod failover;
mod load;
mod names_api;
pub(crate) mod orders;
mod phases;
mod spread;

use cluster::Setting;

/// How long a condition is waited for, and how much longer for each name.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(100);
const TIMEOUT_FOR_A_NAME: Duration = Duration::from_micros(200);
/// So many actors of a node hold its names with `--large`: ten million of them would need more memory than their names.
const ACTORS_OF_MANY: u32 = 10_000;

/// Arguments of `callsign bench`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct Args {
    /// How many nodes there are in all: one registers none.
    #[arg(long, conflicts_with_all = ["workers", "observers"], value_parser = clap::value_parser!(u32).range(3..=64))]
    nodes: Option<u32>,
    /// How many nodes register names. Only --registries takes 1.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    workers: u32,
    /// How many more nodes there are, which register none.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    observers: u32,
    /// How many names are registered, over all workers. Default: 100 000, and a million with --load.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    names: Option<u32>,
    /// How many registrations each worker has under way at once.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,
    /// The store: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`. Default: a fresh file in a temporary directory, whatever
    /// `CALLSIGN_STORE` says.
    #[arg(long, value_parser = shared_store)]
    store: Option<String>,
    /// Only the latency of one registration, beside that of one bare fenced commit.
    #[arg(long)]
    latency: bool,
    /// Only how long nobody is granted a name after the leader's process was killed, and after it was stopped (SIGSTOP).
    #[arg(long, conflicts_with = "latency")]
    failover: bool,
    /// Only what names can do besides: metadata, pages, names in order.
    #[arg(long, conflicts_with_all = ["latency", "failover"])]
    names_api: bool,
    /// Only registrations, spread over so many registries of each node. If there are several, also in one, for comparison, and one
    /// registration after the other in one of them, while the others are busy.
    #[arg(long, conflicts_with_all = ["latency", "failover", "names_api"], value_parser = clap::value_parser!(u32).range(1..=100))]
    registries: Option<u32>,
    /// Only what users see: each name has an actor of its own. By few callers and by many, with reads, memory and the longest waits.
    #[arg(long, conflicts_with_all = ["latency", "failover", "names_api", "registries"])]
    load: bool,
    /// With --load: how many registrations each worker has under way at once, for each of several clusters.
    #[arg(long, requires = "load", value_delimiter = ',', default_value = "1,50,1500",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    callers: Vec<u32>,
    /// With --load: measure these parts and no others. Default: all.
    #[arg(long, requires = "load", value_delimiter = ',')]
    only: Vec<load::Part>,
    /// With --load: for how many seconds nothing happens, where that is measured.
    #[arg(long, requires = "load", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    idle: u32,
    /// With --load: ten million names.
    #[arg(long, requires = "load", conflicts_with = "names")]
    large: bool,
    /// With --load: how many actors of each worker hold its names, by turns. Default: an actor for each name, and 10 000 with --large.
    #[arg(long, requires = "load", value_parser = clap::value_parser!(u32).range(1..))]
    actors: Option<u32>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// The figures. What each means is in the human output, and in the documentation of the phases.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    lookup_local_ns: f64,
    lookup_remote_ns: f64,
    dashmap_get_ns: f64,
    registrations_per_s: f64,
    cpu_us_per_registration: f64,
    register_p50_us: f64,
    register_p99_us: f64,
    /// The floor: one bare fenced commit, in between the registrations.
    commit_p50_us: f64,
    register_on_leader_p50_us: f64,
    register_on_leader_p99_us: f64,
    /// The floor, in between the registrations on the leader.
    commit_on_leader_p50_us: f64,
    contested: u32,
    double_grants: u32,
    join_ms: f64,
    bytes_per_name: f64,
    failover_ms_1k: f64,
    failover_ms_n: f64,
}

/// What `--failover` measures: milliseconds until a survivor's next registration is acknowledged.
#[derive(Debug, Serialize)]
pub(crate) struct Failovers {
    after_sigkill_ms: Vec<f64>,
    after_sigstop_ms: Vec<f64>,
}

/// What is printed for people beside the figures.
#[derive(Default)]
pub(crate) struct Notes {
    failovers_1k: Vec<f64>,
    failovers_n: Vec<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        let warning = "callsign: this is not a release build, its figures say nothing";
        tell(Colours::of_stderr().warning(warning));
    }
    let directory = tempfile::Builder::new().prefix("callsign-bench-").tempdir()?;
    let file = || format!("sqlite:{}", directory.path().join("store.db").display());
    let names = args.names();
    let setting = Setting {
        store: args.store.clone().unwrap_or_else(file),
        workers: args.nodes.map_or(args.workers, |nodes| nodes - 1),
        observers: args.nodes.map_or(args.observers, |_| 1),
        in_flight: args.in_flight,
        actors: args.actors.unwrap_or(if args.large { ACTORS_OF_MANY } else { u32::MAX }),
        patience: CONDITION_TIMEOUT + names * TIMEOUT_FOR_A_NAME,
        steps: Steps::of("bench", args.steps()),
    };
    ensure!(
        setting.workers > 1 || args.registries.is_some(),
        "two nodes have to register, at least: --workers 1 is for --registries"
    );
    let load_before = load_average();
    let started = Instant::now();
    let print = |setting: Setting, figures: serde_json::Value, rows: &[Vec<String>]| {
        setting.steps.finish();
        let text = if args.json {
            format!("{figures}\n")
        } else {
            table(&["", "", ""], rows).trim_start().to_owned() + &circumstances(&load_before, started)
        };
        answer(&text, Work::Asks, 0)
    };
    if args.failover {
        let figures = phases::failovers(&setting)?;
        return Ok(print(setting, serde_json::to_value(&figures)?, &failover_rows(&figures)));
    }
    if args.load {
        let figures = load::measure(&setting, names, args)?;
        return Ok(print(setting, serde_json::to_value(&figures)?, &load::rows(&figures)));
    }
    if args.names_api {
        let figures = names_api::measure(&setting, names)?;
        return Ok(print(setting, serde_json::to_value(&figures)?, &names_api::rows(&figures)));
    }
    if let Some(registries) = args.registries {
        let figures = spread::measure(&setting, registries, names)?;
        return Ok(print(setting, serde_json::to_value(&figures)?, &spread::rows(&figures)));
    }
    let mut figures = Figures::default();
    if args.latency {
        phases::latency(&setting, &mut figures)?;
        return Ok(print(setting, latency_only(&figures)?, &latencies(&figures)));
    }
    let mut notes = Notes::default();
    phases::measure(&setting, names, &mut figures, &mut notes)?;
    let status = print(setting, serde_json::to_value(&figures)?, &summary(args, &figures, &notes));
    ensure!(figures.double_grants == 0, "{} names were granted twice", figures.double_grants);
    Ok(status)
}

impl Args {
    /// How many steps that has which is asked for.
    fn steps(&self) -> u64 {
        match self {
            Self { failover: true, .. } => phases::STEPS_OF_FAILOVERS,
            Self { load: true, .. } => load::steps(&self.callers, &self.only),
            Self { names_api: true, .. } => names_api::STEPS,
            Self { registries: Some(registries), .. } => spread::steps(*registries),
            Self { latency: true, .. } => 1,
            _ => phases::STEPS,
        }
    }

    fn names(&self) -> u32 {
        let default = match (self.large, self.load) {
            (true, _) => 10_000_000,
            (_, true) => 1_000_000,
            _ => 100_000,
        };
        self.names.unwrap_or(default)
    }
}

fn circumstances(load_before: &str, started: Instant) -> String {
    format!(
        "load average before {load_before}, after {}\n{} processors, {:.0} s in all\n",
        load_average(),
        processors(),
        started.elapsed().as_secs_f64()
    )
}

fn failover_rows(failovers: &Failovers) -> Vec<Vec<String>> {
    let row = |what: &str, runs: &[f64]| {
        let longest = runs.iter().copied().fold(0.0, f64::max);
        vec![what.to_owned(), format!("at most {longest} ms"), format!("{runs:?}")]
    };
    vec![
        row("leader killed (SIGKILL), to the next registration", &failovers.after_sigkill_ms),
        row("leader stopped (SIGSTOP), to the next registration", &failovers.after_sigstop_ms),
    ]
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// The figures that `--latency` measures.
fn latency_only(figures: &Figures) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(figures)?;
    if let Some(figures) = value.as_object_mut() {
        figures.retain(|name, _| name.starts_with("register_") || name.starts_with("commit_"));
    }
    Ok(value)
}

/// One registration after the other, each beside its floor.
fn latencies(figures: &Figures) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let Figures { register_p50_us: median, register_p99_us: tail, commit_p50_us: floor, .. } = *figures;
    let on_leader = (
        figures.register_on_leader_p50_us,
        figures.register_on_leader_p99_us,
        figures.commit_on_leader_p50_us,
    );
    for (place, (median, tail, floor)) in
        [("not on the leader", (median, tail, floor)), ("on the leader", on_leader)]
    {
        let mut row =
            |what: String, value: String, beside: &str| rows.push(vec![what, value, beside.to_owned()]);
        let above = format!("the floor + {:.0} us", median - floor);
        row(format!("sequential register, {place}: p50"), format!("{median} us"), &above);
        row("  p99".into(), format!("{tail} us"), "");
        row(
            "  the floor: one bare fenced commit, p50".into(),
            format!("{floor} us"),
            "in the same run, in between",
        );
    }
    rows
}

fn summary(args: &Args, figures: &Figures, notes: &Notes) -> Vec<Vec<String>> {
    let ratio = |a: f64, b: f64| format!("{:.2} x", a / b);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |what: &str, value: String, beside: String| rows.push(vec![what.into(), value, beside]);
    let bare = figures.dashmap_get_ns;
    row(
        "lookup, local name",
        format!("{} ns", figures.lookup_local_ns),
        ratio(figures.lookup_local_ns, bare),
    );
    row(
        "lookup, remote name",
        format!("{} ns", figures.lookup_remote_ns),
        ratio(figures.lookup_remote_ns, bare),
    );
    row("the same by a bare DashMap", format!("{bare} ns"), "1 x".into());
    row(
        "registrations, visible everywhere",
        format!("{:.0} /s", figures.registrations_per_s),
        format!("{} names, {} under way on each worker", args.names(), args.in_flight),
    );
    let cpu = format!("{} us", figures.cpu_us_per_registration);
    row("CPU per registration, all processes", cpu, String::new());
    rows.extend(latencies(figures));
    let mut row = |what: &str, value: String, beside: String| rows.push(vec![what.into(), value, beside]);
    row(
        "contested by two nodes at once",
        format!("{} names", figures.contested),
        format!("{} granted to both", figures.double_grants),
    );
    let join = format!("{} ms", figures.join_ms);
    row("a new node holds all names", join, "from Registry::join".into());
    row("memory per name on an observer", format!("{:.0} bytes", figures.bytes_per_name), String::new());
    let runs = |runs: &[f64]| format!("median of {runs:?}");
    row(
        "failover after SIGKILL, 1000 names",
        format!("{} ms", figures.failover_ms_1k),
        runs(&notes.failovers_1k),
    );
    let n = format!("failover after SIGKILL, {} names", args.names());
    row(&n, format!("{} ms", figures.failover_ms_n), runs(&notes.failovers_n));
    row("  beside that at 1000", ratio(figures.failover_ms_n, figures.failover_ms_1k), String::new());
    rows
}

/// The reasons for which registrations failed, if any did.
fn none_failed(failed: &BTreeMap<String, u32>) -> Result<()> {
    ensure!(failed.is_empty(), "some registrations failed: {failed:?}");
    Ok(())
}

/// Names for each second, from a count and nanoseconds.
fn per_second(count: u32, nanoseconds: u64) -> Result<f64> {
    ensure!(nanoseconds > 0, "no time has passed");
    #[expect(clippy::cast_precision_loss)] // of a duration, not of a date
    let seconds = nanoseconds as f64 / 1e9;
    Ok(rounded(f64::from(count) / seconds))
}

/// As milliseconds, with one decimal.
fn ms(nanoseconds: u64) -> f64 {
    crate::measure::as_ms(std::time::Duration::from_nanos(nanoseconds))
}

/// The difference of two counters for each of so many.
fn for_each(before: u64, after: u64, count: u32) -> Result<f64> {
    let grown = i64::try_from(after).context("too large")? - i64::try_from(before).context("too large")?;
    #[expect(clippy::cast_precision_loss)] // one decimal is kept
    Ok(rounded(grown as f64 / f64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_have_the_published_keys() {
        let figures = serde_json::to_value(Figures::default()).unwrap();
        let mut keys: Vec<_> = figures.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        let published = "bytes_per_name, commit_on_leader_p50_us, commit_p50_us, contested, cpu_us_per_registration, dashmap_get_ns, \
            double_grants, failover_ms_1k, failover_ms_n, join_ms, lookup_local_ns, lookup_remote_ns, \
            register_on_leader_p50_us, register_on_leader_p99_us, register_p50_us, register_p99_us, registrations_per_s";
        assert_eq!(keys.join(", "), published);
    }
}
