//! What the transactions of a leader have to find in the store.

use callsign_elector::lineage::LineageId;
use callsign_store::{
    Key, Read, ReadResult, Value,
    keys::{RegistryKeys, read_key},
};

/// Keys, and what a transaction has to find there.
pub(crate) type Conditions = Vec<(Key, Option<Value>)>;

/// What every batch has to find, in the bytes that were read or that this leader wrote itself: a newer version may have
/// written more into a record than this one knows of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fence {
    /// The term.
    pub(crate) term: Value,
    /// The end of the log.
    pub(crate) commit: Option<Value>,
    /// The record of the lineage.
    pub(crate) lineage: Option<Value>,
}

impl Fence {
    /// What to read of it; other reads may follow.
    pub(crate) fn reads(keys: &RegistryKeys) -> Vec<Read> {
        [keys.term(), keys.commit(), keys.cluster().lineage()].map(read_key).into()
    }

    /// Whether it was found by a read. The record of the lineage is another one when a node with a longer lease comes: it is
    /// taken as it is then.
    pub(crate) fn is_in(&mut self, read: &ReadResult) -> bool {
        let (ours, theirs) = (LineageId::of(self.lineage.as_ref()), LineageId::of(read.value(2)));
        let is_same = matches!((ours, theirs), (Ok(ours), Ok(theirs)) if ours.is_same(theirs));
        if is_same {
            self.lineage = read.value(2).cloned();
        }
        is_same && read.value(0) == Some(&self.term) && read.value(1) == self.commit.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_elector::{lineage::LineageNumber, record::Lineage};
    use callsign_store::{
        Limits, Transaction,
        ids::{ClusterName, Nonce, RegistryName},
        keys::ClusterKeys,
        mvcc::Mvcc,
        record::Record,
    };

    use super::*;

    fn lineage(number: u64, lease: u64) -> Value {
        let id = LineageId { number: LineageNumber(number), nonce: Nonce(number) };
        Lineage { id, greatest_lease: Duration::from_secs(lease) }.to_value()
    }

    #[test]
    fn a_leader_goes_on_in_its_own_term_lineage_and_log_though_a_node_with_a_longer_lease_comes() {
        let keys = ClusterKeys::new(&ClusterName::new("c").unwrap());
        let keys = keys.registry(&RegistryName::new("r").unwrap());
        let fence = Fence { term: b"t".into(), commit: Some(b"c".into()), lineage: Some(lineage(1, 10)) };
        for (term, commit, found, is_same) in [
            ("t", Some("c"), lineage(1, 10), true),
            ("t", Some("c"), lineage(1, 60), true),
            ("t", Some("c"), lineage(2, 10), false),
            ("T", Some("c"), lineage(1, 60), false),
            ("t", Some("C"), lineage(1, 60), false),
            ("t", None, lineage(1, 60), false),
        ] {
            let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
            let mut written = Transaction::new().put(keys.term(), term.into());
            if let Some(commit) = commit {
                written = written.put(keys.commit(), commit.into());
            }
            store.apply(&written.put(keys.cluster().lineage(), found.clone()));
            let read = store.read(&Fence::reads(&keys), None).unwrap();
            let mut fence = fence.clone();
            assert_eq!(fence.is_in(&read), is_same, "{term} {commit:?}");
            let taken = if found == lineage(2, 10) { lineage(1, 10) } else { found };
            assert_eq!(fence.lineage, Some(taken), "the next transaction checks for what was read");
        }
    }
}
