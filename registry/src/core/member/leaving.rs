//! Leaving in good order: what the steps of [`Drain`](super::drain::Drain) come to.

use std::time::Duration;

use callsign_elector::record::MemberRow;
use callsign_store::planted;

use super::{
    Answer, Behind, CallId, Client, Effect, Event, Member, NodeName, Now, Table, Tell,
    drain::{DrainStep, Sight},
};
use crate::{
    core::name::Name,
    error::{Elsewhere, OfferError},
};

impl<T: Table> Member<T> {
    /// Whether no new names are registered here any more, because the node is about to leave.
    pub fn is_draining(&self) -> bool {
        self.drain.has_begun()
    }

    pub(super) fn begin_to_drain(
        &mut self,
        now: Now,
        call: CallId,
        wait: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let is_first = !self.drain.has_begun();
        let next = self.drain.begin(call, now.time + wait);
        if is_first {
            effects.push(Effect::Event(Event::Draining));
            effects.push(Effect::Tell(Tell::Drain));
            if planted!("drains-names-first") {
                self.host.drop_all_claims(effects);
            }
            self.host.turn_away(self.others());
            self.host.begin_offers();
        }
        self.go_on_draining(now, next, effects);
    }

    pub(super) fn drive_drain(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.drain.is_waiting() {
            let sight = self.sight();
            let next = self.drain.proceed(now.time, &sight);
            self.go_on_draining(now, next, effects);
        }
    }

    pub(super) fn go_on_draining(&mut self, now: Now, next: DrainStep, effects: &mut Vec<Effect>) {
        match next {
            DrainStep::Wait => {}
            DrainStep::Tell(callers, drained) => {
                self.host.end_offers();
                effects.push(Effect::Event(Event::Drained { drained: drained.clone() }));
                effects.extend(callers.into_iter().map(|call| {
                    let answer = Answer::Drained(drained.clone());
                    Effect::Answer { call, answer }
                }));
            }
            DrainStep::Leave(caller) => {
                if !planted!("leaver-leads-on") {
                    self.leader = None;
                    self.handoff = None;
                }
                // First of all the claims are dropped, and their actors stopped or told: without this member's row the
                // others may find that nobody has a base, and begin with an empty table.
                if !planted!("leaver-keeps-claims") {
                    self.host.on_session_lost(now.time);
                }
                self.behind.push(Behind::Leave(caller));
                self.proceed_host(now, effects);
            }
        }
    }

    /// Whom to ask may have changed.
    pub(super) fn redirect_requests(&mut self) {
        if self.drain.has_begun() {
            self.host.ask_elsewhere(self.others());
        }
    }

    /// A caller wants a name of this node to go to another one.
    pub(super) fn offer(
        &mut self,
        caller: Client,
        call: CallId,
        name: Name,
        to: NodeName,
        effects: &mut Vec<Effect>,
    ) {
        if self.view.members.contains_key(&to) {
            return self.host.offer(caller, name, to);
        }
        let answer = Answer::Offered(Err(OfferError::NoSuchMember { node: to }));
        effects.push(Effect::Answer { call, answer });
    }

    /// Goes on with the names that this node offers to others.
    pub(super) fn proceed_offers(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !self.host.has_offers() {
            return;
        }
        let may_take = |node: &&NodeName| self.view.members.get(*node).is_some_and(|row| self.stays(row));
        let targets: Vec<NodeName> = self.linked.iter().filter(may_take).cloned().collect();
        self.host.proceed_offers(now, &targets, &self.permitted, &self.replica, effects);
    }

    fn sight(&self) -> Sight {
        let me = &self.config.me;
        let own = self.view.members.get(me).filter(|row| Some(row.token) == self.view.me);
        let mut others = self.view.members.iter().filter(|(node, _)| *node != me).map(|(_, row)| row);
        Sight {
            is_known: own.is_none_or(|row| row.draining) || planted!("drained-before-known"),
            led_by: self.leader().map(|(_, node)| node).filter(|node| *node != me).cloned(),
            has_successor: others.any(|row| self.stays(row) && row.priority != 0),
            is_registering: self.host.is_registering(),
            is_offering: self.host.is_offering() && !planted!("drained-before-names-moved"),
            is_asking: self.host.is_asking() || self.reads.is_waiting(),
        }
    }

    /// Whether a member serves, and is not known to be about to leave.
    fn stays(&self, row: &MemberRow) -> bool {
        row.synced && !row.draining && self.view.sessions.is_open(&row.session)
    }

    /// The members that can be asked in this one's place: the leader first, then those that are linked.
    fn others(&self) -> Vec<Elsewhere> {
        let leader = self.view.term.leader.as_ref().map(|leader| &leader.node);
        let others =
            self.view.members.iter().filter(|(node, row)| **node != self.config.me && self.stays(row));
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(node, _)| (Some(*node) != leader, !self.links.contains_key(*node)));
        let elsewhere = |(_, row): (_, &MemberRow)| Elsewhere {
            node: row.session.node.clone(),
            address: row.address.clone(),
            admin: row.admin.clone(),
        };
        others.into_iter().map(elsewhere).collect()
    }
}
