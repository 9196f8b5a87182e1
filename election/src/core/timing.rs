//! The durations of a campaign, and what they must leave room for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The shortest lease that is accepted, 100 ms. Below it, requests that take their usual time already cost the seat.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

/// The shortest interval that is accepted, 5 ms. Below it, a member does little else.
pub const MIN_EVERY: Duration = Duration::from_millis(5);

/// After how much of its time a grant is refreshed, as the oracles here say with it: a third, so that two attempts that fail
/// leave time for another. A campaign asks earlier where [`Timing::latest_refresh`] says so.
pub fn refresh_after(validity: Duration) -> Duration {
    validity / 3
}

/// The durations of a campaign. Members of one election may differ in them.
///
/// A grant brings its own validity, which may be longer or shorter than [`lease`](Self::lease): the campaign then
/// counts with that, and asks more often if it has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timing {
    /// How long a grant is valid, as far as this member expects.
    pub lease: Duration,
    /// The time between the starts of two refreshes that this member expects. What counts is what the grant says; an
    /// oracle that has no cadence of its own says this.
    pub refresh: Duration,
    /// How long an answer of the oracle is awaited. Never beyond the end of trust.
    pub op_timeout: Duration,
    /// How much earlier than drift demands the member stops trusting. Covers what is between `check()` and the act.
    pub margin: Duration,
    /// How long the role may take to stop. It is aborted at its end, which is before the lease ends anywhere.
    pub stop_budget: Duration,
    /// How far the clocks of member and authority may drift apart, in millionths.
    pub drift_ppm: u32,
    /// The time between two claims of a follower, unless a denial asks for another.
    pub poll: Duration,
    /// Up to this much is added to each poll, so that followers do not ask together.
    pub jitter: Duration,
    /// Within this time after a signal the member asks: followers that are woken together spread over it.
    pub spread: Duration,
    /// The first pause after an attempt whose outcome is not known. It doubles with each.
    pub backoff: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
}

impl Default for Timing {
    /// For a lease of 10 s.
    fn default() -> Self {
        Self::for_lease(Duration::from_secs(10))
    }
}

impl Timing {
    /// The usual proportions for a lease L: refresh 3/10 L, answers within L/5, margin L/20, L/5 to stop the role,
    /// drift 1000 ppm, poll L/5 and as much again of jitter at most half of it, 50 ms (at most L/20) to spread,
    /// backoff L/50 to L.
    ///
    /// A refresh that fails with all of its time used leaves time for another whole one.
    pub fn for_lease(lease: Duration) -> Self {
        Self {
            lease,
            refresh: lease * 3 / 10,
            op_timeout: lease / 5,
            margin: lease / 20,
            stop_budget: lease / 5,
            drift_ppm: 1000,
            poll: lease / 5,
            jitter: lease / 10,
            spread: Duration::from_millis(50).min(lease / 20),
            backoff: lease / 50,
            backoff_max: lease,
        }
    }

    /// How far the two clocks may come apart within `validity`.
    pub fn drift(&self, validity: Duration) -> Duration {
        callsign_store::time::drift(validity, self.drift_ppm)
    }

    /// How long a grant of this validity is trusted, counted from the start of the attempt that brought it:
    /// validity - drift - margin - stop budget. Zero if nothing is left.
    pub fn window(&self, validity: Duration) -> Duration {
        validity
            .saturating_sub(self.drift(validity))
            .saturating_sub(self.margin)
            .saturating_sub(self.stop_budget)
    }

    /// The [`window`](Self::window) of a grant that is valid for the whole lease.
    pub fn trust(&self) -> Duration {
        self.window(self.lease)
    }

    /// The shortest window of a grant that is used at all. In a shorter one nothing can be asked and done.
    pub fn least_window(&self) -> Duration {
        MIN_EVERY * 4
    }

    /// How long an answer is awaited within a window of this length: a third of it at most.
    pub fn patience(&self, window: Duration) -> Duration {
        self.op_timeout.min(window / 3)
    }

    /// When to refresh at the latest, counted as the window is: a refresh that fails with all of its time used leaves
    /// time for another.
    pub fn latest_refresh(&self, window: Duration) -> Duration {
        window.saturating_sub(self.patience(window) * 3 / 2)
    }

    /// Checks that a member can keep a seat with these durations.
    pub fn validate(&self) -> Result<(), TimingError> {
        if self.lease < MIN_LEASE {
            return Err(TimingError::LeaseTooShort { lease: self.lease });
        }
        let intervals = [("refresh", self.refresh), ("op_timeout", self.op_timeout), ("poll", self.poll)];
        for (what, every) in intervals {
            if every < MIN_EVERY {
                return Err(TimingError::TooOften { what, every });
            }
        }
        let (trust, needed) = (self.trust(), self.refresh.saturating_add(self.op_timeout));
        if trust <= needed {
            return Err(TimingError::NoRoom { timing: Box::new(*self), trust, needed });
        }
        Ok(())
    }
}

/// Why a member cannot keep a seat with these durations. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The lease is below [`MIN_LEASE`].
    #[error("a lease of {lease:?} is too short, {MIN_LEASE:?} is the least")]
    LeaseTooShort {
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
    /// Trust would end before a refresh that failed can be tried again.
    #[error(
        "a grant is trusted for {trust:?} (lease {:?} - drift {:?} - margin {:?} - stop budget {:?}), which must be \
         more than {needed:?} (refresh {:?} + answer {:?})",
        timing.lease, timing.drift(timing.lease), timing.margin, timing.stop_budget, timing.refresh, timing.op_timeout
    )]
    NoRoom {
        /// The durations.
        timing: Box<Timing>,
        /// How long a grant is trusted: lease - drift - margin - stop budget.
        trust: Duration,
        /// Refresh and answer together.
        needed: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lease: u64, refresh: u64, op_timeout: u64, margin: u64, stop_budget: u64) -> Timing {
        let s = Duration::from_secs;
        Timing {
            refresh: s(refresh),
            op_timeout: s(op_timeout),
            margin: s(margin),
            stop_budget: s(stop_budget),
            ..Timing::for_lease(s(lease))
        }
    }

    #[test]
    fn c12_timings_without_room_for_a_failed_refresh_are_refused_with_the_numbers() {
        let s = Duration::from_secs;
        assert_eq!(seconds(15, 5, 5, 1, 0).validate(), Ok(()), "River");
        assert_eq!(seconds(10, 3, 3, 1, 2).validate(), Ok(()), "FoundationDB recipe, with 2 s to stop");
        assert_eq!(seconds(10, 3, 3, 1, 0).validate(), Ok(()), "FoundationDB recipe");
        let timing = seconds(30, 15, 15, 0, 0);
        let crown = timing.validate();
        let (trust, needed) = (Duration::from_millis(29_970), s(30));
        let refused = TimingError::NoRoom { timing: Box::new(timing), trust, needed };
        assert_eq!(crown, Err(refused), "Crown: a failed refresh ends exactly with the lease");
        let said = crown.unwrap_err().to_string();
        for number in ["30s", "30ms", "29.97s", "15s"] {
            assert!(said.contains(number), "{number} in: {said}");
        }
        let river = seconds(15, 15, 5, 1, 0).validate();
        assert!(matches!(river, Err(TimingError::NoRoom { needed, .. }) if needed == s(20)), "{river:?}");
        // Exactly as much is not enough.
        let exact = Timing { drift_ppm: 0, ..seconds(10, 5, 5, 0, 0) };
        assert!(matches!(exact.validate(), Err(TimingError::NoRoom { .. })));
    }

    #[test]
    fn the_usual_proportions_are_valid_for_every_lease_and_leave_a_whole_second_refresh() {
        for lease in [100, 500, 1_000, 10_000, 60_000] {
            let timing = Timing::for_lease(Duration::from_millis(lease));
            assert_eq!(timing.validate(), Ok(()), "{lease} ms");
            let used = timing.refresh + timing.op_timeout * 2 + timing.backoff;
            assert!(timing.trust() > used, "{lease} ms: {:?} > {used:?}", timing.trust());
        }
        assert_eq!(Timing::default().trust(), Duration::from_millis(10_000 - 10 - 500 - 2_000));
    }

    #[test]
    fn a11_durations_that_cannot_work_are_refused() {
        assert!(matches!(
            Timing::for_lease(Duration::ZERO).validate(),
            Err(TimingError::LeaseTooShort { .. })
        ));
        let timing = Timing { poll: Duration::ZERO, ..Timing::default() };
        assert!(matches!(timing.validate(), Err(TimingError::TooOften { what: "poll", .. })));
        let timing = Timing { stop_budget: Duration::from_secs(60), ..Timing::default() };
        assert!(matches!(timing.validate(), Err(TimingError::NoRoom { trust: Duration::ZERO, .. })));
    }

    #[test]
    fn the_usual_proportions_are_those_that_are_documented() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let expected = Timing {
            lease: s(100),
            refresh: s(30),
            op_timeout: s(20),
            margin: s(5),
            stop_budget: s(20),
            drift_ppm: 1000,
            poll: s(20),
            jitter: s(10),
            spread: ms(50),
            backoff: s(2),
            backoff_max: s(100),
        };
        assert_eq!(Timing::for_lease(s(100)), expected);
        assert_eq!(Timing::for_lease(ms(400)).spread, ms(20), "a twentieth of a short lease");
        assert_eq!(refresh_after(s(9)), s(3));
    }

    #[test]
    fn a11_an_interval_of_the_shortest_that_is_accepted_is_and_a_shorter_one_is_named() {
        type Set = fn(&mut Timing, Duration);
        let all: [(&str, Set); 3] = [
            ("refresh", |timing, every| timing.refresh = every),
            ("op_timeout", |timing, every| timing.op_timeout = every),
            ("poll", |timing, every| timing.poll = every),
        ];
        for (what, set) in all {
            let mut timing = Timing::default();
            set(&mut timing, MIN_EVERY);
            assert_eq!(timing.validate(), Ok(()), "{what}");
            let every = MIN_EVERY.saturating_sub(Duration::from_nanos(1));
            set(&mut timing, every);
            assert_eq!(timing.validate(), Err(TimingError::TooOften { what, every }));
        }
    }
}
