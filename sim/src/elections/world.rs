//! The world, and what each action does to it.

use std::{sync::Arc, time::Duration};

use callsign_election::{Fence, Signal, campaign::core::Input as CampaignInput, lease::Memory};
use callsign_store::{Limits, Transaction, ids::Incarnation, mvcc::Mvcc, planted, time::Time};

use super::{
    action::{Channel, ElectionAction, Slot},
    judge::Judge,
    process::{Author, Doing, ElectionProcess, Subscriber},
    setup::ElectionSetup,
};
use crate::world::NodeClock;

/// How many versions the store keeps.
const VERSIONS_KEPT: u64 = 10_000;

/// A machine, and the process on it.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionMachine {
    /// Its boot-time clock.
    pub clock: NodeClock,
    /// What runs there.
    pub process: Option<ElectionProcess>,
    /// Whether the store cannot be reached from there.
    pub outage: bool,
    /// Whether the process stands still.
    pub paused: bool,
    /// Whether the machine sleeps.
    pub suspended: bool,
    /// Since when it has not run, and whether it held a term then.
    still_since: Option<(Duration, bool)>,
}

/// A transaction whose author does not wait for it any more.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionOrphan {
    /// Whose it was.
    pub author: Author,
    /// The transaction.
    pub transaction: Transaction,
    /// Tells it from others.
    pub serial: u64,
}

/// A write on its way to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// With which token.
    pub fence: Fence,
    /// Tells it from others.
    pub serial: u64,
}

/// What is written to: it admits no token below the greatest that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sink {
    /// The greatest epoch that it has seen.
    pub greatest: u64,
}

impl Sink {
    fn admits(&mut self, fence: Fence) -> bool {
        if fence.epoch.0 < self.greatest {
            return false;
        }
        self.greatest = fence.epoch.0;
        true
    }
}

/// See the [module](super).
#[derive(Clone, Debug)]
pub struct ElectionWorld {
    /// What it was drawn from.
    pub setup: Arc<ElectionSetup>,
    /// True time.
    pub now: Duration,
    /// The store.
    pub store: Mvcc,
    /// The machines.
    pub machines: Vec<ElectionMachine>,
    /// Transactions that were given up and may still be done.
    pub orphans: Vec<ElectionOrphan>,
    /// Writes on their way.
    pub writes: Vec<Written>,
    /// What is written to.
    pub sink: Sink,
    /// Who watches it all.
    pub judge: Judge,
    pub(super) admin: Memory,
    incarnations: u64,
    serials: u64,
}

impl PartialEq for ElectionWorld {
    /// Whether the same can happen in both. What was seen so far does not count.
    fn eq(&self, other: &Self) -> bool {
        (self.now, &self.store, &self.machines, &self.orphans, &self.writes, self.sink)
            == (other.now, &other.store, &other.machines, &other.orphans, &other.writes, other.sink)
    }
}

impl ElectionWorld {
    /// A world in which nothing has happened: no process runs, and the store is empty.
    pub fn new(setup: ElectionSetup) -> Self {
        let machine = |seat: &super::setup::SeatedMember| {
            let mut clock = NodeClock::new(seat.clock);
            clock.set_rate(Duration::ZERO, seat.ppm);
            ElectionMachine {
                clock,
                process: None,
                outage: false,
                paused: false,
                suspended: false,
                still_since: None,
            }
        };
        Self {
            now: Duration::ZERO,
            store: Mvcc::new(Limits::FOUNDATIONDB, VERSIONS_KEPT),
            machines: setup.members.iter().map(machine).collect(),
            orphans: Vec::new(),
            writes: Vec::new(),
            sink: Sink::default(),
            judge: Judge::new(setup.sound_clocks),
            admin: Memory::default(),
            incarnations: 0,
            serials: 0,
            setup: Arc::new(setup),
        }
    }

    /// The machines' numbers.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.machines.len()).map(|at| u8::try_from(at).expect("there are few"))
    }

    /// A process.
    pub fn process(&self, at: Slot) -> Option<&ElectionProcess> {
        self.machines.get(usize::from(at))?.process.as_ref()
    }

    pub(super) fn process_mut(&mut self, at: Slot) -> Option<&mut ElectionProcess> {
        self.machines.get_mut(usize::from(at))?.process.as_mut()
    }

    /// Whether a process is there and runs.
    pub fn runs(&self, at: Slot) -> bool {
        self.machines.get(usize::from(at)).is_some_and(|m| m.process.is_some() && !m.paused && !m.suspended)
    }

    /// What a machine's clock shows.
    pub fn local(&self, at: Slot) -> Time {
        let machine = self.machines.get(usize::from(at));
        Time(machine.map_or(Duration::ZERO, |machine| machine.clock.at(self.now)))
    }

    pub(super) fn serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Does one thing, if it is possible.
    pub fn apply(&mut self, action: &ElectionAction) -> bool {
        let done = self.carry_out(action);
        if done {
            let mut judge = std::mem::take(&mut self.judge);
            judge.look(self);
            self.judge = judge;
        }
        done
    }

    /// All is at rest for long: nothing is left of those that are gone.
    pub fn look_for_rows(&mut self) {
        let mut judge = std::mem::take(&mut self.judge);
        judge.rows_left(self);
        self.judge = judge;
    }

    fn carry_out(&mut self, action: &ElectionAction) -> bool {
        match *action {
            ElectionAction::Pass { nanos } => {
                self.now += Duration::from_nanos(nanos);
                nanos > 0
            }
            ElectionAction::Start { at } => self.start(at),
            ElectionAction::Crash { at } => self.crash(at),
            ElectionAction::Pause { at } => self.stand_still(at, false),
            ElectionAction::Suspend { at } => self.stand_still(at, true),
            ElectionAction::Continue { at } => self.go_on(at, false),
            ElectionAction::Resume { at } => self.go_on(at, true),
            ElectionAction::Outage { at, is_out } => match self.machines.get_mut(usize::from(at)) {
                Some(machine) if machine.outage != is_out => {
                    machine.outage = is_out;
                    true
                }
                _ => false,
            },
            ElectionAction::Reach { at, channel, fate } => self.reach(at, channel, fate),
            ElectionAction::Land { nth } => self.land(usize::from(nth)),
            ElectionAction::Vanish { nth } => {
                let is_there = self.orphans.len() > usize::from(nth);
                if is_there {
                    self.orphans.remove(usize::from(nth));
                }
                is_there
            }
            ElectionAction::Sink { nth } => {
                if self.writes.len() <= usize::from(nth) {
                    return false;
                }
                let Written { fence, .. } = self.writes.remove(usize::from(nth));
                let before = self.sink.greatest;
                let admitted = self.sink.admits(fence);
                self.judge.sink(fence, before, admitted);
                true
            }
            ElectionAction::Admin { order } => self.administer(order),
            ElectionAction::LoseSeat => self.lose_seat(),
            // What needs a process that runs.
            ElectionAction::Wake { at }
            | ElectionAction::Deliver { at, .. }
            | ElectionAction::Look { at }
            | ElectionAction::Role { at, .. }
            | ElectionAction::Exit { at }
            | ElectionAction::Act { at }
            | ElectionAction::Subscribe { at }
            | ElectionAction::TakeTransitions { at }
            | ElectionAction::Resign { at, .. }
            | ElectionAction::Poke { at }
            | ElectionAction::Stop { at }
            | ElectionAction::Priority { at, .. } => self.runs(at) && self.within(at, action),
        }
    }

    fn within(&mut self, at: Slot, action: &ElectionAction) -> bool {
        let now = self.local(at);
        let Some(process) = self.process_mut(at) else { return false };
        match *action {
            ElectionAction::Wake { .. } => {
                if process.core.wake_at().is_none_or(|wake_at| wake_at > now) {
                    return false;
                }
                self.tell(at, CampaignInput::Wake);
            }
            ElectionAction::Deliver { channel: Channel::Oracle, .. } => return self.deliver(at),
            ElectionAction::Deliver { channel: Channel::Watch, .. } => return self.deliver_look(at),
            ElectionAction::Look { .. } => return self.look(at),
            ElectionAction::Role { well, .. } => {
                let Some((doing, _)) = process.role.doing.take() else { return false };
                let input = match doing {
                    Doing::Activating(run) if well => {
                        process.role.active = Some(run);
                        CampaignInput::Activated { run, answer: Ok(()) }
                    }
                    Doing::Activating(run) => {
                        process.role.works = None;
                        let answer = Err(callsign_election::Abort("sim".to_owned()));
                        CampaignInput::Activated { run, answer }
                    }
                    Doing::Stopping(run) => {
                        process.role.works = None;
                        CampaignInput::Stopped { run }
                    }
                    Doing::Aborting(run) => {
                        process.role.works = None;
                        CampaignInput::Aborted { run }
                    }
                };
                self.tell(at, input);
            }
            ElectionAction::Exit { .. } => {
                let Some(run) = process.role.active.take() else { return false };
                process.role.works = None;
                self.tell(at, CampaignInput::Exited { run, reason: "sim".to_owned() });
            }
            ElectionAction::Act { .. } => {
                let Some(fence) = process.check(now).map(|grant| grant.fence) else { return false };
                let serial = self.serial();
                self.writes.push(Written { fence, serial });
            }
            ElectionAction::Subscribe { .. } => {
                let from = process.log.len() - 1;
                let queue = process.log[from..].iter().cloned().collect();
                process.subscribers.push(Subscriber { queue, from, taken: 0, last: None });
            }
            ElectionAction::TakeTransitions { .. } => {
                if process.subscribers.iter().all(|subscriber| subscriber.queue.is_empty()) {
                    return false;
                }
                let mut subscribers = std::mem::take(&mut process.subscribers);
                let log = process.log.clone();
                for subscriber in &mut subscribers {
                    self.judge.taken(&log, subscriber);
                }
                if let Some(process) = self.process_mut(at) {
                    process.subscribers = subscribers;
                }
            }
            ElectionAction::Resign { exact, .. } => {
                let held = process.handle.as_ref().map(|(grant, _)| grant.term.epoch);
                let epoch = held.filter(|_| exact);
                self.tell(at, CampaignInput::Signal(Signal::ResignRequested { epoch }));
            }
            ElectionAction::Poke { .. } => self.tell(at, CampaignInput::Signal(Signal::Wakeup)),
            ElectionAction::Stop { .. } => {
                if process.core.is_over() {
                    return false;
                }
                self.tell(at, CampaignInput::Stop);
            }
            ElectionAction::Priority { priority, .. } => {
                if process.priority == priority {
                    return false;
                }
                process.priority = priority;
                process.infos.push_back(priority);
                self.tell(at, CampaignInput::Info);
            }
            _ => return false,
        }
        true
    }

    fn start(&mut self, at: Slot) -> bool {
        let Some(machine) = self.machines.get(usize::from(at)) else { return false };
        if machine.process.is_some() || machine.suspended {
            return false;
        }
        self.incarnations += 1;
        let Some(process) = ElectionProcess::new(&self.setup, at, Incarnation(self.incarnations)) else {
            return false;
        };
        let machine = &mut self.machines[usize::from(at)];
        machine.process = Some(process);
        machine.paused = false;
        self.tell(at, CampaignInput::Start);
        true
    }

    fn crash(&mut self, at: Slot) -> bool {
        self.abandon(at);
        let Some(machine) = self.machines.get_mut(usize::from(at)) else { return false };
        machine.still_since = None;
        machine.paused = false;
        machine.process.take().is_some()
    }

    fn stand_still(&mut self, at: Slot, whole: bool) -> bool {
        let (now, local) = (self.now, self.local(at));
        let Some(machine) = self.machines.get_mut(usize::from(at)) else { return false };
        if machine.suspended || (!whole && (machine.paused || machine.process.is_none())) {
            return false;
        }
        let holds = machine.process.as_ref().is_some_and(|process| process.check(local).is_some());
        if whole {
            machine.suspended = true;
            machine.still_since = Some((now, holds));
            if planted!("campaign-monotonic-clock") {
                machine.clock.set_rate(now, -1_000_000);
            }
        } else {
            machine.paused = true;
        }
        true
    }

    fn go_on(&mut self, at: Slot, whole: bool) -> bool {
        let now = self.now;
        let Some(ppm) = self.setup.members.get(usize::from(at)).map(|seat| seat.ppm) else { return false };
        let Some(machine) = self.machines.get_mut(usize::from(at)) else { return false };
        if !whole {
            return !machine.suspended && std::mem::take(&mut machine.paused);
        }
        if !machine.suspended {
            return false;
        }
        machine.suspended = false;
        machine.clock.set_rate(now, ppm);
        let slept = machine.still_since.take().is_some_and(|(since, held)| {
            held && machine.process.is_some() && now.saturating_sub(since) > self.setup.config.lease
        });
        if slept {
            self.judge.met(super::Check::Slept);
        }
        true
    }
}
