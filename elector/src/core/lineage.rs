//! Lineages: what a store is called that went back behind what it had acknowledged, and what was counted in which of them.
//!
//! A store that went back is the beginning of another lineage, once a node has noticed it and has written that down. Whatever
//! only grows is counted on above the first number of its lineage, so that what was lost is never given again, and so that
//! any such number says in which lineage it was counted.

use callsign_store::{
    Transaction, Value,
    ids::{MAX_COUNT, Nonce},
    keys::ClusterKeys,
    planted,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// Each lineage has as many numbers as this many bits say.
const BITS: u32 = 40;

/// The greatest number of a lineage. Stores do not go back so often.
pub const MAX_LINEAGE: u64 = (MAX_COUNT >> BITS) - 2;

/// Counts how often the store of a cluster went back. 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LineageNumber(pub u64);

impl<'de> Deserialize<'de> for LineageNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if number <= MAX_LINEAGE {
            return Ok(Self(number));
        }
        Err(D::Error::custom(format_args!("{number} is the number of no lineage, {MAX_LINEAGE} is the most")))
    }
}

impl LineageNumber {
    /// The lineage in which a number was counted.
    pub fn of(counted: u64) -> Self {
        Self(counted >> BITS)
    }

    /// The number after `last`: the next greater one that is of this lineage.
    pub fn after(self, last: u64) -> u64 {
        let begin = if planted!("counted-across-lineages") { 0 } else { self.0 << BITS };
        last.max(begin) + 1
    }

    /// Whether the number was counted before this lineage began.
    pub fn is_after(self, counted: u64) -> bool {
        Self::of(counted) < self
    }

    /// The next greater one; none beyond [`MAX_LINEAGE`].
    pub fn next(self) -> Option<Self> {
        (self.0 < MAX_LINEAGE).then(|| Self(self.0 + 1))
    }
}

/// Which lineage: two of the same number have another nonce. The default is that of a store without a record of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineageId {
    /// Its number.
    pub number: LineageNumber,
    /// Drawn by whoever wrote it.
    pub nonce: Nonce,
}

impl LineageId {
    /// Whether the other is this one, or the first one's record where there was none before.
    pub fn is_same(self, other: Self) -> bool {
        self == other || (self == Self::default() && other.number == LineageNumber(0))
    }
}

/// Adds the check that the lineage is as it was read.
#[must_use]
pub fn check(transaction: Transaction, keys: &ClusterKeys, value: Option<&Value>) -> Transaction {
    transaction.check(keys.lineage(), value.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lineage_counts_from_one_and_each_other_from_its_own_beginning() {
        let (first, second) = (LineageNumber(0), LineageNumber(1));
        assert_eq!((first.after(0), first.after(7)), (1, 8));
        assert_eq!((second.after(7), second.after((1 << 40) + 1)), ((1 << 40) + 1, (1 << 40) + 2));
        assert!(second.is_after(7) && !second.is_after(second.after(7)) && !first.is_after(0));
        assert_eq!(LineageNumber::of(second.after(7)), second);
        assert_eq!(LineageNumber(MAX_LINEAGE).next(), None);
        assert!(LineageNumber(MAX_LINEAGE).after(0) < MAX_COUNT);
    }

    #[test]
    fn a_lineage_is_the_same_by_its_nonce_and_the_first_one_is_also_where_there_was_no_record() {
        let id = |number, nonce| LineageId { number: LineageNumber(number), nonce: Nonce(nonce) };
        let none = LineageId::default();
        for (one, other) in [(none, none), (none, id(0, 5)), (id(0, 5), id(0, 5)), (id(1, 5), id(1, 5))] {
            assert!(one.is_same(other), "{one:?} {other:?}");
        }
        let others = [(id(0, 5), id(0, 6)), (id(0, 5), none), (none, id(1, 5)), (id(1, 5), id(1, 6))];
        for (one, other) in others {
            assert!(!one.is_same(other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_number_that_no_lineage_has_is_not_read() {
        let read = |number: u64| rmp_serde::from_slice::<LineageNumber>(&rmp_serde::to_vec(&number).unwrap());
        assert_eq!(read(MAX_LINEAGE).unwrap(), LineageNumber(MAX_LINEAGE));
        assert!(read(MAX_LINEAGE + 1).is_err());
    }
}
