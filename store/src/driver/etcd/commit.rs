//! Commits a transaction.
//!
//! It is sent once. Only where etcd says that it did nothing, or where there was no connection to send it on, it is sent
//! again. Everything else that comes in place of an answer leaves the outcome unknown: a stream that was reset, a member
//! that died, a time that was up, an error that is not known here.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{
    ANSWER_TIMEOUT, EtcdShared,
    member::{EtcdNotConnected, EtcdSession},
    plan::{self, Plan},
    trouble::{Meaning, in_words, meaning},
};
use crate::{
    core::transaction::{CommitOutcome, Transaction, Version},
    driver::lock::lock,
};

/// Before the same is asked again: about the time of some commits.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// What came of one attempt.
enum EtcdAttempt {
    Done(CommitOutcome),
    /// Nothing was changed, and nothing will be, for this reason; another attempt may do better.
    Again(String),
    /// Nothing was changed: another has taken the place, and the next one is known.
    Overtaken,
    /// What became of it is not known, for this reason.
    Unknown(String),
}

/// The place that the last append of all took, as far as this process knows, and whose turn it is to take the next one.
#[derive(Debug, Default)]
pub(super) struct Places {
    turn: Arc<tokio::sync::Mutex<()>>,
    taken: Mutex<Option<u64>>,
}

impl Places {
    fn taken(&self) -> Option<u64> {
        *lock(&self.taken)
    }

    fn saw(&self, taken: Option<u64>) {
        *lock(&self.taken) = taken;
    }
}

/// Commits a transaction. Waits, and tries again, until the deadline; an attempt that is under way then is waited for.
pub(super) async fn commit(
    shared: &EtcdShared,
    transaction: &Transaction,
    deadline: Instant,
) -> CommitOutcome {
    // Appends of one process take turns: two of them would only overtake each other.
    let _turn = if plan::appends(transaction) {
        let turn = shared.places.turn.clone().lock_owned();
        let Ok(turn) = tokio::time::timeout_at(deadline.into(), turn).await else {
            let why = "earlier commits of this process are not done";
            return CommitOutcome::Unavailable(why.to_owned());
        };
        Some(turn)
    } else {
        None
    };
    loop {
        let session = match shared.line.session(deadline).await {
            Ok(session) => session,
            Err(why) => return CommitOutcome::Unavailable(why),
        };
        let address = &session.place.address;
        let taken = shared.places.taken();
        let plan = match plan::plan(address, &session.place.identity, transaction, taken) {
            Ok(plan) => plan,
            Err(broken) => return CommitOutcome::TooLarge(broken),
        };
        let why = match attempt(shared, &session, plan).await {
            EtcdAttempt::Done(outcome) => {
                shared.failures().answered(&outcome);
                return outcome;
            }
            EtcdAttempt::Unknown(why) => {
                shared.failures().note(&why);
                // A transaction without writes has nothing whose outcome could be unknown.
                if transaction.writes.is_empty() {
                    return CommitOutcome::Unavailable(why);
                }
                return CommitOutcome::Unknown;
            }
            EtcdAttempt::Overtaken => "others append all the time".to_owned(),
            EtcdAttempt::Again(why) => {
                tokio::time::sleep(RETRY_PAUSE.mul_f64(rand::random_range(0.25..1.0))).await;
                why
            }
        };
        if Instant::now() >= deadline {
            return CommitOutcome::Unavailable(why);
        }
    }
}

async fn attempt(shared: &EtcdShared, session: &EtcdSession, plan: Plan) -> EtcdAttempt {
    let Plan { request, place } = plan;
    let answer = match timeout(ANSWER_TIMEOUT, session.call(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => {
            let why = in_words(&status);
            return match meaning(&status) {
                Meaning::Refused => EtcdAttempt::Done(CommitOutcome::Unavailable(why)),
                // A second token was of no use either.
                Meaning::Token => EtcdAttempt::Again(why),
                Meaning::Again => {
                    session.give_up();
                    EtcdAttempt::Again(why)
                }
                Meaning::Unknown => {
                    session.give_up();
                    EtcdAttempt::Unknown(why)
                }
            };
        }
        Err(_) => {
            session.give_up();
            return EtcdAttempt::Unknown(EtcdNotConnected::Silent.to_string());
        }
    };
    let version = Version(answer.revision().unsigned_abs());
    if answer.succeeded {
        session.place.newest.saw(version);
        if let Some(place) = place {
            shared.places.saw(Some(place));
        }
        return EtcdAttempt::Done(CommitOutcome::Committed(version));
    }
    if answer.value(0) != Some(session.place.identity.as_slice()) {
        session.give_up();
        return EtcdAttempt::Done(CommitOutcome::Unavailable(EtcdNotConnected::Replaced.to_string()));
    }
    // Not before it is known whose revision that is.
    session.place.newest.saw(version);
    let Some(place) = place else { return EtcdAttempt::Done(CommitOutcome::Conflict) };
    let taken = answer.value(1).and_then(|value| value.try_into().ok()).map(u64::from_be_bytes);
    if taken.map_or(1, |taken| taken + 1) == place {
        return EtcdAttempt::Done(CommitOutcome::Conflict);
    }
    shared.places.saw(taken);
    EtcdAttempt::Overtaken
}
