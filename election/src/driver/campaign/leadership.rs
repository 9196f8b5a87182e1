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
    versions: watch::Receiver<u64>,
}

struct Shared<F> {
    trusted: ArcSwapOption<Trusted<F>>,
    /// The campaign has ended: nothing is trusted any more.
    is_over: AtomicBool,
    clock: Clock,
}

impl<F> Clone for Leadership<F> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), versions: self.versions.clone() }
    }
}

impl<F: Clone> fmt::Debug for Leadership<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("term", &self.term()).finish_non_exhaustive()
    }
}

impl<F: Clone> Leadership<F> {
    /// The fence to act with, if this member leads now. No lock and no I/O: one load and a reading of the clock.
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
        if self.versions.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn trusted<T>(&self, get: impl FnOnce(&Trusted<F>) -> T) -> Option<T> {
        let trusted = self.shared.trusted.load();
        let trusted = trusted.as_ref()?;
        // The clock is read last: a process that is stopped right before finds that time has passed.
        (!trusted.until.is_over(self.shared.clock.now())).then(|| get(trusted))
    }
}

/// The end of a [`Leadership`] that the driver holds. Dropped with the driver, it ends.
pub(super) struct Seat<F> {
    shared: Arc<Shared<F>>,
    versions: watch::Sender<u64>,
}

impl<F> Seat<F> {
    /// Nobody leads yet.
    pub(super) fn new(clock: Clock) -> (Self, Leadership<F>) {
        let shared =
            Arc::new(Shared { trusted: ArcSwapOption::empty(), is_over: AtomicBool::new(false), clock });
        let (sender, versions) = watch::channel(0);
        (Self { shared: Arc::clone(&shared), versions: sender }, Leadership { shared, versions })
    }

    /// This member leads until then.
    pub(super) fn trust(&self, grant: Grant<F>, until: Until) {
        self.shared.trusted.store(Some(Arc::new(Trusted { grant, until })));
        // Looked at last: whoever ends it does both the other way round.
        if self.shared.is_over.load(SeqCst) {
            self.shared.trusted.store(None);
        }
        self.versions.send_modify(|version| *version += 1);
    }

    /// It does not.
    pub(super) fn lapse(&self) {
        self.shared.trusted.store(None);
        self.versions.send_modify(|version| *version += 1);
    }

    /// It does not, and never will again.
    pub(super) fn end(&self) {
        self.shared.is_over.store(true, SeqCst);
        self.lapse();
    }
}

impl<F> Drop for Seat<F> {
    fn drop(&mut self) {
        self.end();
    }
}
