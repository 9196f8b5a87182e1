//! So many a second, and some more at once: a bucket of tokens.
//!
//! Takes as given: a clock that does not go back.

use std::time::Duration;

/// Parts of a token.
const PART: u128 = 1_000_000_000;

/// Fills with `rate` tokens a second, up to `burst`. May be drawn below empty, and is then refilled first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bucket {
    rate: u64,
    burst: u64,
    /// In parts of tokens.
    level: u128,
    debt: u128,
    at: Duration,
}

impl Bucket {
    /// A full one. A rate of 0 never refills.
    pub(crate) fn new(now: Duration, rate: u64, burst: u64) -> Self {
        Self { rate, burst, level: u128::from(burst) * PART, debt: 0, at: now }
    }

    fn fill(&mut self, now: Duration) {
        let gained = u128::from(self.rate) * now.saturating_sub(self.at).as_nanos();
        self.at = self.at.max(now);
        let paid = gained.min(self.debt);
        self.debt -= paid;
        self.level = (self.level + gained - paid).min(u128::from(self.burst) * PART);
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        self.fill(now);
        let there = self.debt == 0 && self.level >= PART;
        if there {
            self.level -= PART;
        }
        there
    }

    /// Takes as many as were used already. `Some`: until when to wait, because there were not so many.
    pub(crate) fn draw(&mut self, now: Duration, used: u64) -> Option<Duration> {
        self.fill(now);
        let used = u128::from(used) * PART;
        let from_level = used.min(self.level);
        self.level -= from_level;
        self.debt += used - from_level;
        if self.debt == 0 {
            return None;
        }
        let nanos = self.debt.div_ceil(u128::from(self.rate.max(1)));
        Some(now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_goes_at_once_and_then_so_many_a_second() {
        let mut bucket = Bucket::new(SECOND, 10, 30);
        let taken = |bucket: &mut Bucket, now| (0..1000).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, SECOND), 30);
        assert_eq!(taken(&mut bucket, SECOND), 0);
        assert_eq!(taken(&mut bucket, SECOND + SECOND / 10), 1);
        assert_eq!(taken(&mut bucket, SECOND * 3), 19);
        assert_eq!(taken(&mut bucket, SECOND * 1000), 30, "no more than a burst is saved");
        assert_eq!(taken(&mut bucket, SECOND * 999), 0, "a clock that goes back gives nothing");
    }

    #[test]
    fn ever_smaller_steps_of_time_give_as_much_as_one_large() {
        let mut bucket = Bucket::new(Duration::ZERO, 3, 1);
        let mut now = Duration::ZERO;
        let mut taken = 0;
        while now < SECOND * 10 {
            taken += u32::from(bucket.take(now));
            now += Duration::from_millis(7);
        }
        assert!((28..=31).contains(&taken), "{taken}");
    }

    #[test]
    fn who_has_drawn_too_much_waits_for_it_to_be_refilled() {
        let mut bucket = Bucket::new(Duration::ZERO, 1000, 500);
        assert_eq!(bucket.draw(Duration::ZERO, 500), None);
        assert_eq!(bucket.draw(Duration::ZERO, 2000), Some(SECOND * 2));
        assert_eq!(bucket.draw(SECOND, 0), Some(SECOND * 2));
        assert_eq!(bucket.draw(SECOND * 2, 0), None);
        assert_eq!(bucket.draw(SECOND * 2, 1), Some(SECOND * 2 + SECOND / 1000));
        assert!(!bucket.take(SECOND * 2));
        let mut slow = Bucket::new(Duration::ZERO, 1, 1);
        assert_eq!(slow.draw(Duration::ZERO, 4), Some(SECOND * 3));
    }
}
