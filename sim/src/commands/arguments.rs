//! What `run` and `replay` are told, in each of the worlds.

use std::path::PathBuf;

use clap::Args;

/// Runs seeds.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// How many seeds, of each scenario.
    #[arg(long, default_value_t = 10_000)]
    pub(super) seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    pub(super) first: u64,
    /// Which worlds; `all` are those of the registry that must hold, `elections-all` those of elections.
    #[arg(long, default_value = "standard")]
    pub(super) scenario: String,
    /// How many threads.
    #[arg(long, default_value_t = 2)]
    pub(super) jobs: usize,
    /// Go on after the first failure.
    #[arg(long)]
    pub(super) keep_going: bool,
    /// Where the traces and drawings of failing runs go.
    #[arg(long, default_value = "target/sim")]
    pub(super) out: PathBuf,
}

/// Replays a seed or a trace.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// The seed.
    #[arg(long, required_unless_present = "trace")]
    pub(super) seed: Option<u64>,
    /// A trace that was kept.
    #[arg(long, conflicts_with = "seed")]
    pub(super) trace: Option<PathBuf>,
    /// Which world the seed is of.
    #[arg(long, default_value = "standard")]
    pub(super) scenario: String,
    /// Print everything that happened, one line for each action.
    #[arg(long)]
    pub(super) print: bool,
    /// Tell and draw all of a run that fails, not only what the failure needs.
    #[arg(long)]
    pub(super) whole: bool,
    /// A defect to plant.
    #[cfg(feature = "planted")]
    #[arg(long)]
    pub(super) plant: Option<String>,
    /// Where the trace and the drawing go.
    #[arg(long, default_value = "target/sim")]
    pub(super) out: PathBuf,
}
