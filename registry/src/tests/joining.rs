//! Joining beside what former nodes left behind, and after a former self.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use callsign_elector::{
    record::{AuthorRecord, SessionRecord},
    session::SessionTiming,
};
use callsign_store::{
    CommitOutcome, Read, ReadResult, SharedStore, Store, StoreError, Transaction,
    ids::{Beat, ClusterName, Incarnation, NodeName, RegistryName, Sequence, SessionNumber},
    keys::ClusterKeys,
    record::Record,
};
use futures::{FutureExt, future::BoxFuture};

use crate::{
    Registry,
    config::StoreSource,
    tests::driver::{Cluster, TEST_DEADLINE},
};

/// More than anybody ever took in at once.
const DEAD: usize = 10_050;
/// So many names come and go within an hour.
const SWEPT: usize = 10_000;

/// A store that counts what is read of it.
#[derive(Debug)]
struct Counting {
    store: SharedStore,
    rows: Arc<AtomicUsize>,
}

impl Store for Counting {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let (answer, rows) = (self.store.read(reads), self.rows.clone());
        async move {
            let read = answer.await?;
            rows.fetch_add(read.answers.iter().map(|answer| answer.len().max(1)).sum(), Relaxed);
            Ok(read)
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.store.commit(transaction)
    }

    callsign_store::forward_to_store! { store: watch nature }
}

/// What nodes left behind that came and went, all of them within the last hour.
async fn leave_behind(cluster: &Cluster, dead: usize) {
    let keys = ClusterKeys::new(&ClusterName::new("default").unwrap());
    let registry = keys.registry(&RegistryName::new("default").unwrap());
    let store = cluster.store.connect("dead");
    for from in (0..dead).step_by(500) {
        let mut transaction = Transaction::new();
        for nth in from..dead.min(from + 500) {
            let node = NodeName::new(format!("pod-{nth:06}")).unwrap();
            let record = SessionRecord {
                incarnation: Incarnation(7),
                number: SessionNumber(1),
                lease: Duration::from_secs(10),
                beat: Beat(3),
                open: false,
            };
            transaction = transaction
                .put(keys.session(&node), record.to_value())
                .put(registry.author(&node), AuthorRecord { sequence: Sequence(3) }.to_value());
        }
        assert!(matches!(store.commit(transaction).await, CommitOutcome::Committed(_)));
    }
}

/// Joins as a second node, and says how many rows were read until it was ready.
async fn rows_of_a_join(dead: usize) -> usize {
    let cluster = Cluster::new();
    leave_behind(&cluster, dead).await;
    // It sorts behind all of them.
    let first = cluster.node("x").await;
    let rows = Arc::new(AtomicUsize::new(0));
    let store = Counting { store: Arc::new(cluster.store.connect("z")), rows: rows.clone() };
    let mut config = cluster.config("z");
    config.store = StoreSource::Open(Arc::new(store));
    let second = Registry::join(config).await.unwrap();
    assert!(second.ready(TEST_DEADLINE).await.is_ok(), "{:?}", second.status());
    assert_eq!(first.members().len(), 2);
    rows.load(Relaxed)
}

#[tokio::test(start_paused = true)]
async fn names_that_came_and_went_cost_a_join_nothing() {
    let (none, many) = (rows_of_a_join(0).await, rows_of_a_join(DEAD).await);
    assert!(many <= none + none / 5 + 20, "{many} rows were read beside the dead, {none} without them");
}

#[tokio::test(start_paused = true)]
async fn what_was_left_behind_is_swept_away_after_an_hour_or_two() {
    let cluster = Cluster::new();
    leave_behind(&cluster, SWEPT).await;
    let node = cluster.node("x").await;
    let keys = ClusterKeys::new(&ClusterName::new("default").unwrap());
    let registry = keys.registry(&RegistryName::new("default").unwrap());
    let left = async || {
        let ranges = [keys.sessions(), registry.authors()];
        let reads = ranges.map(|range| Read::Range { range, limit: 2 * SWEPT });
        let read = cluster.store.read(reads.to_vec()).await.unwrap();
        (read.entries(0).len(), read.entries(1).len())
    };
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(left().await, (SWEPT + 1, SWEPT + 1), "nothing is swept that was not seen for an hour");
    // A second walk over all of them, a page of 100 each second.
    tokio::time::sleep(Duration::from_secs(3600 + 300)).await;
    assert_eq!(left().await, (1, 1), "only what lives is left");
    // Whose numbers were swept goes on above them.
    let again = cluster.node("pod-000007").await;
    assert_eq!(node.members().len(), 2);
    assert!(again.ready(TEST_DEADLINE).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_shorter_lease_waits_by_that_of_its_former_self() {
    let cluster = Cluster::new();
    let lease = |seconds| SessionTiming::for_lease(Duration::from_secs(seconds));
    let mut config = cluster.config("a").session_timing(lease(60));
    let store = Arc::new(cluster.store.connect("former"));
    config.store = StoreSource::Open(store.clone());
    let first = Registry::join(config).await.unwrap();
    assert!(first.ready(TEST_DEADLINE).await.is_ok());
    // As good as dead: this store proves no death.
    store.outage();
    let begun = tokio::time::Instant::now();
    let config = cluster.config("a").listen(Cluster::address("b")).session_timing(lease(2));
    let second = Registry::join(config).await.unwrap();
    assert!(second.ready(TEST_DEADLINE).await.is_ok());
    assert!((50..100).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}
