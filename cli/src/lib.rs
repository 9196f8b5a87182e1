//! The command `callsign`: run a node, ask it, watch a cluster fail over, measure it.
//!
//! Exit status: 0 done, 1 "no" or failed, 2 wrong usage, 3 "don't know".

#![forbid(unsafe_code)]
// They panic where nobody reads, and wait for who reads slowly: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(unreachable_pub)] // a library only so that its parts can be fuzzed

mod admin;
mod child;
mod client;
mod colour;
mod commands;
mod config_file;
mod directory;
mod duration;
mod echo;
mod fenced;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod hosted;
mod joining;
mod keys;
mod lease;
mod logging;
mod measure;
mod metrics;
mod node_url;
mod output;
mod pause;
mod program;
mod progress;
mod reply;
mod service;
mod token;
mod usage;

use std::{path::PathBuf, process::ExitCode};

use clap::{
    CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use commands::{
    ask, bench, bench_node, demo, doctor, explain, explained, hold, node, registries, run, top, watch, wipe,
    witness,
};
use output::{Work, answer, tell};
use reply::Verdict;

/// Gives running actors names that a whole cluster agrees on.
#[derive(Parser)]
#[command(name = "callsign", version, after_help = EXIT_STATUS)]
struct Cli {
    /// A file with options, in TOML: `store = "sqlite:/x.db"` for every command, and below `[node]` those of `node`. The command line and the
    /// environment come first.
    #[arg(long, global = true, env = "CALLSIGN_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the options that hold, as such a file, and do nothing else. It has the password of the store, if there is one.
    #[arg(long, global = true)]
    print_config: bool,
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 done, 1 \"no\" (taken, not found) or failed, 2 wrong usage, \
    3 \"don't know\" (no answer, no leader, outcome unknown; or an answer that could not be printed, of a command that \
    only asks).";

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it
enum Command {
    /// Runs a node until it is told to leave (SIGTERM, SIGINT, or POST /leave).
    Node(node::Args),
    /// Runs a program on exactly one of the nodes where it is started.
    Run(run::Args),
    /// Holds a name while a program runs.
    Hold(hold::Args),
    /// Registers a name for an echo actor on a running node.
    Register(ask::RegisterArgs),
    /// Replaces what a name that the node holds says of itself.
    Update(ask::UpdateArgs),
    /// Gives up a name that the node holds.
    Unregister(ask::NameArgs),
    /// Has a name go from the node that holds it to another one. It is free at no moment.
    Transfer(ask::TransferArgs),
    /// Has a node hand over what it leads, and the names that move. It takes no new names from then on.
    Drain(ask::Args),
    /// Says who holds a name.
    Whereis(ask::WhereisArgs),
    /// Says who holds a name, and where each member of the registry is.
    Explain(explain::Args),
    /// Sends a text to the echo actor that holds a name, and prints its answer.
    Call(ask::CallArgs),
    /// Lists the names, as the node knows them.
    Ls(ask::LsArgs),
    /// Prints what changes of the names, as it comes.
    Watch(watch::Args),
    /// Lists the members of the registry, as the node last read them.
    Members(ask::Args),
    /// Shows what the node knows of the registry and of itself.
    Status(ask::Args),
    /// Shows the members, who leads, and what goes on, again and again.
    Top(top::Args),
    /// Sets something of the registry's elections for all its members, while they run.
    Configure(ask::ConfigureArgs),
    /// Runs a cluster of processes, kills its leader, and checks what becomes of the names.
    Demo(demo::Args),
    /// Measures a cluster of processes. Use a release build.
    Bench(bench::Args),
    /// Looks at a store, and says in words what is wrong with it.
    Doctor(doctor::Args),
    /// Lists the registries of a cluster, as its store has them.
    Registries(registries::Args),
    /// Removes a registry from a store, with all its names.
    Wipe(wipe::Args),
    /// Prints what a shell needs to complete this command.
    Completions(explained::CompletionsArgs),
    /// Writes a page for `man` of each command.
    Man(explained::ManArgs),
    /// One process of the bench, driven by lines of JSON.
    #[command(hide = true)]
    BenchNode,
    /// Stands between `run` and its program, and ends the program if `run` does not.
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Becomes the program that a guard has started.
    #[command(hide = true)]
    GuardedStart(guard::StartArgs),
    /// A program that says when it runs, and whether another one does.
    #[command(hide = true)]
    Witness(witness::Args),
}

/// What was wrong with the arguments. If the store is missing, both ways to name it are said.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let missing = error.get(ContextKind::InvalidArg);
    let is_store = |missing: &ContextValue| matches!(missing, ContextValue::Strings(of) if of.iter().any(|of| of.starts_with("--store ")));
    if error.kind() == ErrorKind::MissingRequiredArgument && missing.is_some_and(is_store) {
        let tip = "`--store URL` or the variable CALLSIGN_STORE says which store is meant".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Runs the command, with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut command = match config_file::applied(Cli::command(), &arguments) {
        Ok(command) => command,
        Err(usage) => {
            tell(format_args!("callsign: {usage}"));
            return Verdict::Usage.exit_status().into();
        }
    };
    let matches = command.try_get_matches_from_mut(&arguments).unwrap_or_else(|error| with_tip(error).exit());
    if matches.get_flag("print_config") {
        return answer(&config_file::in_force(&command, &matches), Work::Asks, 0);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Err(error) = child::die_with_parent() {
        tell(format_args!("callsign: {error:#}"));
        return ExitCode::FAILURE;
    }
    let result = match cli.command {
        Command::Node(args) => Ok(node::run(&args)),
        Command::Run(args) => Ok(run::run(&args)),
        Command::Hold(args) => Ok(hold::run(&args)),
        Command::Register(args) => Ok(ask::register(&args)),
        Command::Unregister(args) => Ok(ask::unregister(&args)),
        Command::Transfer(args) => Ok(ask::transfer(&args)),
        Command::Drain(args) => Ok(ask::drain(&args)),
        Command::Whereis(args) => Ok(ask::whereis(&args)),
        Command::Explain(args) => Ok(explain::run(&args)),
        Command::Call(args) => Ok(ask::call(&args)),
        Command::Update(args) => Ok(ask::update(&args)),
        Command::Ls(args) => Ok(ask::ls(&args)),
        Command::Watch(args) => Ok(watch::run(&args)),
        Command::Members(args) => Ok(ask::members(&args)),
        Command::Status(args) => Ok(ask::status(&args)),
        Command::Top(args) => Ok(top::run(&args)),
        Command::Configure(args) => Ok(ask::configure(&args)),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Registries(args) => Ok(registries::run(&args)),
        Command::Wipe(args) => Ok(wipe::run(&args)),
        Command::Completions(args) => explained::completions(&args, &Cli::command()),
        Command::Man(args) => explained::man(&args, Cli::command()),
        Command::BenchNode => bench_node::run(),
        Command::Guard(args) => guard::guard(&args),
        Command::GuardedStart(args) => guard::start(&args),
        Command::Witness(args) => witness::run(&args),
    };
    result.unwrap_or_else(|error| {
        tell(format_args!("callsign: {error:#}"));
        usage::exit_status(&error).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_no_command_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_that_takes_a_store_takes_it_from_the_environment_but_those_that_make_one() {
        let command = Cli::command();
        let takes = |of: &&clap::Command| of.get_arguments().any(|argument| argument.get_id() == "store");
        let reads = |of: &clap::Command| {
            let store = of.get_arguments().find(|argument| argument.get_id() == "store").unwrap();
            store.get_env() == Some("CALLSIGN_STORE".as_ref()) && store.is_hide_env_values_set()
        };
        let silent: Vec<_> = command.get_subcommands().filter(takes).filter(|of| !reads(of)).collect();
        let silent: Vec<_> = silent.into_iter().map(clap::Command::get_name).collect();
        assert_eq!(silent, ["demo", "bench"]);
    }

    #[test]
    fn who_names_no_store_reads_how_to_name_one() {
        let command = Cli::command();
        let needs = |of: &&clap::Command| {
            of.get_arguments().any(|argument| argument.get_id() == "store" && argument.is_required_set())
        };
        let needs: Vec<_> = command.get_subcommands().filter(needs).map(clap::Command::get_name).collect();
        assert_eq!(needs, ["node", "hold", "doctor", "registries", "wipe"]);
        for name in needs {
            // The tests may run where one is named.
            let command = Cli::command()
                .mut_subcommand(name, |of| of.mut_arg("store", |store| store.env(None::<&str>)));
            let error = with_tip(command.try_get_matches_from(["callsign", name]).unwrap_err()).to_string();
            for way in ["--store URL", "CALLSIGN_STORE"] {
                assert!(error.contains(way), "{name}: {error}");
            }
        }
        let other = Cli::command().try_get_matches_from(["callsign", "whereis"]).unwrap_err();
        assert!(!with_tip(other).to_string().contains("CALLSIGN_STORE says"));
    }

    #[test]
    fn it_takes_every_command_that_the_docs_tell_people_to_type() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        callsign_golden::assert_takes_what_is_documented(workspace, "callsign", 20, |_, words| {
            Cli::try_parse_from(words).map(|_| true).map_err(|error| error.to_string())
        });
    }
}
