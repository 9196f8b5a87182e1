//! Whether the session is trusted, for everybody in the process.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_store::{LifeGuard, clock::Clock, ids::SessionNumber, lock::lock, time::Time};

/// The session asked about is not trusted: nothing may be done on its behalf. It may still be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the node's session is not trusted now")]
pub struct Lapsed {
    /// The node's last session, if it ever had one. Another one than was asked about means that that one is lost.
    pub session: Option<SessionNumber>,
}

/// Tells whether the node's session is trusted. Cheap to clone.
///
/// It compares the clock with the time until which the session is trusted, so it says no as soon as that time has
/// passed, even if nothing else in the process has run since: after a SIGSTOP, a suspend, or a panic of the driver.
/// It may say so a moment before subscribers get `Lapsed`, and for a moment without any `Lapsed` when the answer to
/// a beat was only just in time.
#[derive(Clone, Debug)]
pub struct TrustHandle {
    shared: Arc<Trust>,
}

/// What the driver writes and everybody reads.
///
/// The pair is read without a lock: number, time, number again. Numbers only grow, and the time is zero while the
/// number changes, so two equal numbers enclose a time that is theirs, or zero.
#[derive(Debug)]
struct Trust {
    /// The session that is or was last trusted; 0 before the first.
    number: AtomicU64,
    /// Until when, in nanoseconds of the clock; 0 while it is not trusted.
    until: AtomicU64,
    clock: Clock,
    /// No session will ever be trusted again. Held while the pair is written.
    is_over: Mutex<bool>,
    /// Proves, once it is gone, that nobody trusts the session any more. Kept as long as anybody can still ask: a
    /// driver that panics must not take it along while the trust it granted goes on.
    _guard: Option<Box<dyn LifeGuard>>,
}

impl TrustHandle {
    pub(super) fn new(clock: Clock, guard: Option<Box<dyn LifeGuard>>) -> Self {
        let shared = Trust {
            number: AtomicU64::new(0),
            until: AtomicU64::new(0),
            clock,
            is_over: Mutex::new(false),
            _guard: guard,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The trusted session's number. No lock and no I/O: three loads and a reading of the clock.
    pub fn check(&self) -> Result<SessionNumber, Lapsed> {
        let (number, until) = self.load();
        // The clock is read last: a process that is stopped right before finds that time has passed.
        if self.shared.clock.now() < until {
            Ok(number)
        } else {
            Err(Lapsed { session: (number.0 > 0).then_some(number) })
        }
    }

    /// Whether the node has noticed that no session is trusted: for reads, which are marked from the moment at which
    /// the node's actors are stopped or told. One load. Not for acts: a process that was just stopped for long notices
    /// when its driver runs, and [`check`](Self::check) says no before that.
    pub fn has_lapsed(&self) -> bool {
        self.shared.until.load(SeqCst) == 0
    }

    /// Whether the session of this number is trusted. Once it was lost it never is again.
    pub fn check_session(&self, number: SessionNumber) -> Result<(), Lapsed> {
        match self.check()? {
            trusted if trusted == number => Ok(()),
            other => Err(Lapsed { session: Some(other) }),
        }
    }

    /// How much longer the session is trusted if no beat extends it. Zero if it is not.
    pub fn remaining(&self) -> Duration {
        let (_, until) = self.load();
        until.since(self.shared.clock.now())
    }

    /// The clock that trust is measured by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Trusts a session. Called by the driver only, with numbers that never decrease.
    pub(super) fn grant(&self, number: SessionNumber, until: Time) {
        let is_over = self.is_over();
        if *is_over {
            return;
        }
        if self.shared.number.load(SeqCst) != number.0 {
            self.shared.until.store(0, SeqCst);
            self.shared.number.store(number.0, SeqCst);
        }
        self.shared.until.store(nanos(until), SeqCst);
    }

    /// Trusts no session. Called by the driver only.
    pub(super) fn lapse(&self) {
        let _writes = self.is_over();
        self.shared.until.store(0, SeqCst);
    }

    /// Trusts no session, and none ever again: the node has failed. A driver that lives may still beat.
    pub(super) fn end(&self) {
        *self.is_over() = true;
        self.shared.until.store(0, SeqCst);
    }

    fn is_over(&self) -> MutexGuard<'_, bool> {
        // Nothing panics under it: it guards stores to atomics.
        lock(&self.shared.is_over)
    }

    fn load(&self) -> (SessionNumber, Time) {
        let mut number = self.shared.number.load(SeqCst);
        loop {
            let until = self.shared.until.load(SeqCst);
            let again = self.shared.number.load(SeqCst);
            if again == number {
                return (SessionNumber(number), Time(Duration::from_nanos(until)));
            }
            number = again;
        }
    }
}

/// Rounds down: a time beyond the range ends trust early, after five centuries.
fn nanos(time: Time) -> u64 {
    u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn nothing_is_trusted_before_the_first_session() {
        let trust = TrustHandle::new(Clock::boot(), None);
        assert_eq!(trust.check(), Err(Lapsed { session: None }));
        assert_eq!(trust.remaining(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_of_its_time_a_session_is_not_trusted_any_more() {
        let clock = Clock::runtime();
        let trust = TrustHandle::new(clock.clone(), None);
        trust.grant(SessionNumber(1), clock.now() + Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(999)).await;
        assert_eq!((trust.check(), trust.remaining()), (Ok(SessionNumber(1)), Duration::from_millis(1)));
        trust.grant(SessionNumber(1), clock.now());
        assert_eq!(trust.check(), Err(Lapsed { session: Some(SessionNumber(1)) }));
    }

    #[test]
    fn trust_is_in_one_session_only() {
        let clock = Clock::boot();
        let trust = TrustHandle::new(clock.clone(), None);
        trust.grant(SessionNumber(2), clock.now() + Duration::from_secs(3600));
        assert_eq!(trust.check_session(SessionNumber(2)), Ok(()));
        assert_eq!(trust.check_session(SessionNumber(1)), Err(Lapsed { session: Some(SessionNumber(2)) }));
        trust.lapse();
        assert_eq!(trust.check(), Err(Lapsed { session: Some(SessionNumber(2)) }));
    }

    #[test]
    fn a_lapse_is_noticed_by_the_driver_and_known_to_a_check_before() {
        let trust = TrustHandle::new(Clock::boot(), None);
        assert!(trust.has_lapsed());
        trust.grant(SessionNumber(1), Time(Duration::from_nanos(1)));
        assert!(trust.check().is_err() && !trust.has_lapsed());
        trust.lapse();
        assert!(trust.has_lapsed());
    }

    #[test]
    fn after_the_end_nothing_is_trusted_whatever_a_beat_says() {
        let clock = Clock::boot();
        let trust = TrustHandle::new(clock.clone(), None);
        let later = clock.now() + Duration::from_secs(3600);
        trust.grant(SessionNumber(1), later);
        trust.end();
        assert!(trust.check().is_err() && trust.has_lapsed());
        trust.grant(SessionNumber(1), later);
        trust.grant(SessionNumber(2), later);
        assert!(trust.check().is_err() && trust.has_lapsed());
    }

    /// A reader never sees the time of one session with the number of another.
    #[test]
    fn a_reader_never_sees_the_trust_of_another_session() {
        // Odd sessions are trusted for an hour, even ones never.
        let clock = Clock::boot();
        let trust = TrustHandle::new(clock.clone(), None);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut wrong = 0;
                        while !over.load(SeqCst) {
                            wrong += usize::from(trust.check().is_ok_and(|number| number.0 % 2 == 0));
                        }
                        wrong
                    })
                })
                .collect();
            let later = clock.now() + Duration::from_secs(3600);
            for number in 1..200_000 {
                let until = if number % 2 == 1 { later } else { Time(Duration::from_nanos(1)) };
                trust.grant(SessionNumber(number), until);
            }
            over.store(true, SeqCst);
            let wrong: usize = readers.into_iter().map(|r| r.join().unwrap()).sum();
            assert_eq!(wrong, 0);
        });
    }
}
