//! Where things are in the store.
//!
//! Names have no `/`, so the parts of a key cannot run into each other.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    Key, Read, appended,
    core::ids::{ClusterName, ElectionName, MemberId, NodeName, Position, RegistryName},
};

fn below(prefix: &str) -> Range<Key> {
    let mut end = prefix.as_bytes().to_vec();
    end.push(0xff);
    prefix.as_bytes().to_vec()..end
}

/// The keys that all registries of a cluster share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterKeys {
    prefix: String,
}

impl ClusterKeys {
    /// The keys of a cluster.
    pub fn new(cluster: &ClusterName) -> Self {
        Self { prefix: format!("callsign/{cluster}") }
    }

    /// A node's session.
    pub fn session(&self, node: &NodeName) -> Key {
        format!("{}/session/{node}", self.prefix).into_bytes()
    }

    /// The records of all nodes, also of those that are no more.
    pub fn sessions(&self) -> Range<Key> {
        below(&format!("{}/session/", self.prefix))
    }

    /// The mark of a node whose session is open.
    pub fn open_mark(&self, node: &NodeName) -> Key {
        format!("{}/open/{node}", self.prefix).into_bytes()
    }

    /// The marks of all nodes whose sessions are open.
    pub fn open_marks(&self) -> Range<Key> {
        below(&format!("{}/open/", self.prefix))
    }

    /// The node whose mark the key holds.
    pub fn open_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &format!("{}/open/", self.prefix))
    }

    /// How often the store went back, and since when: see `lineage` of `callsign-elector`.
    pub fn lineage(&self) -> Key {
        format!("{}/lineage", self.prefix).into_bytes()
    }

    /// The number that no new session may have, nor one below: closed records up to it were swept away.
    pub fn session_floor(&self) -> Key {
        format!("{}/session_floor", self.prefix).into_bytes()
    }

    /// The node whose session the key holds.
    pub fn session_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &format!("{}/session/", self.prefix))
    }

    /// The keys of one registry.
    pub fn registry(&self, registry: &RegistryName) -> RegistryKeys {
        RegistryKeys { cluster: self.clone(), prefix: format!("{}/registry/{registry}", self.prefix) }
    }

    /// The keys of one election.
    pub fn election(&self, election: &ElectionName) -> ElectionKeys {
        ElectionKeys { prefix: format!("{}/election/{election}", self.prefix) }
    }
}

/// The keys of one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectionKeys {
    prefix: String,
}

impl ElectionKeys {
    /// The election's name.
    pub fn election(&self) -> &str {
        self.prefix.rsplit_once('/').map_or(&self.prefix, |(_, name)| name)
    }

    /// Everything that is stored of the election.
    pub fn all(&self) -> Range<Key> {
        below(&format!("{}/", self.prefix))
    }

    /// Who has the seat, and the counter that is never reset.
    pub fn seat(&self) -> Key {
        format!("{}/seat", self.prefix).into_bytes()
    }

    /// The counter that gives a fence to the grants of an authority that has none.
    pub fn fence(&self) -> Key {
        format!("{}/fence", self.prefix).into_bytes()
    }

    /// How the election is run.
    pub fn control(&self) -> Key {
        format!("{}/control", self.prefix).into_bytes()
    }

    /// The last seniority given out.
    pub fn count(&self) -> Key {
        format!("{}/count", self.prefix).into_bytes()
    }

    /// A candidate's row.
    pub fn candidate(&self, member: &MemberId) -> Key {
        format!("{}/candidate/{member}", self.prefix).into_bytes()
    }

    /// The rows of all candidates.
    pub fn candidates(&self) -> Range<Key> {
        below(&format!("{}/candidate/", self.prefix))
    }

    /// The candidate whose row the key holds.
    pub fn candidate_id(&self, key: &[u8]) -> Option<MemberId> {
        let rest = key.strip_prefix(format!("{}/candidate/", self.prefix).as_bytes())?;
        MemberId::new(std::str::from_utf8(rest).ok()?).ok()
    }
}

/// The keys of one registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegistryKeys {
    cluster: ClusterKeys,
    prefix: String,
}

impl RegistryKeys {
    /// The keys of its cluster.
    pub fn cluster(&self) -> &ClusterKeys {
        &self.cluster
    }

    /// Everything that is stored of the registry.
    pub fn all(&self) -> Range<Key> {
        below(&format!("{}/", self.prefix))
    }

    /// What entries of the membership queue are appended under; a watch on it ends when one is.
    pub fn queue(&self) -> Key {
        format!("{}/queue/", self.prefix).into_bytes()
    }

    /// The entries of the membership queue, oldest first.
    pub fn queue_entries(&self) -> Range<Key> {
        appended(&self.queue())
    }

    /// An author's sequence number.
    pub fn author(&self, node: &NodeName) -> Key {
        format!("{}/author/{node}", self.prefix).into_bytes()
    }

    /// The records of all authors.
    pub fn authors(&self) -> Range<Key> {
        below(&format!("{}/author/", self.prefix))
    }

    /// The author whose record the key holds.
    pub fn author_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &format!("{}/author/", self.prefix))
    }

    /// The sequence number that no author without a record may use again, nor one below.
    pub fn author_floor(&self) -> Key {
        format!("{}/author_floor", self.prefix).into_bytes()
    }

    /// A member's row.
    pub fn member(&self, node: &NodeName) -> Key {
        format!("{}/member/{node}", self.prefix).into_bytes()
    }

    /// The rows of all members.
    pub fn members(&self) -> Range<Key> {
        below(&format!("{}/member/", self.prefix))
    }

    /// The member whose row the key holds.
    pub fn member_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &format!("{}/member/", self.prefix))
    }

    /// The term: who leads. The fence of every batch.
    pub fn term(&self) -> Key {
        format!("{}/term", self.prefix).into_bytes()
    }

    /// What is set of the elections for all members alike. Absent: nothing is.
    pub fn settings(&self) -> Key {
        format!("{}/settings", self.prefix).into_bytes()
    }

    /// The lock of a handoff.
    pub fn lock(&self) -> Key {
        format!("{}/lock", self.prefix).into_bytes()
    }

    /// The position and the nonce of the last batch. Absent: the registry was never opened.
    pub fn commit(&self) -> Key {
        format!("{}/commit", self.prefix).into_bytes()
    }

    /// The first position that the log still has. Absent: all of them.
    pub fn floor(&self) -> Key {
        format!("{}/floor", self.prefix).into_bytes()
    }

    /// One batch of the log.
    pub fn log(&self, position: Position) -> Key {
        // Hexadecimal of fixed width: it sorts like the number, and people can read it.
        format!("{}/log/{position:016x}", self.prefix, position = position.0).into_bytes()
    }

    /// The batches from one position up to, not including, another.
    pub fn log_range(&self, positions: Range<Position>) -> Range<Key> {
        self.log(positions.start)..self.log(positions.end)
    }

    /// The position of the batch that the key holds.
    pub fn log_position(&self, key: &[u8]) -> Option<Position> {
        let rest = key.strip_prefix(format!("{}/log/", self.prefix).as_bytes())?;
        u64::from_str_radix(std::str::from_utf8(rest).ok()?, 16).ok().map(Position)
    }
}

fn last_part(key: &[u8], prefix: &str) -> Option<NodeName> {
    let rest = key.strip_prefix(prefix.as_bytes())?;
    NodeName::new(std::str::from_utf8(rest).ok()?).ok()
}

/// Reads one key.
pub fn read_key(key: Key) -> Read {
    Read::Key(key)
}

/// Reads at most `limit` entries of a range.
pub fn read_range(range: Range<Key>, limit: usize) -> Read {
    Read::Range { range, limit }
}
