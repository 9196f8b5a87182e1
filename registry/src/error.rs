//! What can go wrong, and what the caller may conclude from it.

mod groups;
mod moves;
mod names;
mod node;
mod reads;

pub use self::{
    groups::{AcquireError, GroupError, NotSpawned},
    moves::{OfferError, TakeError},
    names::{Elsewhere, NotStarted, RegisterError, UnregisterError, UpdateError},
    node::{ConfigureError, JoinError, LeaveError, NotLive, NotReady},
    reads::{ConsistentError, ExplainError, LookupError, UntilError, WaitError, WatchError, WhereisError},
};
