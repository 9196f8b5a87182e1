//! Draws what happens next, and when.
//!
//! Whatever is possible in a world is given a time of its own when it becomes so; the earliest happens. So calls take as
//! long as was drawn for them, timers fire late after a pause, and the worker acts before them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_store::time::Time;

use super::{
    action::{Channel, ElectionAction, ElectionFate, Order, Slot},
    process::{Doing, ElectionRequest, Pending},
    setup::ElectionSetup,
    world::ElectionWorld,
};
use crate::rng::Rng;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Reach(Slot, Channel, u64),
    Deliver(Slot, Channel, u64),
    Role(Slot, u64),
    Act(Slot),
    Wake(Slot, Time),
    Look(Slot),
    TakeTransitions(Slot),
    Sink(u64),
    Orphan(u64),
    Start(Slot),
    Continue(Slot),
    Resume(Slot),
    OutageOver(Slot),
    Enable,
    Fault,
    Break(Slot),
}

/// Draws what happens next.
#[derive(Clone, Debug)]
pub struct ElectionScheduler {
    rng: Rng,
    due: BTreeMap<Event, Duration>,
    /// Machines that stood still a moment ago: their timers are late.
    late: BTreeMap<Slot, Duration>,
    /// Machines whose connection to the store breaks with the next commit on its way.
    breaking: BTreeSet<Slot>,
    /// Those where it broke.
    broken: BTreeSet<Slot>,
    disabled: bool,
    healed: bool,
}

/// The first that has a term.
fn leader(world: &ElectionWorld) -> Option<Slot> {
    world.slots().find(|at| world.process(*at).is_some_and(|process| process.handle.is_some()))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl ElectionScheduler {
    /// Draws from here on.
    pub fn new(rng: Rng) -> Self {
        let (due, late, breaking, broken) = Default::default();
        Self { rng, due, late, breaking, broken, disabled: false, healed: false }
    }

    /// From now on nothing is done to anybody any more, and what was done is undone at once.
    pub fn heal(&mut self) {
        self.healed = true;
        self.due.clear();
        self.late.clear();
        self.breaking.clear();
        self.broken.clear();
    }

    /// What happens next.
    pub fn next(&mut self, world: &ElectionWorld) -> ElectionAction {
        let events = self.events(world);
        let mut due = BTreeMap::new();
        for event in events {
            let at = match self.due.remove(&event) {
                Some(at) => at,
                None => world.now + self.delay(world, event),
            };
            due.insert(event, at);
        }
        self.due = due;
        let Some((event, at)) = self.due.iter().map(|(e, at)| (*e, *at)).min_by_key(|(e, at)| (*at, *e))
        else {
            return ElectionAction::Pass { nanos: 1_000_000_000 };
        };
        if let Some(wait) = at.checked_sub(world.now).filter(|wait| !wait.is_zero()) {
            return ElectionAction::Pass { nanos: u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX) };
        }
        self.due.remove(&event);
        self.action(world, event)
    }

    /// What may happen.
    fn events(&self, world: &ElectionWorld) -> Vec<Event> {
        let mut events = Vec::with_capacity(32);
        for at in world.slots() {
            let machine = &world.machines[usize::from(at)];
            if machine.suspended {
                events.push(Event::Resume(at));
            } else if machine.paused {
                events.push(Event::Continue(at));
            }
            if machine.outage {
                events.push(Event::OutageOver(at));
            }
            let Some(process) = &machine.process else {
                // From then on, who is gone is gone for good.
                let stays_away = self.healed && world.setup.members[usize::from(at)].goes;
                if !machine.suspended && !stays_away {
                    events.push(Event::Start(at));
                }
                continue;
            };
            let runs = world.runs(at);
            let asked = process.asking.as_ref().map(|asking| (Channel::Oracle, &asking.pending));
            let looks = process.watch.pending.as_ref().map(|pending| (Channel::Watch, pending));
            for (channel, pending) in asked.into_iter().chain(looks) {
                match &pending.answer {
                    None => events.push(Event::Reach(at, channel, pending.serial)),
                    Some(_) if runs => events.push(Event::Deliver(at, channel, pending.serial)),
                    Some(_) => {}
                }
            }
            if !runs {
                continue;
            }
            events.extend(process.core.wake_at().map(|wake_at| Event::Wake(at, wake_at)));
            events.extend(process.role.doing.map(|(_, serial)| Event::Role(at, serial)));
            if process.handle.is_some() {
                events.push(Event::Act(at));
            }
            if world.may_look(at) {
                events.push(Event::Look(at));
            }
            events.push(Event::TakeTransitions(at));
        }
        events.extend(world.writes.iter().map(|write| Event::Sink(write.serial)));
        events.extend(world.orphans.iter().map(|orphan| Event::Orphan(orphan.serial)));
        events.extend(self.broken.iter().map(|at| Event::Break(*at)));
        if self.disabled {
            events.push(Event::Enable);
        }
        if !self.healed {
            events.push(Event::Fault);
        }
        events
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(least * 1000 + self.rng.below((most - least) * 1000))
    }

    /// How long until it happens.
    fn delay(&mut self, world: &ElectionWorld, event: Event) -> Duration {
        let setup = &world.setup;
        let rates = if self.healed { super::Rates::default() } else { setup.rates };
        match event {
            Event::Reach(..) => self.call(rates.slow),
            Event::Deliver(at, ..) => {
                if self.is_late(world, at) {
                    return self.between(0, 10);
                }
                self.call(rates.slow)
            }
            Event::Role(at, _) => {
                let doing = world.process(at).and_then(|process| process.role.doing);
                match doing {
                    Some((Doing::Aborting(_), _)) => self.between(0, 20),
                    _ if self.rng.per_mille(rates.slow_role) => self.between(500, 20_000),
                    _ => self.between(1, 300),
                }
            }
            // After a pause work runs before timers do.
            Event::Act(at) if self.is_late(world, at) => self.between(0, 20),
            Event::Act(_) => self.between(50, 1000),
            Event::Wake(at, wake_at) => {
                let machine = &world.machines[usize::from(at)];
                let until = machine.clock.until(world.now, wake_at.0);
                let late = if self.is_late(world, at) { self.between(50, 1500) } else { self.between(0, 5) };
                until.max(late) + Duration::from_nanos(10)
            }
            Event::Look(_) if self.rng.per_mille(50) && !self.healed => self.between(3000, 60_000),
            Event::Look(_) => self.between(1, 50),
            Event::TakeTransitions(_) => self.between(500, 5000),
            Event::Sink(_) if self.rng.per_mille(rates.slow_write) => self.between(500, 12_000),
            Event::Sink(_) => self.between(1, 20),
            Event::Orphan(_) if self.healed => self.between(0, 500),
            Event::Orphan(_) => self.between(10, 20_000),
            Event::Start(_)
            | Event::OutageOver(_)
            | Event::Enable
            | Event::Continue(_)
            | Event::Resume(_)
                if self.healed =>
            {
                Duration::ZERO
            }
            Event::Start(_) if world.now.is_zero() => self.between(0, 3000),
            Event::Start(at) | Event::Continue(at) | Event::Resume(at)
                if setup.members[usize::from(at)].goes =>
            {
                self.between(100, 80_000)
            }
            Event::Start(_) => self.between(100, 20_000),
            Event::Continue(_) => self.between(100, 25_000),
            Event::Resume(_) => self.between(500, 25_000),
            Event::OutageOver(_) => self.between(500, 20_000),
            Event::Break(_) => Duration::ZERO,
            Event::Enable => self.between(2000, 15_000),
            Event::Fault => {
                let every = u64::try_from(setup.every.as_millis()).unwrap_or(1000);
                self.between(every / 4, every * 2)
            }
        }
    }

    fn is_late(&self, world: &ElectionWorld, at: Slot) -> bool {
        self.late.get(&at).is_some_and(|until| *until > world.now)
    }

    fn call(&mut self, slow: u64) -> Duration {
        if self.rng.per_mille(slow) { self.between(500, 9000) } else { self.between(1, 20) }
    }

    fn action(&mut self, world: &ElectionWorld, event: Event) -> ElectionAction {
        let nth_of = |nth: Option<usize>| nth.and_then(|nth| u8::try_from(nth).ok()).unwrap_or(u8::MAX);
        match event {
            Event::Reach(at, channel, _) => {
                ElectionAction::Reach { at, channel, fate: self.fate(world, at, channel) }
            }
            Event::Deliver(at, channel, _) => ElectionAction::Deliver { at, channel },
            Event::Role(at, _) => {
                let rates = if self.healed { super::Rates::default() } else { world.setup.rates };
                ElectionAction::Role { at, well: !self.rng.per_mille(rates.failing_role) }
            }
            Event::Act(at) => ElectionAction::Act { at },
            Event::Wake(at, _) => ElectionAction::Wake { at },
            Event::Look(at) => ElectionAction::Look { at },
            Event::TakeTransitions(at) => {
                let few = world.process(at).is_some_and(|process| process.subscribers.len() < 2);
                if few && self.rng.below(4) == 0 {
                    ElectionAction::Subscribe { at }
                } else {
                    ElectionAction::TakeTransitions { at }
                }
            }
            Event::Sink(serial) => ElectionAction::Sink {
                nth: nth_of(world.writes.iter().position(|write| write.serial == serial)),
            },
            Event::Orphan(serial) => {
                let nth = nth_of(world.orphans.iter().position(|orphan| orphan.serial == serial));
                if self.rng.below(3) > 0 {
                    ElectionAction::Land { nth }
                } else {
                    ElectionAction::Vanish { nth }
                }
            }
            Event::Start(at) => ElectionAction::Start { at },
            Event::Continue(at) => {
                self.late.insert(at, world.now + millis(2000));
                ElectionAction::Continue { at }
            }
            Event::Resume(at) => {
                self.late.insert(at, world.now + millis(2000));
                ElectionAction::Resume { at }
            }
            Event::OutageOver(at) => ElectionAction::Outage { at, is_out: false },
            Event::Enable => {
                self.disabled = false;
                ElectionAction::Admin { order: Order::Enable }
            }
            Event::Fault => self.fault(world),
            Event::Break(at) => {
                self.broken.remove(&at);
                ElectionAction::Outage { at, is_out: true }
            }
        }
    }

    fn fate(&mut self, world: &ElectionWorld, at: Slot, channel: Channel) -> ElectionFate {
        if world.machines[usize::from(at)].outage {
            return ElectionFate::Unavailable;
        }
        if self.healed {
            return ElectionFate::Done;
        }
        let process = world.process(at);
        let pending: Option<&Pending> = match channel {
            Channel::Oracle => process.and_then(|p| p.asking.as_ref()).map(|asking| &asking.pending),
            Channel::Watch => process.and_then(|p| p.watch.pending.as_ref()),
        };
        let rates = &world.setup.rates;
        if !matches!(pending.map(|pending| &pending.request), Some(ElectionRequest::Commit(_))) {
            return if self.rng.per_mille(rates.unavailable) {
                ElectionFate::Unavailable
            } else {
                ElectionFate::Done
            };
        }
        if self.breaking.remove(&at) {
            self.broken.insert(at);
            return ElectionFate::UnknownDone;
        }
        let fates = [
            (rates.conflict, ElectionFate::Conflict),
            (rates.unknown_done, ElectionFate::UnknownDone),
            (rates.unknown_lost, ElectionFate::UnknownLost),
            (rates.unknown_later, ElectionFate::UnknownLater),
            (rates.unavailable, ElectionFate::Unavailable),
        ];
        let mut drawn = self.rng.below(1000);
        for (of_thousand, fate) in fates {
            if drawn < of_thousand {
                return fate;
            }
            drawn -= of_thousand;
        }
        ElectionFate::Done
    }

    /// Whom it strikes: more often whoever leads, or asks the store something.
    fn victim(&mut self, world: &ElectionWorld) -> Slot {
        let any = u8::try_from(self.rng.index(world.machines.len())).unwrap_or(0);
        let busy = |at: &Slot| {
            world
                .process(*at)
                .is_some_and(|p| p.handle.is_some() && (p.asking.is_some() || p.role.doing.is_some()))
        };
        match self.rng.below(3) {
            0 => any,
            1 => leader(world).unwrap_or(any),
            _ => world.slots().find(busy).or_else(|| leader(world)).unwrap_or(any),
        }
    }

    fn fault(&mut self, world: &ElectionWorld) -> ElectionAction {
        let setup: &ElectionSetup = &world.setup;
        let at = self.victim(world);
        match self.rng.weighted(&setup.faults.weights()) {
            0 => ElectionAction::Crash { at },
            1 => ElectionAction::Pause { at },
            2 => ElectionAction::Suspend { at },
            3 => ElectionAction::Outage { at, is_out: true },
            4 if self.rng.below(3) == 0 => ElectionAction::Admin { order: Order::RequestResign },
            4 => ElectionAction::Resign { at, exact: self.rng.below(2) == 0 },
            5 => ElectionAction::Stop { at },
            6 => {
                self.disabled = true;
                ElectionAction::Admin { order: Order::Disable { stop: self.rng.below(3) == 0 } }
            }
            7 => {
                let lease = [4000, 6000, 10_000, 20_000][self.rng.index(4)];
                let lock_delay = [0, 0, 2000][self.rng.index(3)];
                if setup.rates.breaks > 0 && self.rng.per_mille(setup.rates.breaks) {
                    self.breaking.extend(leader(world));
                }
                ElectionAction::Admin { order: Order::Configure { lease, lock_delay } }
            }
            8 => {
                // Somebody stays eligible.
                let least = u64::from(at == 0);
                let priority = u32::try_from(least + self.rng.below(4)).unwrap_or(1);
                ElectionAction::Priority { at, priority }
            }
            9 => ElectionAction::Admin { order: Order::Evict },
            10 => ElectionAction::Exit { at },
            11 => ElectionAction::Poke { at },
            _ => ElectionAction::LoseSeat,
        }
    }
}
