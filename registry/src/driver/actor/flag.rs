//! Whether a claim may be acted on: what all its handles look at.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// The name may be another's soon.
const SUSPENDED: u8 = 1;

/// The claim has ended, for good.
const ENDED: u8 = 2;

/// Shared by all handles of a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<AtomicU8>);

/// What a flag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flagged {
    /// The claim stands.
    No,
    /// Its name is on its way to another actor.
    Suspended,
    /// It has ended.
    Ended,
}

impl Flag {
    /// That of a claim which has ended.
    pub(crate) fn of_the_ended() -> Self {
        let flag = Self::default();
        flag.end();
        flag
    }

    pub(crate) fn get(&self) -> Flagged {
        match self.0.load(Ordering::SeqCst) {
            0 => Flagged::No,
            SUSPENDED => Flagged::Suspended,
            _ => Flagged::Ended,
        }
    }

    pub(super) fn end(&self) {
        self.0.store(ENDED, Ordering::SeqCst);
    }

    /// What has ended stays so.
    pub(super) fn suspend(&self) {
        let _ = self.0.compare_exchange(0, SUSPENDED, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn resume(&self) {
        let _ = self.0.compare_exchange(SUSPENDED, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_is_suspended_may_stand_again_and_one_that_has_ended_never_does() {
        let flag = Flag::default();
        let handle = flag.clone();
        assert_eq!(handle.get(), Flagged::No);
        flag.suspend();
        assert_eq!(handle.get(), Flagged::Suspended);
        flag.resume();
        assert_eq!(handle.get(), Flagged::No);
        flag.suspend();
        flag.end();
        flag.suspend();
        flag.resume();
        assert_eq!(handle.get(), Flagged::Ended);
        assert_eq!(Flag::of_the_ended().get(), Flagged::Ended);
    }
}
