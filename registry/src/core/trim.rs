//! Cutting the log: what all synced members have passed is not kept, and a member that lags too far is not synced.
//!
//! One transaction moves the floor, drops the batches below it, and clears `synced` of who lags; it holds only if
//! the term, the floor and all members' rows are as they were looked at, so that nobody becomes synced below the new
//! floor, and the floor only grows.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use callsign_elector::{
    elector::View,
    member_rows::write_member,
    record::{MemberRow, PositionRecord},
};
use callsign_store::{
    CommitOutcome, Time, Transaction,
    ids::{NodeName, Position},
    planted,
    record::Record,
};

use crate::core::{
    input::{OpId, Turn},
    leader::Leader,
};

/// How often it is looked into.
const TRIM_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trim {
    /// How many batches have to go for it to be worth a transaction.
    worth: u64,
    /// How far a synced member may lag, in bytes of the log.
    max_lag: usize,
    next: Time,
    in_flight: Option<(OpId, Position)>,
    /// Of which members a cut of this one has said that they lag. It may have done so since they were looked at.
    lagged: BTreeSet<NodeName>,
}

impl Trim {
    pub(crate) fn new(worth: u64, max_lag: usize) -> Self {
        Self { worth, max_lag, next: Time::ZERO, in_flight: None, lagged: BTreeSet::new() }
    }

    pub(crate) fn on_wake(
        &mut self,
        mut turn: Turn<'_>,
        me: &NodeName,
        end: Position,
        leader: &Leader,
        view: &View,
    ) {
        let (now, keys) = (turn.now, turn.keys);
        if now < self.next {
            return;
        }
        // A commit that never answers does not stop the next look.
        self.next = now + TRIM_EVERY;
        if !leader.is_open() || view.term.epoch != leader.epoch() {
            return;
        }
        let (mut floor, mut lagging) = (end.next(), Vec::new());
        for (node, row) in view.members.iter().filter(|(node, row)| row.synced && *node != me) {
            let progress = leader.progress_of(node);
            let is_ignored = progress.is_none() && planted!("cut-ignores-laggards");
            if is_ignored || planted!("log-cut-too-far") {
                continue;
            }
            let position = progress.unwrap_or(Position(0));
            if leader.bytes_after(position) > self.max_lag {
                lagging.push((node, row));
            } else {
                floor = floor.min(position.next());
            }
        }
        if floor.0 < view.floor.0 + self.worth {
            return;
        }
        let (term_key, term) = leader.fence();
        // The floor, too: an earlier cut that was given up may still land, and must not take it back.
        let mut transaction = view.check(Transaction::new().check(term_key, Some(term)), keys.floor());
        if planted!("cut-without-floor") {
            transaction.checks.retain(|check| check.key != keys.floor());
        }
        transaction = view.check(transaction, keys.cluster().lineage());
        for (node, row) in view.members.iter().filter(|_| !planted!("cut-without-member-rows")) {
            transaction = if planted!("cut-reencodes") {
                transaction.check(keys.member(node), Some(row.to_value()))
            } else {
                view.check(transaction, keys.member(node))
            };
        }
        // Nor may anybody have joined and become synced since, of whom there was no row to be looked at: that takes a new
        // entry of the queue.
        if !planted!("cut-without-queue-mark") {
            transaction = view.check(transaction, keys.queue());
        }
        self.lagged.retain(|node| view.members.contains_key(node));
        for (node, row) in lagging {
            self.lagged.insert(node.clone());
            let row = MemberRow { synced: false, ..row.clone() };
            transaction = write_member(transaction, keys, node, Some(&row));
        }
        transaction = transaction
            .put(keys.floor(), PositionRecord(floor).to_value())
            .clear_range(keys.log_range(view.floor..floor));
        self.in_flight = Some((turn.commit(transaction), floor));
    }

    /// Those that are members, of which a cut of this one has said that they lag, or may have said it.
    pub(crate) fn lagged(&self) -> &BTreeSet<NodeName> {
        &self.lagged
    }

    /// A commit ended. Returns the new floor, if it was this one's and was committed. Any other outcome needs
    /// nothing: the next look begins from what is there then.
    pub(crate) fn on_commit(&mut self, id: OpId, outcome: &CommitOutcome) -> Option<Position> {
        let (_, floor) = self.in_flight.take_if(|(current, _)| *current == id)?;
        matches!(outcome, CommitOutcome::Committed(_)).then_some(floor)
    }

    /// When to look. `None`: even if all members had applied a log that ends there, a cut would not be worth it.
    pub(crate) fn wakes_at(&self, end: Position, floor: Position) -> Option<Time> {
        (end.next().0 >= floor.0 + self.worth).then_some(self.next)
    }
}
