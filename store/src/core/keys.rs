//! Where things are in the store.
//!
//! Names have no `/`, so the parts of a key cannot run into each other.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    Key, Read, appended,
    core::ids::{ClusterName, ElectionName, MemberId, NodeName, Position, RegistryName},
};

/// A key in one piece of memory: keys are made at each step of a core.
fn key(parts: &[&str]) -> Key {
    parts.concat().into_bytes()
}

fn below(prefix: Key) -> Range<Key> {
    let end = [prefix.as_slice(), &[0xff]].concat();
    prefix..end
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
        key(&[&self.prefix, "/session/", node.as_str()])
    }

    /// The records of all nodes, also of those that are no more.
    pub fn sessions(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/session/"]))
    }

    /// The mark of a node whose session is open.
    pub fn open_mark(&self, node: &NodeName) -> Key {
        key(&[&self.prefix, "/open/", node.as_str()])
    }

    /// The marks of all nodes whose sessions are open.
    pub fn open_marks(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/open/"]))
    }

    /// The node whose mark the key holds.
    pub fn open_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &self.prefix, "/open/")
    }

    /// How often the store went back, and since when: see `lineage` of `callsign-elector`.
    pub fn lineage(&self) -> Key {
        key(&[&self.prefix, "/lineage"])
    }

    /// The number that no new session may have, nor one below: closed records up to it were swept away.
    pub fn session_floor(&self) -> Key {
        key(&[&self.prefix, "/session_floor"])
    }

    /// The node whose session the key holds.
    pub fn session_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &self.prefix, "/session/")
    }

    /// The keys of one registry.
    pub fn registry(&self, registry: &RegistryName) -> RegistryKeys {
        RegistryKeys { cluster: self.clone(), prefix: format!("{}/registry/{registry}", self.prefix) }
    }

    /// Everything that is stored of all registries.
    pub fn registries(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/registry/"]))
    }

    /// The registry that a key belongs to.
    pub fn registry_name(&self, key: &[u8]) -> Option<RegistryName> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"/registry/")?;
        // What follows need not be text.
        let name = rest.split(|byte| *byte == b'/').next()?;
        RegistryName::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// Everything that is stored of all elections.
    pub fn elections(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/election/"]))
    }

    /// The election that a key belongs to.
    pub fn election_name(&self, key: &[u8]) -> Option<ElectionName> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"/election/")?;
        let name = rest.split(|byte| *byte == b'/').next()?;
        ElectionName::new(std::str::from_utf8(name).ok()?).ok()
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
        below(key(&[&self.prefix, "/"]))
    }

    /// Who has the seat, and the counter that is never reset.
    pub fn seat(&self) -> Key {
        key(&[&self.prefix, "/seat"])
    }

    /// The counter that gives a fence to the grants of an authority that has none.
    pub fn fence(&self) -> Key {
        key(&[&self.prefix, "/fence"])
    }

    /// How the election is run.
    pub fn control(&self) -> Key {
        key(&[&self.prefix, "/control"])
    }

    /// The last seniority given out.
    pub fn count(&self) -> Key {
        key(&[&self.prefix, "/count"])
    }

    /// A candidate's row.
    pub fn candidate(&self, member: &MemberId) -> Key {
        key(&[&self.prefix, "/candidate/", member.as_str()])
    }

    /// The rows of all candidates.
    pub fn candidates(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/candidate/"]))
    }

    /// The candidate whose row the key holds.
    pub fn candidate_id(&self, key: &[u8]) -> Option<MemberId> {
        let rest = behind(key, &self.prefix, "/candidate/")?;
        MemberId::new(rest).ok()
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
        below(key(&[&self.prefix, "/"]))
    }

    /// What entries of the membership queue are appended under; a watch on it ends when one is.
    pub fn queue(&self) -> Key {
        key(&[&self.prefix, "/queue/"])
    }

    /// The entries of the membership queue, oldest first.
    pub fn queue_entries(&self) -> Range<Key> {
        appended(&self.queue())
    }

    /// An author's sequence number.
    pub fn author(&self, node: &NodeName) -> Key {
        key(&[&self.prefix, "/author/", node.as_str()])
    }

    /// The records of all authors.
    pub fn authors(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/author/"]))
    }

    /// The author whose record the key holds.
    pub fn author_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &self.prefix, "/author/")
    }

    /// The sequence number that no author without a record may use again, nor one below.
    pub fn author_floor(&self) -> Key {
        key(&[&self.prefix, "/author_floor"])
    }

    /// A member's row.
    pub fn member(&self, node: &NodeName) -> Key {
        key(&[&self.prefix, "/member/", node.as_str()])
    }

    /// The rows of all members.
    pub fn members(&self) -> Range<Key> {
        below(key(&[&self.prefix, "/member/"]))
    }

    /// The member whose row the key holds.
    pub fn member_node(&self, key: &[u8]) -> Option<NodeName> {
        last_part(key, &self.prefix, "/member/")
    }

    /// The term: who leads. The fence of every batch.
    pub fn term(&self) -> Key {
        key(&[&self.prefix, "/term"])
    }

    /// What is set of the elections for all members alike. Absent: nothing is.
    pub fn settings(&self) -> Key {
        key(&[&self.prefix, "/settings"])
    }

    /// The lock of a handoff.
    pub fn lock(&self) -> Key {
        key(&[&self.prefix, "/lock"])
    }

    /// The position and the nonce of the last batch. Absent: the registry was never opened.
    pub fn commit(&self) -> Key {
        key(&[&self.prefix, "/commit"])
    }

    /// The first position that the log still has. Absent: all of them.
    pub fn floor(&self) -> Key {
        key(&[&self.prefix, "/floor"])
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
        let rest = behind(key, &self.prefix, "/log/")?;
        u64::from_str_radix(rest, 16).ok().map(Position)
    }
}

fn behind<'a>(key: &'a [u8], prefix: &str, part: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(prefix.as_bytes())?.strip_prefix(part.as_bytes())?;
    std::str::from_utf8(rest).ok()
}

fn last_part(key: &[u8], prefix: &str, part: &str) -> Option<NodeName> {
    NodeName::new(behind(key, prefix, part)?).ok()
}

/// Reads one key.
pub fn read_key(key: Key) -> Read {
    Read::Key(key)
}

/// Reads at most `limit` entries of a range.
pub fn read_range(range: Range<Key>, limit: usize) -> Read {
    Read::Range { range, limit }
}
