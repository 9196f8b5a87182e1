//! A transaction on its way from the call to the commit that takes it along.

use std::time::Instant;

use tokio::sync::oneshot;

use crate::core::transaction::{CommitOutcome, Transaction};

/// A transaction that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) transaction: Transaction,
    /// Until then it is tried again.
    pub(super) deadline: Instant,
    answer: oneshot::Sender<CommitOutcome>,
}

impl Waiting {
    /// With what will be told what became of it.
    pub(super) fn new(
        transaction: Transaction,
        deadline: Instant,
    ) -> (Self, oneshot::Receiver<CommitOutcome>) {
        let (answer, answered) = oneshot::channel();
        (Self { transaction, deadline, answer }, answered)
    }

    /// Says what became of it.
    pub(super) fn answer(self, outcome: CommitOutcome) {
        // Nobody waits any more only if the store's thread ends.
        let _ = self.answer.send(outcome);
    }
}
