//! Callers that wait until the session is trusted.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Says that the session is trusted, again or for the first time. It costs nothing to those who do not wait for it.
#[derive(Default)]
pub(crate) struct Trusted {
    times: AtomicU64,
    told: Notify,
}

impl Trusted {
    /// It is.
    pub(crate) fn tell(&self) {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// How often that was said so far.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::SeqCst)
    }

    /// Returns once it was said more often than so.
    pub(crate) async fn more_than(&self, times: u64) {
        // What is said from here on is not missed; what was said before is counted.
        let told = self.told.notified();
        if self.times() <= times {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_said_while_a_call_is_refused_is_not_missed() {
        let trusted = Trusted::default();
        let seen = trusted.times();
        trusted.tell();
        let wait = Duration::from_secs(1);
        timeout(wait, trusted.more_than(seen)).await.unwrap();
        let seen = trusted.times();
        timeout(wait, trusted.more_than(seen)).await.expect_err("it was not said since");
        let later = async { trusted.tell() };
        let (heard, ()) = tokio::join!(timeout(wait, trusted.more_than(seen)), later);
        heard.unwrap();
    }
}
