//! The elections' part of `run`, `replay` and `mutants`: the same words, in the world of `--scenario elections...`.
#![allow(clippy::disallowed_methods)] // the wall clock, for progress and speed

use std::{path::Path, time::Instant};

use callsign_sim::{
    elections::{
        Check, ElectionAction, ElectionRan, ElectionScenario, ElectionSwept, ElectionTrace, replay,
        run_caught,
    },
    simulated::Simulated,
};
use clap::ValueEnum;

use super::{
    arguments::{Replay, Run},
    seeds::report,
    short::keep_short,
};

/// With fewer seeds it is no wonder if a check is never exercised.
const ENOUGH: u64 = 300;

/// The scenarios of a name; none, if it is not of elections.
pub(super) fn scenarios(name: &str) -> Option<Vec<ElectionScenario>> {
    if name == "elections-all" {
        return Some(ElectionScenario::SOUND.to_vec());
    }
    ElectionScenario::from_str(name, false).ok().map(|scenario| vec![scenario])
}

/// Runs seeds; an error says what was wrong.
pub(super) fn run(options: &Run, scenarios: &[ElectionScenario]) -> anyhow::Result<()> {
    let mut total = ElectionSwept::default();
    let begin = Instant::now();
    for scenario in scenarios {
        total.merge(options.one(*scenario, !options.keep_going));
        if !total.failed.is_empty() && !options.keep_going {
            break;
        }
    }
    report(&total, &begin, Check::ALL.iter().map(|check| (check.name(), total.counts.get(*check))));
    if let Some((scenario, ran)) = total.failed.first() {
        for (scenario, ran) in total.failed.iter().skip(1).filter(|_| options.keep_going) {
            let found = ran.violation.as_ref().map_or("", |violation| violation.check);
            say!("seed {} of {}: {found}", ran.seed, scenario.name());
        }
        tell(*scenario, ran, &options.out, true)?;
        anyhow::bail!("{} of {} seeds failed", total.failed.len(), total.seeds);
    }
    if scenarios == [ElectionScenario::Drift] {
        let met = total.counts.get(Check::Overlap);
        say!(
            "clocks beyond the promised rate: two checks said yes at once after {met} actions, no stale write was taken"
        );
        anyhow::ensure!(met > 0, "Inv6 held, though clocks drifted beyond the promised rate");
    }
    let is_broad = scenarios.len() > 1 || scenarios == [ElectionScenario::Elections];
    let never = total.counts.never();
    if !never.is_empty() && is_broad && options.seeds >= ENOUGH {
        let names: Vec<_> = never.iter().map(|check| check.name()).collect();
        anyhow::bail!("never exercised: {}", names.join("; "));
    }
    Ok(())
}

/// Replays a seed, or a trace that was kept.
pub(super) fn replay_one(
    options: &Replay,
    scenario: ElectionScenario,
    trace: Option<ElectionTrace>,
) -> anyhow::Result<()> {
    let (seed, actions) = if let Some(trace) = trace {
        (trace.seed, trace.actions)
    } else {
        let seed = options.seed.unwrap_or_default();
        let ran = run_caught(scenario, seed);
        // Replayed, it would be healed a second time, and what failed at rest may hold by then.
        if ran.violation.is_some() {
            for action in ran.trace.iter().filter(|_| options.print) {
                say!("{}", serde_json::to_string(action)?);
            }
            tell(scenario, &ran, &options.out, !options.whole)?;
            anyhow::bail!("seed {seed} fails");
        }
        (seed, ran.trace)
    };
    let (world, done) = replay(scenario, seed, &actions);
    if options.print {
        for action in &done {
            say!("{}", serde_json::to_string(action)?);
        }
    }
    if let Some(violation) = world.judge.violation() {
        let (counts, violation) = (world.judge.counts().clone(), Some(violation.clone()));
        let ran = ElectionRan { seed, faulty: actions.len(), trace: actions, counts, violation };
        tell(scenario, &ran, &options.out, !options.whole)?;
        anyhow::bail!("seed {seed} fails");
    }
    if !options.print {
        say!("seed {seed} of {} holds: {} actions", scenario.name(), done.len());
    }
    Ok(())
}

/// Makes a failing run short, prints it, and keeps it.
fn tell(scenario: ElectionScenario, ran: &ElectionRan, out: &Path, short: bool) -> anyhow::Result<()> {
    let found = |actions: &[ElectionAction]| {
        replay(scenario, ran.seed, actions).0.judge.violation().map(|found| found.check)
    };
    keep_short(scenario, ran, out, short, found).map(drop)
}
