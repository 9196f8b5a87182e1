//! Which session may hold which name, by the certificates of nodes.
//!
//! A leader asks it for the session that *will* hold a name, wherever a grant is decided. A holder asks it before it gives a name away,
//! so that the data go to nobody who may not have the name. Nobody else asks: so what was granted is never refused when it is asked
//! again, and nobody is refused what it gives up. What a node may do is known from its latest link.
//! It stays known when that link is down, for requests that wait; a link that is made anew says it anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use callsign_store::{
    ids::{NodeName, SessionId},
    planted,
};
use callsign_transport::Permits;

use crate::core::group::MembershipName;

/// What the nodes may do, as one member knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Permitted {
    me: NodeName,
    own: Permits,
    peers: BTreeMap<NodeName, Permits>,
}

/// Why a session is not given a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotPermitted {
    /// It is not known what its node may do: that is no refusal.
    Unknown,
    /// It may hold names that begin with these.
    Others(Arc<[String]>),
}

impl Permitted {
    /// Of a node without a certificate, as long as nothing else is said.
    pub(crate) fn new(me: NodeName) -> Self {
        Self { me, own: Permits::default(), peers: BTreeMap::new() }
    }

    /// What this node may do.
    pub(crate) fn own(&mut self, permits: Permits) {
        self.own = permits;
    }

    /// A node was linked, and showed this.
    pub(crate) fn linked(&mut self, node: &NodeName, permits: Permits) {
        if planted!("first-permits-kept") && self.peers.contains_key(node) {
            return;
        }
        self.peers.insert(node.clone(), permits);
    }

    /// A node that is no member has no link any more.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.peers.remove(node);
    }

    /// Keeps what these nodes may do. The others have no link, and are members no more.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&NodeName) -> bool) {
        self.peers.retain(|node, _| keeps(node));
    }

    /// Whether a session may hold a name. Of a membership, the name of the group counts.
    pub(crate) fn check(&self, session: &SessionId, name: &str) -> Result<(), NotPermitted> {
        self.check_node(&session.node, name)
    }

    /// Which of these nodes are known to be refused a name.
    pub(crate) fn refused(&self, name: &str, of: &[NodeName]) -> BTreeSet<NodeName> {
        let is_refused =
            |node: &&NodeName| matches!(self.check_node(node, name), Err(NotPermitted::Others(_)));
        of.iter().filter(is_refused).cloned().collect()
    }

    fn check_node(&self, node: &NodeName, name: &str) -> Result<(), NotPermitted> {
        let is_own = *node == self.me || planted!("permits-of-the-leader");
        let permits = if is_own { Some(&self.own) } else { self.peers.get(node) };
        let permits = permits.ok_or(NotPermitted::Unknown)?;
        let Some(allowed) = permits.names() else { return Ok(()) };
        let membership = MembershipName::of(name);
        if membership.is_some() && planted!("memberships-not-checked") {
            return Ok(());
        }
        let name = membership.map_or(name, |membership| membership.name());
        if permits.allows(name) { Ok(()) } else { Err(NotPermitted::Others(allowed.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{Incarnation, SessionNumber};

    use super::*;
    use crate::core::group::GroupId;

    fn session(node: &str) -> SessionId {
        let node = NodeName::new(node).unwrap();
        SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) }
    }

    #[test]
    fn each_session_is_given_what_its_own_node_may_hold_and_groups_go_by_their_names() {
        let mut permitted = Permitted::new(session("a").node);
        let shop = Permits::read("names=shop/").unwrap();
        let refused = || Err(NotPermitted::Others(vec!["shop/".to_owned()].into()));
        assert_eq!(permitted.check(&session("a"), "x"), Ok(()));
        assert_eq!(permitted.check(&session("b"), "shop/x"), Err(NotPermitted::Unknown), "no link yet");
        permitted.linked(&session("b").node, shop.clone());
        permitted.linked(&session("c").node, Permits::default());
        assert_eq!(permitted.check(&session("b"), "shop/x"), Ok(()));
        assert_eq!(permitted.check(&session("b"), "x"), refused());
        let both = [session("b").node, session("c").node];
        assert_eq!(permitted.refused("x", &both), BTreeSet::from([session("b").node]));
        assert_eq!(permitted.refused("x", &both[1..]), BTreeSet::new());
        assert_eq!(permitted.refused("shop/x", &both), BTreeSet::new());
        for (group, result) in [
            (GroupId::group("shop/room"), Ok(())),
            (GroupId::semaphore("shop/gpu", 2), Ok(())),
            (GroupId::group("room"), refused()),
            (GroupId::semaphore("gpu", 1), refused()),
        ] {
            assert_eq!(permitted.check(&session("b"), &group.member(&session("b"), 5)), result);
        }
        assert_eq!(permitted.check(&session("b"), "\0gshop/x"), refused(), "it is no membership");
        // The next link says something else.
        permitted.linked(&session("b").node, Permits::default());
        assert_eq!(permitted.check(&session("b"), "x"), Ok(()));
        permitted.own(shop);
        assert_eq!(permitted.check(&session("a"), "x"), refused());
        permitted.forget(&session("b").node);
        assert_eq!(permitted.check(&session("b"), "x"), Err(NotPermitted::Unknown));
    }
}
