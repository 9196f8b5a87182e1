//! The handoff: what makes a newly elected leader serve.
//!
//! ```text
//!  elected --> ask the old leader for its end --> read the end of the log --> catch up --> open the epoch --> serve
//!              (`transfer_snapshot`; no answer      (after the term was         (log, or a    (an entry of its own,
//!               is needed for safety)                committed)                  snapshot)     then `apply_names_snapshot`)
//! ```
//!
//! Safe at any point to be done again: until the opening entry is committed nothing was changed, and that is
//! committed only under this term, at the end that was read.

#[cfg(test)]
mod tests;

use std::time::Duration;

use callsign_elector::{
    elector::View,
    lineage::LineageId,
    record::{LogEnd, Term},
    state::closed_holders,
};
use callsign_store::{
    Key, ReadResult, StoreError, Time,
    ids::{Epoch, NodeName},
    keys::RegistryKeys,
    planted,
    record::Record,
};

use crate::core::{
    fence::{Conditions, Fence},
    input::{Effect, OpId, Turn},
    message::Message,
};

/// How long the old leader may take to say how far its log goes. It settles no commit before: its term is over, and the
/// end of the log is read in any case. Shorter: one that is only busy is not waited for. Longer: one that hangs holds up
/// the new one.
const TRANSFER: Duration = Duration::from_secs(1);

/// A read that has not answered for so long is begun again.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait after a read that failed, or found another term.
const READ_RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum HandoffStage {
    /// The old leader was asked for its end.
    Transfer { from: NodeName, until: Time },
    /// The end of the log is to be read.
    Due { at: Time },
    /// It is being read.
    Reading { id: OpId, since: Time },
    /// The replica is to come up to the end.
    CatchUp(End),
}

/// The end of the log, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct End {
    /// What a batch behind it has to find.
    pub(crate) fence: Fence,
    /// Where it is. `None`: the registry was never opened.
    pub(crate) at: Option<LogEnd>,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Wait.
    Wait,
    /// Come up to the end of the log.
    CatchUp(End),
}

/// A member's way from elected to serving, up to the opening batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handoff {
    pub(crate) term: Term,
    /// The lineage in which the term is held.
    lineage: LineageId,
    stage: HandoffStage,
}

impl Handoff {
    /// Begins. `old` is the leader before, if it is another node and linked.
    pub(crate) fn begin(
        now: Time,
        term: Term,
        lineage: LineageId,
        old: Option<NodeName>,
        effects: &mut Vec<Effect>,
    ) -> Self {
        let stage = match old {
            Some(from) => {
                let message = Message::TransferSnapshot { epoch: term.epoch };
                effects.push(Effect::send(from.clone(), message));
                HandoffStage::Transfer { from, until: now + TRANSFER }
            }
            None => HandoffStage::Due { at: now },
        };
        Self { term, lineage, stage }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.term.epoch
    }

    /// A node says that it has stepped down. Returns whether that is the old leader, and was waited for.
    pub(crate) fn on_transferred(&mut self, now: Time, by: &NodeName, epoch: Epoch) -> bool {
        let is_awaited = matches!(&self.stage, HandoffStage::Transfer { from, .. } if from == by);
        let has_stepped_down = epoch == self.term.epoch && is_awaited;
        if has_stepped_down {
            self.stage = HandoffStage::Due { at: now };
        }
        has_stepped_down
    }

    /// The link to a node is down: nobody waits for it.
    pub(crate) fn on_link_down(&mut self, now: Time, node: &NodeName) {
        if matches!(&self.stage, HandoffStage::Transfer { from, .. } if from == node) {
            self.stage = HandoffStage::Due { at: now };
        }
    }

    /// For a planted defect only: takes what `commit` was before the term for the end of the log.
    pub(crate) fn presume_end(&mut self, former: &View, keys: &RegistryKeys) {
        let lineage = former.raw(&keys.cluster().lineage());
        let fence = Fence { term: self.term.to_value(), commit: former.raw(&keys.commit()), lineage };
        self.stage = HandoffStage::CatchUp(End { fence, at: former.commit });
    }

    /// Goes on as far as it can.
    pub(crate) fn proceed(&mut self, mut turn: Turn<'_>) -> Step {
        let now = turn.now;
        match &self.stage {
            HandoffStage::Transfer { until, .. } if now >= *until => {
                self.stage = HandoffStage::Due { at: now }
            }
            HandoffStage::Reading { since, .. }
                if now >= *since + READ_TIMEOUT && !planted!("handoff-waits-for-a-read") =>
            {
                self.stage = HandoffStage::Due { at: now }
            }
            _ => {}
        }
        match &self.stage {
            HandoffStage::Due { at } if now >= *at => {
                let id = turn.read(Fence::reads(turn.keys));
                self.stage = HandoffStage::Reading { id, since: now };
                Step::Wait
            }
            HandoffStage::CatchUp(end) => Step::CatchUp(end.clone()),
            HandoffStage::Transfer { .. } | HandoffStage::Due { .. } | HandoffStage::Reading { .. } => {
                Step::Wait
            }
        }
    }

    /// A read ended. The end counts only if it was read while the term stood, so that no older leader can have
    /// committed behind it.
    pub(crate) fn on_read(&mut self, now: Time, id: OpId, result: &Result<ReadResult, StoreError>) {
        if !matches!(self.stage, HandoffStage::Reading { id: current, .. } if current == id) {
            return;
        }
        self.stage = HandoffStage::Due { at: now + READ_RETRY };
        let Ok(read) = result else {
            if planted!("failed-read-taken-for-empty") {
                let fence = Fence { term: self.term.to_value(), commit: None, lineage: None };
                self.stage = HandoffStage::CatchUp(End { fence, at: None });
            }
            return;
        };
        let Some(term) = read.value(0).filter(|value| self.is_my_term(value)).cloned() else { return };
        let (commit, lineage) = (read.value(1).cloned(), read.value(2).cloned());
        // Of another one this member will hear.
        if !LineageId::of(lineage.as_ref()).is_ok_and(|id| self.lineage.is_same(id)) {
            return;
        }
        let at = match commit.as_deref().map(LogEnd::from_value) {
            None => None,
            Some(Ok(end)) => Some(end),
            // Corrupt is not "never opened". The member stays where it is.
            Some(Err(_)) => return,
        };
        self.stage = HandoffStage::CatchUp(End { fence: Fence { term, commit, lineage }, at });
    }

    /// Whether what was read is the term in which this member was elected. Its bytes may say more: a newer version wrote it.
    fn is_my_term(&self, value: &[u8]) -> bool {
        if planted!("term-reencoded") {
            return value == self.term.to_value();
        }
        Term::from_value(value).is_ok_and(|term| term == self.term)
    }

    /// The end that was read is not that of the log that the own replica has: it is read again.
    pub(crate) fn read_again(&mut self, now: Time) {
        self.stage = HandoffStage::Due { at: now + READ_RETRY };
    }

    /// When to be woken at the latest.
    pub(crate) fn wakes_at(&self) -> Option<Time> {
        match &self.stage {
            HandoffStage::Transfer { until, .. } => Some(*until),
            HandoffStage::Due { at } => Some(*at),
            HandoffStage::Reading { since, .. } => Some(*since + READ_TIMEOUT),
            HandoffStage::CatchUp(_) => None,
        }
    }
}

/// What must hold for a `Reset` besides the fence, if one may be written: every member's row says that it is empty,
/// or is of a session that is closed; and nobody has become a member since. Whoever does comes through the queue: nothing was
/// appended to it, as its mark says, and nobody who waited in it has a row.
pub(crate) fn reset_conditions(view: &View, keys: &RegistryKeys, counts_checks: bool) -> Option<Conditions> {
    let as_read = |key: Key, reencoded: &dyn Fn() -> Option<Vec<u8>>| {
        let value = if planted!("reset-reencodes") { reencoded() } else { view.raw(&key) };
        (key, value)
    };
    let (holders, mut conditions) = (closed_holders(&view.members, &view.sessions)?, Vec::new());
    for (node, row) in &view.members {
        // A session that is closed stays so in its lineage, which the fence checks: no check has to be spent on it.
        if holders.contains(node) && !counts_checks {
            let key = keys.cluster().session(&row.session.node);
            let record = view.sessions.record(&row.session.node);
            conditions.push(as_read(key, &|| record.map(Record::to_value)));
        }
        conditions.push(as_read(keys.member(node), &|| Some(row.to_value())));
    }
    if !planted!("reset-without-the-absent") {
        let absent = view.queued.as_ref()?.iter().filter(|node| !view.members.contains_key(*node));
        conditions.extend(absent.map(|node| (keys.member(node), None)));
        conditions.push((keys.queue(), view.raw(&keys.queue())));
    }
    Some(conditions)
}
