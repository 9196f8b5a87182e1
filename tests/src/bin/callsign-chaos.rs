//! `callsign-chaos`: does to real processes whatever can be done, and says whether a promise was broken.
//!
//! Exit status: 0 no violation, 1 a violation, with what and where, 2 wrong usage, 3 the run could not be made.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use callsign_sim::{colour::Colours, progress::Progress};
use callsign_tests::{
    chaos::{self, ChaosOptions, Said, nemesis::Kind, node},
    programs::{Place, positive, seed},
};
use clap::Parser;

/// Nodes of Callsign as real processes, under SIGKILL, SIGSTOP, cut links, a store that is gone, wrong wall clocks.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct ChaosCli {
    #[command(subcommand)]
    command: Option<ChaosCommand>,
    #[command(flatten)]
    run: ChaosRun,
}

#[derive(clap::Subcommand)]
enum ChaosCommand {
    /// A node of a run; for this program itself.
    #[command(hide = true)]
    Node(Box<node::Args>),
    /// Judges a run again that was kept: its histories and its recordings.
    Judge {
        /// Where it was kept.
        directory: PathBuf,
    },
}

#[derive(clap::Args)]
struct ChaosRun {
    /// For how many minutes faults come. A minute or so is needed besides to heal and to judge.
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    minutes: f64,
    /// The same seed gives the same faults at the same times. Default: a fresh one.
    #[arg(long)]
    seed: Option<u64>,
    /// `sqlite`, `postgres` (a private server, where Postgres is installed), `postgres-ha` (a primary and its synchronous standby), `etcd`
    /// (three private ones), or the URL of a store.
    #[arg(long, default_value = "sqlite")]
    store: String,
    /// How many nodes, 3 to 9.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: u8,
    /// The lease of sessions and of the singleton, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    lease: f64,
    /// Only these kinds of faults: kill, restart, pause, freeze, cut-way, cut, isolate, split, slow, lossy, break, store-cut,
    /// store-mute, store-stop, clock; over etcd also etcd-kill, etcd-stop, etcd-cut, etcd-quorum, etcd-compact, etcd-full,
    /// etcd-disk; over postgres-ha also pg-kill, pg-cut, pg-twice.
    #[arg(long, value_delimiter = ',', value_parser = kind)]
    only: Vec<Kind>,
    /// A network namespace for each node, and real packets lost, in place of proxies on loopback. Needs root and iproute2. Links
    /// are slow and lossy only where the kernel has netem.
    #[arg(long)]
    netns: bool,
    /// Where everything is written, and kept. Default: a temporary directory, kept only if something is wrong.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Plant a defect of this name in every node, to see it found.
    #[cfg(feature = "planted")]
    #[arg(long)]
    plant: Option<String>,
    /// Say no fault as it comes, only the figures.
    #[arg(long)]
    quiet: bool,
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| {
        let all: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("one of {}", all.join(", "))
    })
}

fn main() -> ExitCode {
    let cli = ChaosCli::parse();
    let result = match cli.command {
        Some(ChaosCommand::Node(args)) => {
            chaos::die_with_parent().and_then(|()| node::run(*args)).map(|()| ExitCode::SUCCESS)
        }
        Some(ChaosCommand::Judge { directory }) => judge_again(&directory),
        None => run(cli.run),
    };
    result.unwrap_or_else(|error| {
        eprintln!("callsign-chaos: {error:#}");
        ExitCode::from(3)
    })
}

fn run(run: ChaosRun) -> Result<ExitCode> {
    #[cfg(feature = "planted")]
    let plant = run.plant;
    #[cfg(not(feature = "planted"))]
    let plant = None;
    let place = Place::new(run.out, "callsign-chaos-")?;
    let options = ChaosOptions {
        time: Duration::from_secs_f64(run.minutes * 60.0),
        seed: seed(run.seed),
        store: run.store,
        nodes: usize::from(run.nodes),
        lease: Duration::from_secs_f64(run.lease),
        kinds: if run.only.is_empty() { Kind::ALL.to_vec() } else { run.only },
        plant,
        netns: run.netns,
        directory: place.directory().to_owned(),
    };
    println!("seed {}, in {}", options.seed, options.directory.display());
    let colours = Colours::of_stdout();
    // Without a terminal the lines say how far it is.
    let bar = (!run.quiet && std::io::stderr().is_terminal())
        .then(|| Progress::new("faults", "seconds", options.time.as_secs()));
    let report = chaos::run(&options, &mut |said| match (said, &bar) {
        (Said::At(at), Some(bar)) => bar.at(at.as_secs()),
        (Said::Line(what), Some(bar)) => bar.print(|| println!("{}", colours.faint(what))),
        (Said::Line(what), None) if !run.quiet => println!("{what}"),
        _ => {}
    })?;
    drop(bar);
    println!("{}", report.painted(Colours::of_stdout()));
    if matches!(place, Place::Asked(_)) {
        println!("kept in {}; the timeline is timeline.svg", options.directory.display());
    }
    if report.breaches.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if matches!(place, Place::Temporary(_)) {
        println!("kept in {}", place.keep().display());
    }
    Ok(ExitCode::from(1))
}

fn judge_again(directory: &Path) -> Result<ExitCode> {
    let verdict = chaos::report::again(directory)?;
    for (what, count) in &verdict.checked {
        println!("{count:>10}  {what}");
    }
    for (name, why) in &verdict.not_ordered {
        println!("not put in order: {name}: {why}");
    }
    let mut said = String::new();
    chaos::report::write_breaches(&mut said, &verdict.breaches, Colours::of_stdout())?;
    print!("{said}");
    Ok(if verdict.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_every_command_that_the_docs_tell_people_to_type() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        callsign_golden::assert_takes_what_is_documented(workspace, "callsign-chaos", 3, |_, words| {
            ChaosCli::try_parse_from(words).map(|_| true).map_err(|error| error.to_string())
        });
    }
}
