//! The durations of a pool: which make sense together, and what follows from them.

use std::time::Duration;

use super::PoolRow;

/// The durations of a pool: the same for all its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolTiming {
    /// How often a peer writes its row. 15 s.
    pub heartbeat: Duration,
    /// After how long without a heartbeat a peer counts as gone. 60 s.
    pub expiry: Duration,
    /// How often a peer looks. 5 s.
    pub recheck: Duration,
    /// The greatest difference between two clocks of the pool. 20 s.
    pub max_skew: Duration,
}

impl Default for PoolTiming {
    fn default() -> Self {
        let [heartbeat, expiry, recheck, max_skew] = [15, 60, 5, 20].map(Duration::from_secs);
        Self { heartbeat, expiry, recheck, max_skew }
    }
}

impl PoolTiming {
    pub(super) fn check(&self) -> Result<(), WrongPoolTiming> {
        let Self { heartbeat, expiry, recheck, max_skew } = *self;
        if max_skew >= expiry / 2 {
            return Err(WrongPoolTiming::Skew { max_skew, expiry });
        }
        let left = self.trusted();
        if heartbeat.saturating_add(recheck) >= left {
            return Err(WrongPoolTiming::Heartbeat { heartbeat, recheck, left });
        }
        Ok(())
    }

    /// For how long after its heartbeat a peer may lead: until the fastest clock says that it is gone.
    fn trusted(&self) -> Duration {
        self.expiry.saturating_sub(self.max_skew)
    }

    /// How much of that is left.
    pub(super) fn left(&self, heartbeat: Duration, now: Duration) -> Duration {
        self.trusted().saturating_sub(now.saturating_sub(heartbeat))
    }

    /// Whether a row counts. Others take over only when the slowest clock says that it does not. One that no clock of this
    /// pool can have written yet does not count either: it would for as long as it is ahead.
    pub(super) fn is_live(&self, row: &PoolRow, now: Duration) -> bool {
        let (ahead, old) = (row.heartbeat.saturating_sub(now), now.saturating_sub(row.heartbeat));
        ahead <= self.max_skew && old < self.expiry.saturating_add(self.max_skew)
    }

    /// Whether it is time for a heartbeat. One of the future is of a clock that was set back.
    pub(super) fn is_due(&self, heartbeat: Duration, now: Duration) -> bool {
        now.saturating_sub(heartbeat) >= self.heartbeat || now < heartbeat
    }
}

/// Why a pool cannot be run with these durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WrongPoolTiming {
    /// Who leads would have to stop before others may start by less than clocks differ.
    #[error("a skew of {max_skew:?} is not less than half of the expiry, {expiry:?}")]
    Skew {
        /// The skew.
        max_skew: Duration,
        /// The expiry.
        expiry: Duration,
    },
    /// A leader would lose the seat between two heartbeats.
    #[error(
        "a heartbeat of {heartbeat:?} and a recheck of {recheck:?} do not fit into {left:?}, expiry less skew"
    )]
    Heartbeat {
        /// The heartbeat.
        heartbeat: Duration,
        /// The recheck.
        recheck: Duration,
        /// The expiry less the skew.
        left: Duration,
    },
}
