//! What is in the store: the records of sessions and of who leads a registry.
//!
//! Each begins with one byte that names its schema. A record that cannot be read is an error, never "absent":
//! a seat whose record is corrupt is not vacant.

use std::time::Duration;

use callsign_store::{
    Value, Version,
    ids::{
        Ballot, Beat, Epoch, Incarnation, NodeName, Nonce, Position, Sequence, SessionId, SessionNumber,
        Token,
    },
    record::{CorruptRecord, Record},
};
use serde::{Deserialize, Deserializer, Serialize};

use crate::core::{lineage::LineageId, session::timing::MAX_LEASE, settings::Settings};

/// A node's lease in the store. No value is ever written twice: every change moves `beat` or `number`, or closes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The incarnation whose session it is.
    pub incarnation: Incarnation,
    /// Its number among the sessions of the node.
    pub number: SessionNumber,
    /// How long an observer must see the beat unmoved before it may close the session. At most [`MAX_LEASE`], also as
    /// read.
    #[serde(deserialize_with = "at_most_the_longest")]
    pub lease: Duration,
    /// Moves while the node lives.
    pub beat: Beat,
    /// Whether it is still open. A closed session is never opened again; the next one has the next number.
    pub open: bool,
}
impl Record for SessionRecord {}

/// Nobody waits longer than this for a record that says more: its writer may not have meant it, and is not waited for.
fn at_most_the_longest<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::deserialize(from)?.min(MAX_LEASE))
}

impl SessionRecord {
    /// Whether this is the given session, open.
    pub fn is_open_as(&self, session: &SessionId) -> bool {
        self.open && self.incarnation == session.incarnation && self.number == session.number
    }

    /// Whether the given session of this node is over: this record is its closed one, or a later session's.
    pub fn has_closed(&self, session: &SessionId) -> bool {
        self.number > session.number
            || (self.number == session.number && (!self.open || self.incarnation != session.incarnation))
    }
}

/// The lineage of the store: it is another one each time when it was noticed that the store went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage {
    /// Which one.
    pub id: LineageId,
    /// The longest lease of a session that may still be trusted: of all that were opened. At most [`MAX_LEASE`], also as read.
    #[serde(deserialize_with = "at_most_the_longest")]
    pub greatest_lease: Duration,
}
impl Record for Lineage {}

impl Default for Lineage {
    /// What an absent record stands for.
    fn default() -> Self {
        Self { id: LineageId::default(), greatest_lease: Duration::ZERO }
    }
}

impl LineageId {
    /// The lineage that a value of the record says.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(value: Option<&Value>) -> Result<Self, CorruptRecord> {
        value.map_or(Ok(Self::default()), |value| Lineage::from_value(value).map(|lineage| lineage.id))
    }
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leader {
    /// The member.
    pub node: NodeName,
    /// The incarnation that was elected. Its successor never continues the term.
    pub incarnation: Incarnation,
    /// The join that was elected. A member that joins again never continues the term.
    pub token: Token,
}

/// The term. Written only when the leader changes; a vacant seat raises the epoch too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Term {
    /// Who leads, or nobody.
    pub leader: Option<Leader>,
    /// Grows with every change of leader.
    pub epoch: Epoch,
    /// Grows with every change and every refresh.
    pub ballot: Ballot,
    /// The store's version at which the election was decided: issued by the store, not by a member's clock.
    pub elected_at: Version,
}
impl Record for Term {}

impl Term {
    /// The term before the first: nobody leads, epoch 0. What an absent record stands for.
    pub fn vacant() -> Self {
        Self { leader: None, epoch: Epoch(0), ballot: Ballot(0), elected_at: Version(0) }
    }

    /// Whether the given join of a member leads.
    pub fn is_led_by(&self, node: &NodeName, token: Token) -> bool {
        self.leader.as_ref().is_some_and(|l| l.node == *node && l.token == token)
    }
}

/// A member that calls the leader silent. It stays until its epoch ends, or is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Accusation {
    /// The epoch whose leader is accused.
    pub epoch: Epoch,
    /// Whether the accuser had contact with that leader in that epoch.
    pub had_contact: bool,
}

/// A member's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberRow {
    /// Identifies its join.
    pub token: Token,
    /// The session that joined.
    pub session: SessionId,
    /// Where its node listens for links: `host:port`.
    pub address: String,
    /// Where its node answers whoever administers it, if it says so. Opaque here.
    pub admin: Option<String>,
    /// For policies that rank members; 0 is ineligible. `sticky` looks only at that.
    pub priority: u32,
    /// Whether its replica holds the end of the log.
    pub synced: bool,
    /// Whether it says that it has no base and no claims. Cleared by `Synced` only.
    pub empty: bool,
    /// Its accusation of the leader, if it has one.
    pub accuses: Option<Accusation>,
    /// Whether it is about to leave: it leads only if nobody else can. Cleared by a new join only. Left out where it is
    /// false, as versions before it wrote.
    #[serde(default, skip_serializing_if = "is_false")]
    pub draining: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !flag
}
impl Record for MemberRow {}

/// A change of leader in progress. Whoever holds it has a handoff to run or to give up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lock {
    /// The epoch that is handed over.
    pub epoch: Epoch,
    /// Who runs the handoff.
    pub owner: NodeName,
    /// Who wrote it: replacing and clearing are conditional on it.
    pub nonce: Nonce,
}
impl Record for Lock {}

/// The mark of a node whose session is open, by its number: so that the open ones are found among all records. Written with
/// the record that opens the session, and cleared with the one that closes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenMark(pub SessionNumber);
impl Record for OpenMark {}

/// `session_floor`: no session that has no record, and at most this number, is open, or ever will be. Never lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionFloor(pub SessionNumber);
impl Record for SessionFloor {}

/// `author_floor`: authors that have no record used at most this number. Never lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AuthorFloor(pub Sequence);
impl Record for AuthorFloor {}

/// The last sequence number that an author used. It also orders the author's unknown enqueues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthorRecord {
    /// The last sequence number used.
    pub sequence: Sequence,
}
impl Record for AuthorRecord {}

/// Why a member is called down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Evidence {
    /// Its session is closed. Removes any member.
    Closed,
    /// It leads, and its member does not answer, or the link to it closed. A vote; vacates only the seat.
    Silent {
        /// Whether the accuser had contact with it in this epoch.
        had_contact: bool,
    },
}

/// A membership event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MembershipEvent {
    /// The author joins, or joins again. Its token is the entry's sequence number.
    Join {
        /// Where its node listens for links.
        address: String,
        /// Where its node answers whoever administers it, if it says so.
        admin: Option<String>,
        /// For policies that rank members; 0 is ineligible.
        priority: u32,
        /// Whether it has no base and no claims.
        empty: bool,
    },
    /// The author calls a member down.
    Down {
        /// The accused.
        member: NodeName,
        /// The accused join.
        token: Token,
        /// The author's own current token.
        accuser_token: Token,
        /// The epoch in which it was said.
        epoch: Epoch,
        /// Why.
        evidence: Evidence,
    },
    /// The author takes back its accusation of the leader.
    Withdraw {
        /// The author's own current token.
        token: Token,
        /// The epoch of the accusation.
        epoch: Epoch,
    },
    /// The author leaves.
    Leave {
        /// The author's own current token.
        token: Token,
    },
    /// The author gives up the seat, and stays a member.
    Resign {
        /// The author's own current token.
        token: Token,
        /// The epoch in which it leads.
        epoch: Epoch,
    },
    /// The author is about to leave: it gives up the seat as soon as another member can take it, takes none while another
    /// can, and stays a member.
    Drain {
        /// The author's own current token.
        token: Token,
    },
    /// The author sets something for all members. What it does not name stays as it is.
    Configure {
        /// The author's own current token.
        token: Token,
        /// What it sets.
        change: Settings,
    },
    /// The author's replica holds the log's end.
    Synced {
        /// The author's own current token.
        token: Token,
        /// The epoch in which it was said.
        epoch: Epoch,
        /// What its replica had applied.
        position: Position,
    },
}

/// An entry of the membership queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Whose entry it is.
    pub author: SessionId,
    /// The author's sequence number; for a `Join` it becomes the token.
    pub sequence: Sequence,
    /// What is said.
    pub event: MembershipEvent,
}
impl Record for QueueEntry {}

/// A batch of the log by its position and by the nonce that its leader drew for it: `commit` is the last one. Positions alone
/// do not tell two logs apart: a store that lost its last commits grows back to the same position with another batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogEnd {
    /// Where the batch is. 0: before the first.
    pub position: Position,
    /// Its nonce. 0 before the first.
    pub nonce: Nonce,
}
impl Record for LogEnd {}

impl LogEnd {
    /// The record of this end: absent before the first batch.
    pub fn to_record(self) -> Option<Value> {
        (self.position > Position(0)).then(|| self.to_value())
    }
}

/// A position as a record: `floor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PositionRecord(pub Position);
impl Record for PositionRecord {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_above_the_longest_is_read_as_the_longest() {
        let shorter = Duration::from_secs(10);
        for (written, read) in [(MAX_LEASE * 2, MAX_LEASE), (MAX_LEASE, MAX_LEASE), (shorter, shorter)] {
            let (incarnation, number) = (Incarnation(7), SessionNumber(1));
            let session = SessionRecord { incarnation, number, lease: written, beat: Beat(1), open: true };
            let as_read = SessionRecord::from_value(&session.to_value());
            assert_eq!(as_read, Ok(SessionRecord { lease: read, ..session }));
            let lineage = Lineage { id: LineageId::default(), greatest_lease: written };
            let as_read = Lineage::from_value(&lineage.to_value());
            assert_eq!(as_read, Ok(Lineage { greatest_lease: read, ..lineage }));
        }
    }
}
