//! Taking the seat and leaving it.

use callsign_elector::past::Fact;
use callsign_store::planted;

use super::{
    Effect, Epoch, Event, Handoff, Leader, Member, Message, NodeName, Now, Step, Table, Tell, Turn,
    reset_conditions, splitmix,
};

impl<T: Table> Member<T> {
    pub(super) fn depose_if_over(&mut self, effects: &mut Vec<Effect>) {
        let epoch = self.view.term.epoch;
        let another_won = self.another_won();
        let is_over = |of: Epoch| of < epoch || (of == epoch && another_won);
        if self.handoff.as_ref().is_some_and(|handoff| is_over(handoff.epoch())) {
            self.handoff = None;
        }
        if self.leader.as_ref().is_some_and(|leader| is_over(leader.epoch())) {
            self.depose(effects);
        }
    }

    /// Whether the present term is that of another node: of an epoch that this member won, only if the store went back since.
    fn another_won(&self) -> bool {
        let leader = self.view.term.leader.as_ref();
        let is_own = |node: &NodeName| *node == self.config.me || planted!("leads-what-another-won");
        leader.is_some_and(|leader| !is_own(&leader.node))
    }

    pub(super) fn depose(&mut self, effects: &mut Vec<Effect>) {
        if let Some(leader) = self.leader.take() {
            effects.push(Effect::Event(Event::Deposed { epoch: leader.epoch() }));
        }
    }

    pub(super) fn begin_handoff(&mut self, now: Now, old: Option<NodeName>, effects: &mut Vec<Effect>) {
        let epoch = self.view.term.epoch;
        // In a store that went back the same epoch may have been won again: that is another term.
        let is_under_way = self.handoff.as_ref().is_some_and(|handoff| handoff.term == self.view.term)
            || self.leader.as_ref().is_some_and(|leader| leader.epoch() == epoch);
        if !self.is_elected() || is_under_way || self.drain.has_left() {
            return;
        }
        self.depose(effects);
        let old = old.filter(|old| *old != self.config.me && self.links.contains_key(old));
        self.handoff =
            Some(Handoff::begin(now.time, self.view.term.clone(), self.view.lineage, old, effects));
    }

    /// The elector sees a lock for an epoch: its leader is to open it, and to say so.
    pub(super) fn on_run_handoff(&mut self, leader: NodeName, epoch: Epoch, effects: &mut Vec<Effect>) {
        if leader == self.config.me {
            self.to_run.insert(leader, epoch);
            self.finish_handoffs(effects);
        } else if self.links.contains_key(&leader) {
            effects.push(Effect::send(leader, Message::RunHandoff { epoch }));
        }
    }

    pub(super) fn finish_handoffs(&mut self, effects: &mut Vec<Effect>) {
        let Some(open) = self.leader.as_ref().filter(|leader| leader.is_open()).map(Leader::epoch) else {
            return;
        };
        self.to_run.retain(|asker, epoch| {
            if *epoch != open {
                return *epoch > open;
            }
            if *asker == self.config.me {
                effects.push(Effect::Tell(Tell::HandoffDone(open)));
            } else {
                effects.push(Effect::send(asker.clone(), Message::HandoffDone { epoch: open }));
            }
            false
        });
    }

    pub(super) fn drive_handoff(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(handoff) = &mut self.handoff else { return };
        let step = handoff.proceed(Turn::new(now.time, &self.config.keys, &mut self.next_op, effects));
        let Step::CatchUp(end) = step else { return };
        if self.replica.is_installing() || self.catchup.is_busy() {
            return; // catching up
        }
        let epoch = handoff.epoch();
        let at_end = end.at.unwrap_or_default();
        let has_applied = self.replica.is_based().then(|| self.replica.end());
        if has_applied.is_some_and(|has| Fact::Commit(has).is_gone(end.fence.commit.as_ref())) {
            handoff.read_again(now.time);
            return self.doubt(now.time, effects);
        }
        let lineage = self.view.lineage.number;
        // What the log has is of another lineage, and so is whatever somebody could give.
        let is_behind = lineage.is_after(at_end.position.0);
        if !is_behind {
            self.catchup.want(now.time, at_end.position);
        }
        let mut resets = false;
        let mut conditions = Vec::new();
        if end.at.is_none() {
            // Never opened: the fence checks that the log is still empty.
            resets = true;
        } else if (is_behind || !self.replica.is_based() || self.replica.position() < at_end.position)
            && !planted!("opens-without-catching-up")
        {
            let donors = self.sources().synced;
            let counts_checks = self.config.tuning.counts_checks;
            let reset = reset_conditions(&self.view, &self.config.keys, counts_checks);
            // A base that the log does not reach any more is none: what came between is lost.
            let is_lost = !self.replica.is_based() || self.catchup.is_too_far();
            match reset.filter(|_| is_behind || (is_lost && donors.is_empty())) {
                None => return, // catching up
                Some(found) => {
                    resets = true;
                    conditions = if planted!("reset-unconditional") { Vec::new() } else { found };
                    self.replica.give_up_base();
                    self.host.drop_all_claims(effects);
                    self.proceed_host(now, effects);
                    if self.host.is_busy() {
                        // The names may be others' when it is written: it is when the claims are dropped.
                        return;
                    }
                    self.replica.skip_to(at_end);
                }
            }
        }
        self.handoff = None;
        self.config.seed = splitmix(self.config.seed);
        let (me, keys) = (self.config.me.clone(), self.config.keys.clone());
        // Off the line of seeds: a leader that followed it would give its second batch the nonce that its successor in the
        // next term gives its first, and at the same position that may be another batch.
        let nonces =
            if planted!("nonces-of-terms-overlap") { self.config.seed } else { splitmix(!self.config.seed) };
        let mut leader = Leader::new(me, keys, (lineage, epoch), end.fence, nonces, self.config.tuning);
        let turn = &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
        leader.open(turn, &self.replica, resets, conditions);
        self.leader = Some(leader);
        self.catchup.stop();
    }
}
