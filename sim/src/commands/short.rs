//! A failing run, made short and kept.

use std::{fs, path::Path};

use callsign_sim::{
    colour::Colours,
    shrink::shrink,
    simulated::{self, Simulated},
    trace::TraceOf,
};

/// How often a trace is replayed to make it short.
const SHRINK_TRIES: usize = 3000;

/// Makes a failing run short, prints it, and keeps it. Returns what is left of it. `found` replays: which check fails?
pub(super) fn keep_short<S: Simulated>(
    scenario: S,
    ran: &simulated::Ran<S>,
    out: &Path,
    short: bool,
    found: impl Fn(&[S::Action]) -> Option<&'static str>,
) -> anyhow::Result<Option<Vec<S::Action>>> {
    let Some(violation) = &ran.violation else { return Ok(None) };
    let what = format_args!("{}: {}", violation.check, violation.what);
    say!("\nseed {} of {}: {}", ran.seed, scenario.name(), Colours::of_stdout().bad(what));
    let fails = |actions: &[S::Action]| found(actions) == Some(violation.check);
    let begin = &ran.trace[..ran.faulty.min(ran.trace.len())];
    let begin = if fails(begin) { begin } else { &ran.trace };
    let actions = if short { shrink(begin, SHRINK_TRIES, fails).actions } else { ran.trace.clone() };
    say!("{} of {} actions are enough:", actions.len(), begin.len());
    for action in actions.iter().filter(|_| short) {
        say!("  {}", serde_json::to_string(action)?);
    }
    fs::create_dir_all(out)?;
    let kept = out.join(format!("{}-{}.json", scenario.name(), ran.seed));
    let found = format!("{}: {}", violation.check, violation.what);
    let trace = TraceOf::<S> { scenario: scenario.name(), seed: ran.seed, found, actions };
    trace.write(&kept)?;
    say!("kept in {} (to pin it, move it below sim/traces/)", kept.display());
    say!("again: callsign-sim replay --scenario {} --seed {}", scenario.name(), ran.seed);
    Ok(Some(trace.actions))
}
