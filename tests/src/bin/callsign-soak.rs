//! `callsign-soak`: whether a cluster that works for long, while nodes come and go, keeps what it does not need. See [`callsign_tests::soak`].
//!
//! Exit status: 0 if everything stayed flat and no promise was broken, 1 if not, 2 for wrong usage, 3 if it could not run.

#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use callsign_tests::{
    chaos::{self, node},
    programs::{Place, positive, seed},
    soak::{self, SoakOptions},
};
use clap::Parser;

/// A cluster of real processes that works for long, while nodes come and go: memory, files, threads, the store and how long
/// registrations take must stay flat.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct SoakCli {
    #[command(subcommand)]
    command: Option<SoakCommand>,
    #[command(flatten)]
    run: SoakRun,
}

#[derive(clap::Subcommand)]
enum SoakCommand {
    /// A node of a run; for this program itself.
    #[command(hide = true)]
    Node(Box<node::Args>),
}

#[derive(clap::Args)]
struct SoakRun {
    /// For how many minutes it is measured. Some seconds are needed besides to begin and to judge. From 10 minutes on, it is
    /// judged too how long registrations take.
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    minutes: f64,
    /// The same seed has the same nodes go in the same order. Default: a fresh one.
    #[arg(long)]
    seed: Option<u64>,
    /// `sqlite`, `postgres` (a private server, where Postgres is installed), or the URL of a store.
    #[arg(long, default_value = "sqlite")]
    store: String,
    /// How many nodes, 3 to 9: two stay, the others come and go.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: u8,
    /// The lease of sessions, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    lease: f64,
    /// Have each node keep so many KiB a second for ever, to see that found.
    #[arg(long, default_value_t = 0, value_name = "KIB")]
    leak: u64,
    /// Print what it came to as JSON.
    #[arg(long)]
    json: bool,
    /// Say nothing meanwhile, only what it came to.
    #[arg(long)]
    quiet: bool,
    /// Where everything is written, and kept. Default: a temporary directory, kept only if something is wrong.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = SoakCli::parse();
    let result = match cli.command {
        Some(SoakCommand::Node(args)) => {
            chaos::die_with_parent().and_then(|()| node::run(*args)).map(|()| ExitCode::SUCCESS)
        }
        None => run(cli.run),
    };
    result.unwrap_or_else(|error| {
        eprintln!("callsign-soak: {error:#}");
        ExitCode::from(3)
    })
}

fn run(run: SoakRun) -> Result<ExitCode> {
    let place = Place::new(run.out, "callsign-soak-")?;
    let options = SoakOptions {
        time: Duration::from_secs_f64(run.minutes * 60.0),
        seed: seed(run.seed),
        store: run.store,
        nodes: usize::from(run.nodes),
        lease: Duration::from_secs_f64(run.lease),
        leak: run.leak,
        directory: place.directory().to_owned(),
    };
    // What it came to is all that programs are to read.
    let mut say = |what: &str| match (run.quiet, run.json) {
        (true, _) => {}
        (false, true) => eprintln!("{what}"),
        (false, false) => println!("{what}"),
    };
    say(&format!("seed {}, in {}", options.seed, options.directory.display()));
    let report = soak::run(&options, &mut say)?;
    if run.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    if report.breaches.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("kept in {}", place.keep().display());
    Ok(ExitCode::from(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_every_command_that_the_docs_tell_people_to_type() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        callsign_golden::assert_takes_what_is_documented(workspace, "callsign-soak", 2, |_, words| {
            SoakCli::try_parse_from(words).map(|_| true).map_err(|error| error.to_string())
        });
    }
}
