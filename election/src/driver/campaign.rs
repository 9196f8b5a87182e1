//! The one loop that takes part in an election: it claims, refreshes, and stops the work in time.
//!
//! ```no_run
//! # use callsign_election::{Campaign, Oracle, Role, CampaignSettings, CampaignStarted};
//! # use callsign_store::ids::{ElectionName, MemberId};
//! # async fn example<O: Oracle>(oracle: O, role: impl Role<O::Fence>) -> Result<(), Box<dyn std::error::Error>> {
//! let settings = CampaignSettings::new(ElectionName::new("reports")?, MemberId::new("node-7")?);
//! let CampaignStarted::Running(campaign) = Campaign::start(oracle, role, settings).await? else { return Ok(()) };
//!
//! let leadership = campaign.leadership(); // Clone; to be asked before each act
//! let fence = leadership.check()?; // no lock, no I/O; Err(Lapsed) the instant its time is over
//!
//! let mut transitions = campaign.subscribe();
//! let transition = transitions.next().await?; // the state first, then every transition, in order
//!
//! campaign.stop().await?; // lapse, tell, stop the work, give back: bounded
//! # Ok(()) }
//! ```
//!
//! What it promises, whatever the oracle and the role do:
//!
//! - Trust is counted by this member's clock from *before* an attempt was sent, less drift, margin and the time to stop.
//! - `Leading` is published only after the role is active, and while trusted.
//! - At any loss: the handle lapses, `Following` is published, the role stops or is aborted, and only then the seat is
//!   given back.
//! - "Don't know" is never "no": it asks again with the same nonce, and leads no longer than before.
//! - It polls as long as it lives; signals only make it faster.
//! - A panic in the oracle or the role costs that call only. If a part of the campaign itself panics, all of it ends at once: the
//!   handle lapses, `Following` is published, the role is aborted, and [`Campaign::ended`] says [`StopError::Died`].
//!
//! [`Core`](core::Core) has the rules, as a pure value; the driver turns time, answers and messages into its inputs.

pub(crate) mod leadership;
pub(crate) mod settings;
pub(crate) mod subscribers;
mod tasks;

use std::{fmt, sync::Arc};

use callsign_store::ids::Epoch;

pub use self::{
    leadership::{Lapsed, Leadership},
    settings::{CampaignSettings, Observer},
    subscribers::{QUEUE_CAP, SubscriptionError, Transitions},
};
pub use crate::core::campaign::{
    self as core, End, OnLoss, Release, Transition, Until,
    event::{CampaignEvent, CampaignEventKind},
    status::{CampaignStatus, Phase, Trouble, Unusable},
};
use crate::{
    core::timing::TimingError,
    oracle::{Fault, Oracle},
    role::Role,
};

/// Why a campaign was not started. Nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignStartError {
    /// A seat cannot be kept with these durations.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The oracle could not be prepared.
    #[error("the oracle is not ready")]
    Oracle(#[source] Fault),
}

/// Why a clean stop was not confirmed. The member does not lead any more in any case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// The seat was not given back, and the term was trusted until the stop: others get it when its lease ends. If the fault
    /// is `Transient` and `maybe_committed`, it may have been given back, and only the answer was lost.
    ///
    /// This is not said of a term that was over, by this member's clock, before the stop. Nobody has to wait for anything of it, although
    /// its record may name this member until its lease ends. [`Release::Expired`] tells.
    #[error("the seat was not given back, others get it when its lease ends")]
    NotReleased(#[source] Fault),
    /// Nobody knows whether there is a seat to give back: the answer to the last claim was lost, and asking again brought
    /// none. If the claim was granted, others get the seat when its lease ends.
    #[error(
        "whether the last claim was granted is not known; if it was, others get the seat when its lease ends"
    )]
    Unknown,
    /// The role blocks its thread, and could not be aborted: it may still run. The seat was not given back.
    #[error("the role could not be stopped, and may still run")]
    RoleStuck,
    /// The campaign has ended without a word: a part of it panicked, or its runtime ended. It does not lead any more, and its role
    /// was aborted; the seat was not given back. [`Trouble::Died`] in its status says which part, and how.
    #[error("the campaign ended without a word")]
    Died,
}

/// What came of a start.
pub enum CampaignStarted<O: Oracle> {
    /// It takes part.
    Running(Campaign<O>),
    /// The oracle declined: there is no election here, and that is no error. The role was not touched.
    Ignored,
}

impl<O: Oracle> fmt::Debug for CampaignStarted<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(campaign) => f.debug_tuple("Running").field(campaign).finish(),
            Self::Ignored => f.write_str("Ignored"),
        }
    }
}

impl<O: Oracle> CampaignStarted<O> {
    /// The campaign, if the oracle did not decline.
    pub fn running(self) -> Option<Campaign<O>> {
        match self {
            Self::Running(campaign) => Some(campaign),
            Self::Ignored => None,
        }
    }
}

/// A member's part in an election. Cheap to clone; when the last clone is dropped, it stops as by [`stop`](Self::stop),
/// but nobody waits for it.
pub struct Campaign<O: Oracle> {
    handle: Arc<tasks::Handle<O::Fence, O::Info>>,
}

impl<O: Oracle> Clone for Campaign<O> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<O: Oracle> fmt::Debug for Campaign<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Campaign").field("phase", &self.status().phase).finish_non_exhaustive()
    }
}

impl<O: Oracle> Campaign<O> {
    /// Prepares the oracle and takes part. Needs a tokio runtime.
    ///
    /// Answers as soon as the oracle is prepared: whether this member leads is told by [`subscribe`](Self::subscribe).
    pub async fn start(
        oracle: O,
        role: impl Role<O::Fence>,
        settings: CampaignSettings,
    ) -> Result<CampaignStarted<O>, CampaignStartError> {
        Self::start_with(oracle, settings, |_| role).await
    }

    /// As [`start`](Self::start), for a role that asks for itself whether it leads.
    pub async fn start_with<R: Role<O::Fence>>(
        oracle: O,
        settings: CampaignSettings,
        make: impl FnOnce(Leadership<O::Fence>) -> R,
    ) -> Result<CampaignStarted<O>, CampaignStartError> {
        let handle = tasks::start(oracle, settings, make).await?;
        Ok(handle.map_or(CampaignStarted::Ignored, |handle| {
            CampaignStarted::Running(Self { handle: Arc::new(handle) })
        }))
    }

    /// What tells whether this member leads. To be asked before each act.
    pub fn leadership(&self) -> Leadership<O::Fence> {
        self.handle.leadership()
    }

    /// The state, then every transition, in order.
    pub fn subscribe(&self) -> Transitions<O::Fence> {
        self.handle.subscribe()
    }

    /// A look at it. Does not wait for anything.
    pub fn status(&self) -> CampaignStatus<O::Fence> {
        self.handle.status()
    }

    /// Asks this member to give its term up, if it leads: the term of this epoch, or whichever. Returns at once; many
    /// requests count as one. Who does not lead ignores it.
    pub fn request_resign(&self, epoch: Option<Epoch>) {
        self.handle.request_resign(epoch);
    }

    /// Hands something to the oracle's `handle_info`. Whether it was taken: not, if the campaign has ended or if
    /// [`QUEUE_CAP`] of them wait.
    pub fn info(&self, info: O::Info) -> bool {
        self.handle.info(info)
    }

    /// Says that the seat may have changed: the next question comes soon. Returns at once; many count as one.
    pub fn wake(&self) {
        self.handle.wake();
    }

    /// Stops it: the handle lapses, `Following` is published, the role stops or is aborted, and the seat is given back.
    ///
    /// Takes at most twice the stop budget (100 ms or more the second time, for a role that has to be aborted) and the abdication tries; with a dead authority the end of the lease
    /// frees the seat. May be called again, and answers the same.
    ///
    /// `Ok`: nobody waits for this member. The seat was given back, or there was none to give back, or its term was over by
    /// this member's clock before this was called. Which of them, [`ended`](Self::ended) tells. It is never said where the
    /// answer is not known. An error does not mean that the member leads: it does not.
    pub async fn stop(&self) -> Result<(), StopError> {
        self.handle.stop().await
    }

    /// Waits until it has ended, by [`stop`](Self::stop) or, with [`OnLoss::Stop`], by a loss. [`StopError::Died`] if it did
    /// not end by itself.
    pub async fn ended(&self) -> Result<End, StopError> {
        self.handle.ended().await
    }

    /// As [`stop`](Self::stop), for whoever cannot wait, or must not: the handle has lapsed for good when this returns, before
    /// anything else is done. What is left to do is done by the campaign.
    pub fn halt(&self) {
        self.handle.halt();
    }

    /// What it is made of, so that tests have a part of it panic.
    #[cfg(any(test, feature = "faults"))]
    #[doc(hidden)]
    pub fn supervisor(&self) -> &callsign_store::supervision::Supervisor {
        self.handle.supervisor()
    }
}
