//! What the nodes' certificates let them do, and certificates that are replaced.

use callsign::cores::NodeInput;
use callsign_transport::{
    DownReason, LinkId, Permits,
    cores::{Farewell, Input as LinksInput, LinkInput},
};

use super::{NodeId, World};

impl World {
    /// What a node may do by its certificate.
    pub fn permits(&self, node: NodeId) -> &Permits {
        &self.nodes[usize::from(node)].permits
    }

    /// A node's certificate is replaced. A process that runs reads it, as `set_keys` does.
    pub(super) fn certify(&mut self, node: NodeId, permits: &Permits) -> bool {
        let Some(machine) = self.nodes.get_mut(usize::from(node)) else { return false };
        if machine.permits == *permits || machine.process.as_ref().is_some_and(|process| process.paused) {
            return false;
        }
        let former = std::mem::replace(&mut machine.permits, permits.clone());
        let name = self.setup.names[usize::from(node)].clone();
        self.oracle.certified(&name, former, permits);
        self.step_links(node, LinksInput::Renew);
        self.step_node(node, NodeInput::Permits(permits.clone()));
        self.settle(node);
        true
    }

    /// What the peer of a link has shown.
    pub(super) fn shown(&self, node: NodeId, link: LinkId) -> Permits {
        let at = self.link_end(node, link);
        at.map(|(at, end)| self.conns[at].ends[1 - end].permits.clone()).unwrap_or_default()
    }

    /// A link that is up ends if this node has shown a certificate on it that was replaced meanwhile.
    pub(super) fn look_at_what_was_shown(&mut self, node: NodeId, link: LinkId) {
        let Some((at, end)) = self.link_end(node, link) else { return };
        if self.conns[at].ends[end].permits != *self.permits(node) {
            self.step_end(at, end, LinkInput::Dismiss(Farewell::Forgotten, DownReason::Forgotten));
        }
    }
}
