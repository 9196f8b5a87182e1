//! A node's clock: its own start, its own rate, never back.

use std::time::Duration;

/// A clock that was set at some true time and goes at some rate since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeClock {
    set_at: Duration,
    reading: Duration,
    ppm: i32,
}

impl Default for NodeClock {
    fn default() -> Self {
        Self { set_at: Duration::ZERO, reading: Duration::ZERO, ppm: 0 }
    }
}

impl NodeClock {
    /// A clock that shows `reading` at the start of true time.
    pub fn new(reading: Duration) -> Self {
        Self { reading, ..Self::default() }
    }

    /// What it shows at a true time.
    pub fn at(&self, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.set_at);
        if self.ppm == 0 {
            return self.reading + elapsed;
        }
        self.reading + scale(elapsed, 1_000_000 + i64::from(self.ppm), 1_000_000)
    }

    /// How much true time passes from `now` until it shows `reading`, rounded up.
    pub fn until(&self, now: Duration, reading: Duration) -> Duration {
        let ahead = reading.saturating_sub(self.at(now));
        if self.ppm == 0 || ahead.is_zero() {
            return ahead;
        }
        scale(ahead, 1_000_000, 1_000_000 + i64::from(self.ppm)) + Duration::from_nanos(2)
    }

    /// Goes at another rate from now on.
    pub fn set_rate(&mut self, now: Duration, ppm: i32) {
        *self = Self { set_at: now, reading: self.at(now), ppm };
    }

    /// How many millionths faster than true time it goes.
    pub fn ppm(&self) -> i32 {
        self.ppm
    }
}

fn scale(duration: Duration, by: i64, of: i64) -> Duration {
    let nanos = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4_000_000);
    let scaled = nanos * i128::from(by) / i128::from(of);
    Duration::from_nanos(u64::try_from(scaled.max(0)).unwrap_or(u64::MAX))
}
