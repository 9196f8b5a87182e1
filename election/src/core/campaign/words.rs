//! What goes into a campaign's core, and what comes out.

use std::time::Duration;

use callsign_store::{
    ids::{ElectionName, Incarnation, MemberId},
    time::Time,
};

use crate::{
    core::{campaign::event::CampaignEvent, term::Term, timing::Timing},
    oracle::{Attempt, Fault, Grant, Reaction, Signal, Verdict},
    role::{Abort, Lost},
};

/// What a campaign does after its term ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLoss {
    /// It follows, and claims again.
    #[default]
    Follow,
    /// It ends, cleanly.
    Stop,
}

/// Until when a grant is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    /// Until the campaign's clock shows this.
    At(Time),
    /// No clock ends it.
    Revoked,
}

impl Until {
    /// Whether it is over at `now`.
    pub fn is_over(self, now: Time) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }

    /// How much is left at `now`; [`Duration::MAX`] if no clock ends it.
    pub fn left(self, now: Time) -> Duration {
        match self {
            Self::At(at) => at.since(now),
            Self::Revoked => Duration::MAX,
        }
    }
}

/// What a member became.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transition<F> {
    /// It follows: the one that leads, if that is known.
    Following(Option<Term>),
    /// It leads, and its role is active.
    Leading(Grant<F>),
}

/// How a member takes part. The fields are those of [`CampaignSettings`](crate::driver::campaign::CampaignSettings).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // said there
pub struct CoreConfig {
    pub election: ElectionName,
    pub member: MemberId,
    pub incarnation: Incarnation,
    pub timing: Timing,
    pub claim_delay: Duration,
    pub cool_down: Duration,
    pub activate_attempts: u32,
    pub activate_timeout: Duration,
    pub abdicate_tries: Vec<Duration>,
    pub on_loss: OnLoss,
    pub seed: u64,
}

impl CoreConfig {
    /// How long all tries to give a seat back may take.
    pub(super) fn abdicate_time(&self) -> Duration {
        self.abdicate_tries.iter().fold(Duration::ZERO, |all, one| all.saturating_add(*one))
    }
}

/// One call of the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One attempt of the role to take up a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// What a campaign is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input<F> {
    /// It begins.
    Start,
    /// It is as late as it asked to be told.
    Wake,
    /// The oracle answered a claim or a refresh.
    #[allow(missing_docs)]
    Answered { call: CallId, answer: Result<Verdict<F>, Fault> },
    /// The oracle looked at a message.
    #[allow(missing_docs)]
    Reacted { call: CallId, reaction: Result<Reaction<F>, Fault> },
    /// The oracle gave a term back, or all that there was of this member: whether a term was there.
    #[allow(missing_docs)]
    Abdicated { call: CallId, answer: Result<bool, Fault> },
    /// Whether another could take the seat.
    #[allow(missing_docs)]
    Rivals { call: CallId, answer: Result<bool, Fault> },
    /// The oracle tidied up: after how long to ask it again, `None` for not in this term.
    #[allow(missing_docs)]
    Tidied { call: CallId, answer: Result<Option<Duration>, Fault> },
    /// A message for the oracle waits in the driver.
    Info,
    /// The oracle noticed something, or somebody asked for it.
    Signal(Signal),
    /// The role took up the term, or not.
    #[allow(missing_docs)]
    Activated { run: RunId, answer: Result<(), Abort> },
    /// The role has stopped.
    #[allow(missing_docs)]
    Stopped { run: RunId },
    /// The role was aborted.
    #[allow(missing_docs)]
    Aborted { run: RunId },
    /// The role ended by itself.
    #[allow(missing_docs)]
    Exited { run: RunId, reason: String },
    /// The campaign shall end.
    Stop,
}

impl<F> Input<F> {
    /// The call that it answers.
    pub(super) fn call(&self) -> Option<CallId> {
        match self {
            Self::Answered { call, .. }
            | Self::Reacted { call, .. }
            | Self::Abdicated { call, .. }
            | Self::Rivals { call, .. }
            | Self::Tidied { call, .. } => Some(*call),
            _ => None,
        }
    }
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<F> {
    /// Ask the oracle for the seat.
    #[allow(missing_docs)]
    Claim { call: CallId, attempt: Attempt },
    /// Ask it to keep the seat.
    #[allow(missing_docs)]
    Refresh { call: CallId, attempt: Attempt, held: Grant<F> },
    /// Give the seat back.
    #[allow(missing_docs)]
    Abdicate { call: CallId, held: Grant<F> },
    /// Give back all that there is of this member: this term, if there is one, and what shows that it takes part. Answered as an
    /// abdication.
    #[allow(missing_docs)]
    Leave { call: CallId, held: Option<Grant<F>> },
    /// Remove what is left of others that are gone.
    #[allow(missing_docs)]
    Tidy { call: CallId },
    /// Ask whether another could take the seat.
    #[allow(missing_docs)]
    Rivals { call: CallId },
    /// Hand the oldest message that waits to the oracle.
    #[allow(missing_docs)]
    Inform { call: CallId },
    /// Do not wait for that call any more.
    #[allow(missing_docs)]
    Abandon { call: CallId },
    /// The handle says yes until then.
    #[allow(missing_docs)]
    Trust { grant: Grant<F>, until: Until },
    /// The handle says no.
    Lapse,
    /// Tell the subscribers.
    Publish(Transition<F>),
    /// Let the role take up the term.
    #[allow(missing_docs)]
    Activate { run: RunId, grant: Grant<F> },
    /// Let it stop, also if it is still taking up the term.
    #[allow(missing_docs)]
    Deactivate { run: RunId, why: Lost, budget: Duration },
    /// End it.
    #[allow(missing_docs)]
    Abort { run: RunId },
    /// Tell the role who leads.
    #[allow(missing_docs)]
    Follow { leader: Option<Term> },
    /// Report it.
    Emit(Box<CampaignEvent>),
    /// The campaign has ended. Nothing comes after it.
    End(End),
}

/// What became of the seat at the end. It is about the last term alone, and about nothing that is known to be another's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The campaign had none to give back: it never led, it gave its last term back before it was to end, or the oracle said
    /// that another has the seat.
    NotHeld,
    /// It was given back.
    Released,
    /// It was to be given back, and was not there any more.
    WasGone,
    /// It was not given back, and its trust had ended by this member's clock before the campaign was to end. Nobody need
    /// wait for this member: the record may name it until its lease ends, as after any loss that nobody could report. The
    /// fault says why it was not given back; unless it is `Transient` and `maybe_committed`, it certainly was not.
    Expired(Fault),
    /// It was not given back, and was trusted until the campaign was to end: it is free when its lease ends. Of a fault that
    /// is `Transient` and `maybe_committed` nobody knows: it may have been given back, too.
    Failed(Fault),
    /// Nobody knows whether there is one: the answer to a claim was lost, and asking again brought none. If it was granted,
    /// it is free when its lease ends.
    Unknown,
    /// It was not given back, because the role could not be aborted and may still work.
    RoleStuck,
}

/// How a campaign ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Why: `Shutdown` if it was stopped, else the loss after which it was to stop.
    pub why: Lost,
    /// What became of the seat.
    pub release: Release,
}
