//! Some nodes must not lead: their certificates say so.
//!
//! What this node must not do is in its row, as the priority 0, so that no elector elects it; and this elector elects it by no row
//! that is older. What the certificate of another node says is known from the latest link to it. An elector elects none that it
//! knows to be barred, whatever is in that node's row. This only takes candidates away, so whoever is elected was one before. What is
//! known of a node is forgotten when it is neither linked nor a member.

use std::collections::BTreeSet;

use callsign_store::{ids::NodeName, planted};

use super::Elector;

/// The nodes that must not lead, as one elector knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Barred {
    is_own: bool,
    others: BTreeSet<NodeName>,
}

impl Barred {
    /// What this node may do by its own certificate. Says whether that is another than before.
    pub(super) fn own(&mut self, may_lead: bool) -> bool {
        let is_own = !may_lead && !planted!("own-bar-ignored");
        std::mem::replace(&mut self.is_own, is_own) != is_own
    }

    /// What another node may do, by the certificate that it showed.
    pub(super) fn other(&mut self, node: &NodeName, may_lead: bool) {
        if may_lead {
            self.others.remove(node);
        } else {
            self.others.insert(node.clone());
        }
    }

    /// Forgets all other nodes but these.
    fn retain(&mut self, keeps: impl Fn(&NodeName) -> bool) {
        self.others.retain(keeps);
    }

    /// The priority that the own row says.
    pub(super) fn priority(&self, configured: u32) -> u32 {
        if self.is_own { 0 } else { configured }
    }

    /// All of them.
    pub(super) fn all(&self, me: &NodeName) -> BTreeSet<NodeName> {
        let own = self.is_own.then_some(me);
        own.into_iter().chain(&self.others).cloned().collect()
    }
}

impl Elector {
    /// Keeps what is known of nodes that are linked, and of members.
    pub(super) fn forget_barred(&mut self) {
        // As long as nothing was read, nobody knows who is a member.
        let Some(state) = self.reading.as_ref().and_then(|reading| reading.state.as_ref()) else { return };
        let down = self.silence.unlinked();
        self.barred.retain(|node| !down.contains(node) || state.members.contains_key(node));
    }
}
