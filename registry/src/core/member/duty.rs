//! Whether a member looks after the registry, or rests because the leader and those that it names do.
//!
//! A member that looks after it observes the sessions of all, and reads all that the store has of the registry. A member that rests observes
//! the leader, and looks at little. So what a member costs the store does not grow with their number. A member rests only while it hears the
//! leader: if the leader and all that it named are gone at once, the others find out by themselves.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

use callsign_elector::{elector::View, session::Observed};
use callsign_store::{Time, ids::NodeName, planted};

use super::Member;
use crate::core::{input::Effect, leader::HEARTBEAT, message::Message, table::Table};

/// How long a member rests after a heartbeat. Shorter: a late heartbeat has all members read everything. Longer: what happens when nobody is
/// left who observes is found later.
pub(super) const RESTS_FOR: Duration = HEARTBEAT.saturating_mul(4);

/// What a member was told of it, and what it has told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct MemberDuty {
    /// Until when others look after the registry, by the last heartbeat.
    rests_until: Option<Time>,
    told: Observed,
    /// While something is under way that the others are told the end of: the last view before it.
    quiet: Option<Arc<View>>,
}

impl MemberDuty {
    /// The leader is there, and has named this member, or has not.
    pub(super) fn heard(&mut self, now: Time, is_named: bool) {
        let rests_for = if planted!("rests-for-ever") { Duration::from_secs(24 * 3600) } else { RESTS_FOR };
        self.rests_until = (!is_named).then_some(now + rests_for);
    }

    pub(super) fn keep_quiet(&mut self, view: Option<Arc<View>>) {
        self.quiet = view;
    }

    pub(super) fn take_quiet(&mut self) -> Option<Arc<View>> {
        self.quiet.take()
    }

    /// When it rests no more unless it hears the leader.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.rests_until.filter(|_| self.told != Observed::All)
    }
}

impl<T: Table> Member<T> {
    /// The members that are to observe: synced, not about to leave, those with the highest priority first, and linked, so that they hear of
    /// it.
    pub(super) fn observers(&self) -> Vec<NodeName> {
        let linked = self.linked.iter().filter_map(|node| self.view.members.get_key_value(node));
        let mut able: Vec<_> = linked.filter(|(_, row)| row.synced && !row.draining).collect();
        able.sort_by_key(|(node, row)| (Reverse(row.priority), *node));
        able.into_iter().take(self.config.tuning.observers).map(|(node, _)| node.clone()).collect()
    }

    /// Whether there are more members than are named, so that some may rest.
    pub(super) fn some_may_rest(&self) -> bool {
        self.linked.len() > self.config.tuning.observers
    }

    /// Tells members who observes, while this one leads and there are some that need not.
    pub(super) fn say_observers(&self, members: &[NodeName], effects: &mut Vec<Effect>) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_open()) else { return };
        if !self.some_may_rest() {
            return;
        }
        let message = Message::Observers { epoch: leader.epoch(), observers: self.observers() };
        effects.extend(members.iter().map(|node| Effect::send(node.clone(), message.clone())));
    }

    /// Says whose sessions the node is to observe, if that is not what was said last.
    pub(super) fn say_duty(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let leader = self.view.term.leader.as_ref().map(|leader| &leader.node);
        let is_another = |leader: &&NodeName| **leader != self.config.me || planted!("leader-rests-too");
        let leader = leader.filter(|leader| is_another(leader) && self.view.me.is_some());
        self.duty.rests_until = self.duty.rests_until.filter(|until| now < *until);
        let is_own = leader.is_some_and(|leader| *leader == self.config.me);
        let rests = self.duty.rests_until.is_some() || (is_own && planted!("leader-rests-too"));
        // A member that is not synced waits for its row to say that it is, and reads everything meanwhile.
        let rests = rests && self.is_synced();
        let observed = match leader.filter(|_| rests) {
            Some(_) if planted!("leader-not-observed") => Observed::Only(BTreeSet::new()),
            Some(leader) => Observed::Only(BTreeSet::from([leader.clone()])),
            None if leader.is_none() && planted!("rests-on-as-the-next-leader") => self.duty.told.clone(),
            None => Observed::All,
        };
        if observed != self.duty.told {
            self.duty.told = observed.clone();
            effects.push(Effect::Observe(observed));
        }
    }
}
