//! One run: a world, a seed, faults; then everything is healed, comes to rest, and is looked at.

use std::time::Duration;

use super::{
    action::{Action, Order},
    checks::Check,
    scheduler::Scheduler,
    setup::{Scenario, Setup},
    world::World,
};
use crate::{rng::Rng, simulated::Simulated};

/// How many actions a run has at most: far more than it needs.
const MOST_ACTIONS: usize = 200_000;

/// What came of a run.
pub type Ran = crate::simulated::Ran<Scenario>;

/// How a sweep goes.
pub type Plan = crate::sweep::Plan<Scenario>;

/// What came of many seeds.
pub type Swept = crate::sweep::Swept<Scenario>;

impl Simulated for Scenario {
    type Action = Action;
    type Check = Check;
    type Kept = ();
    const PANICS: &'static str = Check::Panics.name();

    fn kind(action: &Action) -> &'static str {
        action.kind()
    }

    fn run(self, seed: u64, (): &mut ()) -> Ran {
        run(self, seed)
    }
}

/// The world of a seed, in which nothing has happened, and who draws what happens in it.
fn beginning(scenario: Scenario, seed: u64) -> (World, Scheduler) {
    let mut rng = Rng::new(seed);
    let setup = Setup::draw(scenario, seed, &mut rng);
    (World::new(setup), Scheduler::new(rng))
}

/// Runs a seed.
pub fn run(scenario: Scenario, seed: u64) -> Ran {
    let (mut world, mut scheduler) = beginning(scenario, seed);
    let mut trace = Vec::with_capacity(4096);
    let lasts = world.setup.lasts;
    go_on(&mut world, &mut scheduler, &mut trace, lasts, |_| false);
    let faulty = trace.len();
    finish(&mut world, &mut scheduler, &mut trace);
    let (counts, violation) = (world.judge.counts().clone(), world.judge.violation().cloned());
    Ran { seed, trace, faulty, counts, violation }
}

/// As [`run`]. A core that panics is a violation, too.
pub fn run_caught(scenario: Scenario, seed: u64) -> Ran {
    crate::sweep::run_caught(scenario, seed, &mut ())
}

/// Replays a trace on the world of a seed, and finishes as a run does.
pub fn replay(scenario: Scenario, seed: u64, trace: &[Action]) -> (World, Vec<Action>) {
    let (mut world, _) = beginning(scenario, seed);
    let mut done = Vec::with_capacity(trace.len());
    for action in trace {
        if world.judge.violation().is_some() {
            return (world, done);
        }
        act(&mut world, &mut done, *action);
    }
    let mut scheduler = Scheduler::new(Rng::new(seed ^ 0x5eed));
    finish(&mut world, &mut scheduler, &mut done);
    (world, done)
}

fn act(world: &mut World, trace: &mut Vec<Action>, action: Action) {
    if world.apply(&action) {
        trace.push(action);
    }
}

/// Lets it go on until then, or until it is enough.
fn go_on(
    world: &mut World,
    scheduler: &mut Scheduler,
    trace: &mut Vec<Action>,
    until: Duration,
    mut enough: impl FnMut(&World) -> bool,
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
fn finish(world: &mut World, scheduler: &mut Scheduler, trace: &mut Vec<Action>) {
    if world.judge.violation().is_some() {
        return;
    }
    scheduler.heal();
    for at in world.slots() {
        act(world, trace, Action::Resume { at });
        act(world, trace, Action::Continue { at });
        act(world, trace, Action::Outage { at, is_out: false });
        if world.setup.members[usize::from(at)].goes {
            act(world, trace, Action::Crash { at });
        } else {
            act(world, trace, Action::Start { at });
        }
    }
    // Nobody has initialised it, if nobody could.
    act(world, trace, Action::Admin { order: Order::Enable });
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
    let later = world.now + 3 * Setup::MAX_LEASE;
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
fn sweeping(setup: &Setup) -> Duration {
    21 * setup.config.candidate_timeout + Setup::MAX_LEASE
}

/// How long it may take until there is a leader that everybody knows, and that is who it should be: some leases for those
/// who died to be forgotten, the cool-down of who was asked to resign, and twice the least tenure.
fn bound(setup: &Setup) -> Duration {
    let config = &setup.config;
    8 * (Setup::MAX_LEASE + config.lock_delay) + 2 * config.policy.min_tenure
}
