//! An election from outside: setting it up, looking at it, and the operations of candidates one by one.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    Clock,
    election::{
        config::{ElectionConfig, Invalid},
        term::{AuthorityTime, Fence, Term},
    },
    ids::{ClusterName, ElectionName, Epoch, Incarnation, MemberId, Seniority, Tag},
    record::CorruptRecord,
    store::SharedStore,
};

/// What becomes of a holder when its election is disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Disable {
    /// It is refused its next refresh, and stops in good order.
    #[default]
    Drain,
    /// Its term is over at once.
    Stop,
}

/// A candidate as it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Who.
    pub member: MemberId,
    /// Its incarnation: fresh for each start.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// What it has that an election may ask for.
    pub tags: BTreeSet<Tag>,
}

/// A candidate that counts as alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Who.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its priority.
    pub priority: u32,
    /// When it registered, among the others.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// The store's version shortly before its last heartbeat.
    pub last_seen: AuthorityTime,
}

/// What an initialisation found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// What holds now.
    pub config: ElectionConfig,
    /// Whether it was there before, and differs from what was asked for.
    pub differs: bool,
}

/// The seat as it is written, whether or not its lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seated {
    /// Whose term it is.
    pub term: Term,
    /// The token of its last refresh.
    pub fence: Fence,
    /// How long it stands without a refresh.
    pub lease: Duration,
}

/// Why nothing came of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// Nobody has initialised the election.
    #[error("the election is not initialised")]
    NotInitialized,
    /// The election is disabled.
    #[error("the election is disabled")]
    Disabled,
    /// The candidate is not registered, or another incarnation of it is.
    #[error("no such candidate is registered")]
    NotFound,
    /// Another incarnation of the same member has the seat, and is not known to be gone.
    #[error("another process has the seat under the same id, in epoch {epoch}")]
    DuplicateIdentity {
        /// Its epoch.
        epoch: Epoch,
    },
    /// What was asked for cannot work.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A counter of the election is at its end.
    #[error("the election's counter is at its end")]
    Exhausted,
    /// A record of the election cannot be read. Nothing is concluded from it.
    #[error("the election's {what}: {why}")]
    Corrupt {
        /// Which record.
        what: &'static str,
        /// Why.
        why: CorruptRecord,
    },
    /// Others changed the same records all the time. Nothing was changed.
    #[error("others were faster {tries} times")]
    Contended {
        /// How often it was tried.
        tries: u32,
    },
    /// The store did not answer or refused. Nothing was changed.
    #[error("the store: {0}")]
    Unavailable(String),
    /// Nobody knows whether it happened, and it may still happen.
    #[error("it is not known whether it happened")]
    Unknown,
}

/// An election from outside. Clones are the same observer: what is alive is seen by comparing what they read.
#[derive(Clone, Debug)]
pub struct Election {
    #[allow(dead_code)]
    store: SharedStore,
    #[allow(dead_code)]
    clock: Clock,
}

#[allow(clippy::unused_async, unused_variables)]
impl Election {
    /// A handle to the election. Costs nothing, and asks nothing.
    pub fn new(store: SharedStore, cluster: &ClusterName, election: &ElectionName, clock: Clock) -> Self {
        Self { store, clock }
    }

    /// Writes the configuration, if there is none. The first stands.
    pub async fn initialise(&self, config: &ElectionConfig) -> Result<Initialised, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Replaces the configuration. A term that stands takes it over with its next refresh.
    pub async fn configure(&self, config: &ElectionConfig) -> Result<(), ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// The configuration.
    pub async fn config(&self) -> Result<ElectionConfig, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Takes claims again.
    pub async fn enable(&self) -> Result<(), ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Takes no claims, registrations and heartbeats any more.
    pub async fn disable(&self, how: Disable) -> Result<(), ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Registers a candidate, behind all that are there.
    pub async fn register(&self, candidate: &Registration) -> Result<Seniority, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Says that the candidate lives, and gives it another priority if asked to. Its seniority stays.
    pub async fn heartbeat(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
        priority: Option<u32>,
    ) -> Result<(), ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Removes the candidate, and ends its term if it leads. Whether it was there.
    pub async fn unregister(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
    ) -> Result<bool, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Says that an incarnation is known to be dead: removes it, and ends its term if it leads. Whether it was there.
    pub async fn down(&self, member: &MemberId, incarnation: Incarnation) -> Result<bool, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// The candidates that are not known to be silent for longer than they may, the most senior first. Reads only.
    pub async fn list(&self) -> Result<Vec<Listed>, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Removes the candidates that are known to be silent for longer than they may. How many.
    pub async fn evict(&self) -> Result<usize, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Who leads, unless its lease is known to be over.
    pub async fn leader(&self) -> Result<Option<Term>, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// What the seat says, whether or not its lease is over.
    pub async fn leader_raw(&self) -> Result<Option<Seated>, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Whether this incarnation leads, and its lease is not known to be over. Nothing to act upon: see `verify`.
    pub async fn is_leader(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
    ) -> Result<bool, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Whether the token is of the term that stands now.
    pub async fn verify(&self, token: &Fence) -> Result<bool, ElectionError> {
        Err(ElectionError::NotInitialized)
    }

    /// Asks the leader of the epoch, or whoever leads, to resign. The epoch that was asked, if somebody leads it.
    pub async fn request_resign(&self, epoch: Option<Epoch>) -> Result<Option<Epoch>, ElectionError> {
        Err(ElectionError::NotInitialized)
    }
}
