//! What the store shows of a registry.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use callsign_store::{
    Key, Transaction, Value, Version,
    ids::{NodeName, Position, Token},
    keys::RegistryKeys,
    planted,
};
use serde::{Deserialize, Serialize};

use crate::core::{
    lineage::LineageId,
    policy::Opening,
    record::{Lock, LogEnd, MemberRow, Term},
    sessions::Sessions,
    settings::InForce,
    state,
};

/// What the store showed at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// The version.
    pub version: Version,
    /// The lineage of the store.
    pub lineage: LineageId,
    /// The term: its leader, if there is one.
    pub term: Term,
    /// The handoff in progress.
    pub lock: Option<Lock>,
    /// The members.
    pub members: BTreeMap<NodeName, MemberRow>,
    /// What holds for this elector.
    pub settings: InForce,
    /// The sessions of the members, of those who wait in the queue, and of the nodes of [`Notice::Concerned`](super::Notice::Concerned).
    pub sessions: Sessions,
    /// The log's end. `None`: the registry was never opened.
    pub commit: Option<LogEnd>,
    /// The first position that the log still has.
    pub floor: Position,
    /// The own token, while the own member is one.
    pub me: Option<Token>,
    /// The bytes of all records that were read, by key. A newer version may have written more into a record than this one
    /// reads, so a transaction checks for these, never for what this version would write.
    pub raw: Arc<BTreeMap<Key, Value>>,
    /// The authors of the entries that wait in the queue. `None`: more wait than were read.
    pub queued: Option<BTreeSet<NodeName>>,
}

impl View {
    /// Whether nothing was under way: somebody leads, nobody holds the lock, and no entry waits.
    pub fn is_quiet(&self) -> bool {
        let is_empty = self.queued.as_ref().is_some_and(BTreeSet::is_empty);
        let is_empty = is_empty || planted!("delta-while-an-entry-waits");
        self.term.leader.is_some() && self.lock.is_none() && is_empty
    }

    /// Whether a leader without a base may open the seat now. The batch that does has to check it again.
    pub fn opening(&self) -> Option<Opening> {
        state::opening(&self.members, &self.sessions, self.commit.map(|end| end.position))
    }

    /// The bytes that a key had. `None`: it was absent.
    pub fn raw(&self, key: &Key) -> Option<Value> {
        self.raw.get(key).cloned()
    }

    /// Adds the check that a key is as it was read.
    #[must_use]
    pub fn check(&self, transaction: Transaction, key: Key) -> Transaction {
        let expected = self.raw(&key);
        transaction.check(key, expected)
    }

    /// Whether the two differ in nothing but the version and the beats of sessions.
    pub fn shows_the_same(&self, other: &Self, keys: &RegistryKeys) -> bool {
        let beats = keys.cluster().sessions();
        let has_no_beat = |entry: &(&Key, &Value)| !beats.contains(entry.0);
        // The bytes, not what this version reads in them: whoever checks for them has to hear that they changed.
        self.me == other.me
            && self.raw.iter().filter(has_no_beat).eq(other.raw.iter().filter(has_no_beat))
            && self.queued == other.queued
            && self.sessions.agree(&other.sessions)
    }
}
