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

use super::DemoProgress;
use crate::{
    child::OwnedChild,
    colour::Colours,
    commands::witness::{Did, Line},
    measure::rounded,
    output::table,
    pause::{go_on, pause},
    processes::own_cluster,
};

/// How much longer than the lease anything may take.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(30);
/// How often it is looked.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// What came of it. Times in milliseconds, one for each round.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SingletonReport {
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

struct RunProcess {
    name: String,
    child: OwnedChild,
}

struct Demo<'a> {
    store: &'a str,
    cluster: String,
    lease: Duration,
    logs: PathBuf,
    file: PathBuf,
    nodes: Vec<RunProcess>,
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
pub(crate) fn tell(
    store: &str,
    nodes: u32,
    rounds: u32,
    lease: Duration,
    logs: PathBuf,
) -> Result<SingletonReport> {
    let file = logs.join("witness");
    let (cluster, _) = own_cluster("demo");
    let mut demo = Demo { store, cluster, lease, logs, file, nodes: Vec::new(), clock: Clock::boot() };
    let progress = DemoProgress::of(1 + 3 * u64::from(rounds));
    progress.begin(&format!("starting {nodes} nodes that would all run one program"));
    for number in 1..=nodes {
        demo.launch(&format!("n{number}"))?;
    }
    #[expect(clippy::cast_precision_loss)]
    let as_ms = |duration: Duration| duration.as_micros() as f64 / 1e3;
    let mut report = SingletonReport {
        nodes,
        lease_ms: as_ms(lease),
        poll_ms: as_ms(lease / 5 + lease / 10),
        ..SingletonReport::default()
    };
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
        let at = pause(&demo.node(&holder.member)?.child, store, &scratch, || at_boot(&clock))?;
        let next = demo.next(holder.at)?;
        report.paused_to_next_ms.push(ms(at, next.at));
        report.paused_gap_ms.push(ms(demo.last_act(holder.pid)?, next.at));
        go_on(&demo.node(&holder.member)?.child)?;
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
        self.nodes.push(RunProcess { name: name.to_owned(), child });
        Ok(())
    }

    fn node(&mut self, name: &str) -> Result<&mut RunProcess> {
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
pub(crate) fn summary(report: &SingletonReport, elapsed: Duration, colours: Colours) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, did: Did, at: u64) -> Line {
        Line { at, pid, member: format!("n{pid}"), epoch: 1, did }
    }

    #[test]
    fn who_acts_while_another_one_has_the_seat_overlaps() {
        use Did::{Act, Asked, End, Overlap, Start};
        let of = |did: &[(u32, Did)]| {
            overlaps(&did.iter().map(|(pid, did)| line(*pid, *did, 0)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(1, Start), (1, Act), (1, Asked), (1, End), (2, Start), (2, Act)]), 0);
        assert_eq!(of(&[(1, Start), (2, Start), (2, Act), (1, Act), (1, End)]), 2, "it went on");
        assert_eq!(of(&[(1, Start), (2, Overlap), (2, Act)]), 1, "the first one was there");
        assert_eq!(of(&[(1, Start), (2, Overlap), (1, Act)]), 2, "and acted");
    }

    fn demo(directory: &std::path::Path) -> Demo<'static> {
        Demo {
            store: "sqlite:/nowhere/x.db",
            cluster: "demo".to_owned(),
            lease: Duration::from_secs(1),
            logs: directory.to_owned(),
            file: directory.join("witness"),
            nodes: Vec::new(),
            clock: Clock::boot(),
        }
    }

    #[test]
    fn the_next_start_and_the_last_act_are_found_in_what_the_programs_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let demo = demo(directory.path());
        assert!(demo.lines().unwrap().is_empty(), "nobody has written yet");
        let write = |lines: &[Line], rest: &str| {
            let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
            fs::write(&demo.file, lines.collect::<String>() + rest).unwrap();
        };
        let said = [
            line(1, Did::Start, 3),
            line(1, Did::Act, 4),
            line(1, Did::Act, 5),
            line(2, Did::Start, 7),
            line(2, Did::Act, 8),
            line(3, Did::Overlap, 9),
        ];
        write(&said, "{\"at\": 10");
        assert_eq!(demo.lines().unwrap().len(), said.len(), "the last line is not whole yet");
        let next = |after| demo.next(after).unwrap().pid;
        assert_eq!([next(0), next(3), next(7)], [1, 2, 3]);
        assert_eq!((demo.last_act(1).unwrap(), demo.last_act(2).unwrap()), (5, 8));
        assert!(demo.last_act(4).is_err());
        write(&said, "no JSON\n");
        assert!(demo.lines().is_err());
    }

    #[test]
    fn a_node_that_is_started_again_takes_the_place_of_its_former_self() {
        let directory = tempfile::tempdir().unwrap();
        let mut demo = demo(directory.path());
        for name in ["n1", "n2", "n1"] {
            // The program of the tests does not know these arguments, and ends.
            demo.launch(name).unwrap();
        }
        assert_eq!(demo.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n2", "n1"]);
        assert_eq!(demo.node("n1").unwrap().name, "n1");
        let error = demo.node("n3").err().unwrap().to_string();
        assert_eq!(error, "there is no node n3");
        assert!(directory.path().join("n1.log").exists() && directory.path().join("n2.log").exists());
    }

    #[test]
    fn the_summary_has_the_times_of_all_rounds_and_the_verdict() {
        let mut report = SingletonReport {
            ok: true,
            nodes: 3,
            lease_ms: 3000.0,
            poll_ms: 900.0,
            killed_to_next_ms: vec![1.4, 2.6],
            starts: 4,
            ..SingletonReport::default()
        };
        let told = |report: &SingletonReport| summary(report, Duration::from_millis(2500), Colours::off());
        let text = told(&report);
        for (what, value) in [
            ("nodes", "  3"),
            ("lease; poll with jitter, at most", "  3000 ms; 900 ms"),
            ("node killed -> next program started", "  1, 3 ms"),
            ("node killed -> its program's last act", "  -"),
            ("programs started, overlaps", "  4, 0"),
            ("took", "  2.5 s"),
        ] {
            let line = text.lines().find(|line| line.starts_with(what)).unwrap();
            assert!(line.ends_with(value), "{line}");
        }
        assert!(text.ends_with("\nNever two at once.\n"), "{text}");
        report.ok = false;
        assert!(told(&report).ends_with("\nSomething went wrong.\n"));
    }
}
