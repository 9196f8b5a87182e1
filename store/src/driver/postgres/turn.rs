//! Transactions of this process that wait for their turn take it together.
//!
//! All commits to a database come one after the other, and each waits until its COMMIT is on the disk. Several registries of a node would
//! wait for each other, and each for all. So whoever has the turn takes along all that wait: one COMMIT for all, and a version for each.

use std::{collections::BTreeMap, sync::Mutex, time::Instant};

use tokio::sync::oneshot;

use super::{commit::commit, line::Line, waiting::Waiting};
use crate::{
    core::transaction::{CommitOutcome, Transaction},
    driver::{failures::Failures, lock::lock},
};

/// How many go together at most. More would cost the first of them time, and one that the server refuses costs all a second attempt.
const MOST_TOGETHER: usize = 32;
/// How many writes they have at most, unless one alone has more.
const MOST_WRITES: usize = 4096;

/// Whose turn it is, and who waits for it.
#[derive(Default)]
pub(super) struct CommitTurn {
    /// Whose turn it is counts what failed.
    turn: tokio::sync::Mutex<Failures>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    /// By number, in their order.
    waiting: BTreeMap<u64, Waiting>,
}

impl CommitTurn {
    /// Commits a transaction that writes, alone or with others. Waits for its turn until the deadline.
    pub(super) async fn commit(
        &self,
        line: &Line,
        transaction: Transaction,
        deadline: Instant,
    ) -> CommitOutcome {
        let (waiting, mut answered) = Waiting::new(transaction, deadline);
        let number = lock(&self.queue).put(waiting);
        tokio::select! {
            biased;
            // Somebody took it along.
            outcome = &mut answered => return outcome.unwrap_or(CommitOutcome::Unknown),
            mut failures = self.turn.lock() => loop {
                match answered.try_recv() {
                    Ok(outcome) => return outcome,
                    Err(oneshot::error::TryRecvError::Closed) => return CommitOutcome::Unknown,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                let next = lock(&self.queue).take();
                commit(line, next, &mut failures).await;
            },
            () = tokio::time::sleep_until(deadline.into()) => {}
        }
        if lock(&self.queue).waiting.remove(&number).is_some() {
            return CommitOutcome::Unavailable("earlier commits of this process are not done".to_owned());
        }
        answered.await.unwrap_or(CommitOutcome::Unknown)
    }
}

#[cfg(test)]
impl CommitTurn {
    /// How many wait, beside those that go.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.queue).waiting.len()
    }
}

impl Queue {
    fn put(&mut self, waiting: Waiting) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, waiting);
        self.next
    }

    /// Takes those that go next.
    fn take(&mut self) -> Vec<Waiting> {
        let mut writes = 0;
        let fits = |one: &&Waiting| {
            writes += one.transaction.writes.len();
            writes <= MOST_WRITES
        };
        let many = self.waiting.values().take(MOST_TOGETHER).take_while(fits).count().max(1);
        std::iter::from_fn(|| self.waiting.pop_first()).take(many).map(|(_, one)| one).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::{
        super::tests::wire::{self, Said},
        *,
    };
    use crate::testing::TEST_DEADLINE;

    fn queue(writes: &[usize]) -> Queue {
        let mut queue = Queue::default();
        for (number, writes) in writes.iter().enumerate() {
            let put = |transaction: Transaction, _| transaction.put(number.to_be_bytes().to_vec(), vec![]);
            let transaction = (0..*writes).fold(Transaction::new(), put);
            queue.put(Waiting::new(transaction, Instant::now()).0);
        }
        queue
    }

    fn taken(queue: &mut Queue) -> Vec<usize> {
        queue.take().iter().map(|one| one.transaction.writes.len()).collect()
    }

    #[test]
    fn the_first_go_together_and_one_that_is_large_goes_alone() {
        let mut some = queue(&[1, MOST_WRITES - 1, 1, MOST_WRITES + 1, 2, 3]);
        assert_eq!(taken(&mut some), [1, MOST_WRITES - 1]);
        assert_eq!(taken(&mut some), [1]);
        assert_eq!(taken(&mut some), [MOST_WRITES + 1]);
        assert_eq!(taken(&mut some), [2, 3]);
        assert_eq!(taken(&mut some), [0; 0]);
        let mut many = queue(&[1; MOST_TOGETHER + 2]);
        assert_eq!(taken(&mut many).len(), MOST_TOGETHER);
        assert_eq!(taken(&mut many).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_whose_turn_does_not_come_in_time_was_not_done_and_waits_no_more() {
        let (line, _session) = wire::line(|_| Said::Nothing).await;
        let turn = CommitTurn::default();
        let put = || Transaction::new().put(b"k".to_vec(), vec![]);
        let mut first = pin!(turn.commit(&line, put(), Instant::now() + TEST_DEADLINE));
        assert!(poll!(&mut first).is_pending());
        let late = turn.commit(&line, put(), Instant::now()).await;
        let why = "earlier commits of this process are not done";
        assert_eq!(late, CommitOutcome::Unavailable(why.to_owned()));
        assert_eq!(turn.waiting(), 0);
        assert_eq!(first.await, CommitOutcome::Unknown, "nobody answers it");
    }
}
