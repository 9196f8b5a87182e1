//! The command `callsign-sim`: seeds, traces, exhaustive searches, planted defects.

#![forbid(unsafe_code)]

#[macro_use]
mod output;
mod commands;

use clap::Parser;

/// Whole nodes, and cores that are cloned, make and free small pieces all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Checks the cores of Callsign: by seeds, exhaustively, and by defects that are planted to see that they are found.
#[derive(Parser, Debug)]
#[command(version)]
enum Command {
    /// Runs many seeds; of the first that fails: a short trace and a drawing.
    Run(commands::arguments::Run),
    /// Runs one seed, or a trace that was kept, again.
    Replay(commands::arguments::Replay),
    /// Runs whole nodes, as they ship, under seeds: each in a process of its own.
    Nodes(commands::nodes::Nodes),
    /// Starts as many whole nodes as a registry takes members, starts each again, and has half of them die.
    Crowd(commands::crowd::Crowd),
    /// Replays what the nodes of a run recorded, and checks it all together.
    CheckRecordings(commands::check_recordings::CheckRecordings),
    /// Searches small clusters to the end of every interleaving.
    Exhaustive(commands::exhaustive::Exhaustive),
    /// Measures what a change costs a member, by how many are under way.
    Cost(commands::cost::Cost),
    /// Prints what elections must do, and which tests show it.
    Rows(commands::rows::Rows),
    /// Plants each known defect, and looks for it.
    #[cfg(feature = "planted")]
    Mutants(commands::mutants::Mutants),
}

fn main() -> std::process::ExitCode {
    let done = match Command::parse() {
        Command::Run(run) => run.run(),
        Command::Replay(replay) => replay.run(),
        Command::Nodes(nodes) => nodes.run(),
        Command::Crowd(crowd) => crowd.run(),
        Command::CheckRecordings(check) => check.run(),
        Command::Exhaustive(exhaustive) => exhaustive.run(),
        Command::Cost(cost) => cost.run(),
        Command::Rows(rows) => rows.run(),
        #[cfg(feature = "planted")]
        Command::Mutants(mutants) => mutants.run(),
    };
    if let Err(error) = done {
        tell!("{}", callsign_sim::colour::Colours::of_stderr().bad(error));
        return std::process::ExitCode::FAILURE;
    }
    output::status()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_every_command_that_the_docs_tell_people_to_type() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        callsign_golden::assert_takes_what_is_documented(workspace, "callsign-sim", 5, |command, words| {
            // In this command only with the feature, which the line itself asks for.
            if words[1] == "mutants" && !cfg!(feature = "planted") {
                assert!(command.text().contains("--features callsign-sim/planted"), "{}", command.place);
                return Ok(false);
            }
            Command::try_parse_from(words).map(|_| true).map_err(|error| error.to_string())
        });
    }
}
