//! Which child runs: the rules of a singleton's supervisor, as a pure value.
//!
//! At most one child is there at any time, dying ones included: the next is started when the former is *down*. So a
//! follower child never meets a leader child of this node, and a child that cannot be ended keeps others from being started.

use std::{collections::VecDeque, fmt, time::Duration};

use callsign_store::Time;

/// How often a leader child that ended is started again before the term is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Restarts {
    /// So often within `within`. 0: its end is the end of the term.
    pub at_most: u32,
    /// The window.
    pub within: Duration,
}

impl Default for Restarts {
    /// 3 times in 30 s.
    fn default() -> Self {
        Self { at_most: 3, within: Duration::from_secs(30) }
    }
}

/// Which child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildKind {
    /// The one that runs where the leader is.
    Leader,
    /// The one that runs elsewhere.
    Follower,
}

impl fmt::Display for ChildKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader child",
            Self::Follower => "follower child",
        })
    }
}

/// Tells the children of a supervisor apart. Never used twice.
pub(crate) type ChildId = u64;

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    /// This member has a term: the leader child is to run.
    Lead,
    /// It follows: the follower child is to run, if there is one.
    Follow,
    /// Its term is over: no leader child is to run. Gently, for so long; then by [`Effect::Kill`].
    Rest { budget: Duration },
    /// Its term is over, and so is the time to be gentle.
    Abort,
    /// No child is to run any more, ever.
    End { budget: Duration },
    /// A child runs.
    Started { id: ChildId },
    /// A child is down: it did not start, crashed, ended, or was stopped.
    Down { id: ChildId, why: String },
    /// Whoever runs is not reachable under its name, and will not be.
    Unreachable { id: ChildId, why: String },
    /// A time asked for has come.
    Wake,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// Start a child; answer with `Started` or `Down`.
    Start { id: ChildId, kind: ChildKind, restart: u32 },
    /// Have it end by itself. `Down` follows, or not.
    Stop { id: ChildId, budget: Duration },
    /// End it, whatever it is doing.
    Kill { id: ChildId },
    /// The leader child that `Lead` asked for runs, or why it does not.
    Led(Result<(), String>),
    /// No leader child is there.
    Rested,
    /// The term is to be given up.
    GiveUp { why: String },
    /// The supervisor has nothing more to do.
    Over,
    /// Something happened.
    Tell(Happened),
}

/// What happened to a child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Happened {
    Started { kind: ChildKind, restart: u32 },
    NotStarted { kind: ChildKind, why: String },
    Exited { kind: ChildKind, why: String },
    Stopped { kind: ChildKind, took: Duration },
    Aborted { kind: ChildKind, took: Duration },
    GivenUp { kind: ChildKind, why: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    Nothing,
    Follower,
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ChildPhase {
    Starting,
    Running,
    /// Since when it is to end, and when it is killed if it has not.
    Stopping {
        since: Time,
        kill_at: Time,
        killed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Child {
    id: ChildId,
    kind: ChildKind,
    phase: ChildPhase,
    restart: u32,
}

/// The rules.
#[allow(clippy::struct_excessive_bools)] // each for itself: who waits, and what is over
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Core {
    restarts: Restarts,
    /// How long a follower child has to stop.
    budget: Duration,
    has_follower: bool,
    want: Want,
    child: Option<Child>,
    last_id: ChildId,
    /// When children were started again since `want` changed last.
    restarted: VecDeque<Time>,
    /// No more children of the present kind are started until `want` changes.
    has_given_up: bool,
    /// `Lead` waits for its answer.
    leads: bool,
    /// `Rest` waits for its answer.
    rests: bool,
    ends: bool,
}

impl Core {
    pub(crate) fn new(restarts: Restarts, budget: Duration, has_follower: bool) -> Self {
        Self {
            restarts,
            budget,
            has_follower,
            want: Want::Nothing,
            child: None,
            last_id: 0,
            restarted: VecDeque::new(),
            has_given_up: false,
            leads: false,
            rests: false,
            ends: false,
        }
    }

    /// When `Wake` is wanted.
    pub(crate) fn wakes_at(&self) -> Option<Time> {
        match self.child?.phase {
            ChildPhase::Stopping { kill_at, killed: false, .. } => Some(kill_at),
            _ => None,
        }
    }

    pub(crate) fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Lead => {
                self.leads = true;
                self.set(Want::Leader);
                if matches!(
                    self.child,
                    Some(Child { kind: ChildKind::Leader, phase: ChildPhase::Running, .. })
                ) {
                    self.led(Ok(()), effects);
                }
                self.settle(now, self.budget, effects);
            }
            Input::Follow => {
                self.set(if self.has_follower { Want::Follower } else { Want::Nothing });
                self.settle(now, self.budget, effects);
            }
            Input::Rest { budget } => {
                self.rests = true;
                self.set(Want::Nothing);
                self.settle(now, budget, effects);
            }
            Input::End { budget } => {
                self.ends = true;
                self.set(Want::Nothing);
                self.settle(now, budget, effects);
            }
            Input::Abort => {
                self.set(Want::Nothing);
                self.settle(now, Duration::ZERO, effects);
                self.kill_late(now, effects);
            }
            Input::Started { id } => self.on_started(id, now, effects),
            Input::Down { id, why } => self.on_down(id, why, now, effects),
            Input::Unreachable { id, why } => {
                if self.child.is_some_and(|child| child.id == id && child.phase == ChildPhase::Running) {
                    self.give_up(ChildKind::Leader, why, effects);
                }
            }
            Input::Wake => self.kill_late(now, effects),
        }
    }

    fn set(&mut self, want: Want) {
        let want = if self.ends { Want::Nothing } else { want };
        if want != self.want {
            self.want = want;
            self.restarted.clear();
            self.has_given_up = false;
        }
    }

    /// Has the present child end if it is not the wanted one, and starts the wanted one if there is none.
    fn settle(&mut self, now: Time, budget: Duration, effects: &mut Vec<Effect>) {
        let wanted = match self.want {
            Want::Nothing => None,
            Want::Follower => Some(ChildKind::Follower),
            Want::Leader => Some(ChildKind::Leader),
        };
        match self.child {
            None => {
                self.rested(effects);
                if let Some(kind) = wanted.filter(|_| !self.has_given_up) {
                    self.start(kind, 0, effects);
                }
                if self.ends {
                    effects.push(Effect::Over);
                }
            }
            Some(child) if Some(child.kind) != wanted => {
                if child.kind == ChildKind::Follower {
                    self.rested(effects);
                }
                self.stop(now, budget, effects);
            }
            Some(_) => {}
        }
    }

    fn start(&mut self, kind: ChildKind, restart: u32, effects: &mut Vec<Effect>) {
        self.last_id += 1;
        self.child = Some(Child { id: self.last_id, kind, phase: ChildPhase::Starting, restart });
        effects.push(Effect::Start { id: self.last_id, kind, restart });
    }

    fn stop(&mut self, now: Time, budget: Duration, effects: &mut Vec<Effect>) {
        let Some(child) = &mut self.child else { return };
        let kill_at = now + budget;
        match &mut child.phase {
            ChildPhase::Stopping { kill_at: set, .. } => *set = (*set).min(kill_at),
            phase => {
                *phase = ChildPhase::Stopping { since: now, kill_at, killed: false };
                effects.push(Effect::Stop { id: child.id, budget });
            }
        }
    }

    fn kill_late(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(child) = &mut self.child else { return };
        if let ChildPhase::Stopping { since, kill_at, killed: killed @ false } = &mut child.phase
            && *kill_at <= now
        {
            *killed = true;
            effects.push(Effect::Kill { id: child.id });
            effects.push(Effect::Tell(Happened::Aborted { kind: child.kind, took: now.since(*since) }));
        }
    }

    fn on_started(&mut self, id: ChildId, now: Time, effects: &mut Vec<Effect>) {
        let Some(child) = self.child.as_mut().filter(|child| child.id == id) else { return };
        // One that is to end already is told to again: it may have been too early the first time.
        match child.phase {
            ChildPhase::Starting => child.phase = ChildPhase::Running,
            ChildPhase::Stopping { kill_at, killed: false, .. } => {
                effects.push(Effect::Stop { id, budget: kill_at.since(now) });
                return;
            }
            ChildPhase::Stopping { .. } => {
                effects.push(Effect::Kill { id });
                return;
            }
            ChildPhase::Running => return,
        }
        let (kind, restart) = (child.kind, child.restart);
        effects.push(Effect::Tell(Happened::Started { kind, restart }));
        if kind == ChildKind::Leader {
            self.led(Ok(()), effects);
        }
    }

    fn on_down(&mut self, id: ChildId, why: String, now: Time, effects: &mut Vec<Effect>) {
        let Some(child) = self.child.take_if(|child| child.id == id) else { return };
        let kind = child.kind;
        match child.phase {
            ChildPhase::Stopping { since, .. } => {
                effects.push(Effect::Tell(Happened::Stopped { kind, took: now.since(since) }));
            }
            ChildPhase::Starting if child.kind == ChildKind::Leader && self.leads => {
                // The campaign counts these itself.
                effects.push(Effect::Tell(Happened::NotStarted { kind, why: why.clone() }));
                self.want = Want::Nothing;
                self.led(Err(why), effects);
            }
            phase => {
                effects.push(Effect::Tell(if phase == ChildPhase::Starting {
                    Happened::NotStarted { kind, why: why.clone() }
                } else {
                    Happened::Exited { kind, why: why.clone() }
                }));
                return self.start_again(kind, why, now, effects);
            }
        }
        self.settle(now, self.budget, effects);
    }

    fn start_again(&mut self, kind: ChildKind, why: String, now: Time, effects: &mut Vec<Effect>) {
        let Restarts { at_most, within } = self.restarts;
        self.restarted.retain(|at| now.since(*at) < within);
        if self.restarted.len() < at_most as usize {
            self.restarted.push_back(now);
            let restart = u32::try_from(self.restarted.len()).unwrap_or(u32::MAX);
            self.start(kind, restart, effects);
        } else {
            self.give_up(kind, why, effects);
        }
    }

    fn give_up(&mut self, kind: ChildKind, why: String, effects: &mut Vec<Effect>) {
        self.has_given_up = true;
        effects.push(Effect::Tell(Happened::GivenUp { kind, why: why.clone() }));
        if kind == ChildKind::Leader {
            effects.push(Effect::GiveUp { why });
        }
    }

    fn led(&mut self, result: Result<(), String>, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.leads) {
            effects.push(Effect::Led(result));
        }
    }

    fn rested(&mut self, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.rests) {
            effects.push(Effect::Rested);
        }
    }
}

#[cfg(test)]
mod tests;
