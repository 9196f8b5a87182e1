//! `run`: many seeds.
#![allow(clippy::disallowed_methods)] // the wall clock, for progress and speed

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use callsign_sim::{
    oracle::Check,
    run::Ran,
    scenario::Scenario,
    simulated::Simulated,
    sweep::{Plan, Swept, sweep},
};
use clap::Args;

/// With fewer seeds it is no wonder if a check is never exercised.
const ENOUGH: u64 = 5000;

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

impl Run {
    /// Runs them; an error says what was wrong.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(scenarios) = super::elections::scenarios(&self.scenario) {
            return super::elections::run(self, &scenarios);
        }
        let mut total = Swept::default();
        let begin = Instant::now();
        let scenarios = super::replay::scenarios(&self.scenario)?;
        for scenario in scenarios.iter().copied() {
            let swept = self.one(scenario, !self.keep_going && scenario != Scenario::Drift);
            if scenario == Scenario::Drift {
                return drift(&swept);
            }
            total.merge(swept);
            if !total.failed.is_empty() && !self.keep_going {
                break;
            }
        }
        report(&total, &begin, Check::ALL.iter().map(|check| (check.name(), total.counts.get(*check))));
        if let Some((scenario, ran)) = total.failed.first() {
            super::replay::tell(*scenario, ran, &self.out, true)?;
            anyhow::bail!("{} of {} seeds failed", total.failed.len(), total.seeds);
        }
        let is_broad = matches!(self.scenario.as_str(), "all" | "standard");
        let is_exercised = |check: &Check| scenarios.iter().any(|scenario| scenario.exercises(*check));
        let never: Vec<_> = total.counts.never().into_iter().filter(is_exercised).collect();
        if !never.is_empty() && is_broad && total.seeds >= ENOUGH {
            let names: Vec<_> = never.iter().map(|check| check.name()).collect();
            anyhow::bail!("never exercised: {}", names.join("; "));
        }
        Ok(())
    }

    /// Runs the seeds of one scenario, and says how it goes.
    pub(super) fn one<S: Simulated>(&self, scenario: S, until_failed: bool) -> Swept<S> {
        let begin = Instant::now();
        let told = AtomicU64::new(0);
        let progress = |done: u64| {
            let second = begin.elapsed().as_secs();
            let last = told.load(Relaxed);
            if second >= last + 5 && told.compare_exchange(last, second, Relaxed, Relaxed).is_ok() {
                tell!("{}: {done} seeds, {:.0}/s", scenario.name(), per_second(done, &begin));
            }
        };
        let plan = Plan { scenario, first: self.first, seeds: self.seeds, jobs: self.jobs, until_failed };
        let swept = sweep(plan, &progress);
        say!(
            "{:16} {:>8} seeds, {:>9} steps, {:>5.0} seeds/s, {} failed, {} run twice alike",
            scenario.name(),
            swept.seeds,
            swept.steps,
            per_second(swept.seeds, &begin),
            swept.failed.len(),
            swept.repeated,
        );
        swept
    }
}

#[allow(clippy::cast_precision_loss)] // for people
fn per_second(count: u64, begin: &Instant) -> f64 {
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Clocks that drift apart faster than was promised must break P1, or the simulator does not see time at all.
fn drift(swept: &Swept<Scenario>) -> anyhow::Result<()> {
    let has_two = |(_, ran): &&(Scenario, Ran)| {
        ran.violation.as_ref().is_some_and(|found| found.check == Check::OneHolder.name())
    };
    let two = swept.failed.iter().filter(has_two).count();
    say!("clocks beyond the promised rate: {two} of {} runs that failed had two holders", swept.failed.len());
    anyhow::ensure!(two > 0, "P1 held, though clocks drifted beyond the promised rate");
    Ok(())
}

/// Says what the seeds did, and how often each check was exercised.
pub(super) fn report<S: Simulated>(
    swept: &Swept<S>,
    begin: &Instant,
    exercised: impl Iterator<Item = (&'static str, u64)>,
) {
    say!("\n{} seeds in {:.1} s; done to them, and by them:", swept.seeds, begin.elapsed().as_secs_f64());
    for (kind, count) in &swept.kinds {
        say!("  {count:>12}  {kind}");
    }
    say!("exercised:");
    for (check, count) in exercised {
        say!("  {count:>12}  {check}");
    }
}
