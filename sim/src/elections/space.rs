//! Small elections, every interleaving: three members of which one leads, a store, crashes, unknown commits, one long delay.
//!
//! Time passes when nobody has anything to do, to when somebody has; and, as often as the budget says, by more than a lease
//! while anything waits: a call that takes long, a process that stands still. What a process does for itself (an answer
//! taken, a timer, its role) changes nothing for others, so it is done at once, in one order.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use super::{
    action::{Channel, ElectionAction, ElectionFate},
    checks::Check,
    process::ElectionRequest,
    scheduler::ElectionScheduler,
    setup::ElectionSetup,
    world::ElectionWorld,
};
use crate::{rng::Rng, search::Space, world::Violation};

/// What may still be done to the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // they are named after the actions
pub struct ElectionBudget {
    pub crashes: u8,
    pub restarts: u8,
    pub unknowns: u8,
    pub delays: u8,
    pub writes: u8,
}

/// A space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small {
    /// Its name.
    pub name: &'static str,
    /// How many members.
    pub members: usize,
    /// What is done to them.
    pub budget: ElectionBudget,
    /// For how long.
    pub lasts: Duration,
    /// How many states there are, and were made.
    pub counts: (usize, usize),
}

const NONE: ElectionBudget = ElectionBudget { crashes: 0, restarts: 0, unknowns: 0, delays: 0, writes: 0 };

/// The spaces that are searched.
pub const SMALL: &[Small] = &[
    Small {
        name: "elections-crash",
        members: 3,
        budget: ElectionBudget { crashes: 1, restarts: 1, ..NONE },
        lasts: Duration::from_secs(16),
        counts: (66_707, 75_335),
    },
    Small {
        name: "elections-unknown",
        members: 2,
        budget: ElectionBudget { crashes: 1, unknowns: 1, ..NONE },
        lasts: Duration::from_secs(16),
        counts: (9_016, 11_422),
    },
    Small {
        name: "elections-delay",
        members: 3,
        budget: ElectionBudget { delays: 1, writes: 1, ..NONE },
        lasts: Duration::from_secs(14),
        counts: (12_359, 17_569),
    },
    Small {
        name: "elections-crashes",
        members: 3,
        budget: ElectionBudget { crashes: 2, ..NONE },
        lasts: Duration::from_secs(15),
        counts: (13_657, 16_872),
    },
];

/// A world, and what may still be done to it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceState {
    /// The world.
    pub world: ElectionWorld,
    /// What is left.
    pub left: ElectionBudget,
}

impl Eq for SpaceState {}

impl Hash for SpaceState {
    /// All that decides what can happen, and what the judge compares it with.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let ElectionWorld { now, store, machines, orphans, writes, sink, judge, .. } = &self.world;
        (self.left, now, store, sink.greatest).hash(hasher);
        for machine in machines {
            machine.clock.hash(hasher);
            let Some(process) = &machine.process else { continue };
            process.member.hash(hasher);
            let asking = process.asking.as_ref();
            let asking = asking.map(|a| (&a.asked, &a.pending.request, &a.pending.answer));
            let started = process.asking.as_ref().map(|a| (a.pending.started, a.pending.decided));
            let doing = process.role.doing.map(|(doing, _)| doing);
            let role = (doing, process.role.active, process.role.works);
            format!("{:?}{asking:?}{started:?}{role:?}{:?}", process.core, process.handle).hash(hasher);
        }
        for orphan in orphans {
            format!("{:?}{:?}", orphan.author, orphan.transaction).hash(hasher);
        }
        for write in writes {
            write.fence.hash(hasher);
        }
        judge.memory().hash(hasher);
    }
}

impl Small {
    fn end(&self, world: &ElectionWorld) -> Duration {
        world.setup.lasts + self.lasts
    }
}

impl Space for Small {
    type State = SpaceState;
    type Action = ElectionAction;

    fn initial(&self) -> Vec<SpaceState> {
        let mut setup = ElectionSetup::calm(self.members);
        for seat in &mut setup.members {
            seat.timing.jitter = Duration::ZERO;
            seat.timing.spread = Duration::ZERO;
        }
        let mut world = ElectionWorld::new(setup.clone());
        let mut scheduler = ElectionScheduler::new(Rng::new(1));
        scheduler.heal();
        while world.judge.unrest(&world).is_some() && world.judge.violation().is_none() {
            let action = scheduler.next(&world);
            world.apply(&action);
        }
        setup.lasts = world.now;
        world.setup = std::sync::Arc::new(setup);
        vec![SpaceState { world, left: self.budget }]
    }

    fn actions(&self, state: &SpaceState, actions: &mut Vec<ElectionAction>) {
        let SpaceState { world, left } = state;
        if world.now > self.end(world) || world.judge.violation().is_some() {
            return;
        }
        let (mut private, mut shared) = (Vec::new(), Vec::new());
        for at in world.slots() {
            let Some(process) = world.process(at) else { continue };
            if process.core.wake_at().is_some_and(|wake_at| wake_at <= world.local(at)) {
                private.push(ElectionAction::Wake { at });
            }
            if process.role.doing.is_some() {
                private.push(ElectionAction::Role { at, well: true });
            }
            let channel = Channel::Oracle;
            match process.asking.as_ref().map(|asking| &asking.pending) {
                Some(pending) if pending.answer.is_some() => {
                    private.push(ElectionAction::Deliver { at, channel });
                }
                Some(pending) => {
                    shared.push(ElectionAction::Reach { at, channel, fate: ElectionFate::Done });
                    if left.unknowns > 0 && matches!(pending.request, ElectionRequest::Commit(_)) {
                        for fate in
                            [ElectionFate::UnknownDone, ElectionFate::UnknownLost, ElectionFate::UnknownLater]
                        {
                            shared.push(ElectionAction::Reach { at, channel, fate });
                        }
                    }
                }
                None => {}
            }
        }
        let is_busy = !private.is_empty() || !shared.is_empty();
        if is_busy && left.delays > 0 {
            actions.push(ElectionAction::Pass { nanos: 11_000_000_000 });
        }
        if let Some(first) = private.first() {
            actions.push(*first);
            return;
        }
        if !is_busy {
            let wake = |at| {
                let wake_at = world.process(at)?.core.wake_at()?;
                let machine = &world.machines[usize::from(at)];
                Some(machine.clock.until(world.now, wake_at.0).max(Duration::from_nanos(1)))
            };
            let next = world.slots().filter_map(wake).min().unwrap_or(Duration::from_secs(1));
            actions.push(ElectionAction::Pass { nanos: u64::try_from(next.as_nanos()).unwrap_or(u64::MAX) });
        }
        actions.append(&mut shared);
        for nth in 0..u8::try_from(world.orphans.len()).unwrap_or(u8::MAX) {
            actions.push(ElectionAction::Land { nth });
        }
        for nth in 0..u8::try_from(world.writes.len()).unwrap_or(u8::MAX) {
            actions.push(ElectionAction::Sink { nth });
        }
        for at in world.slots() {
            let runs = world.process(at).is_some();
            if left.crashes > 0 && runs {
                actions.push(ElectionAction::Crash { at });
            }
            if left.restarts > 0 && !runs {
                actions.push(ElectionAction::Start { at });
            }
            if left.writes > 0 && world.process(at).is_some_and(|p| p.check(world.local(at)).is_some()) {
                actions.push(ElectionAction::Act { at });
            }
        }
    }

    fn next(&self, state: &SpaceState, action: &ElectionAction) -> Option<SpaceState> {
        let mut next = state.clone();
        let was_busy = matches!(action, ElectionAction::Pass { nanos: 11_000_000_000 });
        if !next.world.apply(action) {
            return None;
        }
        let left = &mut next.left;
        match action {
            ElectionAction::Pass { .. } if was_busy && left.delays > 0 => left.delays -= 1,
            ElectionAction::Crash { .. } => left.crashes -= 1,
            ElectionAction::Start { .. } => left.restarts -= 1,
            ElectionAction::Act { .. } => left.writes -= 1,
            ElectionAction::Reach { fate, .. } if *fate != ElectionFate::Done => left.unknowns -= 1,
            _ => {}
        }
        Some(next)
    }

    fn violation(&self, state: &SpaceState) -> Option<String> {
        let Violation { check, what } = state.world.judge.violation()?;
        Some(format!("{check}: {what}"))
    }

    /// Another has taken over, and works.
    fn canary(&self, state: &SpaceState) -> bool {
        let takeovers = state.world.judge.counts().get(Check::Takeover);
        takeovers > 0
            && state.world.slots().any(|at| state.world.process(at).is_some_and(|p| p.role.active.is_some()))
    }
}
