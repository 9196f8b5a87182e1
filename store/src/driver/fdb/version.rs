//! Versions.
//!
//! The commits of one batch share `FoundationDB`'s version, a count of microseconds, more or less. Their places in the batch
//! are the next two bytes of a stamp. Ours is the version and 12 bits of place: 52 bits for the version are enough for
//! 140 years, and a batch has hundreds of commits. A read sees all of a batch or nothing, so it has the highest place.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    core::transaction::{Check, FENCE_AGE, Version},
    driver::lock::lock,
};

const PLACE_BITS: u32 = 12;
const READ: u64 = (1 << PLACE_BITS) - 1;

/// What somebody knows who read at this version of the cluster.
pub(super) fn of_read(version: i64) -> Version {
    Version(version.unsigned_abs() << PLACE_BITS | READ)
}

/// What somebody knows whose commit had this stamp: version and place, most significant byte first.
pub(super) fn of_stamp(stamp: &[u8]) -> Option<Version> {
    let (version, place) = stamp.split_first_chunk::<8>()?;
    let place = u16::from_be_bytes(*place.first_chunk()?);
    // Where there are more, the last ones share a version.
    Some(Version(u64::from_be_bytes(*version) << PLACE_BITS | u64::from(place).min(READ - 1)))
}

/// A version of the cluster such that nothing that happened behind `version` happened before it, or at it.
///
/// For a commit that is the version before its own: others share it, some of them behind.
pub(super) fn pin(version: Version) -> i64 {
    let whole = (version.0 >> PLACE_BITS).cast_signed();
    // The library takes no version below 1.
    (if version.0 & READ == READ { whole } else { whole - 1 }).max(1)
}

/// The latest version seen, and when. It tells how old another is, without asking.
#[derive(Default)]
pub(super) struct Recent(Mutex<Option<(i64, Instant)>>);

impl Recent {
    pub(super) fn saw(&self, version: Version) {
        let version = pin(version);
        let mut recent = lock(&self.0);
        if recent.is_none_or(|(latest, _)| latest < version) {
            *recent = Some((version, Instant::now()));
        }
    }

    /// The version to which a transaction with these checks can be pinned: each says when its value was seen, none of
    /// them too long ago, and no key is checked twice.
    pub(super) fn pin(&self, checks: &[Check]) -> Option<i64> {
        let seen: Option<Vec<Version>> = checks.iter().map(|check| check.seen_at).collect();
        let oldest = pin(seen?.into_iter().min()?);
        let is_twice =
            |(index, check): (usize, &Check)| checks[..index].iter().any(|other| other.key == check.key);
        let is_usable = self.is_fresh(oldest) && !checks.iter().enumerate().any(is_twice);
        is_usable.then_some(oldest)
    }

    fn is_fresh(&self, version: i64) -> bool {
        let Some((latest, at)) = *lock(&self.0) else { return false };
        // A version is a microsecond, while nothing is wrong.
        let behind = Duration::from_micros((latest - version).max(0).unsigned_abs());
        at.elapsed() + behind < FENCE_AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(version: u64, place: u16) -> Vec<u8> {
        [&version.to_be_bytes()[..], &place.to_be_bytes()].concat()
    }

    #[test]
    fn commits_of_one_version_sort_by_their_place_and_a_read_at_it_sees_them_all() {
        let commit = |version, place| of_stamp(&stamp(version, place)).unwrap();
        let sorted = [
            commit(6, 900),
            commit(7, 0),
            commit(7, 1),
            commit(7, 4000),
            of_read(7),
            commit(8, 0),
            of_read(8),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b), "{sorted:?}");
        assert!(commit(7, u16::MAX) < of_read(7));
        assert_eq!(of_stamp(&[0; 9]), None);
    }

    #[test]
    fn a_commit_is_pinned_before_itself_and_a_read_at_itself() {
        assert_eq!(pin(of_stamp(&stamp(7, 3)).unwrap()), 6);
        assert_eq!(pin(of_read(7)), 7);
        assert_eq!(pin(Version(0)), 1);
    }

    #[test]
    fn a_transaction_is_pinned_to_the_oldest_of_its_checks_if_each_says_when() {
        let recent = Recent::default();
        let check = |key: &str, seen_at| Check { key: key.into(), expected: None, seen_at };
        let (old, new) = (Some(of_read(9_000_000)), Some(of_read(9_000_100)));
        assert_eq!(recent.pin(&[check("a", new)]), None, "nothing tells how old it is");
        recent.saw(of_read(9_000_200));
        assert_eq!(recent.pin(&[check("a", new), check("b", old)]), Some(9_000_000));
        assert_eq!(recent.pin(&[check("a", new), check("b", None)]), None);
        assert_eq!(recent.pin(&[check("a", new), check("a", new)]), None);
        assert_eq!(recent.pin(&[]), None);
        recent.saw(of_read(13_000_001));
        assert_eq!(recent.pin(&[check("a", old)]), None, "it is 4 s old");
    }
}
