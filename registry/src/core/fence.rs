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
