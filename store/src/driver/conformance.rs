//! What every backend must do: one suite, run on each.
//!
//! A backend's test makes a [`Subject`] and calls [`run`]; a check that fails panics. Checks are named as sentences.
//! Races are driven by barriers. The suite needs a tokio runtime with time, and asserts no timing: its only deadline is
//! for what never comes.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use super::memory::Fate;
use crate::{CommitOutcome, Key, Read, SharedStore, Transaction, Value, Version};

mod checks;
mod fences;
mod isolation;
mod limits;
mod order;
mod reads;
mod unknown;
mod watches;

/// How long to wait for what must come, before it counts as lost. Longer than any backend is busy.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// A long fight for one key, for [`Subject::fighting_for`].
pub const FIGHT: Duration = Duration::from_secs(10);

/// A backend under test.
#[derive(Clone)]
pub struct Subject {
    connect: Arc<dyn Fn() -> SharedStore + Send + Sync>,
    faulty: Option<Arc<dyn Faulty>>,
    fight: Option<Duration>,
}

/// A connection whose commits can be made to end unknown.
pub trait Faulty: Send + Sync {
    /// Opens another such connection, to the store under test, and lets its next commit end unknown.
    fn connect(&self, fate: Fate) -> SharedStore;

    /// Lets the abandoned transactions land.
    fn land(&self);
}

impl Subject {
    /// A backend; each call of `connect` gives a connection to the same store, a separate one if it can.
    ///
    /// The store may hold other keys than those that begin with `conformance/`.
    pub fn new(connect: impl Fn() -> SharedStore + Send + Sync + 'static) -> Self {
        Self { connect: Arc::new(connect), faulty: None, fight: None }
    }

    /// Says how outcomes are made unknown, for a backend that can: more is checked then.
    #[must_use]
    pub fn with_faults(self, faulty: impl Faulty + 'static) -> Self {
        Self { faulty: Some(Arc::new(faulty)), ..self }
    }

    /// Lets two clients fight for one key for so long, by the wall clock, instead of for some hundred commits. Longer
    /// than a store keeps old versions (`FoundationDB`: 5 s), what was seen before the fight is too old after it. Once for
    /// each store is enough; not under paused time.
    #[must_use]
    pub fn fighting_for(self, time: Duration) -> Self {
        Self { fight: Some(time), ..self }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("has_faults", &self.faulty.is_some()).finish_non_exhaustive()
    }
}

/// Runs every check, one after the other, each on keys of its own. Panics at the first that fails.
pub async fn run(subject: &Subject) {
    for (name, check) in all() {
        // Shown with the panic that follows, if one does.
        println!("{name}");
        let prefix = format!("conformance/{}/{name}/", nonce());
        check(Bed { subject: subject.clone(), prefix }).await;
    }
}

/// Tells the runs on one store apart: keys of an earlier run are not in the way.
fn nonce() -> String {
    format!("{:016x}", rand::random::<u64>())
}

type StoreCheck = fn(Bed) -> BoxFuture<'static, ()>;

macro_rules! list {
    ($($module:ident: $($check:ident)*;)*) => {
        vec![$($((stringify!($check), (|bed| $module::$check(bed).boxed()) as StoreCheck),)*)*]
    };
}

fn all() -> Vec<(&'static str, StoreCheck)> {
    list! {
        reads:
            an_absent_key_has_no_entry_and_an_empty_value_has_one
            answers_come_in_the_order_of_the_reads
            a_range_comes_in_the_order_of_its_keys_without_its_end
            a_range_is_cut_at_its_limit_and_can_be_read_on_behind_the_last
            a_range_that_ends_before_it_starts_is_empty
            cleared_keys_are_gone_and_their_neighbours_are_not
            writes_of_one_transaction_are_applied_in_order;
        checks:
            a_check_compares_values_and_tells_absent_from_empty
            a_check_that_fails_undoes_everything
            a_transaction_that_only_checks_is_answered_like_any_other
            a_fence_passes_while_the_key_is_unwritten_since
            a_fence_is_refused_after_a_write;
        fences:
            nothing_is_appended_behind_the_change_that_it_is_fenced_from;
        isolation:
            what_was_answered_committed_is_seen_on_every_connection
            of_many_that_claim_an_absent_key_one_gets_it
            write_skew_is_refused
            no_contended_increment_is_lost_or_done_twice
            two_clients_that_fight_for_one_key_lose_nothing_and_an_old_version_does_no_harm
            a_read_sees_one_version_while_writers_run;
        order:
            versions_grow_with_commits
            an_append_adds_its_stamp_to_the_prefix_and_sets_the_prefix_to_it
            entries_of_one_transaction_keep_their_order
            entries_of_many_writers_sort_by_their_commits
            at_a_version_all_is_visible_that_was_committed_up_to_it_and_nothing_else;
        watches:
            a_watch_ends_when_the_key_is_put
            a_watch_ends_when_the_key_is_cleared
            a_watch_ends_when_the_key_is_cleared_with_a_range
            a_watch_ends_when_something_is_appended_to_the_key
            a_watch_ends_at_once_if_the_key_has_changed_since
            a_watch_notices_the_commit_of_another_connection
            a_change_between_the_read_and_the_watch_is_not_missed
            all_who_watch_a_key_hear_of_its_change;
        limits:
            a_value_at_the_limit_is_taken_and_a_longer_one_is_refused
            a_key_at_the_limit_is_taken_and_a_longer_one_is_refused
            an_appended_key_counts_with_its_stamp
            a_transaction_above_the_limit_changes_nothing;
        unknown:
            a_dropped_commit_happens_once_or_not_at_all
            an_unknown_commit_may_have_been_applied
            an_unknown_commit_may_never_be_applied
            an_unknown_commit_may_land_later_when_its_author_is_gone
            a_late_landing_is_checked_when_it_lands;
    }
}

/// Where a check takes place.
struct Bed {
    subject: Subject,
    prefix: String,
}

impl Bed {
    fn connect(&self) -> SharedStore {
        (self.subject.connect)()
    }

    fn key(&self, name: impl AsRef<[u8]>) -> Key {
        [self.prefix.as_bytes(), name.as_ref()].concat()
    }
}

/// The number `n` as a value; it differs for each `n`.
fn number(n: u64) -> Value {
    n.to_string().into_bytes()
}

fn put(key: &Key, value: Value) -> Transaction {
    Transaction::new().put(key.clone(), value)
}

/// Waits for what must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(ANSWER_DEADLINE, future).await;
    done.unwrap_or_else(|late| panic!("{what} did not come: {late}"))
}

async fn commit(store: &SharedStore, transaction: Transaction) -> CommitOutcome {
    soon("the outcome of a commit", store.commit(transaction)).await
}

/// Commits, and again while the store is too busy: "unavailable" says that nothing was changed.
async fn decided(store: &SharedStore, transaction: Transaction) -> CommitOutcome {
    let began = tokio::time::Instant::now();
    loop {
        match commit(store, transaction.clone()).await {
            CommitOutcome::Unavailable(_) if began.elapsed() < ANSWER_DEADLINE => {
                tokio::task::yield_now().await;
            }
            outcome => return outcome,
        }
    }
}

/// Commits what nothing stands against.
async fn committed(store: &SharedStore, transaction: Transaction) -> Version {
    match decided(store, transaction).await {
        CommitOutcome::Committed(version) => version,
        other => panic!("not committed: {other:?}"),
    }
}

/// Whether it was committed; panics unless the other is a conflict.
async fn won(store: &SharedStore, transaction: Transaction) -> bool {
    match decided(store, transaction).await {
        CommitOutcome::Committed(_) => true,
        CommitOutcome::Conflict => false,
        other => panic!("neither committed nor a conflict: {other:?}"),
    }
}

async fn read(store: &SharedStore, reads: Vec<Read>) -> crate::ReadResult {
    let asked = reads.len();
    let result = match soon("the answer of a read", store.read(reads)).await {
        Ok(result) => result,
        Err(error) => panic!("nothing was read: {error}"),
    };
    assert_eq!(result.answers.len(), asked, "one answer for each read");
    result
}

async fn value(store: &SharedStore, key: &Key) -> Option<Value> {
    read(store, vec![Read::Key(key.clone())]).await.value(0).cloned()
}

#[cfg(test)]
mod tests;
