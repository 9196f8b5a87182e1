//! A store that counts what is asked of it, and knows what its watchers have seen.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use callsign_store::{
    CommitOutcome, Key, Read, ReadResult, SharedStore, Store, StoreError, Transaction, Version,
};
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Counts keys read, and transactions and their writes; of ranges, their entries.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    store: SharedStore,
    counts: Arc<[AtomicUsize; 3]>,
    /// Since when somebody watches, last.
    watching: Arc<watch::Sender<Version>>,
}

impl Counting {
    pub(super) fn new(store: SharedStore) -> Self {
        Self { store, counts: Arc::default(), watching: Arc::new(watch::Sender::new(Version(0))) }
    }

    /// Waits until somebody watches who has seen this version.
    pub(super) async fn watched_since(&self, version: Version) {
        let mut watching = self.watching.subscribe();
        watching.wait_for(|since| *since >= version).await.expect("its sender is here");
    }

    /// Keys read, writes and transactions since the last time.
    pub(super) fn take(&self) -> (usize, usize, usize) {
        let [reads, writes, commits] = &*self.counts;
        (reads.swap(0, SeqCst), writes.swap(0, SeqCst), commits.swap(0, SeqCst))
    }
}

impl Store for Counting {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let keys = reads.iter().filter(|read| matches!(read, Read::Key(_))).count();
        let (read, counts) = (self.store.read(reads.clone()), self.counts.clone());
        Box::pin(async move {
            let result = read.await?;
            let ranged = reads.iter().zip(&result.answers);
            let entries: usize =
                ranged.filter(|(r, _)| matches!(r, Read::Range { .. })).map(|(_, found)| found.len()).sum();
            counts[0].fetch_add(keys + entries, SeqCst);
            Ok(result)
        })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.counts[1].fetch_add(transaction.writes.len(), SeqCst);
        self.counts[2].fetch_add(1, SeqCst);
        self.store.commit(transaction)
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        self.watching.send_replace(since);
        self.store.watch(key, since)
    }

    callsign_store::forward_to_store! { store: nature }
}
