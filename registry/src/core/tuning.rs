//! The sizes that a member is made with.

use serde::{Deserialize, Serialize};

use crate::core::log::MAX_BATCH_BYTES;

/// Sizes on which nothing depends but speed and memory. A simulation takes small ones, to get to their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tuning {
    /// How many batches have to go for a cut of the log to be worth a transaction.
    pub cut_worth: u64,
    /// How many names a chunk of a snapshot has at most.
    pub chunk_names: usize,
    /// How many chunks of a snapshot may be on their way to a member. Smaller: the sender waits for the receiver. Larger: they find no
    /// room in the bulk lane of a link, and are lost; each has half a MiB at most.
    pub snapshot_window: u64,
    /// How many bytes of the log a leader remembers. Smaller: members that lag read the store.
    pub memory_bytes: usize,
    /// How far a synced member may lag, in bytes of the log. Smaller: a slow one needs snapshots. Larger: the store
    /// keeps more.
    pub max_lag: usize,
    /// How many names of a session that is gone a member removes at a time, or of a snapshot it puts in their place. Larger: what
    /// comes meanwhile waits for longer.
    pub slice_names: usize,
    /// How many names of its own actors a member goes over at a time, when all of them are told something or lost. Larger: what comes
    /// meanwhile waits for longer. An actor with more names is told in parts.
    pub own_names: usize,
    /// How many bytes a leader puts into a batch at most. Larger: the store may refuse it.
    pub batch_bytes: usize,
    /// How many bytes of changes a member remembers for whoever watches. Smaller: a reader that is slow, or comes back, gets everything
    /// anew.
    pub watch_bytes: usize,
    /// How many bytes of names one reader may have missed. More: it gets everything anew.
    pub missed_bytes: usize,
    /// How many members a leader has observe the sessions of all, beside itself. Fewer: if they die with the leader, the others find it later. More:
    /// each reads the sessions of all members.
    pub observers: usize,
    /// How many changes are looked at in a step for all who watch. Larger: what comes meanwhile waits for longer.
    pub watch_looks: usize,
    /// Whether a transaction of the store may have so many checks only: then none is spent on what cannot change. Left out if not, as
    /// versions before it wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_checks: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            cut_worth: 256,
            chunk_names: 1024,
            snapshot_window: 8,
            slice_names: 1024,
            own_names: 256,
            memory_bytes: 16 << 20,
            max_lag: 64 << 20,
            batch_bytes: MAX_BATCH_BYTES,
            watch_bytes: 4 << 20,
            missed_bytes: 256 << 10,
            observers: 3,
            watch_looks: 8192,
            counts_checks: false,
        }
    }
}
