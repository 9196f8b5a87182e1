//! `replay`: one seed or one trace again, made short, told and drawn.

use std::{fs, path::Path};

use callsign_sim::{
    elections,
    run::{RegistryRan, Templates, replay},
    scenario::Scenario,
    simulated::Simulated,
    sweep::run_caught,
    timeline,
    trace::Trace,
    world::Action,
};
use clap::ValueEnum;

use super::{arguments::Replay, short::keep_short};

/// The scenarios of a name.
pub(crate) fn scenarios(name: &str) -> anyhow::Result<Vec<Scenario>> {
    if name == "all" {
        return Ok(Scenario::sound());
    }
    let scenario =
        Scenario::from_str(name, false).map_err(|_| anyhow::anyhow!("there is no scenario {name:?}"))?;
    Ok(vec![scenario])
}

impl Replay {
    /// Replays it.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "planted")]
        callsign_store::planted::plant(self.plant.as_deref());
        if self.trace.is_none()
            && let Some(scenario) =
                super::elections::scenarios(&self.scenario).and_then(|all| all.first().copied())
        {
            return super::elections::replay_one(self, scenario, None);
        }
        if let Some(trace) = self.trace.as_deref().and_then(|path| elections::ElectionTrace::read(path).ok())
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
            let ran = RegistryRan {
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
pub(crate) fn tell(scenario: Scenario, ran: &RegistryRan, out: &Path, short: bool) -> anyhow::Result<()> {
    let found = |actions: &[Action]| {
        replay(scenario, ran.seed, actions, false).0.oracle.violation().map(|found| found.check)
    };
    let Some(actions) = keep_short(scenario, ran, out, short, found)? else { return Ok(()) };
    let (world, _) = replay(scenario, ran.seed, &actions, true);
    let name = format!("{}-{}", scenario.name(), ran.seed);
    let page = out.join(format!("{name}.html"));
    fs::write(&page, timeline::draw(&format!("{} {}", scenario.name(), ran.seed), &world))?;
    say!("drawn in {}", page.display());
    Ok(())
}
