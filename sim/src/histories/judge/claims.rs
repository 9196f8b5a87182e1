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
    /// Under which tokens it was granted, as they came: more than one, if a session was lost between.
    pub(super) grants: Vec<Grant>,
    /// How many registrations have no known outcome: each may have been granted under a token that it was not told of.
    pub(super) unsure: usize,
    /// When the actor acted, by token.
    pub(super) acts: BTreeMap<u64, Acts>,
    /// When it was first asked to be given up.
    pub(super) given_up: Option<At>,
    /// From when on what it was not told of may have ended.
    pub(super) unseen_may_end: Option<At>,
}

/// A grant that it was told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) token: u64,
    /// When that was told.
    pub(super) told: At,
    /// From when on it may have ended without a call: its actor ends, its process ends or leaves, its session was lost.
    pub(super) may_end: Option<At>,
    /// From when on another actor may have taken it.
    pub(super) may_move: Option<At>,
}

/// The first act and the last: a token is held without a gap, so that those in between say no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acts {
    pub(super) first: (At, At),
    pub(super) last: (At, At),
}

impl Claim {
    /// The grant under a token.
    pub(super) fn grant(&self, token: u64) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.token == token)
    }

    /// Whether a grant may have ended by then, one way or another.
    pub(super) fn may_be_over_by(&self, grant: &Grant, at: At) -> bool {
        [grant.may_end, grant.may_move, self.given_up].into_iter().flatten().any(|over| over <= at)
    }
}
