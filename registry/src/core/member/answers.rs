//! The store's answers, and what comes of them.

use callsign_elector::lineage::LineageNumber;
use callsign_store::{CommitOutcome, ReadResult, StoreError};

use super::Member;
use crate::core::{
    input::{Effect, Event, Now, OpId, Tell, Turn},
    leader::Outcome,
    log::CorruptBatch,
    reads::WentBack,
    replica::Applied,
    table::Table,
};

impl<T: Table> Member<T> {
    pub(super) fn on_read(
        &mut self,
        now: Now,
        id: OpId,
        result: &Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        match self.reads.on_read(now.time, id, result) {
            Ok(wanted) => wanted.into_iter().for_each(|wanted| self.catchup.want(now.time, wanted)),
            Err(WentBack) => self.doubt(now.time, effects),
        }
        if let Some(handoff) = &mut self.handoff {
            handoff.on_read(now.time, id, result);
        }
        let read = result.as_ref().ok();
        let (keys, names) = (&self.config.keys, self.config.tuning.slice_names);
        let applied = self.catchup.on_log(now.time, &mut self.replica, id, read, keys, names);
        self.take_log(now, applied, effects);
        if let Some(leader) = &mut self.leader {
            let turn = &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            let outcome = leader.on_read(turn, &mut self.replica, id, result, &self.linked);
            self.on_outcome(now, &outcome, effects);
        }
    }

    pub(super) fn on_commit(
        &mut self,
        now: Now,
        id: OpId,
        outcome: &CommitOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(floor) = self.trim.on_commit(id, outcome) {
            leader.forget_below(floor);
        }
        let turn = &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
        let outcome = leader.on_commit(turn, &mut self.replica, id, outcome, &self.linked);
        self.on_outcome(now, &outcome, effects);
    }

    fn on_outcome(&mut self, now: Now, outcome: &Outcome, effects: &mut Vec<Effect>) {
        self.on_applied(&outcome.applied, effects);
        if outcome.opened
            && let Some(leader) = &mut self.leader
        {
            let (epoch, position) = (leader.epoch(), self.replica.position());
            leader.on_view(&self.view, &self.replica, effects);
            effects.push(Effect::Event(Event::Serving { epoch, position }));
            let me = self.config.me.clone();
            self.on_leader(now, &me, epoch, effects);
            self.finish_handoffs(effects);
        }
        if outcome.deposed {
            self.depose(effects);
            effects.push(Effect::Tell(Tell::Applied(self.replica.end())));
            effects.push(Effect::Tell(Tell::Refresh));
        }
    }

    pub(super) fn take_log(
        &mut self,
        now: Now,
        applied: Result<Applied, CorruptBatch>,
        effects: &mut Vec<Effect>,
    ) {
        self.take_applied(now, applied, effects);
        if let Some((key, value)) = self.catchup.take_contradiction() {
            let lineage = LineageNumber::of(self.replica.position().0);
            effects.push(Effect::Tell(Tell::Contradicted { lineage, key, value }));
        }
    }
}
