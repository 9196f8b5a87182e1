//! The command `callsign`: run a node, ask it, watch a cluster fail over, measure it.
//!
//! Exit status: 0 done, 1 "no" or failed, 2 wrong usage, 3 "don't know".

#![forbid(unsafe_code)]
// They panic where nobody reads, and wait for who reads slowly: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(unreachable_pub)] // a library only so that its parts can be fuzzed

mod address;
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
mod processes;
mod program;
mod progress;
mod reply;
mod runtime;
mod service;
mod token;
mod usage;

use std::{ffi::OsStr, path::PathBuf, process::ExitCode};

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
use usage::Usage;

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

/// No member is looked for that could be drained.
const DRAINED_NODE: &str = "The admin endpoint of the node that is to drain, as it printed it at its start: HOST:PORT, or \
    http://HOST:PORT. There is no way back, so it has to be said";

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
    #[command(
        mut_arg("node", |node| node.help(DRAINED_NODE)),
        mut_arg("store", |store| store.hide(true)),
        mut_arg("cluster", |cluster| cluster.hide(true)),
        mut_arg("registry", |registry| registry.hide(true))
    )]
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
    /// Stands between `run` or `hold` and its program, and ends the program if the command does not.
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Becomes the program that a guard has started.
    #[command(hide = true)]
    GuardedStart(guard::StartArgs),
    /// A program that says when it runs, and whether another one does.
    #[command(hide = true)]
    Witness(witness::Args),
}

/// What was wrong with the arguments. If the store is missing, both ways to name it are said. So are those to name a node, if a cluster
/// was named beside it.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let missing = error.get(ContextKind::InvalidArg);
    let is_store = |missing: &ContextValue| matches!(missing, ContextValue::Strings(of) if of.iter().any(|of| of.starts_with("--store ")));
    let lacks_store = missing.is_some_and(is_store);
    let names = |argument: &str| {
        let said = [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| error.get(kind));
        said.into_iter().flatten().any(|said| said.to_string().starts_with(argument))
    };
    let names_both = names("--cluster ") && names("--node ");
    let tip = match error.kind() {
        ErrorKind::MissingRequiredArgument if lacks_store => {
            "`--store URL` or the variable CALLSIGN_STORE says which store is meant"
        }
        ErrorKind::ArgumentConflict if names_both => {
            "`--node` or the variable CALLSIGN_NODE says which node is asked; `--cluster` is for `--store`"
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The command, which does not read those variables of the environment: one that is empty is none.
fn without_variables(command: clap::Command, are: impl Fn(&OsStr) -> bool) -> clap::Command {
    let without = |argument: clap::Arg| {
        if argument.get_env().is_some_and(&are) { argument.env(None::<&str>) } else { argument }
    };
    command.mut_args(without).mut_subcommands(|of| of.mut_args(without))
}

fn refuse(wrong: &Usage) -> ExitCode {
    tell(format_args!("callsign: {wrong}"));
    Verdict::Usage.exit_status().into()
}

/// Runs the command, with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let is_empty = |variable: &OsStr| std::env::var_os(variable).is_some_and(|value| value.is_empty());
    let own = without_variables(Cli::command(), is_empty);
    let mut command = match config_file::applied(own.clone(), &arguments) {
        Ok(command) => command,
        Err(wrong) => return refuse(&wrong),
    };
    let matches = match command.try_get_matches_from_mut(&arguments) {
        Ok(matches) => matches,
        Err(error) => match config_file::wrong_value(&error, own, &arguments) {
            Some(wrong) => return refuse(&wrong),
            None => with_tip(error).exit(),
        },
    };
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
    fn a_variable_that_is_empty_is_read_by_no_command() {
        let read = |command: &clap::Command| -> std::collections::BTreeSet<_> {
            let all = std::iter::once(command).chain(command.get_subcommands());
            let variables = all.flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_env);
            variables.map(|variable| variable.to_str().unwrap().to_owned()).collect()
        };
        let all = read(&Cli::command());
        for variable in ["CALLSIGN_CONFIG", "CALLSIGN_NODE", "CALLSIGN_STORE", "CALLSIGN_TOKEN_FILE"] {
            let left = read(&without_variables(Cli::command(), |empty| empty == variable));
            assert_eq!(all.difference(&left).collect::<Vec<_>>(), [variable]);
        }
    }

    #[test]
    fn the_help_of_drain_finds_no_node_since_the_command_does_not() {
        let mut command = Cli::command();
        let mut help = |of| {
            let help = command.find_subcommand_mut(of).unwrap().render_long_help().to_string();
            help.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (drain, status) = (help("drain"), help("status"));
        assert!(status.contains("--store") && status.contains("127.0.0.1:7077"), "{status}");
        assert!(drain.contains("--node") && drain.contains("it has to be said"), "{drain}");
        for untrue in ["--store", "--cluster", "--registry", "127.0.0.1:7077"] {
            assert!(!drain.contains(untrue), "{untrue}: {drain}");
        }
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
    fn a_cluster_is_not_named_beside_the_node_that_is_asked() {
        let asked = |of_file: Option<&'static str>, words: &[&'static str]| {
            let command = Cli::command().mut_subcommand("whereis", |of| {
                // The tests may run where one is named.
                let of = of.mut_arg("node", |node| node.env(None::<&str>));
                let Some(name) = of_file else { return of };
                of.mut_arg("cluster", |cluster| cluster.default_value(name))
            });
            let words = [&["callsign", "whereis", "nm"], words].concat();
            command.try_get_matches_from(words).map_err(with_tip)
        };
        let (node, cluster) = (["--node", "127.0.0.1:1"], ["--cluster", "c1"]);
        for words in [[node, cluster].concat(), [cluster, node].concat()] {
            let error = asked(None, &words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
            assert!(error.to_string().contains("CALLSIGN_NODE"), "{error}");
        }
        assert!(asked(None, &cluster).is_ok());
        assert!(asked(Some("c1"), &node).is_ok(), "a file of options is for all commands");
    }

    #[test]
    fn it_takes_every_command_that_the_docs_tell_people_to_type() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        callsign_golden::assert_takes_what_is_documented(workspace, "callsign", 20, |_, words| {
            Cli::try_parse_from(words).map(|_| true).map_err(|error| error.to_string())
        });
    }
}
