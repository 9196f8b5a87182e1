//! What the node's session says, as inputs of the node's core: a task.

use std::sync::{Arc, Weak};

use callsign_elector::session::SessionEvent;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Node;
use crate::core::node::NodeInput;

/// Passes on what the session says, for as long as there is a node.
pub(super) fn session(node: &Arc<Node>, mut events: UnboundedReceiver<SessionEvent>) {
    let to: Weak<Node> = Arc::downgrade(node);
    // The session is a part of the node itself: its stream ends when it does.
    node.supervisor.task("what the session says to the registries", async move {
        while let Some(event) = events.recv().await {
            let Some(node) = to.upgrade() else { return };
            node.step(NodeInput::Session(event));
        }
    });
}
