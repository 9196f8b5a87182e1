//! What a member does about each message.

use callsign_planted::planted;

use super::{
    Applied, ArrivedChunk, CorruptBatch, Effect, Epoch, Event, HEARD_EVERY, Leader, Member, Message,
    NodeName, Now, Position, Table, Tell, Time, offer_all,
};

impl<T: Table> Member<T> {
    pub(super) fn on_message(
        &mut self,
        now: Now,
        from: &NodeName,
        message: Message,
        effects: &mut Vec<Effect>,
    ) {
        match message {
            Message::Requests { epoch, session, acknowledged, requests } => {
                // A request addressed to another epoch is asked again by its host when it hears of this one.
                if session.node != *from {
                    return;
                }
                let is_ours =
                    |leader: &&mut Leader| leader.epoch() == epoch || planted!("request-of-any-epoch");
                if let Some(leader) = self.leader.as_mut().filter(is_ours) {
                    leader.on_requests(&self.replica, session, acknowledged, requests, &self.view, effects);
                }
            }
            Message::Verdicts { epoch, session, position, verdicts } => {
                self.host.on_verdicts(epoch, &session, position, verdicts);
                self.catchup.want(now.time, position);
            }
            Message::Replicate { epoch, prev, position, batch } => {
                self.hear(now, from, epoch, effects);
                self.catchup.want(now.time, position);
                let result = self.replica.offer(epoch, prev, position, batch);
                self.take_applied(result, effects);
            }
            Message::ApplyNamesSnapshot { epoch, batches } => {
                self.hear(now, from, epoch, effects);
                let Some(((first, _), (last, _))) = batches.first().zip(batches.last()) else { return };
                self.catchup.want(now.time, *last);
                let after = Position(first.0.saturating_sub(1));
                let result = offer_all(&mut self.replica, epoch, after, batches);
                self.take_applied(result, effects);
                self.say_progress(effects);
            }
            Message::Heartbeat { epoch, position } => {
                self.hear(now, from, epoch, effects);
                if !planted!("gap-seen-by-traffic-only") {
                    self.catchup.want(now.time, position);
                }
                self.say_progress(effects);
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
                    effects.push(Effect::Send { to: from.clone(), message });
                }
            }
            Message::Fetched { epoch, after, batches } => {
                let result = self.catchup.on_fetched(now.time, &mut self.replica, epoch, after, batches);
                self.take_applied(result, effects);
            }
            Message::SnapshotWanted { id } => {
                let message = self.walks.begin(now.time, &mut self.replica, from, id);
                effects.push(Effect::Send { to: from.clone(), message });
            }
            Message::SnapshotNext { id, index } => {
                let message = self.walks.next(now.time, &mut self.replica, from, id, index);
                effects.push(Effect::Send { to: from.clone(), message });
            }
            Message::SnapshotChunk { id, index, names, chunk, end } => {
                let arrived = ArrivedChunk { id, index, names, chunk, end };
                let result = self.catchup.on_chunk(now.time, &mut self.replica, from, arrived, effects);
                self.take_applied(result.map(|()| Applied::default()), effects);
            }
            Message::SnapshotRefused { id } => self.catchup.on_refused(now.time, from, id),
            Message::TransferSnapshot { epoch } => self.on_transfer(from, epoch, effects),
            Message::Transferred { epoch, position } => {
                self.catchup.want(now.time, position);
                if let Some(handoff) = &mut self.handoff {
                    handoff.on_transferred(now.time, from, epoch);
                }
            }
            Message::Assume { epoch } => {
                self.assume.insert(from.clone(), epoch);
                self.answer_assume(effects);
                if epoch > self.view.term.epoch {
                    effects.push(Effect::Tell(Tell::Refresh));
                }
            }
            Message::Assumed { epoch } => effects.push(Effect::Tell(Tell::Assumed(epoch))),
        }
    }

    /// The new leader asks this one to step down.
    pub(super) fn on_transfer(&mut self, from: &NodeName, epoch: Epoch, effects: &mut Vec<Effect>) {
        self.transfer_to = Some((from.clone(), epoch));
        effects.push(Effect::Tell(Tell::Refresh));
        match &mut self.leader {
            // Its term is over, whatever this member has heard: the asker was elected later.
            Some(leader) if leader.epoch() < epoch => leader.is_stepping_down = true,
            _ => self.answer_transfer(effects),
        }
    }

    /// A leader that has opened this epoch spoke.
    pub(super) fn hear(&mut self, now: Now, from: &NodeName, epoch: Epoch, effects: &mut Vec<Effect>) {
        if epoch > self.view.term.epoch {
            effects.push(Effect::Tell(Tell::Refresh));
        }
        if self.heard.as_ref().is_none_or(|(heard, _)| *heard < epoch) {
            self.heard = Some((epoch, from.clone()));
            self.host.on_epoch();
        }
        let is_due = |(told, at): (Epoch, Time)| told != epoch || now.time.since(at) >= HEARD_EVERY;
        if epoch >= self.view.term.epoch && self.heard_told.is_none_or(is_due) {
            self.heard_told = Some((epoch, now.time));
            effects.push(Effect::Tell(Tell::Heard(epoch)));
        }
    }

    pub(super) fn say_progress(&mut self, effects: &mut Vec<Effect>) {
        if let Some((epoch, to)) = self.leader().filter(|(_, leader)| **leader != self.config.me) {
            let message = Message::Progress { epoch, position: self.replica.position() };
            effects.push(Effect::Send { to: to.clone(), message });
        }
    }

    pub(super) fn take_applied(&mut self, result: Result<Applied, CorruptBatch>, effects: &mut Vec<Effect>) {
        match result {
            Ok(applied) => self.on_applied(&applied, effects),
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
