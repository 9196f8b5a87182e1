//! What is counted, and where: at the store, at links, in what nodes tell a recorder of metrics, and in this thread's allocations.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use allocation_counter::opt_out;
use callsign_store::{
    CommitOutcome, Key, Read, ReadResult, Store, StoreError, Transaction, Version, Write, lock::lock,
    memory::MemoryStore,
};
use futures::{FutureExt, future::BoxFuture};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key as Name, KeyName, Metadata, Recorder as Records, SharedString,
    Unit,
};

/// How many there were of each.
pub(crate) type Tally = BTreeMap<String, u64>;

/// Counts what happens. Clones count together, and their own memory is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<Tally>>);

impl Counts {
    /// So many more of these.
    pub(crate) fn add(&self, what: impl fmt::Display, by: u64) {
        opt_out(|| *lock(&self.0).entry(what.to_string()).or_default() += by);
    }

    /// Gives all that was counted, and begins anew.
    pub(crate) fn take(&self) -> Tally {
        std::mem::take(&mut lock(&self.0))
    }
}

/// A node's store, which counts what the node asks of it.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) store: MemoryStore,
    pub(crate) node: &'static str,
    pub(crate) counts: Counts,
}

impl Counting {
    fn count(&self, what: &str, by: u64) {
        self.counts.add(format_args!("store: {what} by {}", self.node), by);
    }
}

/// The bytes of a write's key and value.
fn bytes(write: &Write) -> usize {
    match write {
        Write::Put { key: at, value } | Write::Append { prefix: at, value } => at.len() + value.len(),
        Write::Clear(key) => key.len(),
        Write::ClearRange(range) => range.start.len() + range.end.len(),
    }
}

impl Store for Counting {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        self.count("reads", 1);
        self.count("keys or ranges read", reads.len() as u64);
        let (read, counts, node) = (self.store.read(reads), self.counts.clone(), self.node);
        let read = async move {
            let result = read.await;
            let records = result.iter().flat_map(|read| &read.answers).map(Vec::len).sum::<usize>();
            counts.add(format_args!("store: records read by {node}"), records as u64);
            result
        };
        // Its box is not the node's.
        let mut boxed = None;
        opt_out(|| boxed = Some(read.boxed()));
        boxed.expect("it was put there")
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.count("commits", 1);
        self.count("keys checked", transaction.checks.len() as u64);
        self.count("keys written", transaction.writes.len() as u64);
        self.count("bytes written", transaction.writes.iter().map(bytes).sum::<usize>() as u64);
        self.store.commit(transaction)
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        self.count("watches", 1);
        self.store.watch(key, since)
    }

    callsign_store::forward_to_store! { store: nature }
}

/// A recorder of metrics that counts the messages between members, by their kinds.
#[derive(Debug)]
pub(crate) struct Recorder(pub(crate) Counts);

/// One kind of message.
struct Sent {
    counts: Counts,
    what: String,
}

impl CounterFn for Sent {
    fn increment(&self, by: u64) {
        self.counts.add(&self.what, by);
    }

    fn absolute(&self, _: u64) {}
}

/// What is counted of a metric: `None`, if nothing is.
fn sent(key: &Name) -> Option<String> {
    let label = |name: &str| key.labels().find(|label| label.key() == name).map(metrics::Label::value);
    label("direction").filter(|direction| *direction == "sent")?;
    match key.name() {
        "callsign_registry_messages_total" => Some(format!("messages: {}", label("kind")?)),
        "callsign_registry_message_bytes_total" => Some("messages: bytes".to_owned()),
        _ => None,
    }
}

impl Records for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Name, _: &Metadata<'_>) -> Counter {
        let mut counter = Counter::noop();
        opt_out(|| {
            if let Some(what) = sent(key) {
                counter = Counter::from_arc(Arc::new(Sent { counts: self.0.clone(), what }));
            }
        });
        counter
    }

    fn register_gauge(&self, _: &Name, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Name, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
