//! The seeds of one scenario, and what they did.
#![allow(clippy::disallowed_methods)] // the wall clock, for progress and speed

use std::time::Instant;

use callsign_sim::{
    colour::Colours,
    progress::Progress,
    simulated::Simulated,
    sweep::{Plan, Swept, sweep},
};

use super::arguments::Run;

impl Run {
    /// Runs the seeds of one scenario, and says how it goes.
    pub(super) fn one<S: Simulated>(&self, scenario: S, until_failed: bool) -> Swept<S> {
        let begin = Instant::now();
        let progress = Progress::new(&scenario.name(), "seeds", self.seeds);
        let plan = Plan { scenario, first: self.first, seeds: self.seeds, jobs: self.jobs, until_failed };
        let swept = sweep(plan, &|done| progress.at(done));
        drop(progress);
        let failed = swept.failed.len();
        say!(
            "{:16} {:>8} seeds, {:>9} steps, {:>5.0} seeds/s, {}, {} run twice alike",
            scenario.name(),
            swept.seeds,
            swept.steps,
            per_second(swept.seeds, &begin),
            Colours::of_stdout().verdict(failed == 0, format_args!("{failed} failed")),
            swept.repeated,
        );
        swept
    }
}

#[allow(clippy::cast_precision_loss)] // for people
fn per_second(count: u64, begin: &Instant) -> f64 {
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Says what the seeds did, and how often each check was exercised.
pub(super) fn report<S: Simulated>(
    swept: &Swept<S>,
    begin: &Instant,
    exercised: impl Iterator<Item = (&'static str, u64)>,
) {
    let colours = Colours::of_stdout();
    let took = begin.elapsed().as_secs_f64();
    let heading = format_args!("{} seeds in {took:.1} s; done to them, and by them:", swept.seeds);
    say!("\n{}", colours.heading(heading));
    for (kind, count) in &swept.kinds {
        say!("  {count:>12}  {kind}");
    }
    say!("{}", colours.heading("exercised:"));
    for (check, count) in exercised {
        say!("  {count:>12}  {check}");
    }
}
