//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

pub use callsign_store::testing::TEST_DEADLINE;

/// How often a condition is looked at. Shorter: the looking slows down what is looked at.
const CONDITION_INTERVAL: Duration = Duration::from_millis(5);

/// Looks until there is something, and returns it; `None` once `wait` is over.
pub fn wait_for<T>(wait: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + wait;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(CONDITION_INTERVAL);
    }
}

/// Looks until there is something, and returns it. Panics with `what` and the last reason against it once `wait` is
/// over.
pub fn eventually<T>(what: &str, wait: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut reason = String::new();
    let found = wait_for(wait, || look().map_err(|why| reason = why).ok());
    found.unwrap_or_else(|| panic!("not within {wait:?}: {what}: {reason}"))
}
