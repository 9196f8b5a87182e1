//! What may be done to an election, and what comes of it.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::ids::{Epoch, Incarnation, MemberId, Nonce, Seniority, Tag};

use crate::core::{
    config::{ElectionConfig, Invalid, MAX_TAGS},
    term::{Fence, Term},
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Who.
    pub member: MemberId,
    /// Its incarnation: fresh for each start.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// What it has that an election may ask for.
    pub tags: BTreeSet<Tag>,
}

/// One incarnation of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The member.
    pub member: MemberId,
    /// Its incarnation: what it says of another one is stale.
    pub incarnation: Incarnation,
}

/// What may be done to an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Writes the configuration, if there is none.
    Initialise(ElectionConfig),
    /// Replaces the configuration.
    Configure(ElectionConfig),
    /// Takes claims again.
    Enable,
    /// Takes none any more.
    Disable(Disable),
    /// Registers. The same incarnation keeps its seniority; another gets a new one.
    Join(Candidate),
    /// Removes its own registration, and gives its term back.
    Leave(Who),
    /// Removes an incarnation that is known to be dead, and ends its term.
    Down(Who),
    /// Says that it lives, and what its priority is now.
    Beat {
        /// Who.
        who: Who,
        /// Its new priority; `None` leaves it.
        priority: Option<u32>,
    },
    /// Asks for the seat.
    Claim {
        /// Who.
        who: Who,
        /// By which the attempt is recognised when it is made again.
        nonce: Nonce,
    },
    /// Asks to keep it.
    Refresh {
        /// Who.
        who: Who,
        /// The term that is to go on.
        epoch: Epoch,
        /// How long the last grant that it knows of may be believed. Nobody may follow it sooner, also if the lease was
        /// made shorter meanwhile: the answer that tells it so may be lost.
        trusted: Duration,
    },
    /// Gives it back.
    Resign {
        /// Who.
        who: Who,
        /// The term that is given back.
        epoch: Epoch,
    },
    /// Asks the leader of this epoch, or whoever leads, to resign.
    RequestResign {
        /// The epoch that is meant.
        epoch: Option<Epoch>,
    },
    /// Removes candidates that were silent for too long, at most so many.
    Evict {
        /// The most that go at once.
        most: usize,
    },
    /// Removes what is left of candidates that are gone: the holder does so, now and then.
    Sweep {
        /// The holder of the seat.
        who: Who,
        /// In which term.
        epoch: Epoch,
        /// For how long it has watched the others in this term. What it saw before does not count.
        watched: Duration,
        /// The most that go at once.
        most: usize,
    },
}

/// How many times its own timeout a candidate must have been silent before a holder sweeps its row away. Far more than it takes
/// to be passed over: a sweep is for economy, and a candidate that comes back later has lost its seniority.
pub const SWEPT_AFTER: u32 = 10;

impl Command {
    /// The member whose row it is about.
    pub(crate) fn commander(&self) -> Option<Who> {
        match self {
            Self::Join(r) => Some(Who { member: r.member.clone(), incarnation: r.incarnation }),
            Self::Leave(who)
            | Self::Down(who)
            | Self::Beat { who, .. }
            | Self::Claim { who, .. }
            | Self::Refresh { who, .. }
            | Self::Resign { who, .. }
            | Self::Sweep { who, .. } => Some(who.clone()),
            _ => None,
        }
    }
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// There was no configuration; now there is.
    Initialised,
    /// The configuration was replaced.
    Configured,
    /// The election takes claims again.
    Enabled,
    /// It takes none any more.
    Disabled,
    /// A candidate registered, or was registered already.
    Joined {
        /// Its seniority.
        seniority: Seniority,
    },
    /// A candidate is gone: it left, or was called down.
    Left,
    /// A heartbeat of a candidate arrived.
    HeartbeatSeen,
    /// A term began.
    Elected {
        /// The term.
        term: Term,
        /// Its token.
        fence: Fence,
    },
    /// A term goes on.
    Refreshed {
        /// The term.
        term: Term,
        /// Its new token.
        fence: Fence,
    },
    /// A term is over.
    Vacated {
        /// The term.
        was: Term,
    },
    /// The leader of the epoch is asked to resign.
    Asked {
        /// The epoch.
        epoch: Epoch,
    },
    /// A silent candidate was removed.
    Evicted(MemberId),
    /// Nothing: what was to be changed is not there, or is so already.
    Nothing,
    /// Nothing, because it may not be.
    Refused(Refused),
}

/// Why a command may not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// Nobody has initialised the election.
    #[error("nobody has initialised the election")]
    NotInitialized,
    /// It is disabled.
    #[error("the election is disabled")]
    Disabled,
    /// The candidate is not registered.
    #[error("no such candidate is registered")]
    Unregistered,
    /// Another incarnation is registered under its id, or has the seat.
    #[error("another process takes part under the same id")]
    DuplicateIdentity,
    /// It must not be elected.
    #[error("the candidate must not be elected: its priority is 0, or it lacks what the election asks for")]
    Ineligible,
    /// Another candidate comes before it.
    #[error("a candidate of better rank is there")]
    Outranked,
    /// Somebody has the seat.
    #[error("somebody has the seat")]
    Held,
    /// The seat may be taken only later.
    #[error("the seat may be taken only {wait:?} later")]
    TooEarly {
        /// How much later.
        wait: Duration,
    },
    /// The term is over.
    #[error("the term is over")]
    TermOver,
    /// A counter is at its end.
    #[error("a counter is at its end")]
    Exhausted,
    /// What was asked for cannot work.
    #[error(transparent)]
    Invalid(Invalid),
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

pub(super) fn check_tags(tags: &BTreeSet<Tag>) -> Result<(), Invalid> {
    if tags.len() > MAX_TAGS {
        return Err(Invalid::TooMany { what: "tags", count: tags.len(), most: MAX_TAGS });
    }
    Ok(())
}
