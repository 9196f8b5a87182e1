//! `callsign demo --singleton`: several `callsign run` over one store, whose holder is killed, stopped in good order, and
//! paused, again and again; how long until another one runs the program, and whether two ever did.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use callsign_store::clock::Clock;
use serde::Serialize;

use super::Progress;
use crate::{
    child::OwnedChild,
    colour::Colours,
    commands::witness::{Did, Line},
    measure::{now_ns, rounded},
    output::table,
    pause::{go_on, pause},
};

/// How much longer than the lease anything may take.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(30);
/// How often it is looked.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// What came of it. Times in milliseconds, one for each round.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(super) ok: bool,
    nodes: u32,
    lease_ms: f64,
    /// The longest time between two looks of a node that waits: the poll and its jitter.
    poll_ms: f64,
    /// From SIGKILL of the node until another one's program has started.
    killed_to_next_ms: Vec<f64>,
    /// From SIGKILL of the node until its program acts for the last time.
    killed_to_last_act_ms: Vec<f64>,
    /// From SIGTERM to the node until another one's program has started.
    stopped_to_next_ms: Vec<f64>,
    /// From SIGSTOP of the node until another one's program has started.
    paused_to_next_ms: Vec<f64>,
    /// From the last act of a program whose node was paused until the first of the next: what was left of the lease.
    paused_gap_ms: Vec<f64>,
    /// How often the program was started.
    starts: usize,
    /// How often one was there when another one started, or acted after that.
    overlaps: usize,
}

struct Node {
    name: String,
    child: OwnedChild,
}

struct Demo<'a> {
    store: &'a str,
    cluster: String,
    lease: Duration,
    logs: PathBuf,
    file: PathBuf,
    nodes: Vec<Node>,
    clock: Clock,
}

fn ms(from: u64, to: u64) -> f64 {
    #[expect(clippy::cast_precision_loss)]
    let ns = to.saturating_sub(from) as f64;
    rounded(ns / 1e6)
}

/// The moment, as the programs write it.
fn at_boot(clock: &Clock) -> u64 {
    u64::try_from(clock.now().0.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs it, and says what came of it.
pub(crate) fn tell(store: &str, nodes: u32, rounds: u32, lease: Duration, logs: PathBuf) -> Result<Report> {
    let file = logs.join("witness");
    // A cluster of its own, so that it does not matter what else the store holds.
    let cluster = format!("demo-{}-{}", std::process::id(), now_ns());
    let mut demo = Demo { store, cluster, lease, logs, file, nodes: Vec::new(), clock: Clock::boot() };
    let progress = Progress::of(1 + 3 * u64::from(rounds));
    progress.begin(&format!("starting {nodes} nodes that would all run one program"));
    for number in 1..=nodes {
        demo.launch(&format!("n{number}"))?;
    }
    #[expect(clippy::cast_precision_loss)]
    let as_ms = |duration: Duration| duration.as_micros() as f64 / 1e3;
    let mut report =
        Report { nodes, lease_ms: as_ms(lease), poll_ms: as_ms(lease / 5 + lease / 10), ..Report::default() };
    let mut holder = demo.next(0)?;
    for round in 1..=rounds {
        progress.begin(&format!("round {round}: killing {} (SIGKILL)", holder.member));
        let at = demo.now();
        demo.node(&holder.member)?.child.crash()?;
        let next = demo.next(holder.at)?;
        report.killed_to_next_ms.push(ms(at, next.at));
        report.killed_to_last_act_ms.push(ms(at, demo.last_act(holder.pid)?));
        demo.launch(&holder.member)?;
        holder = next;

        progress.begin(&format!("round {round}: stopping {} in good order (SIGTERM)", holder.member));
        let at = demo.now();
        demo.node(&holder.member)?.child.terminate()?;
        let next = demo.next(holder.at)?;
        report.stopped_to_next_ms.push(ms(at, next.at));
        let status = demo.node(&holder.member)?.child.wait(BEYOND_THE_LEASE)?;
        ensure!(status.is_some_and(|status| status.success()), "{} ended with {status:?}", holder.member);
        demo.launch(&holder.member)?;
        holder = next;

        progress.begin(&format!("round {round}: pausing {} (SIGSTOP)", holder.member));
        let (store, scratch, clock) = (demo.store, format!("callsign-{}", demo.cluster), demo.clock.clone());
        let at = pause(&mut demo.node(&holder.member)?.child, store, &scratch, || at_boot(&clock))?;
        let next = demo.next(holder.at)?;
        report.paused_to_next_ms.push(ms(at, next.at));
        report.paused_gap_ms.push(ms(demo.last_act(holder.pid)?, next.at));
        go_on(&mut demo.node(&holder.member)?.child)?;
        holder = next;
    }
    progress.finish();
    let lines = demo.lines()?;
    report.starts = lines.iter().filter(|line| matches!(line.did, Did::Start | Did::Overlap)).count();
    report.overlaps = overlaps(&lines);
    report.ok = report.overlaps == 0;
    Ok(report)
}

/// How often one ran while another one did, as they say themselves.
fn overlaps(lines: &[Line]) -> usize {
    let mut holder = None;
    let mut overlaps = 0;
    for line in lines {
        match line.did {
            Did::Start => holder = Some(line.pid),
            Did::Overlap => {
                overlaps += 1;
                holder = Some(line.pid);
            }
            Did::Act | Did::Asked | Did::End => overlaps += usize::from(holder != Some(line.pid)),
        }
    }
    overlaps
}

impl Demo<'_> {
    fn now(&self) -> u64 {
        at_boot(&self.clock)
    }

    fn launch(&mut self, name: &str) -> Result<()> {
        self.nodes.retain(|node| node.name != name);
        let path = self.logs.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        let child = OwnedChild::spawn(|command| {
            command.args(["run", "--singleton", "demo", "--store", self.store, "--cluster", &self.cluster]);
            command.args(["--member", name, "--lease", &format!("{}ms", self.lease.as_millis())]);
            // It was asked for, however slow the machine is now.
            command.args(["--lease-anyway", "--"]);
            command.args(["/proc/self/exe", "witness", "--file"]).arg(&self.file);
            command.stdout(Stdio::null()).stderr(log);
        })?;
        self.nodes.push(Node { name: name.to_owned(), child });
        Ok(())
    }

    fn node(&mut self, name: &str) -> Result<&mut Node> {
        self.nodes
            .iter_mut()
            .find(|node| node.name == name)
            .with_context(|| format!("there is no node {name}"))
    }

    fn lines(&self) -> Result<Vec<Line>> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).context("a witness writes no JSON")).collect()
    }

    /// Waits for the next start after a time.
    fn next(&self, after: u64) -> Result<Line> {
        let began = Instant::now();
        while began.elapsed() < self.lease + BEYOND_THE_LEASE {
            let started = |line: &Line| matches!(line.did, Did::Start | Did::Overlap) && line.at > after;
            if let Some(line) = self.lines()?.into_iter().find(started) {
                return Ok(line);
            }
            std::thread::sleep(POLL_EVERY);
        }
        bail!("nobody started the program")
    }

    fn last_act(&self, pid: u32) -> Result<u64> {
        let lines = self.lines()?;
        let last = lines.iter().rev().find(|line| line.pid == pid).map(|line| line.at);
        last.context("the program did nothing")
    }
}

/// The report for people.
pub(crate) fn summary(report: &Report, elapsed: Duration, colours: Colours) -> String {
    let times = |times: &[f64]| {
        let all: Vec<_> = times.iter().map(|ms| format!("{ms:.0}")).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(", ") + " ms" }
    };
    let rows = [
        ("nodes", report.nodes.to_string()),
        ("lease; poll with jitter, at most", format!("{} ms; {} ms", report.lease_ms, report.poll_ms)),
        ("node killed -> next program started", times(&report.killed_to_next_ms)),
        ("node killed -> its program's last act", times(&report.killed_to_last_act_ms)),
        ("node stopped in good order -> next program started", times(&report.stopped_to_next_ms)),
        ("node paused -> next program started", times(&report.paused_to_next_ms)),
        ("last act of a paused node's program -> next program started", times(&report.paused_gap_ms)),
        ("programs started, overlaps", format!("{}, {}", report.starts, report.overlaps)),
        ("took", format!("{:.1} s", elapsed.as_secs_f64())),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    let verdict = if report.ok { "Never two at once." } else { "Something went wrong." };
    let verdict = colours.verdict(report.ok, verdict);
    format!("\n{}\n{verdict}\n", table(&["", ""], &rows).trim_start())
}
