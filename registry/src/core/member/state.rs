//! The state of the registry, as the elector read it.

use std::sync::Arc;

use callsign_elector::elector::View;
use callsign_store::planted;

use super::Member;
use crate::core::{
    input::{Effect, Event, Now},
    table::Table,
};

impl<T: Table> Member<T> {
    pub(super) fn on_view(&mut self, now: Now, view: Arc<View>, effects: &mut Vec<Effect>) {
        let is_new_term = view.term.epoch > self.view.term.epoch;
        // They come in the order in which they were read. One of another lineage was read before the node knew of this one.
        if self.lineage.is_some_and(|ours| !ours.is_same(view.lineage)) {
            return;
        }
        self.catchup.begin_at(view.lineage.number);
        let old_leader = self.view.term.leader.as_ref().map(|leader| leader.node.clone());
        let former = std::mem::replace(&mut self.view, view);
        self.find_linked();
        self.say_delta(Arc::clone(&former), effects);
        self.their_links.retain(|node| self.view.members.contains_key(node));
        self.redirect_requests();
        if is_new_term {
            let leader = self.view.term.leader.as_ref().map(|leader| leader.node.clone());
            effects.push(Effect::Event(Event::Term { epoch: self.view.term.epoch, leader }));
            self.catchup.term_changed();
            self.to_run.retain(|_, epoch| *epoch >= self.view.term.epoch);
        }
        // Also without a new epoch: in a store that went back another node may have won the same one.
        self.depose_if_over(effects);
        self.begin_handoff(now, old_leader, effects);
        if is_new_term
            && planted!("handoff-reads-commit-too-early")
            && let Some(handoff) = &mut self.handoff
        {
            handoff.presume_end(&former, &self.config.keys);
        }
        if let Some(leader) = &mut self.leader
            && leader.epoch() == self.view.term.epoch
        {
            leader.on_view(&self.view, &self.replica, effects);
        }
        // Batches are on the way from a leader that is heard; without one, the store is the only news.
        if self.leader().is_none()
            && let Some(end) = self.view.commit
        {
            self.catchup.want(now.time, end.position);
        }
        for (from, message) in self.ahead.take(self.view.term.epoch) {
            self.on_message(now, &from, message, effects);
        }
    }

    pub(super) fn is_elected(&self) -> bool {
        if planted!("epoch-only-fence") {
            return self.view.term.leader.as_ref().is_some_and(|leader| leader.node == self.config.me);
        }
        let (Some(leader), Some(token)) = (&self.view.term.leader, self.view.me) else { return false };
        leader.node == self.config.me
            && leader.incarnation == self.config.incarnation
            && leader.token == token
    }
}
