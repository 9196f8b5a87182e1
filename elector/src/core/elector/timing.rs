//! The times of an elector.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::session::timing::SWEEP_AFTER;

/// None of them is compared with another node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElectorTiming {
    /// How often the store is read without cause. Shorter: load; longer: what a lost watch costs.
    pub poll: Duration,
    /// How long a leader that was heard may be silent, unless that is [set](crate::core::settings::Settings::silence) for all. Shorter: pauses depose; longer: a stuck leader stays.
    pub silence: Duration,
    /// How long a lock may stay unmoved, unless that is [set](crate::core::settings::Settings::lock_timeout) for all. Shorter: long handoffs run twice; longer: what the death of its owner costs.
    pub lock: Duration,
    /// How long the leader may take to answer one that took its lock. Shorter: events are applied during a handoff that
    /// still runs; longer: what an unreachable leader costs.
    pub handoff: Duration,
    /// How long each elector leaves the queue to the one before it. Shorter: collisions; longer: what a dead elector
    /// before it costs.
    pub turn: Duration,
    /// How long each elector leaves it to the one before it to report a closed session. As `turn`.
    pub closed: Duration,
    /// How long the sequence number of an author that is no member is kept before it is swept away; zero: for ever. Only
    /// economy depends on it.
    pub sweep_after: Duration,
}

impl ElectorTiming {
    /// These, with some changed: `ElectorTiming::default().with(|timing| timing.poll = Duration::from_secs(2))`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Default for ElectorTiming {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            silence: Duration::from_secs(2),
            lock: Duration::from_secs(3),
            handoff: Duration::from_secs(2),
            turn: Duration::from_millis(20),
            closed: Duration::from_millis(50),
            sweep_after: SWEEP_AFTER,
        }
    }
}
