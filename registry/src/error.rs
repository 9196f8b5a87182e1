//! What can go wrong, and what the caller may conclude from it.

mod groups;
mod moves;
mod names;
mod node;
mod reads;

use std::time::Duration;

pub use self::{
    groups::{AcquireError, GroupError, NotSpawned},
    moves::{OfferError, TakeError},
    names::{Elsewhere, NotStarted, RegisterError, UnregisterError, UpdateError},
    node::{ConfigureError, JoinError, LeaveError, NotLive, NotReady},
    reads::{ConsistentError, ExplainError, LookupError, UntilError, WaitError, WatchError, WhereisError},
};

/// A time as errors say it. One that was measured has fractions of a millisecond, which say nothing to anybody.
pub(crate) fn shown(time: Duration) -> String {
    let whole = Duration::new(time.as_secs(), time.subsec_millis() * 1_000_000);
    if time.is_zero() {
        "0s".to_owned()
    } else if whole.is_zero() {
        format!("{time:?}")
    } else {
        format!("{whole:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_no_less_than_a_millisecond_of_a_time_that_is_longer() {
        let micros = Duration::from_micros;
        for (time, text) in [
            (Duration::ZERO, "0s"),
            (micros(12), "12µs"),
            (micros(300_456), "300ms"),
            (micros(5_000_413), "5s"),
            (micros(3_012_999), "3.012s"),
            (Duration::MAX, "18446744073709551615.999s"),
        ] {
            assert_eq!(shown(time), text);
        }
        let unknown = RegisterError::Unknown { name: "desk".into(), waited: micros(5_000_413) };
        assert_eq!(unknown.to_string(), "the outcome of registering \"desk\" is unknown after 5s");
        let refused = UpdateError::StoreUnavailable { lasting: micros(3_012_999) };
        assert_eq!(refused.to_string(), "the store has taken no commit for 3.012s");
        let not_ready = NotReady::NoLeader { elected: None, waited: Duration::ZERO };
        assert_eq!(not_ready.to_string(), "no leader serves, after 0s");
    }
}
