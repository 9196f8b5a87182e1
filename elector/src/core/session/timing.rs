//! The durations of a session, and what they must leave room for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::sweep::SWEEP_PAGE;

/// The shortest lease. Below it, requests that take their usual time already cost the session.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

/// The longest lease, also of a record that is read: so long does the name of a node stay taken at most that died without
/// proof. A longer one is taken for this one.
pub const MAX_LEASE: Duration = Duration::from_secs(3600);

/// The shortest time between two beats or two observations. Below it, a node does little else.
pub const MIN_EVERY: Duration = Duration::from_millis(10);

/// The durations of a session. Nodes of one cluster may differ in them: each session's record carries its own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionTiming {
    /// S: how long an observer must see a beat unmoved before it may close the session. Shorter: a store that is
    /// slow for a moment costs the session. Longer: the names of a node that died without proof stay taken longer.
    pub lease: Duration,
    /// How much earlier than drift demands the node stops trusting. Covers what is between `check()` and the act.
    pub margin: Duration,
    /// How far the clocks of two nodes may drift apart, in millionths. Understated, P1 does not hold.
    pub drift_ppm: u32,
    /// The time between the starts of two beats.
    pub beat_every: Duration,
    /// The time between two observations of the other sessions. At most S/5, because they must *end* at most S/4
    /// apart, or the count starts again.
    pub observe_every: Duration,
    /// How long the record of a closed session is kept before it is swept away; zero: for ever. Only economy depends on it.
    pub sweep_after: Duration,
    /// How many records are read at once to find those, and are swept by one transaction at most. Fewer: less is swept in an
    /// hour. More: a longer transaction. Zero counts as one.
    pub sweep_page: usize,
}

/// How long what is of no use any more is kept in the store.
pub const SWEEP_AFTER: Duration = Duration::from_secs(3600);

impl Default for SessionTiming {
    fn default() -> Self {
        Self::for_lease(Duration::from_secs(10))
    }
}

impl SessionTiming {
    /// These, with some changed: `SessionTiming::default().with(|timing| timing.margin = Duration::from_secs(1))`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The usual proportions for a lease: margin S/20, drift 1000 ppm, a beat every S/5, an observation every S/10.
    pub fn for_lease(lease: Duration) -> Self {
        Self {
            lease,
            margin: lease / 20,
            drift_ppm: 1000,
            beat_every: lease / 5,
            observe_every: lease / 10,
            sweep_after: SWEEP_AFTER,
            sweep_page: SWEEP_PAGE,
        }
    }

    /// How far the clocks of two nodes may come apart within one lease.
    pub fn drift(&self) -> Duration {
        callsign_store::time::drift(self.lease, self.drift_ppm)
    }

    /// How long a session is trusted, counted from the start of the beat: S - margin - drift.
    pub fn trust_window(&self) -> Duration {
        if callsign_store::planted!("window-without-margin") {
            return self.lease;
        }
        self.lease.saturating_sub(self.margin).saturating_sub(self.drift())
    }

    /// How long to wait for an answer of the store before going on without: half of `beat_every`.
    ///
    /// Shorter: a slow store is asked more often than it can answer. Longer: less is left for the retry.
    pub fn attempt(&self) -> Duration {
        self.beat_every / 2
    }

    /// The least time between two commits to one's own session that build on the same state.
    pub(super) fn retry(&self) -> Duration {
        self.attempt() / 4
    }

    /// Checks that a node can keep a session with these durations.
    pub fn validate(&self) -> Result<(), TimingError> {
        if self.lease < MIN_LEASE {
            return Err(TimingError::LeaseTooShort { lease: self.lease });
        }
        if self.lease > MAX_LEASE {
            return Err(TimingError::LeaseTooLong { lease: self.lease });
        }
        for (what, every) in [("beat_every", self.beat_every), ("observe_every", self.observe_every)] {
            if every < MIN_EVERY {
                return Err(TimingError::TooOften { what, every });
            }
        }
        let most = self.lease / 5;
        if self.observe_every > most {
            return Err(TimingError::ObservesTooSeldom { observe_every: self.observe_every, most });
        }
        // A beat that is not answered, the read that finds out, and the beat that is tried instead.
        let needed = self.beat_every.saturating_add(self.attempt().saturating_mul(3));
        let window = self.trust_window();
        if window < needed {
            return Err(TimingError::NoRoom {
                lease: self.lease,
                margin: self.margin,
                drift: self.drift(),
                window,
                needed,
            });
        }
        Ok(())
    }
}

/// Why a node cannot keep a session with these durations. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The lease is below [`MIN_LEASE`].
    #[error("a lease of {lease:?} is too short, {MIN_LEASE:?} is the least")]
    LeaseTooShort {
        /// The lease.
        lease: Duration,
    },
    /// The lease is above [`MAX_LEASE`].
    #[error("a lease of {lease:?} is too long, {MAX_LEASE:?} is the most")]
    LeaseTooLong {
        /// The lease.
        lease: Duration,
    },
    /// An interval is below [`MIN_EVERY`].
    #[error("{what} of {every:?} is too often, {MIN_EVERY:?} is the least")]
    TooOften {
        /// Which interval.
        what: &'static str,
        /// The interval.
        every: Duration,
    },
    /// Observations this far apart never close a session.
    #[error("observe_every of {observe_every:?} is too seldom, a fifth of the lease, {most:?}, is the most")]
    ObservesTooSeldom {
        /// The interval.
        observe_every: Duration,
        /// The most that this lease allows.
        most: Duration,
    },
    /// The session would lapse before a failed beat can be tried again.
    #[error(
        "a session is trusted for {window:?} (lease {lease:?} - margin {margin:?} - drift {drift:?}), \
         a beat and one retry need {needed:?}"
    )]
    NoRoom {
        /// The lease.
        lease: Duration,
        /// The margin.
        margin: Duration,
        /// What clocks may drift apart within the lease.
        drift: Duration,
        /// How long a session is trusted.
        window: Duration,
        /// `beat_every`, and three times half of it for an attempt, a read and a retry.
        needed: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_proportions_are_valid_for_every_lease() {
        for lease in [100, 500, 1_000, 10_000, 60_000] {
            let timing = SessionTiming::for_lease(Duration::from_millis(lease));
            assert_eq!(timing.validate(), Ok(()), "{lease} ms");
        }
        let timing = SessionTiming::default();
        assert_eq!(timing.trust_window(), Duration::from_millis(10_000 - 500 - 10));
    }

    #[test]
    fn a_trust_window_without_room_for_a_retry_is_refused_with_the_numbers() {
        let timing = SessionTiming { beat_every: Duration::from_secs(4), ..SessionTiming::default() };
        assert_eq!(
            timing.validate(),
            Err(TimingError::NoRoom {
                lease: Duration::from_secs(10),
                margin: Duration::from_millis(500),
                drift: Duration::from_millis(10),
                window: Duration::from_millis(9_490),
                needed: Duration::from_secs(10),
            })
        );
        let timing = SessionTiming { margin: Duration::from_secs(20), ..SessionTiming::default() };
        assert!(matches!(timing.validate(), Err(TimingError::NoRoom { window: Duration::ZERO, .. })));
    }

    #[test]
    fn intervals_that_cannot_work_are_refused() {
        let timing =
            SessionTiming { observe_every: Duration::from_millis(2_500), ..SessionTiming::default() };
        assert!(matches!(timing.validate(), Err(TimingError::ObservesTooSeldom { .. })));
        let timing = SessionTiming { beat_every: Duration::ZERO, ..SessionTiming::default() };
        assert!(matches!(timing.validate(), Err(TimingError::TooOften { what: "beat_every", .. })));
        let timing = SessionTiming::for_lease(Duration::from_millis(99));
        assert!(matches!(timing.validate(), Err(TimingError::LeaseTooShort { .. })));
        let timing = SessionTiming::for_lease(MAX_LEASE + Duration::from_millis(1));
        assert!(matches!(timing.validate(), Err(TimingError::LeaseTooLong { .. })));
    }

    #[test]
    fn durations_at_their_bounds_are_taken_and_those_behind_them_are_not() {
        let usual = SessionTiming::default();
        let longest = SessionTiming::for_lease(MAX_LEASE);
        let seldom = SessionTiming { observe_every: Duration::from_secs(2), ..usual };
        let often = SessionTiming { beat_every: MIN_EVERY, observe_every: MIN_EVERY, ..usual };
        // Two and a half of these are the window of 9490 ms.
        let full = SessionTiming { beat_every: Duration::from_millis(3_796), ..usual };
        for timing in [longest, seldom, often, full] {
            assert_eq!(timing.validate(), Ok(()));
        }
        let too_full = SessionTiming { beat_every: Duration::from_millis(3_797), ..usual };
        assert!(matches!(too_full.validate(), Err(TimingError::NoRoom { .. })));
        let too_often = SessionTiming { observe_every: MIN_EVERY / 2, ..usual };
        assert!(matches!(too_often.validate(), Err(TimingError::TooOften { what: "observe_every", .. })));
    }
}
