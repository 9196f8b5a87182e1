//! How often this process has committed as a leader, as its node's own metrics count it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

static COMMITTED: AtomicU64 = AtomicU64::new(0);

/// Begins to count. A second call changes nothing.
pub(super) fn count() {
    // Fails if it counts already.
    let _ = metrics::set_global_recorder(Committed);
}

/// How many commits there were: batches, and cuts of the log.
pub(super) fn committed() -> u64 {
    COMMITTED.load(Ordering::Relaxed)
}

/// Takes one metric, and drops all others.
struct Committed;

impl HistogramFn for Committed {
    fn record(&self, _: f64) {
        COMMITTED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Committed {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let is_committed =
            || key.labels().any(|label| (label.key(), label.value()) == ("outcome", "committed"));
        if key.name() == "callsign_registry_commit_seconds" && is_committed() {
            Histogram::from_arc(Arc::new(Self))
        } else {
            Histogram::noop()
        }
    }
}
