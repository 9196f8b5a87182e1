//! What a session is made with.

use callsign_store::ids::{ClusterName, Incarnation, NodeName};
use serde::{Deserialize, Serialize};

use super::timing::SessionTiming;

/// Whose session, and how it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The cluster in whose part of the store it is.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
    /// Drawn afresh for each start of the process, and for each session opened beside another in one process.
    pub incarnation: Incarnation,
    /// The durations.
    pub timing: SessionTiming,
    /// Where jitter comes from. Different on each node, so that they do not all do the same thing at once.
    pub seed: u64,
}
