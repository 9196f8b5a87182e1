//! Which versions of the protocol two nodes have in common.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The versions of the protocol that a node speaks. What a version promises is in `docs/compatibility.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

impl Versions {
    /// What this build speaks.
    pub const OURS: Self = Self { oldest: 1, newest: 1 };

    /// The newest version that both speak. The same on both sides.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (self.oldest.max(other.oldest) <= newest).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "version {}", self.newest)
        } else {
            write!(f, "versions {} to {}", self.oldest, self.newest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_both_speak_is_spoken_and_nothing_else() {
        let versions = |oldest, newest| Versions { oldest, newest };
        for (ours, theirs, common) in [
            (versions(1, 1), versions(1, 1), Some(1)),
            (versions(1, 1), versions(1, 2), Some(1)),
            (versions(1, 3), versions(2, 5), Some(3)),
            (versions(2, 2), versions(1, 9), Some(2)),
            (versions(1, 1), versions(2, 3), None),
            (versions(4, 3), versions(1, 9), None), // backwards: none
        ] {
            assert_eq!(ours.common(theirs), common, "{ours}, {theirs}");
            assert_eq!(theirs.common(ours), common, "{theirs}, {ours}");
        }
    }
}
