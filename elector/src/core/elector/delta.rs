//! What a leader tells members that rest of what it read, so that they need not read it.

use std::collections::BTreeSet;

use callsign_store::{Value, Version, ids::NodeName, keys::RegistryKeys, planted};
use serde::{Deserialize, Serialize};

use super::View;

/// Which members differ between two views of a registry in which nothing was under way.
///
/// The members of such a view follow from the mark of the queue: a transaction that changes them takes an entry off the queue, and the
/// mark tells which entry was the last one. The exception is a member that lags so far that the leader cuts the log: it is then said
/// between two equal marks. So such a member's row is said again at the next mark, also if the leader sees no other row than before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ViewDelta {
    /// When the store showed the later view.
    pub version: Version,
    /// The mark of the queue in the former view, as its bytes.
    pub from: Option<Value>,
    /// The mark in the later view.
    pub to: Option<Value>,
    /// The rows that are other ones. After a change of leader all rows.
    pub rows: Vec<RowDelta>,
}

/// The row of a member that is another one, was not there before, or is there no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowDelta {
    /// The member.
    pub node: NodeName,
    /// The bytes of the row. `None`: it is a member no more.
    pub row: Option<Value>,
    /// The bytes of the session record that the node had then.
    pub session: Option<Value>,
}

impl ViewDelta {
    /// What leads from the `former` view to this one. `None`: nothing does, or nothing is to be said. `lagged`: those of which the leader
    /// may have said that they lag, so that others may have seen that in between.
    pub fn between(
        keys: &RegistryKeys,
        former: &View,
        view: &View,
        lagged: &BTreeSet<NodeName>,
    ) -> Option<Self> {
        // Of another lineage the marks mean something else.
        let is_of_one_store = former.lineage.is_same(view.lineage);
        if !(is_of_one_store && former.is_quiet() && view.is_quiet()) {
            return None;
        }
        // While another one led, others may have seen a member lag that did not lag in the former view, or the other way round: at the
        // same mark.
        let is_of_one_term = former.term.epoch == view.term.epoch;
        let (from, to) = (former.raw(&keys.queue()), view.raw(&keys.queue()));
        let is_changed = |node: &&NodeName| {
            let key = keys.member(node);
            // It lagged at the former mark, and does not any more.
            let has_changed_twice =
                from != to && lagged.contains(*node) && !planted!("lag-between-two-looks");
            !is_of_one_term || has_changed_twice || former.raw.get(&key) != view.raw.get(&key)
        };
        let nodes: BTreeSet<_> = former.members.keys().chain(view.members.keys()).collect();
        let rows = nodes.into_iter().filter(is_changed).map(|node| RowDelta {
            node: node.clone(),
            row: view.raw(&keys.member(node)),
            session: view.raw(&keys.cluster().session(node)),
        });
        let is_left_out = |row: &RowDelta| row.row.is_none() && planted!("delta-without-leavers");
        let rows: Vec<_> = rows.filter(|row| !is_left_out(row)).collect();
        (from != to || !rows.is_empty()).then_some(Self { version: view.version, from, to, rows })
    }
}

/// How many deltas are kept. Fewer: a member that was stopped for a moment reads everything. More: it keeps more of what is of no use.
const KEPT_DELTAS: usize = 64;

/// What the leader said, in the order in which it said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Deltas(Vec<ViewDelta>);

impl Deltas {
    /// Keeps one more. If there are too many, none is of use.
    pub(super) fn keep(&mut self, delta: ViewDelta) {
        if self.0.len() == KEPT_DELTAS {
            self.0.clear();
        }
        self.0.push(delta);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets what was known at this version.
    pub(super) fn forget_until(&mut self, version: Version) {
        self.0.retain(|delta| delta.version > version);
    }

    /// Whether one tells of something later.
    pub(super) fn tell_more_than(&self, version: Version) -> bool {
        self.0.iter().any(|delta| delta.version > version)
    }

    /// What leads from one mark to what the store showed at `version`, when this was the mark. `None`: nobody has said so.
    pub(super) fn path(
        &self,
        from: Option<&Value>,
        to: Option<&Value>,
        version: Version,
    ) -> Option<&[ViewDelta]> {
        let is_old = |delta: &&ViewDelta| delta.version <= version || planted!("delta-ahead-of-the-look");
        let begin = self.0.iter().position(|delta| delta.from.as_ref() == from).unwrap_or_default();
        let mut at = from;
        let mut length = 0;
        for delta in self.0[begin..].iter().take_while(is_old) {
            if delta.from.as_ref() != at && !planted!("delta-from-elsewhere") {
                break;
            }
            (at, length) = (delta.to.as_ref(), length + 1);
        }
        (at == to).then(|| &self.0[begin..begin + length])
    }
}
