//! `callsign demo`: a cluster of processes that agrees on names, loses its leader, and goes on.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{
    colour::Colours,
    duration,
    output::{Steps, Work, answer, table, tell},
};

mod cluster;
mod singleton;
mod story;

use cluster::DemoCluster;

/// Arguments of `callsign demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many nodes the cluster has. One more joins at the end.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=32))]
    nodes: u32,
    /// How many names are registered, over all nodes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    names: u32,
    /// The store: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`. Default: a fresh file in a temporary directory, whatever
    /// `CALLSIGN_STORE` says.
    #[arg(long, value_parser = shared_store)]
    store: Option<String>,
    /// Show `callsign run` in place of names: the node that runs a program is killed, stopped and paused, again and again.
    #[arg(long, conflicts_with = "names")]
    singleton: bool,
    /// How often, with --singleton.
    #[arg(long, default_value_t = 5, requires = "singleton")]
    rounds: u32,
    /// The lease, with --singleton.
    #[arg(long, default_value = "3s", value_parser = duration::parse, requires = "singleton")]
    lease: Duration,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Keep the logs of the nodes in this directory. Without it, they are kept only if something fails.
    #[arg(long)]
    keep_logs: Option<PathBuf>,
}

/// Processes cannot share a store that is in the memory of one of them.
pub(crate) fn shared_store(url: &str) -> Result<String, String> {
    if url.starts_with("memory:") {
        return Err("several processes need a store that they share, sqlite:PATH, postgres://USER@HOST/DATABASE, etcd://HOST/PREFIX or fdb:CLUSTER_FILE".into());
    }
    Ok(url.to_owned())
}

/// What came of it. Times in milliseconds; null: it did not come so far.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DemoReport {
    ok: bool,
    nodes: u32,
    names: u32,
    leader_before: Option<String>,
    leader_after: Option<String>,
    epoch_before: Option<u64>,
    epoch_after: Option<u64>,
    /// From the kill until a registration on a survivor is acknowledged.
    failover_ms: Option<f64>,
    /// From the kill until no survivor knows a name of the dead node any more.
    release_ms: Option<f64>,
    /// From the start of a new process until its node knows as many names as the others.
    join_ms: Option<f64>,
    checks: BTreeMap<&'static str, bool>,
}

impl DemoReport {
    /// Notes whether something is as it should be, and says so: the first time, and whenever it is not.
    fn check(&mut self, name: &'static str, holds: bool) {
        let is_new = !self.checks.contains_key(name);
        if is_new || !holds {
            let word = Colours::of_stderr().verdict(holds, if holds { "ok  " } else { "FAIL" });
            tell(format_args!("  {word} {}", name.replace('_', " ")));
        }
        *self.checks.entry(name).or_insert(true) &= holds;
    }
}

/// What is being done.
struct DemoProgress {
    started: Instant,
    steps: Steps,
}

impl DemoProgress {
    fn of(steps: u64) -> Self {
        Self { started: Instant::now(), steps: Steps::of("demo", steps) }
    }

    /// Says what begins.
    fn begin(&self, text: &str) {
        self.steps.begin(format_args!("[{:6.2}s] {text}", self.started.elapsed().as_secs_f64()));
    }

    /// All is done.
    fn finish(self) {
        self.steps.finish();
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let directory = tempfile::Builder::new().prefix("callsign-demo-").tempdir()?;
    let logs = args.keep_logs.clone().unwrap_or_else(|| directory.path().to_owned());
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let store = args
        .store
        .clone()
        .unwrap_or_else(|| format!("sqlite:{}", directory.path().join("store.db").display()));

    let started = Instant::now();
    if args.singleton {
        let report = singleton::tell(&store, args.nodes, args.rounds, args.lease, logs);
        let is_ok = report.as_ref().is_ok_and(|report| report.ok);
        if !is_ok && args.keep_logs.is_none() {
            tell(format_args!("callsign: the logs of the nodes are kept in {}", directory.keep().display()));
        }
        let report = report?;
        let text = if args.json {
            format!("{}\n", serde_json::to_string(&report)?)
        } else {
            singleton::summary(&report, started.elapsed(), Colours::of_stdout())
        };
        return Ok(answer(&text, Work::Asks, u8::from(!is_ok)));
    }
    let mut report = DemoReport { nodes: args.nodes, names: args.names, ..DemoReport::default() };
    let mut cluster = DemoCluster::new(store, logs.clone());
    let result = story::tell(&mut cluster, &mut report);
    drop(cluster);
    if let Err(error) = &result {
        tell(format_args!("callsign: {error:#}"));
    }
    report.ok = result.is_ok() && report.checks.values().all(|holds| *holds);

    let text = if args.json {
        format!("{}\n", serde_json::to_string(&report)?)
    } else {
        summary(&report, started.elapsed(), Colours::of_stdout())
    };
    let status = answer(&text, Work::Asks, u8::from(!report.ok));
    if !report.ok && args.keep_logs.is_none() {
        tell(format_args!("callsign: the logs of the nodes are kept in {}", directory.keep().display()));
    }
    Ok(status)
}

fn summary(report: &DemoReport, elapsed: Duration, colours: Colours) -> String {
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
    let led = |leader: &Option<String>, epoch: Option<u64>| match (leader, epoch) {
        (Some(leader), Some(epoch)) => format!("{leader}, epoch {epoch}"),
        _ => "-".to_owned(),
    };
    let passed = report.checks.values().filter(|holds| **holds).count();
    let rows = [
        ("nodes, names", format!("{}, {}", report.nodes, report.names)),
        ("leader before the kill", led(&report.leader_before, report.epoch_before)),
        ("leader after it", led(&report.leader_after, report.epoch_after)),
        ("kill -> next registration acknowledged", time(report.failover_ms)),
        ("kill -> names of the dead node free", time(report.release_ms)),
        ("start of a new node -> it has every name", time(report.join_ms)),
        (
            "checks",
            format!("{passed} of {} passed, {:.1} s in all", report.checks.len(), elapsed.as_secs_f64()),
        ),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    let failed = report.checks.iter().filter(|(_, holds)| !**holds);
    let failed = failed.fold(String::new(), |before, (name, _)| {
        format!("{before}{}\n", colours.bad(format_args!("FAILED: {}", name.replace('_', " "))))
    });
    let verdict = if report.ok { "All is well." } else { "Something went wrong." };
    let verdict = colours.verdict(report.ok, verdict);
    format!("\n{}\n{failed}{verdict}\n", table(&["", ""], &rows).trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_the_published_keys() {
        let mut keys: Vec<_> = serde_json::to_value(DemoReport::default())
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        keys.sort();
        let mut published = [
            "ok",
            "nodes",
            "names",
            "leader_before",
            "leader_after",
            "epoch_before",
            "epoch_after",
            "failover_ms",
            "release_ms",
            "join_ms",
            "checks",
        ];
        published.sort_unstable();
        assert_eq!(keys, published);
    }

    #[test]
    fn the_verdict_has_colour_where_it_is_asked_for_and_no_escape_elsewhere() {
        let told = |ok, colours| {
            let mut report = DemoReport { ok, ..DemoReport::default() };
            report.checks.insert("a_check", ok);
            summary(&report, Duration::ZERO, colours)
        };
        let on = Colours::on();
        assert!(told(true, on).ends_with("\u{1b}[32mAll is well.\u{1b}[0m\n"), "{}", told(true, on));
        assert!(told(false, on).contains("\u{1b}[31mFAILED: a check\u{1b}[0m\n"), "{}", told(false, on));
        let plain = told(false, Colours::off());
        assert!(plain.ends_with("\nFAILED: a check\nSomething went wrong.\n"), "{plain}");
        assert!(!plain.contains('\u{1b}'));
    }

    #[test]
    fn a_check_that_failed_once_has_failed() {
        let mut report = DemoReport::default();
        report.check("a_check", false);
        report.check("a_check", true);
        assert!(!report.checks["a_check"]);
    }

    #[test]
    fn a_store_in_memory_is_refused_as_processes_cannot_share_it() {
        assert!(shared_store("memory:").is_err());
        assert!(shared_store("sqlite:/tmp/x.db").is_ok());
        assert!(shared_store("postgres://u@h/d").is_ok());
    }

    #[test]
    fn the_summary_says_what_was_measured_and_how_many_checks_held() {
        let mut report = DemoReport {
            nodes: 3,
            names: 10,
            leader_before: Some("n1".to_owned()),
            epoch_before: Some(4),
            failover_ms: Some(12.34),
            ..DemoReport::default()
        };
        for (check, holds) in [("one", true), ("two", true), ("three", false)] {
            report.check(check, holds);
        }
        let text = summary(&report, Duration::from_millis(2500), Colours::off());
        for (what, value) in [
            ("nodes, names", "  3, 10"),
            ("leader before the kill", "  n1, epoch 4"),
            ("leader after it", "  -"),
            ("kill -> next registration acknowledged", "  12.3 ms"),
            ("kill -> names of the dead node free", "  -"),
            ("checks", "  2 of 3 passed, 2.5 s in all"),
        ] {
            let line = text.lines().find(|line| line.starts_with(what)).unwrap();
            assert!(line.ends_with(value), "{line}");
        }
        assert!(text.contains("\nFAILED: three\n") && !text.contains("FAILED: one"), "{text}");
    }
}
