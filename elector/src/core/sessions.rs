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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_store::ids::{Beat, Incarnation};

    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn record(incarnation: u64, number: u64, open: bool) -> SessionRecord {
        let (incarnation, number) = (Incarnation(incarnation), SessionNumber(number));
        SessionRecord { incarnation, number, lease: Duration::from_secs(10), beat: Beat(1), open }
    }

    fn the_session() -> SessionId {
        SessionId { node: node("a"), incarnation: Incarnation(7), number: SessionNumber(3) }
    }

    #[test]
    fn a_session_is_open_by_its_own_record_and_over_by_that_or_by_a_later_one() {
        let session = the_session();
        for (record, is_open, is_closed) in [
            (record(7, 3, true), true, false),
            (record(7, 3, false), false, true),
            (record(8, 3, true), false, true),
            (record(7, 4, true), false, true),
            (record(8, 4, false), false, true),
            (record(7, 2, true), false, false),
            (record(6, 2, false), false, false),
        ] {
            let said = format!("{record:?}");
            let sessions: Sessions = [(node("a"), record)].into_iter().collect();
            assert_eq!(
                (sessions.is_open(&session), sessions.is_closed(&session)),
                (is_open, is_closed),
                "{said}"
            );
        }
    }

    #[test]
    fn a_session_that_has_no_record_is_over_up_to_the_floor_if_that_was_read() {
        let session = the_session();
        for (floor, is_closed) in [(2, false), (3, true), (4, true)] {
            let mut sessions = Sessions::new(SessionNumber(floor));
            assert!(!sessions.is_closed(&session) && !sessions.has_read(&session.node));
            sessions.insert(node("a"), None);
            assert!(!sessions.is_open(&session) && sessions.has_read(&session.node));
            assert_eq!(sessions.is_closed(&session), is_closed, "{floor}");
        }
    }

    #[test]
    fn two_readings_agree_if_they_differ_in_beats_alone() {
        let read = |floor: u64, records: &[(&str, Option<SessionRecord>)]| {
            let mut sessions = Sessions::new(SessionNumber(floor));
            for (name, record) in records {
                sessions.insert(node(name), record.clone());
            }
            sessions
        };
        let a = || Some(record(7, 3, true));
        let one = read(2, &[("a", a()), ("b", None)]);
        let beaten = SessionRecord { beat: Beat(9), ..record(7, 3, true) };
        assert!(one.agree(&one) && one.agree(&read(2, &[("a", Some(beaten)), ("b", None)])));
        let longer = SessionRecord { lease: Duration::from_secs(11), ..record(7, 3, true) };
        for other in [
            read(3, &[("a", a()), ("b", None)]),
            read(2, &[("a", a())]),
            read(2, &[("a", a()), ("b", None), ("c", None)]),
            read(2, &[("a", a()), ("c", None)]),
            read(2, &[("a", None), ("b", None)]),
            read(2, &[("a", Some(record(7, 3, false))), ("b", None)]),
            read(2, &[("a", Some(record(7, 4, true))), ("b", None)]),
            read(2, &[("a", Some(record(8, 3, true))), ("b", None)]),
            read(2, &[("a", Some(longer)), ("b", None)]),
        ] {
            assert!(!one.agree(&other) && !other.agree(&one), "{other:?}");
        }
    }
}
