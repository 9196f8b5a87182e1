//! Elections: seeds are clean, runs repeat, and what has to be met is met.

use callsign_sim::{
    elections::{
        Check, ElectionAction, ElectionPlan, ElectionRan, ElectionScenario, ElectionTrace, SMALL, replay,
        run, sweep,
    },
    search::breadth_first,
    shrink::shrink,
    simulated::Simulated,
};

use crate::seeds::clean;

/// How many seeds of each scenario.
const SEEDS: u64 = 50;

fn text(actions: &[ElectionAction]) -> String {
    serde_json::to_string(actions).unwrap()
}

#[test]
fn every_sound_scenario_is_clean_and_together_they_exercise_every_check_and_see_every_witness() {
    let counts = clean(ElectionScenario::SOUND, SEEDS);
    let never = counts.never();
    assert!(never.is_empty(), "Inv16, never exercised: {never:?}");
}

/// Clocks that run apart further than was declared: two checks say yes at once, and the sink takes no stale write all the
/// same.
#[test]
fn clocks_that_drift_too_far_let_two_believe_and_the_fence_holds() {
    let plan =
        ElectionPlan { scenario: ElectionScenario::Drift, first: 1, seeds: 40, jobs: 2, until_failed: false };
    let swept = sweep(plan, &|_| {});
    assert!(swept.failed.is_empty(), "{:?}", swept.failed.first().map(|(_, ran)| &ran.violation));
    assert!(swept.counts.get(Check::Overlap) > 0, "no two believed at once in {} seeds", swept.seeds);
    assert!(swept.counts.get(Check::StaleWrite) > 0);
}

#[test]
fn a_seed_run_twice_gives_the_same_trace_and_a_trace_gives_the_same_world() {
    for scenario in [ElectionScenario::Elections, ElectionScenario::Store] {
        for seed in 1..4 {
            let (one, other): (ElectionRan, ElectionRan) = (run(scenario, seed), run(scenario, seed));
            assert_eq!(text(&one.trace), text(&other.trace));
            assert_eq!(
                (one.digest(), one.faulty, &one.counts),
                (other.digest(), other.faulty, &other.counts)
            );
            let drawn = &one.trace[..one.faulty];
            let read: Vec<ElectionAction> = serde_json::from_str(&text(drawn)).unwrap();
            let (world, done) = replay(scenario, seed, drawn);
            let (again, _) = replay(scenario, seed, &read);
            assert_eq!(text(&done[..drawn.len()]), text(drawn), "all that happened once happens again");
            assert!(done.len() > drawn.len(), "and heals");
            assert!(world == again);
            assert!(world.judge.violation().is_none());
        }
    }
    let digests: std::collections::BTreeSet<u64> =
        (1..6).map(|seed| run(ElectionScenario::Elections, seed).digest()).collect();
    assert_eq!(digests.len(), 5, "different seeds go different ways");
}

#[test]
fn a_trace_survives_its_file_and_is_made_short() {
    let ran = run(ElectionScenario::Elections, 5);
    let actions = ran.trace[..ran.faulty].to_vec();
    let scenario = ElectionScenario::Elections.name();
    let trace = ElectionTrace { scenario, seed: 5, found: String::new(), actions };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    trace.write(&path).unwrap();
    let again = ElectionTrace::read(&path).unwrap();
    assert_eq!(again.actions, trace.actions);
    assert!(again.replay().unwrap() == trace.replay().unwrap());
    // What is not possible is not done: any part of a trace is a trace.
    let has_start = |actions: &[ElectionAction]| {
        actions.iter().any(|action| matches!(action, ElectionAction::Start { .. }))
    };
    assert_eq!(shrink(&trace.actions, 1000, has_start).actions.len(), 1);
}

/// The larger spaces are the command's: `callsign-sim exhaustive --elections`.
#[test]
fn a_small_election_holds_in_every_interleaving_of_a_crash_and_an_unknown_commit() {
    let space = SMALL.iter().find(|space| space.name == "elections-unknown").unwrap();
    let outcome = breadth_first(space, 1_000_000);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    assert!(outcome.complete && outcome.canary);
    assert_eq!((outcome.unique, outcome.generated), space.counts);
}
