//! Why nothing came of an operation.

use std::time::Duration;

use callsign_store::{TooLarge, in_full, record::CorruptRecord};

use crate::{
    core::{config::Invalid, state::Refused, term::Term},
    oracle::Fault,
};

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
    /// The candidate is not registered.
    #[error("no such candidate is registered")]
    NotFound,
    /// Another incarnation of the same member is registered, or has the seat and is not known to be gone.
    #[error("another process takes part under the same id")]
    DuplicateIdentity,
    /// It may not be.
    #[error("the election refuses it")]
    Refused(#[source] Refused),
    /// What was asked for cannot work.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The seat is written to be somebody's, and this handle has not watched it for long enough to know whether that
    /// member still refreshes it. It may have died long ago.
    #[error(
        "it is not known yet whether {term} still stands; it is known if asked again within {again_within:?}"
    )]
    NotKnownYet {
        /// The term that is written.
        term: Term,
        /// When to ask this handle again, at the latest. Whoever does so each time is told a leader, or that there is none,
        /// within one lease.
        again_within: Duration,
    },
    /// A counter of the election is at its end.
    #[error("the election's counter is at its end")]
    Exhausted,
    /// A record of the election cannot be read. Nothing is concluded from it.
    #[error("the election's {what} cannot be read")]
    Corrupt {
        /// Which record.
        what: &'static str,
        /// Why.
        #[source]
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
    /// It breaks a limit of the store. Nothing was changed.
    #[error(transparent)]
    TooLarge(TooLarge),
    /// Nobody knows whether it happened, and it may still happen.
    #[error("it is not known whether it happened")]
    Unknown,
}

impl From<ElectionError> for Fault {
    fn from(error: ElectionError) -> Self {
        let cause = in_full(&error).to_string();
        match error {
            ElectionError::Unknown => Self::Transient { maybe_committed: true, cause },
            // Somebody may initialise it, and others may let it pass.
            ElectionError::NotInitialized
            | ElectionError::Disabled
            | ElectionError::NotFound
            | ElectionError::DuplicateIdentity
            | ElectionError::NotKnownYet { .. }
            | ElectionError::Contended { .. }
            | ElectionError::Unavailable(_) => Self::Transient { maybe_committed: false, cause },
            ElectionError::Invalid(_)
            | ElectionError::Refused(_)
            | ElectionError::Exhausted
            | ElectionError::Corrupt { .. }
            | ElectionError::TooLarge(_) => Self::Fatal(cause),
        }
    }
}

impl From<Refused> for ElectionError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotInitialized => Self::NotInitialized,
            Refused::Disabled => Self::Disabled,
            Refused::Unregistered => Self::NotFound,
            Refused::DuplicateIdentity => Self::DuplicateIdentity,
            Refused::Exhausted => Self::Exhausted,
            Refused::Invalid(invalid) => Self::Invalid(invalid),
            refused => Self::Refused(refused),
        }
    }
}
