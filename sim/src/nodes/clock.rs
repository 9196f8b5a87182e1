//! A node's clock: it runs a little faster or slower than the time of the run, as far as the configuration allows.
#![allow(clippy::disallowed_methods)] // the runtime's clock is the time of the run

use std::time::Duration;

use callsign::OwnClock;
use callsign_store::Time;
use tokio::time::Instant;

/// A clock that drifts.
#[derive(Debug)]
pub struct Drifting {
    begin: Instant,
    /// What it showed then.
    ahead: Duration,
    /// How much faster it runs, in parts of a million.
    ppm: i64,
}

impl Drifting {
    /// A clock that shows `ahead` at `begin`, and runs by so many parts of a million faster, or slower.
    pub fn new(begin: Instant, ahead: Duration, ppm: i64) -> Self {
        Self { begin, ahead, ppm }
    }
}

/// So much time, as a clock shows it that runs by so many parts of a million faster.
fn scaled(time: Duration, ppm: i64) -> Duration {
    let nanos = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / 2_000_000);
    let scaled = nanos + nanos * i128::from(ppm) / 1_000_000;
    Duration::from_nanos(u64::try_from(scaled.max(0)).unwrap_or(u64::MAX))
}

impl OwnClock for Drifting {
    fn now(&self) -> Time {
        Time(self.ahead + scaled(self.begin.elapsed(), self.ppm))
    }

    fn until(&self, at: Time) -> Duration {
        let left = at.since(self.now());
        // A timer that rings a moment early would ring again and again.
        if left.is_zero() { left } else { scaled(left, -self.ppm) + Duration::from_micros(1) }
    }
}
