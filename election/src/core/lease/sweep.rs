//! When the holder of a seat looks for candidates that are gone.
//!
//! A node that dies leaves its row, and no later node need ever have its name. So the holder looks at all rows: once when its term
//! is young, and then again each time that [`SWEPT_AFTER`] candidate timeouts have passed. Two looks that show the same row show
//! that its candidate was silent between them. What a holder saw before its term does not count: nobody can be heard while the
//! store is away or the election is disabled, and that is no sign of a death.
//!
//! A sweep that fails is not made again at once: the holder has its term to keep.

use std::time::Duration;

use callsign_store::{ids::Epoch, planted, time::Time};

use crate::core::state::SWEPT_AFTER;

/// How many rows one sweep removes at most.
pub(super) const SWEEP_AT_ONCE: usize = 100;

/// When a holder looks at the others, and since when it has watched them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sweeps {
    /// The term that the rest is about.
    epoch: Option<Epoch>,
    /// The end of its first look in this term.
    since: Option<Time>,
    /// When it looks next.
    due: Time,
}

/// What a holder has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To sweep. For how long it has watched the others in this term.
    Sweep(Duration),
    /// Nothing for so long.
    Wait(Duration),
}

impl Sweeps {
    /// What the holder of this term has to do. If it is to sweep and does not get to the end of it, it tries again after the time
    /// in which a candidate is heard once.
    pub(super) fn next(&mut self, now: Time, epoch: Epoch, timeout: Duration) -> Next {
        if self.epoch != Some(epoch) {
            *self = Self { epoch: Some(epoch), since: None, due: now };
        }
        let wait = self.due.since(now);
        if !wait.is_zero() {
            return Next::Wait(wait);
        }
        self.due = now + timeout / 3;
        if planted!("lease-never-swept") {
            return Next::Wait(timeout / 3);
        }
        Next::Sweep(self.since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    /// A sweep has ended, and removed so many. After how long the next one is due.
    pub(super) fn done(&mut self, now: Time, removed: usize, timeout: Duration) -> Duration {
        self.since.get_or_insert(now);
        // There may be more of them.
        let wait = if removed < SWEEP_AT_ONCE { timeout.saturating_mul(SWEPT_AFTER) } else { timeout / 3 };
        self.due = now + wait;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_holder_looks_once_and_then_seldom() {
        let mut sweeps = Sweeps::default();
        assert_eq!(sweeps.next(at(100), Epoch(1), TIMEOUT), Next::Sweep(s(0)));
        assert_eq!(sweeps.done(at(102), 0, TIMEOUT), s(150));
        assert_eq!(sweeps.next(at(102), Epoch(1), TIMEOUT), Next::Wait(s(150)));
        assert_eq!(sweeps.next(at(251), Epoch(1), TIMEOUT), Next::Wait(s(1)));
        assert_eq!(
            sweeps.next(at(252), Epoch(1), TIMEOUT),
            Next::Sweep(s(150)),
            "since the end of the first"
        );
        assert_eq!(sweeps.done(at(260), 3, TIMEOUT), s(150));
        assert_eq!(sweeps.next(at(410), Epoch(1), TIMEOUT), Next::Sweep(s(308)));
    }

    #[test]
    fn a_sweep_that_came_to_nothing_is_made_again_after_a_while_and_has_seen_nothing() {
        let mut sweeps = Sweeps::default();
        assert_eq!(sweeps.next(at(0), Epoch(1), TIMEOUT), Next::Sweep(s(0)));
        assert_eq!(sweeps.next(at(2), Epoch(1), TIMEOUT), Next::Wait(s(3)));
        assert_eq!(sweeps.next(at(5), Epoch(1), TIMEOUT), Next::Sweep(s(0)));
        sweeps.done(at(6), 0, TIMEOUT);
        assert_eq!(sweeps.next(at(156), Epoch(1), TIMEOUT), Next::Sweep(s(150)));
        assert_eq!(
            sweeps.next(at(161), Epoch(1), TIMEOUT),
            Next::Sweep(s(155)),
            "it has watched all the time"
        );
    }

    #[test]
    fn where_there_may_be_more_the_next_one_comes_soon() {
        let mut sweeps = Sweeps::default();
        sweeps.next(at(0), Epoch(1), TIMEOUT);
        assert_eq!(sweeps.done(at(0), SWEEP_AT_ONCE, TIMEOUT), s(5));
        assert_eq!(sweeps.next(at(5), Epoch(1), TIMEOUT), Next::Sweep(s(5)));
        assert_eq!(sweeps.done(at(5), SWEEP_AT_ONCE - 1, TIMEOUT), s(150));
    }

    #[test]
    fn what_was_seen_in_a_former_term_does_not_count() {
        let mut sweeps = Sweeps::default();
        sweeps.next(at(0), Epoch(1), TIMEOUT);
        sweeps.done(at(0), 0, TIMEOUT);
        assert_eq!(sweeps.next(at(10), Epoch(2), TIMEOUT), Next::Sweep(s(0)));
        sweeps.done(at(11), 0, TIMEOUT);
        assert_eq!(sweeps.next(at(161), Epoch(2), TIMEOUT), Next::Sweep(s(150)));
    }
}
