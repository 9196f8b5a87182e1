//! `mutants`: plants each defect, and looks for it.
#![allow(clippy::disallowed_methods)] // the wall clock, for speed

use std::{path::Path, time::Instant};

use callsign_sim::{
    colour::Colours,
    mutants::{FOUND_TOO, MUTANTS, Mutant},
    progress::Progress,
    references,
    scenario::Scenario,
    simulated::Simulated,
    sweep::{Plan, sweep},
    trace::Trace,
};
use clap::{Args, ValueEnum};

/// The scenario of those that are looked for in whole nodes, a process for each seed.
const WHOLE_NODES: &str = "nodes";

/// Where those are that are looked for in a trace that is pinned.
const PINNED: &str = "traces/";

/// Plants each defect and looks for it within its budget of seeds.
#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// Only those whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Look in these worlds instead of those of the table.
    #[arg(long)]
    scenario: Option<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

impl Mutants {
    /// Prints the table; an error names what was missed.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        // A core that panics is caught; its words are in the table.
        std::panic::set_hook(Box::new(|_| {}));
        say!("| defect | what a careless engineer would do | from | caught by | scenario | seeds | within |");
        say!("|---|---|---|---|---|---|---|");
        let mut missed = Vec::new();
        let begin = Instant::now();
        let chosen: Vec<&Mutant> = MUTANTS.iter().filter(|mutant| mutant.name.contains(&self.only)).collect();
        anyhow::ensure!(!chosen.is_empty(), "no planted defect has {:?} in its name", self.only);
        let progress = Progress::new("planted defects", "looked for", chosen.len() as u64);
        for (done, mutant) in (1..).zip(&chosen) {
            let Mutant { name, what, hazard, .. } = mutant;
            for (scenario, within) in self.worlds(mutant) {
                let caught = self.look_for(mutant, scenario, within)?;
                let (check, seeds) = match &caught {
                    Some((check, seed)) => (check.as_str(), (seed - self.first + 1).to_string()),
                    None => ("**missed**", "-".to_owned()),
                };
                progress.print(|| {
                    say!("| {name} | {what} | {hazard} | {check} | {scenario} | {seeds} | {within} |");
                });
                if caught.is_none() && missed.last() != Some(name) {
                    missed.push(*name);
                }
            }
            progress.at(done);
        }
        drop(progress);
        let caught = format_args!("{} of {}", chosen.len() - missed.len(), chosen.len());
        let caught = Colours::of_stdout().verdict(missed.is_empty(), caught);
        say!("\n{caught} planted defects caught in {:.0} s", begin.elapsed().as_secs_f64());
        anyhow::ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
        Ok(())
    }

    /// Where a defect is looked for, and within how many seeds.
    fn worlds<'a>(&'a self, mutant: &Mutant) -> Vec<(&'a str, u64)> {
        if let Some(name) = &self.scenario {
            return vec![(name.as_str(), mutant.within)];
        }
        let too = FOUND_TOO.iter().filter(|(name, _, _)| *name == mutant.name);
        let too = too.map(|(_, scenario, within)| (*scenario, *within));
        std::iter::once((mutant.scenario, mutant.within)).chain(too).collect()
    }

    /// By which check it was found, and in which seed.
    fn look_for(&self, mutant: &Mutant, name: &str, within: u64) -> anyhow::Result<Option<(String, u64)>> {
        if name == WHOLE_NODES {
            return super::nodes::first_failure(mutant.name, self.first, within, self.jobs);
        }
        let of_elections = super::elections::scenarios(name).and_then(|all| all.first().copied());
        callsign_store::planted::plant(Some(mutant.name));
        let found = if name.starts_with(PINNED) {
            // Seeds hardly ever come to it.
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).with_extension("json");
            let world = Trace::read(&path)?.replay(false)?;
            world.oracle.violation().map(|violation| (violation.check, self.first))
        } else if name == references::NAME {
            let mut seeds = self.first..self.first + within;
            seeds.find_map(|seed| references::run(seed).map(|violation| (violation.check, seed)))
        } else if let Some(scenario) = of_elections {
            self.look_in(scenario, within)
        } else {
            self.look_in(Scenario::from_str(name, false).map_err(anyhow::Error::msg)?, within)
        };
        callsign_store::planted::plant(None);
        Ok(found.map(|(check, seed)| (check.to_owned(), seed)))
    }

    fn look_in<S: Simulated>(&self, scenario: S, seeds: u64) -> Option<(&'static str, u64)> {
        let (first, jobs) = (self.first, self.jobs);
        let swept = sweep(Plan { scenario, first, seeds, jobs, until_failed: true }, &|_| {});
        let (_, ran) = swept.failed.into_iter().next()?;
        Some((ran.violation?.check, ran.seed))
    }
}
