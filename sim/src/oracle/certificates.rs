//! Nodes hold and lead what their certificates let them.
//!
//! A certificate that was replaced may still be gone by for what was under way. So until a cluster is at rest, whatever one of the
//! certificates of a node let it do is in order; from then on, only what the last one does.

use callsign_store::ids::NodeName;
use callsign_transport::Permits;

use super::{Check, Inner, Oracle};
use crate::world::{NodeId, World, name_of_id};

impl Oracle {
    /// A node has this certificate from now on, in place of the former one.
    pub(crate) fn certified(&mut self, node: &NodeName, former: Permits, permits: &Permits) {
        if let Some(inner) = self.edit() {
            inner.permits.entry(node.clone()).or_insert_with(|| vec![former]).push(permits.clone());
        }
    }
}

impl World {
    /// What the certificates were before does not count.
    pub fn begins_with_its_certificates(&mut self) {
        let mut oracle = std::mem::take(&mut self.oracle);
        if let Some(inner) = oracle.edit() {
            inner.forget_certificates(self);
        }
        self.oracle = oracle;
    }
}

/// The name that a prefix is compared with: of a membership, that of the group.
fn said(name: &str) -> &str {
    match name.strip_prefix('\0') {
        Some(key) => key.split('\0').next().and_then(|key| key.get(1..)).unwrap_or_default(),
        None => name,
    }
}

/// Nodes are `a`, `b`, ...
fn node_number(node: &NodeName) -> Option<NodeId> {
    node.as_str().bytes().next()?.checked_sub(b'a')
}

fn allows(permits: &Permits, name: &str) -> bool {
    permits.names().is_none_or(|names| names.iter().any(|prefix| said(name).starts_with(&**prefix)))
}

impl Inner {
    /// At rest, nothing is under way by a certificate that was replaced.
    pub(super) fn forget_certificates(&mut self, world: &World) {
        for (at, name) in world.setup.names.iter().enumerate() {
            if let Some(had) = self.permits.get_mut(name) {
                *had = vec![world.nodes[at].permits.clone()];
            }
        }
    }

    /// Whether some certificate of a node says that it must not lead.
    pub(super) fn is_barred(&self, node: &NodeName) -> bool {
        self.permits.get(node).is_some_and(|had| had.iter().any(|permits| !permits.may_lead()))
    }

    /// Somebody was elected.
    pub(super) fn check_certificate_of_leader(&mut self, node: &NodeName) {
        let Some(had) = self.permits.get(node) else { return };
        let may_lead = had.iter().any(Permits::may_lead);
        self.counts.add(Check::MayLead, 1);
        if !may_lead {
            self.fail(Check::MayLead, format!("{node} is elected, and must not lead"));
        }
    }

    /// A name was granted to a session of a node.
    pub(super) fn check_certificate_of_holder(&mut self, node: &NodeName, name: &str) {
        let Some(had) = self.permits.get(node) else { return };
        if had.iter().all(|permits| permits.names().is_none()) {
            return;
        }
        let is_allowed = had.iter().any(|permits| allows(permits, name));
        let had = format!("{had:?}");
        self.counts.add(Check::Permitted, 1);
        if !is_allowed {
            self.fail(Check::Permitted, format!("{name:?} is granted to {node}, which has {had}"));
        }
    }

    /// A caller was told that its node may not hold the name.
    pub(super) fn check_not_permitted(&mut self, at: usize) {
        self.counts.add(Check::NotPermitted, 1);
        let (node, name) = (self.told[at].node, name_of_id(self.told[at].name));
        let of_node = self.permits.iter().find(|(of, _)| node_number(of) == Some(node));
        let had = of_node.map(|(_, had)| had.clone()).unwrap_or_default();
        if had.iter().all(|permits| allows(permits, &name)) {
            self.fail(Check::NotPermitted, format!("{name:?} is refused to node {node}, which has {had:?}"));
        }
    }
}
