//! Why a group is not told something, and why a place is not had.

use std::{sync::Arc, time::Duration};

use ractor::SpawnErr;

use super::shown;
use crate::error::{LookupError, RegisterError};

/// Why a message was not sent to a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// This node cannot say now which members the group has. Nothing was sent.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The message cannot be sent to many. Nothing was sent.
    #[error(transparent)]
    NotSent(#[from] callsign_transport::BroadcastError),
}

/// Why an actor of a [`Guard`](crate::Guard) was not started, as ractor says. Two of them are equal that say the same.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct NotSpawned(Arc<SpawnErr>);

impl From<SpawnErr> for NotSpawned {
    fn from(error: SpawnErr) -> Self {
        Self(Arc::new(error))
    }
}

impl PartialEq for NotSpawned {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for NotSpawned {}

/// Why a place in a semaphore was not had. Whatever was granted is given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The place was not granted. [`RegisterError::OtherLimit`] says which limit is in force.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A semaphore of no places was asked for. Nothing was sent.
    #[error("a semaphore must have a place")]
    NoPlaces,
    /// The actor of the guard was not started. Nothing was sent.
    #[error("the actor of the guard was not started")]
    NotStarted(#[source] NotSpawned),
    /// The place was lost while others held: the session of this node was closed, or the node has left.
    #[error("the place was lost while others held")]
    Lost,
    /// Others held for so long. The place is given up.
    #[error("others held for {}", shown(*waited))]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_actors_that_did_not_start_for_the_same_reason_are_the_same_error() {
        let failed = |why: &'static str| {
            AcquireError::NotStarted(NotSpawned::from(SpawnErr::StartupFailed(why.into())))
        };
        assert_eq!(failed("no room"), failed("no room"));
        assert_ne!(failed("no room"), failed("no time"));
    }
}
