//! Commits a transaction.

use std::time::Instant;

use foundationdb::{
    FdbError, FdbResult, Transaction as Begun, TransactionCommitError, options::TransactionOption,
};
use futures::future::join_all;

use super::{
    LIMITS, OPERATION_TIMEOUT, Shared, fence, read,
    trouble::{self, FdbMeaning, in_words},
    version,
};
use crate::core::transaction::{CommitOutcome, Limits, Piece, TooLarge, Transaction, Write};

/// What came of one attempt.
enum FdbAttempt {
    Done(CommitOutcome),
    /// Nothing was changed, and nothing will be; another attempt may do better. The outcome is for whoever has no time
    /// for one.
    Again(CommitOutcome),
}

pub(super) async fn commit(shared: &Shared, transaction: Transaction) -> CommitOutcome {
    if let Some(broken) = LIMITS.broken_by(&transaction).or_else(|| broken_by_ranges(&transaction)) {
        return CommitOutcome::TooLarge(broken);
    }
    let deadline = Instant::now() + OPERATION_TIMEOUT;
    let mut pin = shared.recent.pin(&transaction.checks);
    loop {
        let attempt = if changes_nothing(&transaction) {
            only_check(shared, &transaction, deadline).await
        } else {
            // Once: what is refused by conflict ranges alone may still hold.
            attempt(shared, &transaction, pin.take(), deadline).await
        };
        match attempt {
            FdbAttempt::Done(CommitOutcome::Unknown) => return CommitOutcome::Unknown,
            FdbAttempt::Done(outcome) => return told(shared, outcome),
            FdbAttempt::Again(outcome) if Instant::now() >= deadline => return told(shared, outcome),
            FdbAttempt::Again(_) => {}
        }
    }
}

/// Notes that this outcome is known.
fn told(shared: &Shared, outcome: CommitOutcome) -> CommitOutcome {
    shared.failures().answered(&outcome);
    outcome
}

fn broken_by_ranges(transaction: &Transaction) -> Option<TooLarge> {
    let (size, limit) = (fence::size(transaction), Limits::FOUNDATIONDB.transaction);
    (size > limit).then_some(TooLarge { what: Piece::Transaction, size, limit })
}

fn changes_nothing(transaction: &Transaction) -> bool {
    let is_empty = |write: &Write| matches!(write, Write::ClearRange(range) if range.start >= range.end);
    transaction.writes.iter().all(is_empty)
}

/// A transaction without writes: all its checks held at the version at which its keys were read.
async fn only_check(shared: &Shared, transaction: &Transaction, deadline: Instant) -> FdbAttempt {
    let begun = match begin(shared, deadline) {
        Ok(begun) => begun,
        Err(error) => return refused(error),
    };
    let looked = async { Ok::<_, FdbError>((read::at(&begun).await?, holds(&begun, transaction).await?)) };
    match looked.await {
        Ok((version, true)) => {
            shared.recent.saw(version);
            FdbAttempt::Done(CommitOutcome::Committed(version))
        }
        Ok((_, false)) => FdbAttempt::Done(CommitOutcome::Conflict),
        Err(error) => not_sent(shared, error, deadline).await,
    }
}

async fn attempt(
    shared: &Shared,
    transaction: &Transaction,
    pin: Option<i64>,
    deadline: Instant,
) -> FdbAttempt {
    let begun = match begin(shared, deadline) {
        Ok(begun) => begun,
        Err(error) => return refused(error),
    };
    if let Some(version) = pin {
        begun.set_read_version(version);
    } else if !transaction.checks.is_empty() {
        match holds(&begun, transaction).await {
            Ok(true) => {}
            Ok(false) => return FdbAttempt::Done(CommitOutcome::Conflict),
            Err(error) => return not_sent(shared, error, deadline).await,
        }
    }
    if let Err(error) =
        fence::check(&begun, &transaction.checks).and_then(|()| fence::write(&begun, transaction))
    {
        return refused(error);
    }
    let stamp = begun.get_versionstamp();
    match begun.commit().await {
        Ok(committed) => {
            let stamp = stamp.await;
            // Kept until then: the stamp is the transaction's.
            drop(committed);
            done(shared, stamp.ok().as_deref())
        }
        Err(error) => not_done(shared, transaction, error).await,
    }
}

/// It is committed, and the library says where.
fn done(shared: &Shared, stamp: Option<&[u8]>) -> FdbAttempt {
    let Some(version) = stamp.and_then(version::of_stamp) else {
        crate::logged!(error, "FoundationDB committed a transaction and did not say where");
        return FdbAttempt::Done(CommitOutcome::Unknown);
    };
    shared.recent.saw(version);
    FdbAttempt::Done(CommitOutcome::Committed(version))
}

/// An error came in place of the answer.
async fn not_done(shared: &Shared, transaction: &Transaction, error: TransactionCommitError) -> FdbAttempt {
    match trouble::of_commit(error.code()) {
        // Looked at again, without a pause: another attempt compares.
        FdbMeaning::Conflict => FdbAttempt::Again(CommitOutcome::Conflict),
        FdbMeaning::Again => {
            let why = in_words(*error);
            // The client's own pause. What it cannot pause for is tried again at once, until the deadline.
            let _ = error.on_error().await;
            FdbAttempt::Again(CommitOutcome::Unavailable(why))
        }
        FdbMeaning::Refused => refused(*error),
        FdbMeaning::TooLarge => {
            let (size, limit) = (fence::size(transaction), Limits::FOUNDATIONDB.transaction);
            FdbAttempt::Done(CommitOutcome::TooLarge(TooLarge { what: Piece::Transaction, size, limit }))
        }
        FdbMeaning::Unknown => {
            shared.failures().note(&in_words(*error));
            FdbAttempt::Done(CommitOutcome::Unknown)
        }
    }
}

fn begin(shared: &Shared, deadline: Instant) -> FdbResult<Begun> {
    let begun = shared.begin(deadline)?;
    // Writes go out in the order in which they come, reads see what was there before.
    begun.set_option(TransactionOption::ReadYourWritesDisable)?;
    Ok(begun)
}

/// Whether all checks hold at the transaction's read version.
async fn holds(begun: &Begun, transaction: &Transaction) -> FdbResult<bool> {
    let checks = transaction.checks.iter().map(|check| async move {
        read::value(begun, &check.key).await.map(|found| found == check.expected)
    });
    join_all(checks).await.into_iter().try_fold(true, |all, held| Ok(all && held?))
}

/// Nothing was sent.
async fn not_sent(shared: &Shared, error: FdbError, deadline: Instant) -> FdbAttempt {
    match shared.pause(error, deadline).await {
        Ok(()) => FdbAttempt::Again(CommitOutcome::Unavailable(in_words(error))),
        Err(why) => FdbAttempt::Done(CommitOutcome::Unavailable(why)),
    }
}

fn refused(error: FdbError) -> FdbAttempt {
    FdbAttempt::Done(CommitOutcome::Unavailable(in_words(error)))
}
