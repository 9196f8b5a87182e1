//! The same seed gives the same run, and a trace gives the same world again.

use callsign_sim::{
    rng::Rng,
    run::{RegistryRan, Templates, replay, run},
    scenario::Scenario,
    schedule::Scheduler,
    sweep::{Plan, sweep},
    world::{Action, World},
};

fn ran(scenario: Scenario, seed: u64) -> RegistryRan {
    run(scenario, seed, &mut Templates::default())
}

fn text(actions: &[Action]) -> String {
    serde_json::to_string(actions).unwrap()
}

/// The world in which the runs of a seed begin.
fn beginning(scenario: Scenario, seed: u64) -> World {
    let profile = scenario.profile(seed, &mut Rng::new(seed));
    Templates::default().world(&profile, seed % 8)
}

/// All that happened, done again.
fn again(scenario: Scenario, seed: u64, actions: &[Action]) -> World {
    let mut world = beginning(scenario, seed);
    for action in actions {
        assert!(world.apply(action), "what happened once cannot happen again: {action:?}");
    }
    world
}

#[test]
fn a_seed_run_twice_gives_the_same_trace_and_the_same_world() {
    for scenario in [Scenario::Standard, Scenario::Forming, Scenario::Clocks] {
        for seed in 1..4 {
            let (one, other) = (ran(scenario, seed), ran(scenario, seed));
            assert_eq!(text(&one.trace), text(&other.trace));
            assert_eq!((one.digest(), one.faulty), (other.digest(), other.faulty));
            assert_eq!(one.counts, other.counts);
            let end = again(scenario, seed, &one.trace);
            assert_eq!(end, again(scenario, seed, &other.trace));
            assert_eq!(end.told().len(), again(scenario, seed, &other.trace).told().len());
        }
    }
}

/// The world that grew while actions were drawn, against the one that grows from the trace of those that were possible.
#[test]
fn a_trace_replayed_reaches_the_world_in_which_it_was_drawn() {
    for (scenario, seed) in [(Scenario::Standard, 5), (Scenario::Cuts, 6), (Scenario::Store, 7)] {
        let mut rng = Rng::new(seed);
        let profile = scenario.profile(seed, &mut rng);
        let mut world = beginning(scenario, seed);
        let mut scheduler = Scheduler::new(rng, profile);
        let mut trace = Vec::new();
        for _ in 0..300 {
            let action = scheduler.next(&world);
            if world.apply(&action) {
                trace.push(action);
            }
        }
        assert!(trace.len() > 100);
        let read: Vec<Action> = serde_json::from_str(&text(&trace)).unwrap();
        assert_eq!(again(scenario, seed, &read), world);
        // The last action alone may change nothing: a core may be woken in vain.
        let the_first_half = &trace[..trace.len() / 2];
        assert_ne!(again(scenario, seed, the_first_half), world);
    }
}

#[test]
fn replay_does_all_that_was_drawn_and_ends_in_the_same_world() {
    for (scenario, seed) in [(Scenario::Standard, 8), (Scenario::Crashes, 9)] {
        let ran = ran(scenario, seed);
        let drawn = &ran.trace[..ran.faulty];
        let (one, done) = replay(scenario, seed, drawn, false);
        assert_eq!(text(&done[..drawn.len()]), text(drawn));
        assert!(done.len() > drawn.len(), "and heals");
        let (other, _) = replay(scenario, seed, drawn, true);
        assert_eq!(one, other, "notes change nothing");
        assert_eq!(again(scenario, seed, &done), one);
    }
}

#[test]
fn different_seeds_go_different_ways() {
    let digests: std::collections::BTreeSet<u64> =
        (1..11).map(|seed| ran(Scenario::Standard, seed).digest()).collect();
    assert_eq!(digests.len(), 10);
}

#[test]
fn one_thread_and_two_count_the_same() {
    let counted = |jobs| {
        let plan = Plan { scenario: Scenario::Standard, first: 990, seeds: 40, jobs, until_failed: false };
        sweep(plan, &|_| {})
    };
    let (one, two) = (counted(1), counted(2));
    assert_eq!((one.seeds, one.steps, one.repeated), (40, two.steps, 1));
    assert_eq!((&one.kinds, &one.counts), (&two.kinds, &two.counts));
    assert_eq!(two.seeds, 40);
    assert_eq!(two.repeated, 1);
}
