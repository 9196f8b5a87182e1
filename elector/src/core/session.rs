//! The core of a session: what to read and to write, and when to trust.

use callsign_store::{
    CommitOutcome, Key, Proof, Read, ReadResult, StoreError, Transaction,
    ids::{Incarnation, NodeName, SessionId, SessionNumber},
    keys::ClusterKeys,
    random::SplitMix64,
    time::Time,
};
use serde::{Deserialize, Serialize};

use self::{
    config::SessionConfig,
    event::{Obstacle, SessionEvent, SessionFailure},
    timing::TimingError,
};
use self::{
    observe::{Observed, Observer},
    own::Own,
    suspicion::Suspicions,
    sweeper::Sweeper,
};
use crate::core::past::Fact;

pub(crate) mod config;
pub(crate) mod event;
mod lineage;
pub(crate) mod observe;
mod own;
mod suspicion;
mod sweeper;
pub mod timing;
mod watch;

/// Recognises the answer to a request of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// What can happen to a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    /// The node may open its session.
    Start,
    /// The time asked for by [`Effect::WakeAt`] has come.
    Wake,
    /// A read has ended. `now` counts as its end.
    ReadDone {
        /// Which read.
        id: RequestId,
        /// What it saw.
        result: Result<ReadResult, StoreError>,
    },
    /// A commit was answered. May come long after it was given up.
    CommitDone {
        /// Which commit.
        id: RequestId,
        /// What became of it.
        outcome: CommitOutcome,
    },
    /// The store answered [`Effect::Prove`].
    Proof {
        /// The node asked about.
        node: NodeName,
        /// The incarnation asked about.
        incarnation: Incarnation,
        /// The answer.
        proof: Proof,
    },
    /// There is reason to ask whether an incarnation is dead: the link to it closed.
    Suspect {
        /// The node.
        node: NodeName,
        /// The incarnation.
        incarnation: Incarnation,
    },
    /// Something of a registry that was committed is not in the store any more, as a read that was begun later says; or another
    /// lineage was seen.
    Missing {
        /// Since when the node is in its lineage, as whoever says this was told by [`SessionEvent::Lineage`]. What was known before
        /// that is missed no more.
        since: Option<Time>,
        /// What was known, with the keys that have to show it.
        facts: Vec<(Key, Fact)>,
    },
    /// Whether some member of this node leads. Leaders close silent sessions first.
    Leads(bool),
    /// Whose sessions this node is to observe from now on.
    Observe(Observed),
    /// Stop trusting, close the session, and never open one again.
    Leave,
    /// In place of [`Start`](Self::Start): nothing is to be opened or trusted. The session of this number is to be closed,
    /// which another core of the same incarnation has kept until it broke.
    Close(SessionNumber),
}

/// What a session asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// Read from the store, and answer with [`Input::ReadDone`].
    Read {
        /// Quoted in the answer.
        id: RequestId,
        /// What to read.
        reads: Vec<Read>,
    },
    /// Commit, and answer with [`Input::CommitDone`].
    Commit {
        /// Quoted in the answer.
        id: RequestId,
        /// What to commit.
        transaction: Transaction,
    },
    /// Ask the store whether the incarnation is proven dead, and answer with [`Input::Proof`].
    Prove {
        /// The node.
        node: NodeName,
        /// The incarnation.
        incarnation: Incarnation,
    },
    /// The session is trusted until this time. Replaces the former time.
    Trust {
        /// The session's number.
        number: SessionNumber,
        /// When trust ends, unless a later effect replaces it.
        until: Time,
    },
    /// No session is trusted.
    Lapse,
    /// Tell subscribers.
    Emit(SessionEvent),
    /// Send [`Input::Wake`] at this time. Replaces the former time. One too many does no harm.
    WakeAt(Time),
}

/// Where a session is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Not started. -> `Opening`, `Over`.
    Idle,
    /// Waits for a session under its name to be over, and opens the next. -> `Open`, `Leaving`, `Over`.
    Opening,
    /// Beats. -> `Opening` when the session is lost, `Leaving`, `Over`.
    Open,
    /// Closes its own, until the given time at most. -> `Over`.
    Leaving(Time),
    /// Does nothing any more: it left, or failed.
    Over(Option<SessionFailure>),
}

/// The session of one node in one cluster, over all the numbers it gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    config: SessionConfig,
    keys: ClusterKeys,
    phase: Phase,
    /// The node's own record.
    own: Own,
    /// The records of the others.
    observer: Observer,
    suspicions: Suspicions,
    /// What goes over the records of those that are no more.
    sweeper: Sweeper,
    leads: bool,
    jitter: SplitMix64,
    last_id: RequestId,
    woken_for: Option<Time>,
}

impl Session {
    /// A session that waits for [`Input::Start`]. Refuses durations that cannot work.
    pub fn new(config: SessionConfig) -> Result<Self, TimingError> {
        config.timing.validate()?;
        Ok(Self::fresh(config))
    }

    fn fresh(config: SessionConfig) -> Self {
        let mut jitter = SplitMix64::new(config.seed);
        Self {
            keys: ClusterKeys::new(&config.cluster),
            phase: Phase::Idle,
            own: Own::default(),
            observer: Observer::new(&mut jitter),
            suspicions: Suspicions::default(),
            sweeper: Sweeper::default(),
            leads: false,
            jitter,
            last_id: RequestId(0),
            woken_for: None,
            config,
        }
    }

    /// For the end of a node whose driver of the session broke, maybe in the midst of a step: a fresh session takes this one's place,
    /// which knows nothing. Returns what it is to be told, so that it closes what is open.
    #[must_use]
    pub fn start_over(&mut self) -> Input {
        let open = self.session();
        *self = Self::fresh(self.config.clone());
        open.map_or(Input::Leave, |session| Input::Close(session.number))
    }

    /// Takes one input and appends what to do about it.
    ///
    /// Deterministic: the same state, time and input give the same effects. `now` must not decrease.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        // First, whatever the input: an answer that comes after trust ran out finds a lapsed session, because
        // everybody who asked in between was told so.
        self.lapse_if_due(now, effects);
        let woken = matches!(input, Input::Wake);
        match input {
            Input::Start => {
                if self.phase == Phase::Idle {
                    self.phase = Phase::Opening;
                    self.own.due = now;
                }
            }
            Input::Wake => {}
            Input::ReadDone { id, result } => {
                if self.own.is_reading(id) {
                    self.on_own_read(now, id, result, effects);
                } else if self.sweeper.is_asking(id) {
                    self.on_swept_page(now, result, effects);
                } else {
                    self.on_observed(now, id, result, effects);
                }
            }
            Input::CommitDone { id, outcome } => {
                if self.observer.is_closing(id) {
                    self.on_close_done(now, id, &outcome, effects);
                } else if self.sweeper.is_asking(id) {
                    self.on_sweep_done(now, &outcome);
                } else {
                    self.on_own_commit(now, id, outcome, effects);
                }
            }
            Input::Proof { node, incarnation, proof } => {
                if self.suspicions.answer(now, &node, incarnation, proof) {
                    self.on_death(now, &node, incarnation, effects);
                }
            }
            Input::Suspect { node, incarnation } => {
                let is_me = node == self.config.node && incarnation == self.config.incarnation;
                if !is_me && matches!(self.phase, Phase::Opening | Phase::Open) {
                    self.suspicions.suspect(now, &node, incarnation);
                }
            }
            Input::Missing { since, facts } => self.doubt(now, since, facts, effects),
            Input::Leads(leads) => self.leads = leads,
            Input::Observe(observed) => self.observer.turn_to(now, observed),
            Input::Leave => self.leave(now, effects),
            Input::Close(number) => self.close_inherited(now, number),
        }
        self.act_own(now, effects);
        self.act_observer(now, effects);
        self.act_sweeper(now, effects);
        if matches!(self.phase, Phase::Opening | Phase::Open) {
            self.suspicions.act(now, self.config.timing.attempt(), effects);
        }
        self.ask_to_be_woken(woken, effects);
    }

    /// The session that this node holds, trusted or lapsed. `None` before it was opened and after it was lost.
    pub fn session(&self) -> Option<SessionId> {
        let holds = matches!(self.phase, Phase::Open | Phase::Leaving(_)) && self.own.announced;
        self.own.number.filter(|_| holds).map(|number| self.id(number))
    }

    /// Until when the session is trusted; `None` while it is not.
    pub fn trusted_until(&self) -> Option<Time> {
        self.own.trusted_until
    }

    /// The events that bring a new subscriber to where the others are: this node's state, if it has a session or
    /// will never have one again.
    pub fn current(&self) -> Vec<SessionEvent> {
        let own = match (&self.phase, self.session()) {
            (Phase::Over(None), _) => Some(SessionEvent::Left),
            (Phase::Over(Some(failure)), _) => Some(SessionEvent::Failed(failure.clone())),
            (_, None) => None,
            (_, Some(session)) if self.own.trusted_until.is_some() => Some(SessionEvent::Opened { session }),
            (_, Some(session)) => Some(SessionEvent::Lapsed { session }),
        };
        self.own.standing.event().into_iter().chain(own).collect()
    }

    /// What is in the way of opening, or of closing.
    pub fn obstacle(&self) -> Obstacle {
        self.own.obstacle.clone()
    }

    /// Until when a former incarnation that is silent has to be waited for, as far as is known: by the lease that its record
    /// says, and half of it for the reads and the commits. `None` if nobody is in the way, or somebody who lives.
    pub fn waits_until(&self) -> Option<Time> {
        let is_silent = matches!(self.own.obstacle, Obstacle::FormerOpen { .. });
        self.own.former_is_over_at().filter(|_| is_silent && self.phase == Phase::Opening)
    }

    /// Whether the core will never do anything again.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether it leaves, or has left or failed.
    pub fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_) | Phase::Over(_))
    }

    /// Why the session cannot be kept, if that is so.
    pub fn failure(&self) -> Option<&SessionFailure> {
        match &self.phase {
            Phase::Over(failure) => failure.as_ref(),
            _ => None,
        }
    }

    /// The node whose session it is.
    pub fn node(&self) -> &NodeName {
        &self.config.node
    }

    /// Whether the session is open and trusted as of the last step.
    fn is_trusted(&self) -> bool {
        self.own.trusted_until.is_some()
    }

    fn id(&self, number: SessionNumber) -> SessionId {
        SessionId { node: self.config.node.clone(), incarnation: self.config.incarnation, number }
    }

    fn next_id(&mut self) -> RequestId {
        self.last_id.0 += 1;
        self.last_id
    }

    fn last_id(&self) -> RequestId {
        self.last_id
    }

    /// A pause after the store refused, so that nodes do not all come back at once.
    fn pause(&mut self) -> std::time::Duration {
        let retry = self.config.timing.retry();
        retry / 2 + self.jitter.below(retry)
    }

    fn on_death(&mut self, now: Time, node: &NodeName, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        if *node == self.config.node {
            self.own.due = now;
        } else {
            self.close_the_dead(now, node, incarnation, effects);
        }
    }

    fn ask_to_be_woken(&mut self, woken: bool, effects: &mut Vec<Effect>) {
        let suspicions = match self.phase {
            Phase::Opening | Phase::Open => self.suspicions.wake_at(),
            _ => None,
        };
        let own = [self.own_wake_at(), self.observer_wake_at(), self.sweeper_wake_at()];
        let at = own.into_iter().chain([suspicions]).flatten().min();
        if woken || at != self.woken_for {
            self.woken_for = at;
            effects.extend(at.map(Effect::WakeAt));
        }
    }
}

#[cfg(test)]
mod tests;
