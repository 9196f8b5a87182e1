//! `callsign-sim crowd`: as many members as a registry takes.

use std::time::Duration;

use anyhow::ensure;
use callsign_sim::nodes::crowd;

/// Starts as many members as a registry takes all at once, starts each again, and has half of them die: whole nodes, under a paused clock.
#[derive(clap::Args, Debug)]
pub(crate) struct Crowd {
    /// How many members.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(3..=256))]
    members: u16,
    /// The lease of their sessions, in seconds.
    #[arg(long, default_value_t = 10)]
    lease: u64,
    /// What the nodes draw their numbers from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// All serve within this.
const UP: Duration = Duration::from_secs(60);
/// The names of the dead are granted again within two leases, and this: what looks for a death looks again and again.
const BESIDE_LEASES: Duration = Duration::from_secs(2);

impl Crowd {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let lease = Duration::from_secs(self.lease);
        let outcome = crowd::run(self.members.into(), lease, self.seed, |step| tell!("{step} ..."))?;
        say!("{} members, virtual time", self.members);
        say!("{outcome}");
        ensure!(outcome.up <= UP, "they were not up within {UP:?}");
        let within = lease.saturating_mul(2).saturating_add(BESIDE_LEASES);
        ensure!(
            outcome.freed.saturating_add(outcome.granted) <= within,
            "the names of the dead were not granted again within {within:?}"
        );
        Ok(())
    }
}
