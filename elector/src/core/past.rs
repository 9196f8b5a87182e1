//! What a node knows to be committed, and whether what a read shows is a store that went back behind it.
//!
//! A fact may be compared only with a read that was begun after it was known: an earlier read may show what was before.

use std::collections::BTreeMap;

use callsign_store::{
    Key, Transaction, Value, Write,
    ids::{Ballot, Epoch, Position, Sequence},
    keys::RegistryKeys,
    planted,
    record::Record,
};
use serde::{Deserialize, Serialize};

use crate::core::{
    lineage::LineageNumber,
    record::{AuthorRecord, LogEnd, Term},
};

/// Something that was committed, of which a key of the store has to show as much or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fact {
    /// The term came so far.
    Term {
        /// The epoch.
        epoch: Epoch,
        /// The ballot.
        ballot: Ballot,
    },
    /// The log had this batch.
    Commit(LogEnd),
    /// The own entries of the queue were counted so far.
    Author(Sequence),
    /// The store showed this, and it does not follow what was applied.
    Contradicts(Value),
}

impl Fact {
    /// Whether the value of its key shows that the fact is gone. What cannot be read shows nothing; nor does an author's record
    /// that is not there: it may have been swept away.
    pub fn is_gone(&self, value: Option<&Value>) -> bool {
        fn read<R: Record + Default>(value: Option<&Value>) -> Option<R> {
            value.map_or(Some(R::default()), |value| R::from_value(value).ok())
        }
        match self {
            Self::Term { epoch, ballot } => {
                let term = value.map_or(Some(Term::vacant()), |value| Term::from_value(value).ok());
                term.is_some_and(|term| term.epoch < *epoch || term.ballot < *ballot)
            }
            Self::Commit(end) => read::<LogEnd>(value).is_some_and(|shown| {
                let is_another = shown.nonce != end.nonce && !planted!("lost-nonce-not-compared");
                shown.position < end.position || (shown.position == end.position && is_another)
            }),
            Self::Author(sequence) => {
                value.is_some()
                    && read::<AuthorRecord>(value).is_some_and(|author| author.sequence < *sequence)
            }
            Self::Contradicts(shown) => value == Some(shown),
        }
    }

    /// Whether it says something of the time before a lineage: then nobody misses it there.
    fn is_before(&self, lineage: LineageNumber) -> bool {
        match self {
            Self::Term { epoch, .. } => lineage.is_after(epoch.0),
            Self::Commit(end) => lineage.is_after(end.position.0),
            Self::Author(sequence) => lineage.is_after(sequence.0),
            Self::Contradicts(_) => false,
        }
    }
}

/// The facts of one registry that a node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    facts: BTreeMap<Key, Fact>,
    /// What was counted before this lineage is of no account.
    lineage: LineageNumber,
}

impl Past {
    /// Nothing is known of a lineage.
    pub fn of(lineage: LineageNumber) -> Self {
        Self { facts: BTreeMap::new(), lineage }
    }

    /// Takes a fact. What says less than what is known changes nothing.
    pub fn note(&mut self, key: Key, fact: Fact) {
        if fact.is_before(self.lineage) {
            return;
        }
        match (self.facts.get_mut(&key), fact) {
            (Some(Fact::Term { epoch, ballot }), Fact::Term { epoch: e, ballot: b }) => {
                (*epoch, *ballot) = ((*epoch).max(e), (*ballot).max(b));
            }
            (Some(Fact::Commit(known)), Fact::Commit(end)) => {
                if end.position > known.position {
                    *known = end;
                }
            }
            (Some(Fact::Author(known)), Fact::Author(sequence)) => *known = (*known).max(sequence),
            (_, fact) => {
                self.facts.insert(key, fact);
            }
        }
    }

    /// Takes what a key was seen to hold, or what was committed to it.
    pub fn note_value(&mut self, keys: &RegistryKeys, author: &Key, key: &Key, value: &Value) {
        if *key == keys.term() {
            if let Ok(Term { epoch, ballot, .. }) = Term::from_value(value) {
                self.note(key.clone(), Fact::Term { epoch, ballot });
            }
        } else if *key == keys.commit() {
            if let Ok(end) = LogEnd::from_value(value)
                && end.position > Position(0)
            {
                self.note(key.clone(), Fact::Commit(end));
            }
        } else if key == author
            && let Ok(record) = AuthorRecord::from_value(value)
        {
            self.note(key.clone(), Fact::Author(record.sequence));
        }
    }

    /// Takes what a transaction has committed.
    pub fn note_committed(&mut self, keys: &RegistryKeys, author: &Key, transaction: &Transaction) {
        for write in &transaction.writes {
            if let Write::Put { key, value } = write {
                self.note_value(keys, author, key, value);
            }
        }
    }

    /// How far the own entries were counted, if that is known.
    pub fn sequence(&self, author: &Key) -> Option<Sequence> {
        match self.facts.get(author) {
            Some(Fact::Author(sequence)) => Some(*sequence),
            _ => None,
        }
    }

    /// Takes what another one knows.
    pub fn merge(&mut self, other: Self) {
        for (key, fact) in other.facts {
            self.note(key, fact);
        }
    }

    /// The facts that a read shows to be gone, each with its key. `value` gives what the read showed of a key.
    pub fn gone(&self, value: impl Fn(&Key) -> Option<Value>) -> Vec<(Key, Fact)> {
        let gone = self.facts.iter().filter(|(key, fact)| fact.is_gone(value(key).as_ref()));
        gone.map(|(key, fact)| (key.clone(), fact.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
