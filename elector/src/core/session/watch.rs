//! One record under observation: how long its beat has not moved.

use std::time::Duration;

use callsign_store::{Value, planted, time::Time};

/// A record as an observer sees it from read to read.
///
/// No value is written twice, so a value seen in two reads was not moved between them, however far apart they are.
/// That reads must be close together is for the observed: an observer that was itself stopped, or cut off from the
/// store, must not count that time as *their* silence. "Apart" is from the end of one read to the end of the next:
/// a read that took long may mean that the store was slow for everybody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) value: Value,
    lease: Duration,
    /// End of the read that first showed the value, or of the first after a gap.
    first: Time,
    /// End of the last read that showed it.
    pub(super) last: Time,
}

/// What one more read showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// The same value as before.
    Unmoved,
    /// The same value, but after a gap: the count starts again.
    Again,
    /// Another value.
    Moved,
}

impl Watch {
    /// Begins with a read that ended at `now`.
    pub(super) fn new(now: Time, value: Value, lease: Duration) -> Self {
        Self { value, lease, first: now, last: now }
    }

    /// Takes a read that ended at `now`. `unbroken` is false if the time since the former read does not count.
    pub(super) fn see(&mut self, now: Time, value: &Value, lease: Duration, unbroken: bool) -> Sight {
        if self.value != *value {
            *self = Self::new(now, value.clone(), lease);
            return Sight::Moved;
        }
        let gap = now.since(self.last);
        self.last = now;
        if unbroken && gap <= self.lease / 4 && !planted!("counts-anew-at-each-read") {
            return Sight::Unmoved;
        }
        self.first = now;
        Sight::Again
    }

    pub(super) fn unmoved_for(&self, now: Time) -> Duration {
        now.since(self.first)
    }

    /// When the lease has passed.
    pub(super) fn overdue_at(&self) -> Time {
        self.first + self.lease
    }

    /// Whether the last read showed the beat unmoved for the lease. First sight never does, whatever the lease.
    pub(super) fn is_overdue(&self) -> bool {
        self.last > self.first && self.last >= self.overdue_at()
    }
}
