//! Cutting the log: what all synced members have passed is not kept, and a member that lags too far is not synced.
//!
//! One transaction moves the floor, drops the batches below it, and clears `synced` of who lags; it holds only if
//! the term, the floor and all members' rows are as they were looked at, so that nobody becomes synced below the new
//! floor, and the floor only grows.

use std::time::Duration;

use callsign_elector::{
    Time,
    elector::View,
    ids::{NodeName, Position},
    keys::RegistryKeys,
    record::{PositionRecord, Record},
    store::{CommitOutcome, Transaction},
};

use crate::{
    input::{Effect, OpId},
    leader::Leader,
};

/// How far a synced member may lag, in bytes of the log. Smaller: a slow one needs snapshots. Larger: the store
/// keeps more.
const MAX_LAG: usize = 64 << 20;

/// How often it is looked into.
const EVERY: Duration = Duration::from_secs(1);

/// How many batches have to go for it to be worth a transaction.
const WORTH: u64 = if cfg!(test) { 16 } else { 256 };

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Trim {
    next: Time,
    in_flight: Option<(OpId, Position)>,
}

impl Trim {
    pub(crate) fn on_wake(
        &mut self,
        now: Time,
        me: &NodeName,
        end: Position,
        leader: &Leader,
        view: &View,
        keys: &RegistryKeys,
        next_op: &mut u64,
        effects: &mut Vec<Effect>,
    ) {
        if now < self.next {
            return;
        }
        // A commit that never answers does not stop the next look.
        self.next = now + EVERY;
        if !leader.is_open() || view.term.epoch != leader.epoch() {
            return;
        }
        let (mut floor, mut lagging) = (end.next(), Vec::new());
        for (node, row) in view.members.iter().filter(|(node, row)| row.synced && *node != me) {
            let position = leader.progress_of(node).unwrap_or(Position(0));
            if leader.bytes_after(position) > MAX_LAG {
                lagging.push((node, row));
            } else {
                floor = floor.min(position.next());
            }
        }
        if floor.0 < view.floor.0 + WORTH {
            return;
        }
        let (term_key, term) = leader.fence();
        // The floor, too: an earlier cut that was given up may still land, and must not take it back.
        let former = (view.floor > Position(0)).then(|| PositionRecord(view.floor).to_value());
        let mut transaction = Transaction::new().check(term_key, Some(term)).check(keys.floor(), former);
        for (node, row) in &view.members {
            transaction = transaction.check(keys.member(node), Some(row.to_value()));
        }
        for (node, row) in lagging {
            let mut row = row.clone();
            row.synced = false;
            transaction = transaction.put(keys.member(node), row.to_value());
        }
        transaction = transaction
            .put(keys.floor(), PositionRecord(floor).to_value())
            .clear_range(keys.log_range(view.floor..floor));
        *next_op += 1;
        let id = OpId(*next_op);
        effects.push(Effect::Commit { id, transaction });
        self.in_flight = Some((id, floor));
    }

    /// A commit ended. Returns the new floor, if it was this one's and was committed. Any other outcome needs
    /// nothing: the next look begins from what is there then.
    pub(crate) fn on_commit(&mut self, id: OpId, outcome: &CommitOutcome) -> Option<Position> {
        let (_, floor) = self.in_flight.take_if(|(current, _)| *current == id)?;
        matches!(outcome, CommitOutcome::Committed(_)).then_some(floor)
    }

    pub(crate) fn wakes_at(&self) -> Time {
        self.next
    }
}
