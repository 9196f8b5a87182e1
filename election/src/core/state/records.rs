//! What is stored of an election.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::{
    ids::{Ballot, Beat, Epoch, Incarnation, MemberId, Nonce, Seniority, Tag},
    record::{CorruptRecord, Record},
};
use serde::{Deserialize, Serialize};

use crate::core::{
    config::ElectionConfig,
    policy::Standing,
    term::{AuthorityTime, Fence, Term},
};

/// How many ballots are promised ahead, so that the seat's record may be lost and no ballot is given out twice.
pub const RESERVE: u64 = 1 << 32;

/// Who has the seat, and under what terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The member.
    pub member: MemberId,
    /// The incarnation that won.
    pub incarnation: Incarnation,
    /// The attempt that won: by it a claim is recognised whose answer was lost.
    pub nonce: Nonce,
    /// Its priority, as of its last heartbeat.
    pub priority: u32,
    /// Its seniority.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// How long the term stands without a refresh. Whatever others are configured with.
    pub lease: Duration,
    /// How much longer the seat stays empty, if it was not given back.
    pub lock_delay: Duration,
    /// When it won.
    pub elected_at: AuthorityTime,
}

/// The seat. No value is written twice while it is held by one member and then by another: every win, refresh and
/// vacancy moves the ballot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// Moves with everything that happens to the seat. Never reset.
    pub ballot: Ballot,
    /// The ballot at which the seat was last won or fell vacant.
    pub epoch: Epoch,
    /// Who has it.
    pub holder: Option<Holder>,
    /// How long a vacant seat must be seen vacant before it may be taken. Zero after a resignation.
    pub wait: Duration,
    /// The priority of the candidate for which a vacant seat was vacated. Those below it wait a configured lease more, so that
    /// nobody takes the seat who has to go in his turn; and no longer, since that candidate may have died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heir: Option<u32>,
}

impl Record for Seat {
    fn from_value(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let seat: Self = callsign_store::record::decode(bytes)?;
        if seat.epoch.0 > seat.ballot.0 {
            return Err(CorruptRecord::Malformed("an epoch above its ballot".to_owned()));
        }
        Ok(seat)
    }
}

impl Seat {
    /// The term that is written, whether or not its lease is over.
    pub fn term(&self) -> Option<Term> {
        self.holder.as_ref().map(|holder| Term {
            leader: holder.member.clone(),
            incarnation: holder.incarnation,
            epoch: self.epoch,
            elected_at: holder.elected_at,
        })
    }

    /// The token of the last win or refresh.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, ballot: self.ballot }
    }

    /// Whether this incarnation has it.
    pub fn is_held_by(&self, member: &MemberId, incarnation: Incarnation) -> bool {
        self.holder.as_ref().is_some_and(|h| h.member == *member && h.incarnation == incarnation)
    }
}

/// How the election is run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Control {
    /// Its configuration.
    pub config: ElectionConfig,
    /// Whether it takes claims.
    pub enabled: bool,
    /// The epoch whose leader is asked to resign.
    pub request: Option<Epoch>,
    /// The priority of the candidate for which it is asked. `None`: for nobody, by an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heir: Option<u32>,
    /// No ballot up to this one is given out again if the seat's record is lost.
    pub reserved: Ballot,
    /// Moves with every change of this record, so that a change left unknown cannot land behind a later one.
    pub revision: u64,
}
impl Record for Control {}

/// A candidate's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Row {
    /// The incarnation that registered.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// When it registered.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// How long it counts as alive without a heartbeat.
    pub timeout: Duration,
    /// Moves with every heartbeat.
    pub beat: Beat,
    /// The authority's time shortly before its last heartbeat.
    pub seen: AuthorityTime,
}
impl Record for Row {}

/// The last seniority given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count(pub Seniority);
impl Record for Count {}

impl Row {
    pub(super) fn standing(&self, member: &MemberId, requires: Option<&Tag>) -> Standing {
        Standing {
            member: member.clone(),
            incarnation: self.incarnation,
            priority: self.priority,
            seniority: self.seniority,
            qualified: requires.is_none_or(|tag| self.tags.contains(tag)),
        }
    }
}

impl Holder {
    pub(super) fn standing(&self, requires: Option<&Tag>) -> Standing {
        Standing {
            member: self.member.clone(),
            incarnation: self.incarnation,
            priority: self.priority,
            seniority: self.seniority,
            qualified: requires.is_none_or(|tag| self.tags.contains(tag)),
        }
    }

    /// How long nobody may follow a holder that is deposed: where sinks check no fence, until its lease would have
    /// ended, and the delay after it.
    pub(super) fn wait_when_deposed(&self) -> Duration {
        if self.lock_delay.is_zero() { Duration::ZERO } else { self.lease.saturating_add(self.lock_delay) }
    }
}
