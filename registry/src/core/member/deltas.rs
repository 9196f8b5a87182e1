//! Members that rest hear from the leader which members came and went, and need not read it.

use std::sync::Arc;

use callsign_elector::{
    elector::{View, ViewDelta},
    state::MAX_MEMBERS,
};

use super::Member;
use crate::core::{input::Effect, leader::Leader, message::Message, table::Table};

impl<T: Table> Member<T> {
    /// Tells the others what is another one since the last view in which nothing was under way, while this one leads and there are
    /// members that may rest. `former`: the view before.
    ///
    /// Also if another one led then, or nobody was to be told: who rests knows the members of that view still.
    ///
    /// A member that misses it reads everything. So it is said once, and to all that are linked.
    pub(super) fn say_delta(&mut self, former: Arc<View>, effects: &mut Vec<Effect>) {
        let before = if former.is_quiet() { Some(former) } else { self.duty.take_quiet() };
        if !self.view.is_quiet() {
            return self.duty.keep_quiet(before);
        }
        let leader = self.leader.as_ref().filter(|leader| leader.is_open() && self.some_may_rest());
        let Some(epoch) = leader.map(Leader::epoch).filter(|epoch| *epoch == self.view.term.epoch) else {
            return;
        };
        let delta = before.and_then(|before| {
            ViewDelta::between(&self.config.keys, &before, &self.view, self.trim.lagged())
        });
        // With more than that a message would be refused, and reading everything is no dearer.
        let Some(delta) = delta.filter(|delta| delta.rows.len() <= MAX_MEMBERS) else { return };
        let message = Message::view_delta(epoch, delta);
        effects.extend(self.linked.iter().map(|node| Effect::send(node.clone(), message.clone())));
    }
}
