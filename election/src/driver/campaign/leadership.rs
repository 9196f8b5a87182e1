//! Whether this member leads, for everybody in the process.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use callsign_store::clock::Clock;
use tokio::sync::watch;

use crate::{
    core::{campaign::Until, term::Term},
    oracle::Grant,
};

/// This member does not lead, or not any more: nothing may be done in the name of the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("this member does not lead now")]
pub struct Lapsed;

/// A grant, and until when it is trusted.
#[derive(Debug)]
struct Trusted<F> {
    grant: Grant<F>,
    until: Until,
}

/// Tells whether this member leads. Cheap to clone.
///
/// It compares the clock with the end of trust, so it says no as soon as that time has passed, even if nothing else
/// in the process has run since: after a SIGSTOP, a suspend, or a panic of the driver. It may say so a moment before
/// subscribers get `Following`.
///
/// It says yes from the grant on, before `Leading` is published: a role acts while it is being activated. Whoever has
/// to wait for the role subscribes to the campaign.
pub struct Leadership<F> {
    shared: Arc<Shared<F>>,
    changes: watch::Receiver<()>,
}

struct Shared<F> {
    trusted: ArcSwapOption<Trusted<F>>,
    /// The campaign has ended: nothing is trusted any more.
    is_over: AtomicBool,
    clock: Clock,
}

impl<F> Clone for Leadership<F> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), changes: self.changes.clone() }
    }
}

impl<F: Clone> fmt::Debug for Leadership<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("term", &self.term()).finish_non_exhaustive()
    }
}

impl<F: Clone> Leadership<F> {
    /// The fence to act with, if this member leads now. No lock and no I/O: two loads and a reading of the clock.
    pub fn check(&self) -> Result<F, Lapsed> {
        self.trusted(|trusted| trusted.grant.fence.clone()).ok_or(Lapsed)
    }

    /// The term in which this member leads now. Costs as much as [`check`](Self::check).
    pub fn term(&self) -> Option<Term> {
        self.trusted(|trusted| trusted.grant.term.clone())
    }

    /// The last grant of the term in which this member leads now.
    pub fn grant(&self) -> Option<Grant<F>> {
        self.trusted(|trusted| trusted.grant.clone())
    }

    /// How much longer this member leads if no refresh comes through. Zero if it does not lead; [`Duration::MAX`] if
    /// no clock ends it.
    ///
    /// The stop budget comes on top: the role has it to stop, and the lease does not end elsewhere before.
    pub fn remaining(&self) -> Duration {
        self.until().map_or(Duration::ZERO, |until| until.left(self.shared.clock.now()))
    }

    /// Until when this member leads if no refresh comes through, by [`clock`](Self::clock). `None` if it does not lead.
    pub fn until(&self) -> Option<Until> {
        self.trusted(|trusted| trusted.until)
    }

    /// The clock that trust is measured by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Waits until something changed since this was last called on this clone: a grant, a refresh, an end that the
    /// campaign noticed. At once if something did. When the campaign has ended, it waits forever.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn trusted<T>(&self, get: impl FnOnce(&Trusted<F>) -> T) -> Option<T> {
        let trusted = self.shared.trusted.load();
        let trusted = trusted.as_ref()?;
        // A grant that came too late is there for a moment, until `trust` sees that it did.
        if self.shared.is_over.load(SeqCst) {
            return None;
        }
        // The clock is read last: a process that is stopped right before finds that time has passed.
        (!trusted.until.is_over(self.shared.clock.now())).then(|| get(trusted))
    }
}

/// The end of a [`Leadership`] that the driver holds. Dropped with the driver, it ends.
pub(super) struct LeadershipSeat<F> {
    shared: Arc<Shared<F>>,
    changes: watch::Sender<()>,
}

impl<F> LeadershipSeat<F> {
    /// Nobody leads yet.
    pub(super) fn new(clock: Clock) -> (Self, Leadership<F>) {
        let shared =
            Arc::new(Shared { trusted: ArcSwapOption::empty(), is_over: AtomicBool::new(false), clock });
        let (sender, changes) = watch::channel(());
        (Self { shared: Arc::clone(&shared), changes: sender }, Leadership { shared, changes })
    }

    /// This member leads until then.
    pub(super) fn trust(&self, grant: Grant<F>, until: Until) {
        self.shared.trusted.store(Some(Arc::new(Trusted { grant, until })));
        // Looked at last: whoever ends it does both the other way round.
        if self.shared.is_over.load(SeqCst) {
            self.shared.trusted.store(None);
        }
        self.changes.send_replace(());
    }

    /// It does not.
    pub(super) fn lapse(&self) {
        self.shared.trusted.store(None);
        self.changes.send_replace(());
    }

    /// It does not, and never will again.
    pub(super) fn end(&self) {
        self.shared.is_over.store(true, SeqCst);
        self.lapse();
    }
}

impl<F> Drop for LeadershipSeat<F> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{Epoch, Incarnation, MemberId};

    use super::*;
    use crate::{core::term::AuthorityTime, oracle::Validity};

    fn grant(fence: u8) -> Grant<u8> {
        let term = Term {
            leader: MemberId::new("a").unwrap(),
            incarnation: Incarnation(1),
            epoch: Epoch(fence.into()),
            elected_at: AuthorityTime(0),
        };
        Grant { term, fence, validity: Validity::UntilRevoked, refresh_in: None }
    }

    /// Whether something has changed. It does not wait for it.
    async fn has_changed(leadership: &mut Leadership<u8>) -> bool {
        tokio::time::timeout(Duration::from_secs(1), leadership.changed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_holds_from_a_grant_to_its_end_and_each_change_is_told() {
        let clock = Clock::runtime();
        let (seat, mut leadership) = LeadershipSeat::new(clock.clone());
        let heard = async |seen: &mut Leadership<u8>| (has_changed(seen).await, seen.check());
        assert_eq!(heard(&mut leadership).await, (false, Err(Lapsed)));
        assert_eq!((leadership.term(), leadership.remaining()), (None, Duration::ZERO));

        let until = Until::At(clock.now() + Duration::from_secs(10));
        seat.trust(grant(1), until);
        assert_eq!(heard(&mut leadership).await, (true, Ok(1)));
        assert_eq!((leadership.grant(), leadership.until()), (Some(grant(1)), Some(until)));
        assert_eq!(leadership.remaining(), Duration::from_secs(10));
        assert_eq!(heard(&mut leadership).await, (false, Ok(1)));

        tokio::time::sleep(leadership.remaining()).await;
        assert_eq!(leadership.check(), Err(Lapsed), "time is enough to end it");
        seat.trust(grant(2), Until::Revoked);
        assert_eq!(heard(&mut leadership).await, (true, Ok(2)));
        assert_eq!(leadership.remaining(), Duration::MAX);
        seat.lapse();
        assert_eq!(heard(&mut leadership).await, (true, Err(Lapsed)));
        seat.trust(grant(3), Until::Revoked);
        assert_eq!(heard(&mut leadership).await, (true, Ok(3)));

        seat.end();
        assert_eq!(heard(&mut leadership).await, (true, Err(Lapsed)));
        // A grant that was on its way.
        seat.trust(grant(4), Until::Revoked);
        assert_eq!(leadership.check(), Err(Lapsed));
    }

    #[test]
    fn after_the_end_not_even_a_grant_that_is_just_being_noted_is_trusted() {
        let (seat, leadership) = LeadershipSeat::new(Clock::boot());
        seat.end();
        // The first half of `trust`.
        let trusted = Trusted { grant: grant(5), until: Until::Revoked };
        seat.shared.trusted.store(Some(Arc::new(trusted)));
        assert_eq!(leadership.check(), Err(Lapsed));
        assert_eq!((leadership.term(), leadership.until()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_driver_and_nobody_is_told_again_and_again() {
        let (seat, mut leadership) = LeadershipSeat::new(Clock::runtime());
        seat.trust(grant(1), Until::Revoked);
        assert!(has_changed(&mut leadership).await);
        drop(seat);
        assert_eq!(leadership.check(), Err(Lapsed));
        assert!(has_changed(&mut leadership).await);
        assert!(!has_changed(&mut leadership).await);
    }
}
