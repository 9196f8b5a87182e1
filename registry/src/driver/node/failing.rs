//! How a node ends that has failed: as a crash would end it, except that its process lives on and nothing proves its death. So
//! it closes its session itself. Trust is dropped before, and the registries ended: that is done at once, where the failure is
//! noticed.

use std::sync::Arc;

use super::Node;
use crate::core::leaving::LeavingInput;

/// Closes the node once it has failed.
pub(super) fn supervise(node: &Arc<Node>) {
    let (breaks, store) = (node.supervisor.clone(), node.store.clone());
    // A store may be the application's own.
    node.supervisor.task("what the store says of itself", async move {
        tokio::select! {
            biased;
            _ = breaks.outcome() => {}
            how = store.broken() => breaks.fail("the store", how),
        }
    });
    let node = node.clone();
    tokio::spawn(async move {
        if node.supervisor.outcome().await.is_some() {
            node.step_leaving(LeavingInput::Failed);
        }
    });
}
