//! Time as an input.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// A reading of one node's clock. Never sent to another node, never compared with another node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(pub Duration);

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// How long ago `earlier` was; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// How far two clocks may come apart within `time` that run apart by so many millionths, rounded up.
pub fn drift(time: Duration, ppm: u32) -> Duration {
    let nanos = time.as_nanos().saturating_mul(u128::from(ppm)).div_ceil(1_000_000);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_so_many_millionths_rounded_up() {
        let seconds = Duration::from_secs;
        for (time, ppm, apart) in [
            (seconds(1_000_000), 1, seconds(1)),
            (seconds(1), 200, Duration::from_micros(200)),
            (Duration::from_nanos(1), 1, Duration::from_nanos(1)),
            (Duration::ZERO, 200, Duration::ZERO),
            (Duration::MAX, u32::MAX, Duration::from_nanos(u64::MAX)),
        ] {
            assert_eq!(drift(time, ppm), apart, "{time:?} {ppm}");
        }
    }
}
