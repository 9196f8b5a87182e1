//! Links to other members come and go.

use callsign_store::{
    ids::{Incarnation, NodeName},
    planted,
};

use super::{Linked, Member};
use crate::core::{
    input::{Effect, Now, Tell},
    table::Table,
};

impl<T: Table> Member<T> {
    pub(super) fn find_linked(&mut self) {
        let is_linked = |node: &&NodeName| **node != self.config.me && self.links.contains_key(*node);
        self.linked = self.view.members.keys().filter(is_linked).cloned().collect();
        // As long as no view was read, nobody knows who is a member. The row of a node that died goes after its link.
        if !self.view.members.is_empty() {
            let is_known =
                |node: &NodeName| self.links.contains_key(node) || self.view.members.contains_key(node);
            self.permitted.retain(is_known);
        }
    }

    pub(super) fn on_link_up(&mut self, node: &NodeName, linked: Linked, effects: &mut Vec<Effect>) {
        self.links.insert(node.clone(), linked);
        self.find_linked();
        self.redirect_requests();
        if let Some(leader) = &self.leader {
            leader.welcome(&self.replica, node, effects);
        }
        self.say_observers(std::slice::from_ref(node), effects);
        if self.following.as_ref().is_some_and(|(_, leader)| leader == node) {
            self.host.on_leader_linked();
        }
    }

    pub(super) fn on_link_down(
        &mut self,
        now: Now,
        node: &NodeName,
        incarnation: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        let is_another =
            |linked: &Linked| linked.incarnation != incarnation && !planted!("former-link-down-taken");
        if self.links.get(node).is_none_or(is_another) {
            return;
        }
        self.links.remove(node);
        self.find_linked();
        self.redirect_requests();
        effects.push(Effect::Tell(Tell::LinkDown(node.clone())));
        effects.push(Effect::Suspect { node: node.clone(), incarnation });
        self.host.on_peer_lost(now, node, &self.replica, effects);
        self.walks.drop_node(&mut self.replica, node);
        let leader = self.view.term.leader.as_ref().map(|leader| &leader.node);
        self.catchup.lost(node, leader);
        if let Some(handoff) = &mut self.handoff {
            handoff.on_link_down(now.time, node);
        }
        if let Some(leader) = &mut self.leader {
            leader.forget_follower(node);
            if planted!("free-by-silence") {
                leader.presume_gone(&self.replica, node);
            }
        }
        self.to_run.remove(node);
        self.ahead.forget(node);
        if !planted!("keeps-links-of-a-lost-link") {
            self.their_links.forget(node);
        }
        if !self.view.members.contains_key(node) {
            self.permitted.forget(node);
        }
    }
}
