//! What a full queue is to those outside: the node counts a message that it could not send.

use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::counts::NodeCounts;

/// Counts the messages that found a queue full, of all nodes of the thread.
#[derive(Debug)]
pub struct Queues(Arc<Full>);

#[derive(Debug)]
struct Full(NodeCounts);

impl Queues {
    /// Tells these counts.
    pub fn new(counts: &NodeCounts) -> Self {
        Self(Arc::new(Full(counts.clone())))
    }
}

impl CounterFn for Full {
    fn increment(&self, value: u64) {
        for _ in 0..value {
            self.0.met("a queue of a link is full");
        }
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Queues {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let is_ours = key.name() == "callsign_registry_link_events_total"
            && key.labels().any(|label| label.value() == "send_failed");
        if is_ours { Counter::from_arc(self.0.clone()) } else { Counter::noop() }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
