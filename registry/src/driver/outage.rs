//! Whether the store takes commits, as far as this node's own commits tell, and what calls do while it does not; and how much this
//! node asks of the store.
//!
//! Decides nothing of the protocol: a call that is refused here was never handed to the member.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use callsign_store::{
    Clock, CommitOutcome, Key, Read, ReadResult, SharedStore, Store, StoreError, Transaction, Version,
};
use futures::{FutureExt, future::BoxFuture};

use super::metrics::AskedCounters;

/// After so long without an answer, the store counts as gone. Shorter: a slow commit is taken for an outage. Longer:
/// calls that are to fail at once are sent to a store that hangs.
const UNANSWERED: Duration = Duration::from_secs(2);

/// What this node's commits say of the store.
#[derive(Debug)]
pub(crate) struct Outage {
    clock: Clock,
    /// Since when no commit was done, in nanoseconds of the clock, and one more; 0: the last one was.
    since: AtomicU64,
}

impl Outage {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, since: AtomicU64::new(0) })
    }

    /// For how long no commit was done, though some were tried. `None`: as far as is known, the store takes commits.
    ///
    /// The node's session commits once in a fifth of its lease, so that both its end and its beginning are noticed soon.
    pub(crate) fn lasting(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.clock.now().0.saturating_sub(Duration::from_nanos(since)))
    }

    fn begin(&self) {
        let now = u64::try_from(self.clock.now().0.as_nanos()).unwrap_or(u64::MAX - 1);
        // Only its first sign counts.
        let _ = self.since.compare_exchange(0, now + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn note(&self, outcome: &CommitOutcome) {
        match outcome {
            CommitOutcome::Unavailable(_) | CommitOutcome::Unknown => self.begin(),
            CommitOutcome::Committed(_) | CommitOutcome::Conflict => self.since.store(0, Ordering::Relaxed),
            // Refused without asking anybody.
            CommitOutcome::TooLarge(_) => {}
        }
    }
}

/// A store that is listened to.
#[derive(Debug)]
pub(crate) struct Observed {
    store: SharedStore,
    outage: Arc<Outage>,
    asked: AskedCounters,
}

impl Observed {
    pub(crate) fn over(store: SharedStore, outage: Arc<Outage>) -> SharedStore {
        Arc::new(Self { store, outage, asked: AskedCounters::new() })
    }
}

impl Store for Observed {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        self.asked.read(reads.len());
        self.store.read(reads)
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        self.asked.watch();
        self.store.watch(key, since)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.asked.commit(transaction.writes.len());
        let (commit, outage) = (self.store.commit(transaction), self.outage.clone());
        async move {
            let mut commit = pin!(commit);
            let outcome = if let Ok(outcome) = tokio::time::timeout(UNANSWERED, commit.as_mut()).await {
                outcome
            } else {
                outage.begin();
                commit.await
            };
            outage.note(&outcome);
            outcome
        }
        .boxed()
    }

    callsign_store::forward_to_store! { store: nature }
}

#[cfg(test)]
mod tests {
    use callsign_store::{
        keys::read_range,
        memory::{Fate, Fault, MemoryStore},
    };
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn put() -> Transaction {
        Transaction::new().put(b"k".to_vec(), vec![])
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_lasts_from_the_first_commit_that_was_not_done_until_one_is() {
        let memory = MemoryStore::new();
        let outage = Outage::new(Clock::runtime());
        let store = Observed::over(Arc::new(memory.connect("a")), outage.clone());
        store.commit(put()).await;
        assert_eq!(outage.lasting(), None);
        memory.outage_for_all();
        store.commit(put()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        store.commit(put()).await;
        assert_eq!(outage.lasting(), Some(Duration::from_secs(3)), "since its first sign");
        memory.heal_all();
        store.commit(put().check(b"k".to_vec(), None)).await;
        assert_eq!(outage.lasting(), None, "a conflict is an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_without_an_answer_is_a_sign_of_an_outage_until_it_has_one() {
        let memory = MemoryStore::new();
        let outage = Outage::new(Clock::runtime());
        let connection = memory.connect("a");
        let hold = connection.hold_commits();
        let store = Observed::over(Arc::new(connection), outage.clone());
        let commit = tokio::spawn(store.commit(put()));
        tokio::time::sleep(UNANSWERED / 2).await;
        assert_eq!(outage.lasting(), None, "it may be slow");
        tokio::time::sleep(UNANSWERED).await;
        assert_eq!(outage.lasting(), Some(UNANSWERED / 2));
        drop(hold);
        assert!(matches!(commit.await.unwrap(), CommitOutcome::Committed(_)));
        assert_eq!(outage.lasting(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_of_the_store_is_counted_and_asked_of_it() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _here = ::metrics::set_default_local_recorder(&recorder);
        let memory = MemoryStore::new();
        let store = Observed::over(Arc::new(memory.connect("a")), Outage::new(Clock::runtime()));
        let two = Transaction::new().put(b"k".to_vec(), vec![1]).put(b"l".to_vec(), vec![2]);
        let CommitOutcome::Committed(version) = store.commit(two).await else {
            panic!("nothing is in its way")
        };
        let all = b"a".to_vec()..b"z".to_vec();
        let keys = [b"k", b"l"].map(|key| Read::Key(key.to_vec()));
        let read = store.read(keys.into_iter().chain([read_range(all, 10)]).collect()).await.unwrap();
        assert_eq!(read.answers.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
        let rings = tokio::spawn(store.watch(b"k".to_vec(), version));
        store.commit(put()).await;
        rings.await.unwrap().unwrap();
        let seen = callsign_golden::Seen::by(&counted);
        let requests = |what| seen.get("callsign_store_requests_total", &format!("request={what}"));
        let keys = |what| seen.get("callsign_store_keys_total", &format!("request={what}"));
        assert_eq!((requests("read"), requests("commit"), requests("watch")), (1, 2, 1));
        assert_eq!((keys("read"), keys("commit")), (3, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_says_nothing_of_the_store_and_an_unknown_outcome_does() {
        let memory = MemoryStore::new();
        let outage = Outage::new(Clock::runtime());
        let connection = memory.connect("a");
        connection.inject(Fault::Unknown(Fate::Applied));
        let store = Observed::over(Arc::new(connection), outage.clone());
        assert_eq!(store.commit(put()).await, CommitOutcome::Unknown);
        assert!(outage.lasting().is_some());
        let large = Transaction::new().put(b"k".to_vec(), vec![0; 200_000]);
        assert!(matches!(store.commit(large).await, CommitOutcome::TooLarge(_)));
        assert!(outage.lasting().is_some());
    }
}
