//! How a node leaves, and how one that has failed ends: in which order, and for how long each step is waited for.
//!
//! ```text
//! serving --drain--> draining --every registry has drained, and what runs on one node has ended--> drained
//! drained --leave--> saying --every registry has dropped its names, and the queue says so | too late--> closing
//! closing --the session is closed | too late--> parting --its links are closed--> gone
//! any of these --failed--> closing
//! ```
//!
//! Promises: the names are held until every registry has drained; the session is closed only when every registry has said in
//! the queue that it leaves, or could not in time; the links close last, so that the others read why. Each step ends, whatever
//! the store does. A caller that gives up does not stop what it began.

use std::{collections::BTreeMap, time::Duration};

use callsign_store::{Time, ids::RegistryName, planted};

use crate::core::input::Drained;

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeavingTimes {
    /// A registry hands its seat over.
    pub drain: Duration,
    /// What was asked before is decided.
    pub decide: Duration,
    /// The queue says that a member has left.
    pub say: Duration,
    /// The session is closed.
    pub close: Duration,
}

/// Who asked, so that the answer finds them.
pub type LeavingCaller = u64;

/// What can happen to a node that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeavingInput {
    /// The application has the node drain.
    Drain(LeavingCaller),
    /// The application has the node leave. It drains before, unless it has.
    Leave(LeavingCaller),
    /// A registry has drained.
    Drained(RegistryName, Drained),
    /// What runs on exactly one node has ended here.
    Ended,
    /// The member of a registry has dropped its names. False: it had ended before.
    Dropped(RegistryName, bool),
    /// The queue of a registry says that the member has left.
    Left(RegistryName),
    /// The session is closed, or will not be.
    Closed,
    /// The links are closed.
    Parted,
    /// A part of the node has failed.
    Failed,
    /// A time has come.
    Wake,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeavingEffect {
    /// A registry takes no new names, and hands its seat over, in this time.
    Drain(RegistryName, Duration),
    /// What runs on exactly one node ends here.
    End,
    /// These have waited for this.
    Drained(Vec<LeavingCaller>, Drained),
    /// A registry waits so long for what is undecided; then its names are dropped, and the queue is told.
    Drop(RegistryName, Duration),
    /// The session is closed.
    Close,
    /// The registries end, and the links are closed.
    Part,
    /// These have waited until the node was gone.
    Left(Vec<LeavingCaller>),
}

/// What a registry is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WaitedFor {
    /// Nothing.
    Nothing,
    /// That it has drained.
    Drains,
    /// That it has dropped its names. The queue may say so before the member does.
    Drops { has_left: bool },
    /// That the queue says so, until then.
    Leaves { until: Time },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum LeavingStage {
    Serving,
    Draining,
    Drained,
    Saying,
    Closing { until: Time },
    Parting,
    Gone,
}

/// Why a node is about to leave.
#[cfg(any(test, feature = "admin"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhyLeaving {
    /// It was asked to drain, and to do nothing else yet.
    AskedToDrain,
    /// It was asked to leave.
    AskedToLeave,
    /// A part of it has failed.
    Failed,
}

/// How a node leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaving {
    times: LeavingTimes,
    stage: LeavingStage,
    registries: BTreeMap<RegistryName, WaitedFor>,
    /// What runs on exactly one node is ending.
    is_ending: bool,
    /// The worst of what registries said when they drained.
    drained: Option<Drained>,
    drainers: Vec<LeavingCaller>,
    leavers: Vec<LeavingCaller>,
    has_failed: bool,
}

impl Leaving {
    /// A node that has joined no registry, and does not leave.
    pub fn new(times: LeavingTimes) -> Self {
        Self {
            times,
            stage: LeavingStage::Serving,
            registries: BTreeMap::new(),
            is_ending: false,
            drained: None,
            drainers: Vec::new(),
            leavers: Vec::new(),
            has_failed: false,
        }
    }

    /// Adds a registry. False: the node has begun to leave, so that nothing is joined any more.
    #[must_use]
    pub fn join(&mut self, registry: RegistryName) -> bool {
        let joins = !self.has_begun();
        if joins {
            self.registries.insert(registry, WaitedFor::Nothing);
        }
        joins
    }

    /// Whether the node has begun to leave, or has failed.
    pub fn has_begun(&self) -> bool {
        self.stage != LeavingStage::Serving
    }

    /// Why it has begun to leave, if it has.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn why(&self) -> Option<WhyLeaving> {
        match self.stage {
            LeavingStage::Serving => None,
            _ if self.has_failed => Some(WhyLeaving::Failed),
            LeavingStage::Draining | LeavingStage::Drained if self.leavers.is_empty() => {
                Some(WhyLeaving::AskedToDrain)
            }
            _ => Some(WhyLeaving::AskedToLeave),
        }
    }

    /// Whether the session is being closed.
    pub fn is_closing(&self) -> bool {
        matches!(self.stage, LeavingStage::Closing { .. })
    }

    /// When it is to be told that a time has come, which is later than now.
    pub fn wakes_at(&self) -> Option<Time> {
        match self.stage {
            LeavingStage::Closing { until } => Some(until),
            LeavingStage::Saying => {
                let untils = self.registries.values().filter_map(|waits| match waits {
                    WaitedFor::Leaves { until } => Some(*until),
                    _ => None,
                });
                untils.min()
            }
            _ => None,
        }
    }

    /// Takes an input, and adds what is to be done.
    pub fn step(&mut self, now: Time, input: LeavingInput, effects: &mut Vec<LeavingEffect>) {
        match input {
            LeavingInput::Drain(caller) if self.stage > LeavingStage::Drained => {
                effects.push(LeavingEffect::Drained(vec![caller], Drained::Left));
            }
            LeavingInput::Drain(caller) => {
                self.drainers.push(caller);
                self.drain(effects);
            }
            LeavingInput::Leave(caller) => {
                self.leavers.push(caller);
                if self.stage == LeavingStage::Serving {
                    self.drain(effects);
                }
            }
            LeavingInput::Drained(registry, drained) => {
                if self.settle(&registry, WaitedFor::Drains) {
                    self.drained = self.drained.take().max(Some(drained));
                }
            }
            LeavingInput::Ended => self.is_ending = false,
            LeavingInput::Dropped(registry, is_alive) => self.dropped(now, &registry, is_alive),
            LeavingInput::Left(registry) => match self.registries.get_mut(&registry) {
                Some(WaitedFor::Drops { has_left }) => *has_left = true,
                Some(waits @ WaitedFor::Leaves { .. }) => *waits = WaitedFor::Nothing,
                _ => {}
            },
            LeavingInput::Closed => {
                if let LeavingStage::Closing { until } = &mut self.stage {
                    *until = now;
                }
            }
            LeavingInput::Parted => {
                if self.stage == LeavingStage::Parting {
                    self.stage = LeavingStage::Gone;
                }
            }
            LeavingInput::Failed => self.fail(now, effects),
            LeavingInput::Wake => {}
        }
        self.go_on(now, effects);
    }

    fn drain(&mut self, effects: &mut Vec<LeavingEffect>) {
        if self.stage == LeavingStage::Draining {
            return;
        }
        self.stage = LeavingStage::Draining;
        for (registry, waits) in &mut self.registries {
            *waits = WaitedFor::Drains;
            effects.push(LeavingEffect::Drain(registry.clone(), self.times.drain));
        }
        self.is_ending = true;
        effects.push(LeavingEffect::End);
    }

    /// Notes that what was waited for has come. False: it was not waited for.
    fn settle(&mut self, registry: &RegistryName, waited: WaitedFor) -> bool {
        let waits = self.registries.get_mut(registry).filter(|waits| **waits == waited);
        waits.map(|waits| *waits = WaitedFor::Nothing).is_some()
    }

    fn dropped(&mut self, now: Time, registry: &RegistryName, is_alive: bool) {
        let until = now + self.times.say;
        let Some(waits) = self.registries.get_mut(registry) else { return };
        if let WaitedFor::Drops { has_left } = *waits {
            let is_said = has_left || !is_alive || planted!("queue-not-awaited");
            *waits = if is_said { WaitedFor::Nothing } else { WaitedFor::Leaves { until } };
        }
    }

    /// Nothing of the node runs any more but its session, which is closed.
    fn fail(&mut self, now: Time, effects: &mut Vec<LeavingEffect>) {
        if std::mem::replace(&mut self.has_failed, true) || self.stage >= LeavingStage::Parting {
            return;
        }
        if !self.drainers.is_empty() {
            effects.push(LeavingEffect::Drained(std::mem::take(&mut self.drainers), Drained::Left));
        }
        if !matches!(self.stage, LeavingStage::Closing { .. }) {
            self.close(now, effects);
        }
    }

    /// The next steps, as far as nothing is to be waited for.
    fn go_on(&mut self, now: Time, effects: &mut Vec<LeavingEffect>) {
        // A time that is over is no time to wait for, while other registries are waited for.
        for waits in self.registries.values_mut() {
            if matches!(waits, WaitedFor::Leaves { until } if *until <= now) {
                *waits = WaitedFor::Nothing;
            }
        }
        if self.stage == LeavingStage::Draining && self.waits_for_nothing() && !self.is_ending {
            self.stage = LeavingStage::Drained;
            let how = self.drained.take().unwrap_or(Drained::Left);
            effects.push(LeavingEffect::Drained(std::mem::take(&mut self.drainers), how));
        }
        if self.stage == LeavingStage::Drained && !self.leavers.is_empty() {
            self.stage = LeavingStage::Saying;
            for (registry, waits) in &mut self.registries {
                *waits = WaitedFor::Drops { has_left: false };
                effects.push(LeavingEffect::Drop(registry.clone(), self.times.decide));
            }
        }
        if self.stage == LeavingStage::Saying
            && (self.waits_for_nothing() || planted!("session-closed-first"))
        {
            self.close(now, effects);
        }
        if matches!(self.stage, LeavingStage::Closing { until } if until <= now) {
            self.stage = LeavingStage::Parting;
            effects.push(LeavingEffect::Part);
        }
        if self.stage == LeavingStage::Gone && !self.leavers.is_empty() {
            effects.push(LeavingEffect::Left(std::mem::take(&mut self.leavers)));
        }
    }

    fn waits_for_nothing(&self) -> bool {
        self.registries.values().all(|waits| match waits {
            WaitedFor::Nothing => true,
            WaitedFor::Drains => planted!("drains-not-awaited"),
            WaitedFor::Drops { .. } | WaitedFor::Leaves { .. } => false,
        })
    }

    fn close(&mut self, now: Time, effects: &mut Vec<LeavingEffect>) {
        self.stage = LeavingStage::Closing { until: now + self.times.close };
        effects.push(LeavingEffect::Close);
    }
}

/// For whoever judges what is done.
#[cfg(feature = "cores")]
impl Leaving {
    /// As if the node had drained, and nothing had been waited for.
    pub fn has_drained_at_once(&mut self) {
        self.stage = LeavingStage::Drained;
    }

    /// Whether the registries drain: until they have, names are held.
    pub fn is_draining(&self) -> bool {
        self.stage == LeavingStage::Draining
    }

    /// Whether the session is closed because a part of the node has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests;
