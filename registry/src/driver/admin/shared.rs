//! What the routes share.

use std::{sync::Arc, time::Duration};

use super::{Registries, history::Histories};

/// How long whoever says nothing of it waits.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// How long anybody waits at most. It is for ever, and cannot overflow a clock.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How long a request waits, as it says.
pub fn millis(wait: Option<u64>) -> Duration {
    wait.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait).min(LONGEST_WAIT))
}

/// Says what was counted, in Prometheus' text format.
pub(super) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// What every route needs.
#[derive(Clone)]
pub(super) struct AdminShared {
    pub(super) registries: Registries,
    pub(super) histories: Arc<Histories>,
    pub(super) metrics: Option<Render>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_waits_as_long_as_it_says_and_not_for_ever() {
        let waits = [None, Some(0), Some(1500), Some(u64::MAX)].map(millis);
        assert_eq!(waits, [DEFAULT_WAIT, Duration::ZERO, Duration::from_millis(1500), LONGEST_WAIT]);
    }
}
