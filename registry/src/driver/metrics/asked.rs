//! How much a node asks of its store.

use ::metrics::{Counter, counter};

/// The counters of one node. A recorder that is installed later is told nothing.
#[derive(Debug)]
pub(crate) struct AskedCounters {
    reads: Counter,
    commits: Counter,
    watches: Counter,
    keys_read: Counter,
    keys_written: Counter,
}

impl AskedCounters {
    pub(crate) fn new() -> Self {
        let requests = |what| counter!("callsign_store_requests_total", "request" => what);
        let keys = |what| counter!("callsign_store_keys_total", "request" => what);
        Self {
            reads: requests("read"),
            commits: requests("commit"),
            watches: requests("watch"),
            keys_read: keys("read"),
            keys_written: keys("commit"),
        }
    }

    /// A read of so many keys and ranges.
    pub(crate) fn read(&self, keys: usize) {
        self.reads.increment(1);
        self.keys_read.increment(keys as u64);
    }

    /// A commit that writes so many keys and ranges.
    pub(crate) fn commit(&self, keys: usize) {
        self.commits.increment(1);
        self.keys_written.increment(keys as u64);
    }

    pub(crate) fn watch(&self) {
        self.watches.increment(1);
    }
}
