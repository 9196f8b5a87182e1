//! The command `callsign-sim`: seeds, traces, exhaustive searches, planted defects.

#![forbid(unsafe_code)]

mod commands;

use clap::Parser;

/// Checks the cores of Callsign: by seeds, exhaustively, and by defects that are planted to see that they are found.
#[derive(Parser, Debug)]
#[command(version)]
enum Command {
    /// Runs many seeds; of the first that fails: a short trace and a drawing.
    Run(commands::run::Run),
    /// Runs one seed, or a trace that was kept, again.
    Replay(commands::replay::Replay),
    /// Replays what the nodes of a run recorded, and checks it all together.
    CheckRecordings(commands::check_recordings::CheckRecordings),
    /// Searches small clusters to the end of every interleaving.
    Exhaustive(commands::exhaustive::Exhaustive),
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
        Command::CheckRecordings(check) => check.run(),
        Command::Exhaustive(exhaustive) => exhaustive.run(),
        Command::Rows(rows) => rows.run(),
        #[cfg(feature = "planted")]
        Command::Mutants(mutants) => mutants.run(),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}
