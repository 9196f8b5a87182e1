//! The rules of a campaign, as a pure value.

use crate::election::{oracle::Fault, role::Lost};

/// What became of the seat at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The campaign had none.
    NotHeld,
    /// It was given back.
    Released,
    /// It was gone already.
    WasGone,
    /// It was not given back: it is free when its lease ends.
    Failed(Fault),
}

/// How a campaign ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why: `Shutdown` if it was stopped, else the loss after which it was to stop.
    pub why: Lost,
    /// What became of the seat.
    pub release: Release,
}
