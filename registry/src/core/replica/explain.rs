//! What a replica says of one name: how it is, and what of its changes is remembered.

use std::collections::BTreeMap;

use callsign_store::ids::Position;

use super::{Replica, past::Ended};
use crate::core::{
    entry::Entry,
    explained::{Explained, MAX_TOLD, NameState, PastChange, WhyFree},
    name::Name,
    table::{Row, Table},
    watch::Change,
    why::Why,
};

impl<T: Table> Replica<T> {
    /// What is known of a name. Cost: a look at everything that is remembered.
    pub(crate) fn explain(&self, name: &Name) -> Explained {
        let (is_open, position) = (None, self.position());
        let since = self.past.since().filter(|_| self.is_based());
        let Some(since) = since else {
            let (state, changes, remembers_from) = (NameState::Unknown, Vec::new(), None);
            return Explained { state, is_open, changes, remembers_from, position };
        };
        let row = self.row(name);
        let mut changes = self.past_changes(name, row.as_ref());
        let told = changes.split_off(changes.len().saturating_sub(MAX_TOLD));
        let state = match &row {
            Some(row) => NameState::Held {
                entry: row.entry(),
                ago: self.past.ago(row.position),
                changed_ago: self.past.ago(row.revision()),
            },
            None => NameState::Free(self.why_free(&told, since)),
        };
        Explained { state, is_open, changes: told, remembers_from: Some(since), position }
    }

    fn why_free(&self, told: &[PastChange], since: Position) -> WhyFree {
        let last = told.last().filter(|last| last.change.now.is_none());
        match (last, self.past.began_at()) {
            (Some(last), _) => WhyFree::Ended(last.clone()),
            (None, Some(position)) => WhyFree::Reset { position, ago: self.past.ago(position) },
            (None, None) => WhyFree::NotRemembered { since },
        }
    }

    /// All that is remembered of a name that is held so now, oldest first: the ends of registrations; and if somebody watches, or did
    /// lately, also what was between.
    fn past_changes(&self, name: &Name, row: Option<&Row>) -> Vec<PastChange> {
        // Freed with its session, and not swept yet.
        let gone = self.rows.gone_row(name);
        let unswept =
            gone.as_ref().and_then(|row| self.past.went_at(row).map(|at| (row, at, &Why::NodeGone)));
        let ended: Vec<_> =
            self.past.of(name).map(|Ended { row, at, why, .. }| (row, *at, why)).chain(unswept).collect();
        let begun_at = |at: Position| -> Option<Entry> {
            let mut rows = ended.iter().map(|(row, ..)| *row).chain(row);
            // As it was then: it may have been updated since.
            rows.find(|row| row.position == at).map(|row| Entry { revision: at, ..row.holder() })
        };
        let change = |(was, at, why): &(&Row, Position, &Why)| {
            // Only a transfer ends a registration where the next one begins.
            let (was, now) = (Some(was.holder()), begun_at(*at));
            (*at, Change { name: name.clone(), position: *at, was, now, why: (*why).clone() })
        };
        let mut changes: BTreeMap<Position, Change> = ended.iter().map(change).collect();
        // A name changes once at a position at most.
        changes.extend(self.memory.of(name).map(|change| (change.position, change.clone())));
        let told = |change: Change| PastChange { ago: self.past.ago(change.position), change };
        changes.into_values().map(told).collect()
    }
}
