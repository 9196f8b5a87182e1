//! One run: a world, a seed, faults; then everything is healed, comes to rest, and is looked at.

use std::time::Duration;

use super::{
    action::{ElectionAction, Order},
    checks::Check,
    scheduler::ElectionScheduler,
    setup::{ElectionScenario, ElectionSetup},
    world::ElectionWorld,
};
use crate::{rng::Rng, simulated::Simulated};

/// How many actions a run has at most: far more than it needs.
const MOST_ACTIONS: usize = 200_000;

/// What came of a run.
pub type ElectionRan = crate::simulated::Ran<ElectionScenario>;

/// How a sweep goes.
pub type ElectionPlan = crate::sweep::Plan<ElectionScenario>;

/// What came of many seeds.
pub type ElectionSwept = crate::sweep::Swept<ElectionScenario>;

impl Simulated for ElectionScenario {
    type Action = ElectionAction;
    type Check = Check;
    type Kept = ();
    const PANICS: &'static str = Check::Panics.name();

    fn kind(action: &ElectionAction) -> &'static str {
        action.kind()
    }

    fn run(self, seed: u64, (): &mut ()) -> ElectionRan {
        run(self, seed)
    }
}

/// The world of a seed, in which nothing has happened, and who draws what happens in it.
fn beginning(scenario: ElectionScenario, seed: u64) -> (ElectionWorld, ElectionScheduler) {
    let mut rng = Rng::new(seed);
    let setup = ElectionSetup::draw(scenario, seed, &mut rng);
    (ElectionWorld::new(setup), ElectionScheduler::new(rng))
}

/// Runs a seed.
pub fn run(scenario: ElectionScenario, seed: u64) -> ElectionRan {
    let (mut world, mut scheduler) = beginning(scenario, seed);
    let mut trace = Vec::with_capacity(4096);
    let lasts = world.setup.lasts;
    go_on(&mut world, &mut scheduler, &mut trace, lasts, |_| false);
    let faulty = trace.len();
    finish(&mut world, &mut scheduler, &mut trace);
    let (counts, violation) = (world.judge.counts().clone(), world.judge.violation().cloned());
    ElectionRan { seed, trace, faulty, counts, violation }
}

/// As [`run`]. A core that panics is a violation, too.
pub fn run_caught(scenario: ElectionScenario, seed: u64) -> ElectionRan {
    crate::sweep::run_caught(scenario, seed, &mut ())
}

/// Replays a trace on the world of a seed, and finishes as a run does.
pub fn replay(
    scenario: ElectionScenario,
    seed: u64,
    trace: &[ElectionAction],
) -> (ElectionWorld, Vec<ElectionAction>) {
    let (mut world, _) = beginning(scenario, seed);
    let mut done = Vec::with_capacity(trace.len());
    for action in trace {
        if world.judge.violation().is_some() {
            return (world, done);
        }
        act(&mut world, &mut done, *action);
    }
    let mut scheduler = ElectionScheduler::new(Rng::new(seed ^ 0x5eed));
    finish(&mut world, &mut scheduler, &mut done);
    (world, done)
}

fn act(world: &mut ElectionWorld, trace: &mut Vec<ElectionAction>, action: ElectionAction) {
    if world.apply(&action) {
        trace.push(action);
    }
}

/// Lets it go on until then, or until it is enough.
fn go_on(
    world: &mut ElectionWorld,
    scheduler: &mut ElectionScheduler,
    trace: &mut Vec<ElectionAction>,
    until: Duration,
    mut enough: impl FnMut(&ElectionWorld) -> bool,
) {
    for _ in 0..MOST_ACTIONS {
        if world.now >= until || world.judge.violation().is_some() || enough(world) {
            return;
        }
        let action = scheduler.next(world);
        act(world, trace, action);
    }
}

/// Heals everything, lets it come to rest, and looks at the result.
fn finish(world: &mut ElectionWorld, scheduler: &mut ElectionScheduler, trace: &mut Vec<ElectionAction>) {
    if world.judge.violation().is_some() {
        return;
    }
    scheduler.heal();
    for at in world.slots() {
        act(world, trace, ElectionAction::Resume { at });
        act(world, trace, ElectionAction::Continue { at });
        act(world, trace, ElectionAction::Outage { at, is_out: false });
        if world.setup.members[usize::from(at)].goes {
            act(world, trace, ElectionAction::Crash { at });
        } else {
            act(world, trace, ElectionAction::Start { at });
        }
    }
    // Nobody has initialised it, if nobody could.
    act(world, trace, ElectionAction::Admin { order: Order::Enable });
    // What was given up is done, or never will be.
    let soon = world.now + Duration::from_secs(5);
    go_on(world, scheduler, trace, soon, |_| false);
    let by = world.now + bound(&world.setup);
    let mut seen = 0;
    let mut at_rest = false;
    go_on(world, scheduler, trace, by, |world| {
        seen += 1;
        at_rest = seen % 8 == 0 && world.judge.unrest(world).is_none();
        at_rest
    });
    if world.judge.violation().is_some() {
        return;
    }
    for check in [Check::Inv11, Check::Inv12, Check::Inv13] {
        world.judge.met(check);
    }
    if !at_rest && let Some((check, what)) = world.judge.unrest(world) {
        return world
            .judge
            .fail(check, || format!("{:?} after everything was healed: {what}", bound(&world.setup)));
    }
    // And it stays so.
    world.judge.expects_rest();
    let later = world.now + 3 * ElectionSetup::MAX_LEASE;
    go_on(world, scheduler, trace, later, |_| false);
    world.judge.met(Check::Inv14);
    if world.setup.has_goers() {
        let later = world.now + sweeping(&world.setup);
        go_on(world, scheduler, trace, later, |_| false);
        world.look_for_rows();
    }
}

/// How long it may take until nothing is left of those that are gone: a first look of the holder, up to ten timeouts until it
/// knows what is silent, and ten more until it acts on that; and some leases for calls.
fn sweeping(setup: &ElectionSetup) -> Duration {
    21 * setup.config.candidate_timeout + ElectionSetup::MAX_LEASE
}

/// How long it may take until there is a leader that everybody knows, and that is who it should be: some leases for those
/// who died to be forgotten, the cool-down of who was asked to resign, and twice the least tenure.
fn bound(setup: &ElectionSetup) -> Duration {
    let config = &setup.config;
    8 * (ElectionSetup::MAX_LEASE + config.lock_delay) + 2 * config.policy.min_tenure
}
