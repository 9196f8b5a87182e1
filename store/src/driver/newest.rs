//! The newest version that was seen in a database, on any connection to it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::transaction::Version;

/// It only grows. A database behind it has lost commits.
#[derive(Debug, Default)]
pub(super) struct Newest(AtomicU64);

impl Newest {
    /// Notes that the database has come so far.
    pub(super) fn saw(&self, version: Version) {
        self.0.fetch_max(version.0, Ordering::SeqCst);
    }

    /// As far as is known by now.
    pub(super) fn known(&self) -> Version {
        Version(self.0.load(Ordering::SeqCst))
    }

    /// Notes with which version a connection begins, and whether it has to be said that commits are lost: that was known before
    /// the connection asked. What others have seen meanwhile is no loss.
    pub(super) fn begins_with(&self, known: Version, version: Version) -> bool {
        self.saw(version);
        version < known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_lost_only_if_they_were_known_before_the_question() {
        let newest = Newest::default();
        newest.saw(Version(5));
        let known = newest.known();
        // Another connection commits while the answer is on its way.
        newest.saw(Version(7));
        assert!(!newest.begins_with(known, Version(6)));
        assert!(!newest.begins_with(known, Version(5)));
        assert!(newest.begins_with(known, Version(4)));
        assert_eq!(newest.known(), Version(7));
        assert!(newest.begins_with(newest.known(), Version(6)));
        assert!(!newest.begins_with(newest.known(), Version(9)));
        assert!(newest.begins_with(newest.known(), Version(8)), "a connection that began has seen it, too");
    }
}
