//! Terms, and the tokens that a sink compares.

use std::fmt;

use callsign_store::ids::{Ballot, Epoch, Incarnation, MemberId};
use serde::{Deserialize, Serialize};

/// A time that the authority stamped: a version of its store, or its clock in microseconds. For people, and part of a
/// term's name; never compared with a member's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AuthorityTime(pub u64);

/// One stay of one member in the seat. Two terms of one member are never equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Term {
    /// Who leads.
    pub leader: MemberId,
    /// The incarnation that was elected. Its successor never continues the term.
    pub incarnation: Incarnation,
    /// The ballot at which the term was won: the same for as long as it lasts.
    pub epoch: Epoch,
    /// When it was won, as the authority says.
    pub elected_at: AuthorityTime,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in epoch {}", self.leader, self.epoch)
    }
}

/// What a sink compares before it lets a write pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// Grows with every new term.
    pub epoch: Epoch,
    /// Grows with every new term and every refresh.
    pub ballot: Ballot,
}
