//! `run`: many seeds.
#![allow(clippy::disallowed_methods)] // the wall clock, for progress and speed

use std::time::Instant;

use callsign_sim::{oracle::Check, run::RegistryRan, scenario::Scenario, sweep::Swept};

use super::{arguments::Run, seeds::report};

/// With fewer seeds it is no wonder if a check is never exercised.
const ENOUGH: u64 = 5000;

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
}

/// Clocks that drift apart faster than was promised must break P1, or the simulator does not see time at all.
fn drift(swept: &Swept<Scenario>) -> anyhow::Result<()> {
    let has_two = |(_, ran): &&(Scenario, RegistryRan)| {
        ran.violation.as_ref().is_some_and(|found| found.check == Check::OneHolder.name())
    };
    let two = swept.failed.iter().filter(has_two).count();
    say!("clocks beyond the promised rate: {two} of {} runs that failed had two holders", swept.failed.len());
    anyhow::ensure!(two > 0, "P1 held, though clocks drifted beyond the promised rate");
    Ok(())
}
