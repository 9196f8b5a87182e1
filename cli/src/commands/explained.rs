//! What a shell and `man` are told of the command.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

use crate::output::{Work, answer};

const NAME: &str = "callsign";

/// Arguments of `callsign completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Arguments of `callsign man`.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Where to write the pages. It is made if it is not there.
    directory: PathBuf,
}

/// Prints a script for a shell. It has no commands that are not for people.
pub(crate) fn completions(args: &CompletionsArgs, command: &Command) -> Result<ExitCode> {
    let for_people = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = Command::new(NAME).subcommands(for_people);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown, NAME, &mut script);
    let script = String::from_utf8(script).context("the script is no text")?;
    Ok(answer(&script, Work::Asks, 0))
}

/// Writes the pages: `callsign.1`, `callsign-node.1`, ...
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<ExitCode> {
    let directory = args.directory.display();
    std::fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {directory}"))?;
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("cannot write to {directory}"))?;
    Ok(answer(&format!("the pages are in {directory}\n"), Work::Changes, 0))
}
