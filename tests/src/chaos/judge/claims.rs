//! What an actor asked for, did, and may have lost.

use std::collections::BTreeMap;

use super::At;

/// An actor asks for one name only.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) incarnation: u64,
    pub(super) actor: u64,
    pub(super) name: String,
    /// When it was asked for first.
    pub(super) asked: At,
    /// Under which tokens it was granted, as they came.
    pub(super) tokens: Vec<u64>,
    /// When the actor acted, by token.
    pub(super) acts: BTreeMap<u64, Acts>,
    /// When it was first asked to be given up.
    pub(super) given_up: Option<At>,
    /// From when on it may have ended without a call: its actor ends, its process ends or leaves, its session was lost.
    pub(super) may_end: Option<At>,
}

/// The first act and the last: a token is held without a gap, so that those in between say no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acts {
    pub(super) first: (At, At),
    pub(super) last: (At, At),
}

impl Claim {
    /// Whether it may have ended by then, one way or another.
    pub(super) fn may_be_over_by(&self, at: At) -> bool {
        [self.may_end, self.given_up].into_iter().flatten().any(|over| over <= at)
    }
}
