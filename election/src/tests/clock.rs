//! A clock that a test sets, while timers stand still: a stopped process, a suspended machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_store::{Clock, Time, clock::OwnClock};

/// Its hand, in nanoseconds. Clones move together.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetClock(Arc<AtomicU64>);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

impl SetClock {
    pub(crate) fn at(time: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(nanos(time))))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(nanos(time), SeqCst);
    }

    /// What a driver reads.
    pub(crate) fn clock(&self) -> Clock {
        Clock::Own(Arc::new(self.clone()))
    }
}

impl OwnClock for SetClock {
    fn now(&self) -> Time {
        Time(Duration::from_nanos(self.0.load(SeqCst)))
    }

    fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}
