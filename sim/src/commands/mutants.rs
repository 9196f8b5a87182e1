//! `mutants`: plants each defect, and looks for it.
#![allow(clippy::disallowed_methods)] // the wall clock, for speed

use std::time::Instant;

use callsign_sim::{
    mutants::{MUTANTS, Mutant},
    run::Ran,
    scenario::Scenario,
    sweep::{Plan, sweep},
};
use clap::{Args, ValueEnum};

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
        println!(
            "| defect | what a careless engineer would do | from | caught by | scenario | seeds | within |"
        );
        println!("|---|---|---|---|---|---|---|");
        let mut missed = Vec::new();
        let begin = Instant::now();
        let chosen: Vec<&Mutant> = MUTANTS.iter().filter(|mutant| mutant.name.contains(&self.only)).collect();
        for mutant in &chosen {
            let caught = self.look_for(mutant)?;
            let (check, seeds) = match &caught {
                Some(ran) => {
                    let check = ran.violation.as_ref().map_or("", |violation| violation.check);
                    (check, (ran.seed - self.first + 1).to_string())
                }
                None => ("**missed**", "-".to_owned()),
            };
            println!(
                "| {} | {} | {} | {check} | {} | {seeds} | {} |",
                mutant.name, mutant.what, mutant.hazard, mutant.scenario, mutant.within
            );
            if caught.is_none() {
                missed.push(mutant.name);
            }
        }
        println!(
            "\n{} of {} planted defects caught in {:.0} s",
            chosen.len() - missed.len(),
            chosen.len(),
            begin.elapsed().as_secs_f64()
        );
        anyhow::ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
        Ok(())
    }

    fn look_for(&self, mutant: &Mutant) -> anyhow::Result<Option<Ran>> {
        let name = self.scenario.as_deref().unwrap_or(mutant.scenario);
        let scenario = Scenario::from_str(name, false).map_err(anyhow::Error::msg)?;
        callsign_planted::plant(Some(mutant.name));
        let plan =
            Plan { scenario, first: self.first, seeds: mutant.within, jobs: self.jobs, until_failed: true };
        let swept = sweep(plan, &|_| {});
        callsign_planted::plant(None);
        Ok(swept.failed.into_iter().next().map(|(_, ran)| ran))
    }
}
