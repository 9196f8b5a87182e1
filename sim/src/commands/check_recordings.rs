//! `check-recordings`: replays what nodes recorded, and checks it all together.

use std::path::PathBuf;

use callsign_sim::recording;
use clap::Args;

/// Replays a directory of recordings.
#[derive(Args, Debug)]
pub(crate) struct CheckRecordings {
    /// The directory that all nodes of a run were given as `--record`.
    directory: PathBuf,
}

impl CheckRecordings {
    /// Runs the command. An error says what is wrong with the recordings.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        print!("{}", recording::check(&self.directory)?);
        say!("every core asks for what it asked for, and the recordings agree");
        Ok(())
    }
}
