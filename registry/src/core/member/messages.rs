//! What a member does about each message.

use callsign_elector::elector::ViewDelta;
use callsign_store::planted;

use super::{
    Applied, ArrivedChunk, CorruptBatch, Effect, Epoch, Event, HEARD_EVERY, Handoff, Incarnation, Leader,
    Linked, Member, Message, NodeName, Now, Table, Tell, Time, offer_all,
};

impl<T: Table> Member<T> {
    pub(super) fn on_message(
        &mut self,
        now: Now,
        from: &NodeName,
        message: Message,
        effects: &mut Vec<Effect>,
    ) {
        let is_ahead = message.says_epoch().is_some_and(|epoch| epoch > self.view.term.epoch);
        if is_ahead && !planted!("peer-epoch-believed") {
            if self.ahead.keep(now.time, from, message) {
                effects.push(Effect::Tell(Tell::Refresh));
            }
            return;
        }
        if self.is_of_former_lineage(&message) {
            return;
        }
        match message {
            Message::Requests { epoch, session, acknowledged, requests } => {
                // A request addressed to another epoch is asked again by its host when it hears of this one.
                if session.node != *from || !self.is_linked_as(from, session.incarnation) {
                    return;
                }
                let is_ours =
                    |leader: &&mut Leader| leader.epoch() == epoch || planted!("request-of-any-epoch");
                if let Some(leader) = self.leader.as_mut().filter(is_ours) {
                    leader.on_requests(&self.replica, session, acknowledged, requests, &self.view, effects);
                }
            }
            Message::Verdicts { epoch, session, position, verdicts } => {
                let follows = self.follows(epoch, from);
                if follows || planted!("verdict-of-old-epoch") {
                    self.host.on_verdicts(epoch, &session, position, verdicts);
                }
                if follows {
                    self.catchup.want(now.time, position);
                }
            }
            Message::Replicate { epoch, position, batch } => {
                if self.on_leader(now, from, epoch, effects) {
                    self.catchup.want(now.time, position);
                } else if !self.follows(epoch, from) {
                    return;
                }
                let result = self.replica.offer(epoch, position, &batch);
                self.take_applied(now, result, effects);
            }
            Message::ApplyNamesSnapshot { epoch, batches } => {
                let is_of_leader = self.on_leader(now, from, epoch, effects);
                let Some((last, _)) = batches.last() else { return };
                if is_of_leader {
                    self.catchup.want(now.time, *last);
                } else if !self.follows(epoch, from) {
                    return;
                }
                let result = offer_all(&mut self.replica, epoch, &batches);
                self.take_applied(now, result, effects);
                self.say_progress(now, effects);
            }
            Message::Heartbeat { epoch, end } => {
                if self.on_leader(now, from, epoch, effects) && !planted!("gap-seen-by-traffic-only") {
                    self.catchup.want(now.time, end.position);
                    if end.position == self.replica.position() && end != self.replica.end() {
                        self.doubt(now.time, effects);
                    }
                }
                self.say_progress(now, effects);
            }
            Message::Progress { epoch, position } => {
                if let Some(leader) = self.leader.as_mut().filter(|leader| leader.epoch() == epoch) {
                    leader.on_progress(from, position);
                }
            }
            Message::Fetch { epoch, after } => {
                if let Some(leader) = self.leader.as_ref().filter(|leader| leader.epoch() == epoch) {
                    let batches = leader.remembered(after);
                    let message = Message::Fetched { epoch, after, batches };
                    effects.push(Effect::send(from.clone(), message));
                }
            }
            Message::Fetched { epoch, batches, .. } => {
                if self.follows(epoch, from) {
                    let result = self.catchup.on_fetched(now.time, &mut self.replica, epoch, &batches);
                    self.take_applied(now, result, effects);
                }
            }
            Message::SnapshotWanted { id, below } => {
                if !self.walks.begin(now.time, &mut self.replica, from, id, below) {
                    effects.push(Effect::send(from.clone(), Message::SnapshotRefused { id }));
                }
            }
            Message::SnapshotNext { id, below } => {
                let is_under_way = self.walks.let_on(now.time, from, id, below);
                if !is_under_way && planted!("refused-when-it-has-ended") {
                    effects.push(Effect::send(from.clone(), Message::SnapshotRefused { id }));
                }
            }
            Message::SnapshotChunk { id, index, chunk, end } => {
                let arrived = ArrivedChunk { id, index, chunk, end };
                let result = self.catchup.on_chunk(now.time, &mut self.replica, from, arrived, effects);
                self.take_applied(now, result.map(|()| Applied::default()), effects);
            }
            Message::SnapshotRefused { id } => self.catchup.on_refused(now.time, from, id),
            Message::TransferSnapshot { epoch } => {
                // By now its term was read, and this member leads no more.
                let position = self.replica.position();
                effects.push(Effect::send(from.clone(), Message::Transferred { epoch, position }));
            }
            Message::Transferred { epoch, position } => {
                let takes = |handoff: &mut Handoff| handoff.on_transferred(now.time, from, epoch);
                if self.handoff.as_mut().is_some_and(takes) {
                    self.catchup.want(now.time, position);
                }
            }
            Message::RunHandoff { epoch } => {
                self.to_run.insert(from.clone(), epoch);
                self.finish_handoffs(effects);
            }
            Message::Take(taking) => {
                self.host.on_taking(now, from, taking, &self.replica, &self.permitted, effects);
            }
            Message::HandoffDone { epoch } => {
                if self.is_named(from, epoch) {
                    effects.push(Effect::Tell(Tell::HandoffDone(epoch)));
                }
            }
            Message::Observers { epoch, observers } => {
                if self.on_leader(now, from, epoch, effects) {
                    self.duty.heard(now.time, observers.contains(&self.config.me));
                }
            }
            Message::ViewDelta { epoch, version, from: mark, to, rows } => {
                if self.on_leader(now, from, epoch, effects) {
                    let rows = rows.into_iter().map(Into::into).collect();
                    let (from, to) = (mark.map(Vec::from), to.map(Vec::from));
                    effects.push(Effect::Tell(Tell::Delta(ViewDelta { version, from, to, rows })));
                }
            }
            Message::LinksWanted => self.on_links_wanted(from, effects),
            Message::Links { linked, position } => self.on_links(now, from, linked, position),
        }
    }

    /// A node speaks as a leader that has opened this epoch. Says whether it is the one that the store names.
    pub(super) fn on_leader(
        &mut self,
        now: Now,
        from: &NodeName,
        epoch: Epoch,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if !self.is_named(from, epoch) && !planted!("peer-epoch-believed") {
            return false;
        }
        // The same epoch was won by another one if the store went back.
        let is_new =
            |(former, leader): &(Epoch, NodeName)| *former < epoch || (*former == epoch && leader != from);
        if self.following.as_ref().is_none_or(is_new) {
            self.following = Some((epoch, from.clone()));
            self.host.on_epoch(effects);
        }
        let is_due = |(told, at): (Epoch, Time)| told != epoch || now.time.since(at) >= HEARD_EVERY;
        if self.contact_told.is_none_or(is_due) {
            self.contact_told = Some((epoch, now.time));
            effects.push(Effect::Tell(Tell::LeaderContact(epoch)));
        }
        true
    }

    /// Whether the store names it as the leader of this epoch.
    fn is_named(&self, node: &NodeName, epoch: Epoch) -> bool {
        let term = &self.view.term;
        epoch == term.epoch && term.leader.as_ref().is_some_and(|leader| leader.node == *node)
    }

    /// Whether it is the last leader that was heard. What a leader says may come when the store names another one already.
    fn follows(&self, epoch: Epoch, node: &NodeName) -> bool {
        self.following.as_ref().is_some_and(|(of, leader)| *of == epoch && leader == node)
    }

    /// Whether this incarnation of a node is linked, or this very node.
    fn is_linked_as(&self, node: &NodeName, incarnation: Incarnation) -> bool {
        let is_linked = |link: &Linked| link.incarnation == incarnation;
        *node == self.config.me || self.links.get(node).is_some_and(is_linked)
    }

    pub(super) fn take_applied(
        &mut self,
        now: Now,
        result: Result<Applied, CorruptBatch>,
        effects: &mut Vec<Effect>,
    ) {
        match result {
            Ok(applied) => self.on_applied(&applied, effects),
            Err(CorruptBatch::Diverged { .. }) => self.doubt(now.time, effects),
            Err(corrupt) => effects.push(Effect::Event(Event::Corrupt { reason: corrupt.to_string() })),
        }
    }

    pub(super) fn on_applied(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        self.host.on_applied(applied, effects);
        for (session, names) in &applied.gone {
            effects.push(Effect::Event(Event::HostGone { session: session.clone(), names: *names }));
        }
    }
}
