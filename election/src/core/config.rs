//! What all who take part in an election share: kept in the store, the same for everybody.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::policy::Policy;

/// The configuration of an election. Durable: whoever initialises it first decides, and it can be changed at run time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectionConfig {
    /// Who should have the seat.
    pub policy: Policy,
    /// How long a term stands without a refresh. The term carries it: a later change holds from its next refresh on.
    pub lease: Duration,
    /// How long after the end of a lease that was not given back the seat stays empty, for sinks that check no fence.
    pub lock_delay: Duration,
    /// How long a candidate counts as alive without a heartbeat. Its record carries it.
    pub candidate_timeout: Duration,
}

/// The shortest lease and the shortest time without a heartbeat.
pub const MIN_DURATION: Duration = Duration::from_millis(1);

/// The longest of the durations.
pub const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Why a configuration or a candidate was refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A duration is shorter than [`MIN_DURATION`], or zero.
    #[error("{what} of {value:?} is too short, {MIN_DURATION:?} is the least")]
    TooShort {
        /// Which.
        what: &'static str,
        /// Its value.
        value: Duration,
    },
    /// A duration is longer than [`MAX_DURATION`].
    #[error("{what} of {value:?} is too long, {MAX_DURATION:?} is the most")]
    TooLong {
        /// Which.
        what: &'static str,
        /// Its value.
        value: Duration,
    },
    /// There is more of something than a record should hold.
    #[error("{count} {what}, {most} is the most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
}

/// The most tags that a candidate may have, and the most keys of an order.
pub const MAX_TAGS: usize = 16;

impl Default for ElectionConfig {
    fn default() -> Self {
        Self::new(Policy::sticky(), Duration::from_secs(10))
    }
}

impl ElectionConfig {
    /// A policy and a lease; no lock delay, and a candidate may be silent for one and a half leases.
    pub fn new(policy: Policy, lease: Duration) -> Self {
        let candidate_timeout = lease.saturating_mul(3) / 2;
        Self { policy, lease, lock_delay: Duration::ZERO, candidate_timeout }
    }

    /// Checks that an election can work with it.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (what, value) in [("a lease", self.lease), ("a candidate timeout", self.candidate_timeout)] {
            if value < MIN_DURATION {
                return Err(Invalid::TooShort { what, value });
            }
        }
        let grace = match self.policy.replace {
            super::policy::Replace::Immediately => Duration::ZERO,
            super::policy::Replace::HandOver { grace } => grace,
        };
        let all = [
            ("a lease", self.lease),
            ("a candidate timeout", self.candidate_timeout),
            ("a lock delay", self.lock_delay),
            ("a grace", grace),
            ("a least tenure", self.policy.min_tenure),
        ];
        for (what, value) in all {
            if value > MAX_DURATION {
                return Err(Invalid::TooLong { what, value });
            }
        }
        let count = self.policy.order.len();
        if count > MAX_TAGS {
            return Err(Invalid::TooMany { what: "keys of an order", count, most: MAX_TAGS });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::{Key, Replace};

    type Set = fn(&mut ElectionConfig, Duration);

    const DURATIONS: [(&str, Set); 5] = [
        ("a lease", |config, value| config.lease = value),
        ("a candidate timeout", |config, value| config.candidate_timeout = value),
        ("a lock delay", |config, value| config.lock_delay = value),
        ("a grace", |config, value| config.policy.replace = Replace::HandOver { grace: value }),
        ("a least tenure", |config, value| config.policy.min_tenure = value),
    ];

    fn with(set: Set, value: Duration) -> Result<(), Invalid> {
        let mut config = ElectionConfig::default();
        set(&mut config, value);
        config.validate()
    }

    #[test]
    fn a11_durations_at_their_bounds_are_taken_and_those_beyond_are_refused_by_name() {
        let nanosecond = Duration::from_nanos(1);
        for (what, set) in DURATIONS {
            assert_eq!(with(set, MAX_DURATION), Ok(()), "{what}");
            let value = MAX_DURATION + nanosecond;
            assert_eq!(with(set, value), Err(Invalid::TooLong { what, value }));
        }
        for (what, set) in DURATIONS.into_iter().take(2) {
            assert_eq!(with(set, MIN_DURATION), Ok(()), "{what}");
            let value = MIN_DURATION.saturating_sub(nanosecond);
            assert_eq!(with(set, value), Err(Invalid::TooShort { what, value }));
        }
        for (what, set) in DURATIONS.into_iter().skip(2) {
            assert_eq!(with(set, Duration::ZERO), Ok(()), "{what}");
        }
    }

    #[test]
    fn a11_an_order_has_sixteen_keys_at_most() {
        let of = |count| {
            let policy = Policy { order: vec![Key::Id; count], ..Policy::sticky() };
            ElectionConfig { policy, ..ElectionConfig::default() }.validate()
        };
        assert_eq!(of(16), Ok(()));
        assert_eq!(of(17), Err(Invalid::TooMany { what: "keys of an order", count: 17, most: 16 }));
    }

    #[test]
    fn a_candidate_may_be_silent_for_one_and_a_half_leases_unless_it_is_said_otherwise() {
        let lease = Duration::from_secs(8);
        let config = ElectionConfig::new(Policy::ranked(), lease);
        assert_eq!((config.lease, config.candidate_timeout), (lease, Duration::from_secs(12)));
        assert_eq!((config.policy, config.lock_delay), (Policy::ranked(), Duration::ZERO));
    }
}
