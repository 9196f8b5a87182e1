//! `replay`: one seed or one trace again, made short, told and drawn.

use std::{fs, path::Path};

use callsign_sim::{
    elections,
    run::{Ran, Templates, replay},
    scenario::Scenario,
    shrink::shrink,
    sweep::run_caught,
    timeline,
    trace::Trace,
    world::Action,
};
use clap::ValueEnum;

use super::arguments::Replay;

/// How often a trace is replayed to make it short.
const TRIES: usize = 3000;

/// The scenarios of a name.
pub(crate) fn scenarios(name: &str) -> anyhow::Result<Vec<Scenario>> {
    if name == "all" {
        return Ok(Scenario::SOUND.to_vec());
    }
    let scenario =
        Scenario::from_str(name, false).map_err(|_| anyhow::anyhow!("there is no scenario {name:?}"))?;
    Ok(vec![scenario])
}

impl Replay {
    /// Replays it.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.trace.is_none()
            && let Some(scenario) =
                super::elections::scenarios(&self.scenario).and_then(|all| all.first().copied())
        {
            return super::elections::replay_one(self, scenario, None);
        }
        if let Some(trace) = self.trace.as_deref().and_then(|path| elections::Trace::read(path).ok())
            && let Ok(scenario) = trace.scenario()
        {
            return super::elections::replay_one(self, scenario, Some(trace));
        }
        let (scenario, seed, actions) = if let Some(path) = &self.trace {
            let trace = Trace::read(path)?;
            (trace.scenario()?, trace.seed, trace.actions)
        } else {
            let scenario = scenarios(&self.scenario)?.first().copied().unwrap_or(Scenario::Standard);
            let seed = self.seed.unwrap_or_default();
            let ran = run_caught(scenario, seed, &mut Templates::default());
            (scenario, seed, ran.trace)
        };
        let (world, done) = replay(scenario, seed, &actions, true);
        if self.print {
            for action in &done {
                say!("{}", serde_json::to_string(action)?);
            }
        }
        if let Some(violation) = world.oracle.violation() {
            let ran = Ran {
                seed,
                faulty: actions.len(),
                trace: actions,
                counts: world.oracle.counts(),
                violation: Some(violation.clone()),
            };
            tell(scenario, &ran, &self.out, !self.whole)?;
            anyhow::bail!("seed {seed} fails");
        }
        fs::create_dir_all(&self.out)?;
        let page = self.out.join(format!("{}-{seed}.html", scenario.name()));
        fs::write(&page, timeline::draw(&format!("{} {seed}", scenario.name()), &world))?;
        if !self.print {
            say!(
                "seed {seed} of {} holds: {} actions; drawn in {}",
                scenario.name(),
                done.len(),
                page.display()
            );
        }
        Ok(())
    }
}

/// Makes a failing run short, prints it, keeps it, and draws it.
pub(crate) fn tell(scenario: Scenario, ran: &Ran, out: &Path, short: bool) -> anyhow::Result<()> {
    let Some(violation) = &ran.violation else { return Ok(()) };
    say!("\nseed {} of {}: {}: {}", ran.seed, scenario.name(), violation.check, violation.what);
    let fails = |actions: &[Action]| {
        let (world, _) = replay(scenario, ran.seed, actions, false);
        world.oracle.violation().is_some_and(|found| found.check == violation.check)
    };
    let begin = &ran.trace[..ran.faulty.min(ran.trace.len())];
    let begin = if fails(begin) { begin } else { &ran.trace };
    let actions = if short { shrink(begin, TRIES, fails).actions } else { ran.trace.clone() };
    say!("{} of {} actions are enough:", actions.len(), begin.len());
    for action in actions.iter().filter(|_| short) {
        say!("  {}", serde_json::to_string(action)?);
    }
    let (world, _) = replay(scenario, ran.seed, &actions, true);
    fs::create_dir_all(out)?;
    let name = format!("{}-{}", scenario.name(), ran.seed);
    let (page, kept) = (out.join(format!("{name}.html")), out.join(format!("{name}.json")));
    fs::write(&page, timeline::draw(&format!("{} {}", scenario.name(), ran.seed), &world))?;
    let found = format!("{}: {}", violation.check, violation.what);
    Trace { scenario: scenario.name().to_owned(), seed: ran.seed, found, actions }.write(&kept)?;
    say!("drawn in {}, kept in {} (to pin it, move it to sim/traces/)", page.display(), kept.display());
    say!("again: callsign-sim replay --scenario {} --seed {}", scenario.name(), ran.seed);
    Ok(())
}
