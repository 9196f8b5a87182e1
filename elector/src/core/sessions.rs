//! What one read showed of nodes' sessions, and which of them are over.

use std::collections::BTreeMap;

use callsign_store::ids::{NodeName, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};

use crate::core::record::SessionRecord;

/// The sessions of some nodes, and the floor below which absent ones are closed: all at one version.
///
/// A node that is not in here was not read, or its record could not be read: its sessions are neither open nor closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sessions {
    floor: SessionNumber,
    records: BTreeMap<NodeName, Option<SessionRecord>>,
}

impl Sessions {
    /// No node was read yet. `floor` is the store's `session_floor`, 0 if it has none.
    pub fn new(floor: SessionNumber) -> Self {
        Self { floor, records: BTreeMap::new() }
    }

    /// Takes what was read of a node; `None`: the store has no record of it.
    pub fn insert(&mut self, node: NodeName, record: Option<SessionRecord>) {
        self.records.insert(node, record);
    }

    /// The record of a node, if it was read and there is one.
    pub fn record(&self, node: &NodeName) -> Option<&SessionRecord> {
        self.records.get(node)?.as_ref()
    }

    /// Whether it was read what the store has of the node.
    pub fn has_read(&self, node: &NodeName) -> bool {
        self.records.contains_key(node)
    }

    /// Whether the session is known to be open.
    pub fn is_open(&self, session: &SessionId) -> bool {
        self.record(&session.node).is_some_and(|record| record.is_open_as(session))
    }

    /// Whether the session is known to be over. A session that once was open, has no record any more, and is not above
    /// the floor was swept away after it was closed.
    pub fn is_closed(&self, session: &SessionId) -> bool {
        match self.records.get(&session.node) {
            Some(Some(record)) => record.has_closed(session),
            Some(None) => session.number <= self.floor,
            None => false,
        }
    }

    /// Whether both say the same of the same nodes, but for beats.
    pub(crate) fn agree(&self, other: &Self) -> bool {
        let beatless = |record: &Option<SessionRecord>| {
            record.as_ref().map(|r| (r.incarnation, r.number, r.lease, r.open))
        };
        self.floor == other.floor
            && self.records.len() == other.records.len()
            && self
                .records
                .iter()
                .zip(&other.records)
                .all(|((a, one), (b, two))| a == b && beatless(one) == beatless(two))
    }
}

impl FromIterator<(NodeName, SessionRecord)> for Sessions {
    /// Of nodes that all have a record, above a floor of 0.
    fn from_iter<I: IntoIterator<Item = (NodeName, SessionRecord)>>(records: I) -> Self {
        let records = records.into_iter().map(|(node, record)| (node, Some(record))).collect();
        Self { floor: SessionNumber(0), records }
    }
}
