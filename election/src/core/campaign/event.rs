//! What happens in a campaign, for people and metrics.

use std::time::Duration;

use callsign_store::ids::{Ballot, ElectionName, Epoch, Incarnation, MemberId};

use super::status::{Phase, Unusable};
use crate::{
    core::term::Term,
    oracle::{Fault, Refusal},
    role::Lost,
};

/// Something happened. Each is reported once, in order: to `tracing`, target `callsign::election`, and to the
/// [`Observer`](crate::campaign::Observer).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CampaignEvent {
    /// The election.
    pub election: ElectionName,
    /// Whose campaign it is.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The epoch of the term that it has, or that just ended.
    pub epoch: Option<Epoch>,
    /// The ballot of its last grant, if the oracle's grants have one.
    pub ballot: Option<Ballot>,
    /// What the campaign does, after what happened.
    pub phase: Phase,
    /// Who leads, as far as is known.
    pub leader: Option<MemberId>,
    /// How much longer it leads if no refresh comes through; zero if it does not lead.
    pub trust_left: Duration,
    /// What happened.
    pub what: CampaignEventKind,
}

impl CampaignEvent {
    /// One of a campaign that follows, and knows of no leader. Its fields can be set: it is for tests of what observes
    /// campaigns.
    pub fn new(
        election: ElectionName,
        member: MemberId,
        incarnation: Incarnation,
        what: CampaignEventKind,
    ) -> Self {
        let (epoch, ballot, leader) = (None, None, None);
        let (phase, trust_left) = (Phase::Following, Duration::ZERO);
        Self { election, member, incarnation, epoch, ballot, phase, leader, trust_left, what }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CampaignEventKind {
    /// A claim was granted.
    Claimed,
    /// A claim was denied.
    Rejected {
        /// Why.
        why: Refusal,
    },
    /// The term was refreshed.
    Refreshed,
    /// The term is over for this member: the handle has lapsed.
    Lost {
        /// Why.
        why: Lost,
    },
    /// A grant was not used: too late, too short, or not allowed.
    UnusableGrant {
        /// Why.
        why: Unusable,
    },
    /// Another process takes part under this member's id.
    DuplicateIdentity,
    /// The seat was granted while another, of the same or a later epoch, is known to lead.
    DuplicateLeader {
        /// The other.
        other: Term,
    },
    /// An attempt has no outcome: it may have been carried out, or not.
    UnknownOutcome {
        /// What came instead of an answer.
        fault: Fault,
    },
    /// A call of the oracle failed, and nothing came of it.
    Failed {
        /// What came instead of an answer.
        fault: Fault,
    },
    /// The seat was given back.
    Resigned {
        /// Whether the term still was there.
        was_there: bool,
    },
    /// The seat was not given back. It stays taken until the lease ends.
    ResignFailed {
        /// The last fault.
        fault: Fault,
    },
    /// The campaign has ended, and something of it may be left with the oracle: a candidate's row, say. The leader removes it in
    /// time.
    LeaveFailed {
        /// The last fault.
        fault: Fault,
    },
    /// What is left of others that are gone was not removed. It is tried again.
    TidyFailed {
        /// What came instead of an answer.
        fault: Fault,
    },
    /// The role was asked to take up the term.
    RoleActivating {
        /// Counts from 1 within the term.
        attempt: u32,
    },
    /// It did.
    RoleActive {
        /// How long it took.
        took: Duration,
    },
    /// It did not.
    RoleActivateFailed {
        /// Counts from 1 within the term.
        attempt: u32,
        /// What it said.
        reason: String,
    },
    /// The role was asked to stop.
    RoleStopping {
        /// Why.
        why: Lost,
        /// How long it may take.
        budget: Duration,
    },
    /// It stopped by itself within its budget.
    RoleStopped {
        /// How long it took.
        took: Duration,
    },
    /// Its budget was over: it was aborted.
    RoleAborted {
        /// How long it had.
        took: Duration,
    },
    /// The role ended by itself while leading.
    RoleExited {
        /// What is known of it.
        reason: String,
    },
}

impl CampaignEventKind {
    /// What an attempt without an answer comes to.
    pub(super) fn of(fault: Fault) -> Self {
        match fault {
            Fault::Transient { maybe_committed: true, .. } => Self::UnknownOutcome { fault },
            _ => Self::Failed { fault },
        }
    }

    /// The event's name, as in `campaign.claimed`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claimed => "campaign.claimed",
            Self::Rejected { .. } => "campaign.rejected",
            Self::Refreshed => "campaign.refreshed",
            Self::Lost { .. } => "campaign.lost",
            Self::UnusableGrant { why: Unusable::TooLate { .. } } => "campaign.late_grant",
            Self::UnusableGrant { .. } => "campaign.unusable_grant",
            Self::DuplicateIdentity => "campaign.duplicate_identity",
            Self::DuplicateLeader { .. } => "campaign.duplicate_leader",
            Self::UnknownOutcome { .. } => "campaign.unknown_outcome",
            Self::Failed { .. } => "campaign.failed",
            Self::Resigned { .. } => "campaign.resigned",
            Self::ResignFailed { .. } => "campaign.resign_failed",
            Self::LeaveFailed { .. } => "campaign.leave_failed",
            Self::TidyFailed { .. } => "campaign.tidy_failed",
            Self::RoleActivating { .. } => "role.activating",
            Self::RoleActive { .. } => "role.active",
            Self::RoleActivateFailed { .. } => "role.activate_failed",
            Self::RoleStopping { .. } => "role.stopping",
            Self::RoleStopped { .. } => "role.stopped",
            Self::RoleAborted { .. } => "role.aborted",
            Self::RoleExited { .. } => "role.exited",
        }
    }

    /// Whether somebody should look at it.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Claimed
            | Self::Rejected { .. }
            | Self::Refreshed
            | Self::Resigned { .. }
            | Self::LeaveFailed { .. }
            | Self::RoleActivating { .. }
            | Self::RoleActive { .. }
            | Self::RoleStopping { .. }
            | Self::RoleStopped { .. } => false,
            Self::Lost { why } => matches!(why, Lost::TrustLapsed | Lost::RoleFailed),
            // A store that is slow or away is said of refreshes.
            Self::TidyFailed { fault } => matches!(fault, Fault::Fatal(_)),
            Self::UnusableGrant { .. }
            | Self::DuplicateIdentity
            | Self::DuplicateLeader { .. }
            | Self::UnknownOutcome { .. }
            | Self::Failed { .. }
            | Self::ResignFailed { .. }
            | Self::RoleActivateFailed { .. }
            | Self::RoleAborted { .. }
            | Self::RoleExited { .. } => true,
        }
    }
}
