//! What members of a registry tell each other over links.
//!
//! All of it is in this file, with its version. A message of an older epoch changes nothing.
//!
//! The fields of a message never change within a version; what a later one adds is behind the message, where older nodes do
//! not look. A message that this version does not have is dropped and counted, as if it had been lost.

mod bounded;

use std::sync::Arc;

use bytes::Bytes;
use callsign_elector::{
    elector::{RowDelta, ViewDelta},
    record::LogEnd,
};
use callsign_store::{
    Version,
    ids::{Epoch, NodeName, Position, SessionId},
    planted, printable,
};
use callsign_transport::{Kind, VariantName};
use serde::{Deserialize, Serialize};

use crate::core::{
    entry::Entry,
    log::{Op, SESSION_BYTES},
    meta::Meta,
    name::Name,
    table::{RequestNumber, Row},
    taking::Taking,
    traced::{self, Traced},
    why::GivenUp,
};

/// The version of the messages that this version writes, and the only one that it reads.
const VERSION: u8 = 1;

/// The most bytes that a message takes for what may be many: requests, verdicts, rows of a snapshot. One of them may be more. A
/// message comes near no limit of a frame by it.
pub(crate) const MESSAGE_BYTES: usize = 512 << 10;

/// The most bytes that a host says of why a start failed.
pub(crate) const MAX_REASON_BYTES: usize = 200;

/// What a host wants of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wish {
    /// To hold it with this actor, which says this of itself; without one, to hold it while one is started.
    Register { actor: Option<u64>, kind: Kind, meta: Option<Meta> },
    /// To hold it with this actor from now on, if the registration is the one at `position` and has none.
    Bind { position: Position, actor: u64, meta: Option<Meta> },
    /// To have it go to an actor of another session, or of this one, which asks for it by this number of its own; if the registration
    /// is the one at `position`.
    Transfer { position: Position, to: Arc<SessionId>, number: RequestNumber, actor: u64, kind: Kind },
    /// To give it up, if the registration is the one at `position`.
    Unregister { position: Position, why: GivenUp },
    /// To say something else of itself, if the registration is the one at `position`, and was changed last at `revision` if that is
    /// given.
    Update { position: Position, revision: Option<Position>, meta: Option<Meta> },
}

impl Wish {
    /// The actor for which a name is asked for.
    pub fn actor(&self) -> Option<u64> {
        match self {
            Self::Register { actor, .. } => *actor,
            Self::Bind { actor, .. } => Some(*actor),
            // That of a transfer is another's.
            Self::Unregister { .. } | Self::Update { .. } | Self::Transfer { .. } => None,
        }
    }

    /// About how many bytes it takes with its name, as a request and as an operation; never less than it does.
    pub fn weight(&self, name: &Name) -> usize {
        let more = match self {
            Self::Unregister { why, .. } => why.weight(),
            Self::Transfer { .. } => SESSION_BYTES,
            _ => 0,
        };
        Op::weight_of(name, self.meta()) + more
    }

    /// Whether it asks for a name whose actor is yet to be started.
    pub fn starts(&self) -> bool {
        matches!(self, Self::Register { actor: None, .. })
    }

    /// The metadata that it brings.
    pub fn meta(&self) -> Option<&Meta> {
        match self {
            Self::Register { meta, .. } | Self::Bind { meta, .. } | Self::Update { meta, .. } => {
                meta.as_ref()
            }
            Self::Unregister { .. } | Self::Transfer { .. } => None,
        }
    }
}

/// One request of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    pub number: RequestNumber,
    pub name: Name,
    pub wish: Wish,
}

impl Request {
    /// About how many bytes it takes, encoded; never less than it does.
    pub fn weight(&self) -> usize {
        self.wish.weight(&self.name)
    }
}

/// The leader's answer to a request. It holds at `position` of the log, and the host passes it on when its own
/// replica is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The name is the actor's, by the registration at `token`, changed last at `revision`.
    Granted { token: Position, revision: Position },
    /// Somebody holds it.
    Taken { holder: Box<Entry> },
    /// The registration that was to be given up is not there, or not any more.
    Released,
    /// The metadata is what was asked for, by the change at `revision`.
    Updated { revision: Position },
    /// The metadata was changed before, at `revision`, which is not the one that was asked for.
    Moved { revision: Position },
    /// The registration that was to be changed is not there. Somebody else may hold the name.
    NotHeld { holder: Option<Box<Entry>> },
    /// The semaphore in which a place was asked for has another limit, until nobody is in it.
    OtherLimit { limit: u32 },
    /// By its certificate the session's node may hold names only that begin with these.
    NotPermitted { allowed: Arc<[String]> },
    /// The name is the other actor's, by the registration at `token`.
    Transferred { token: Position },
    /// The name is held as before, and the other actor will never have it by this request: its session is lost; or, by its
    /// certificate, its node may hold names only that begin with these.
    Kept { allowed: Option<Arc<[String]>> },
    /// The registration that was to go to another actor is not there.
    Gone,
}

impl Verdict {
    /// About how many bytes it takes with its number, encoded; never less than it does. The entry of a holder has a node's name of
    /// 100 bytes at most.
    pub fn weight(&self) -> usize {
        let prefixes = match self {
            Self::NotPermitted { allowed } | Self::Kept { allowed: Some(allowed) } => &allowed[..],
            _ => &[],
        };
        256 + prefixes.iter().map(|prefix| prefix.len() + 5).sum::<usize>()
    }

    /// Whether the host may do, or go on with, something by it.
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Granted { .. } | Self::Updated { .. } | Self::Kept { .. })
    }
}

/// One row of a snapshot, or the absence of one. `session` is an index into the chunk's sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChunkRow {
    pub name: Name,
    pub row: Option<ChunkHeld>,
}

/// How a name is held; without an actor, one is being started. `revision`: if it was changed since it was registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChunkHeld {
    pub position: Position,
    pub session: u32,
    pub request: RequestNumber,
    pub actor: Option<u64>,
    pub kind: Kind,
    pub revision: Option<Position>,
    pub meta: Option<Meta>,
}

/// Part of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chunk {
    pub sessions: Vec<Arc<SessionId>>,
    /// Sessions, by where they are listed, whose rows below a position are gone. To be done before `rows`.
    pub gone: Vec<(u32, Position)>,
    pub rows: Vec<ChunkRow>,
}

impl Chunk {
    pub fn push(&mut self, name: Name, row: Option<Row>) {
        let row = row.map(|row| ChunkHeld {
            position: row.position,
            session: self.list(&row.session),
            request: if planted!("snapshot-without-request") { RequestNumber(0) } else { row.request },
            actor: row.actor().or(planted!("snapshot-without-state").then_some(row.actor)),
            kind: row.kind,
            revision: Some(row.revision())
                .filter(|revision| *revision != row.position && !planted!("revision-of-the-snapshot-lost")),
            meta: row.meta().filter(|_| !planted!("snapshot-without-metadata")).cloned(),
        });
        self.rows.push(ChunkRow { name, row });
    }

    /// About how many bytes a row takes in it.
    pub fn weight(name: &Name, row: Option<&Row>) -> usize {
        Op::weight_of(name, row.and_then(Row::meta))
    }

    /// Adds a session whose rows below a position are gone.
    pub fn push_gone(&mut self, session: SessionId, below: Position) {
        let index = self.list(&Arc::new(session));
        self.gone.push((index, below));
    }

    fn list(&mut self, session: &Arc<SessionId>) -> u32 {
        let found = self.sessions.iter().rposition(|s| Arc::ptr_eq(s, session) || *s == *session);
        let index = found.unwrap_or_else(|| {
            self.sessions.push(session.clone());
            self.sessions.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

/// A message between members.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Host to leader. All requests of this session with a number below `acknowledged` are decided and known.
    Requests { epoch: Epoch, session: Arc<SessionId>, acknowledged: RequestNumber, requests: Vec<Request> },
    /// Leader to host. Each verdict holds at `position`.
    Verdicts {
        epoch: Epoch,
        session: Arc<SessionId>,
        position: Position,
        verdicts: Vec<(RequestNumber, Verdict)>,
    },

    /// Leader to member: the batch at `position`, to be applied by whoever holds the batch that it names as the one before.
    Replicate { epoch: Epoch, position: Position, batch: Bytes },
    /// Leader to member, when a new epoch is open: the opening entry, as the last of these batches. Ahead of anything newer
    /// on the link.
    ApplyNamesSnapshot { epoch: Epoch, batches: Vec<(Position, Bytes)> },
    /// Leader to member, when idle: where the log ends.
    Heartbeat { epoch: Epoch, end: LogEnd },
    /// Member to leader: what its replica has applied.
    Progress { epoch: Epoch, position: Position },

    /// Member to leader: it lacks what follows `after`.
    Fetch { epoch: Epoch, after: Position },
    /// Leader to member: some of what follows `after`, from memory. Empty: it is not in memory.
    Fetched { epoch: Epoch, after: Position, batches: Vec<(Position, Bytes)> },

    /// Member to a synced member: it lacks a base. `id` is the asker's own number for this snapshot. The chunks below that index may be
    /// sent.
    SnapshotWanted { id: u64, below: u64 },
    /// Asker to sender: so many chunks came that those below that index may be sent.
    SnapshotNext { id: u64, below: u64 },
    /// One chunk. If `end` is set it is the last one: with it the snapshot is exact at that batch.
    SnapshotChunk { id: u64, index: u64, chunk: Chunk, end: Option<(Epoch, LogEnd)> },
    /// The sender has no base itself, or has forgotten this snapshot before it was at its end.
    SnapshotRefused { id: u64 },

    /// New leader to the one before: step down, say where you ended.
    TransferSnapshot { epoch: Epoch },
    /// The answer: it leads no more, and its log ended here.
    Transferred { epoch: Epoch, position: Position },

    /// An elector's, to the leader that it sees a lock for: run your handoff, and say when it is done.
    RunHandoff { epoch: Epoch },
    /// The answer: the epoch is open.
    HandoffDone { epoch: Epoch },

    /// Between the node that takes a name and the one that gives it.
    Take(Taking),

    /// Somebody looks at the member that asks: which members does this one have links to, and where is it in the log?
    LinksWanted,
    /// The answer, without the one that answers. Those that are not named it has no link to. `position` is what its replica has applied.
    Links {
        #[serde(deserialize_with = "bounded::members")]
        linked: Vec<NodeName>,
        position: Position,
    },

    /// Leader to member, with each heartbeat, if there are members that may rest: who observes the sessions of all.
    Observers {
        epoch: Epoch,
        #[serde(deserialize_with = "bounded::members")]
        observers: Vec<NodeName>,
    },

    /// Leader to member, if there are members that may rest: which rows of members differ from those at the mark `from` of the queue. So
    /// the store was at `version`, when `to` was the mark and nothing was under way.
    ViewDelta {
        epoch: Epoch,
        version: Version,
        from: Option<Bytes>,
        to: Option<Bytes>,
        #[serde(deserialize_with = "bounded::members")]
        rows: Vec<ChangedRow>,
    },
}

/// The bytes of a member's row, and of its node's session record. Without a row it is a member no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangedRow {
    pub node: NodeName,
    pub row: Option<Bytes>,
    pub session: Option<Bytes>,
}

impl From<RowDelta> for ChangedRow {
    fn from(RowDelta { node, row, session }: RowDelta) -> Self {
        Self { node, row: row.map(Bytes::from), session: session.map(Bytes::from) }
    }
}

impl From<ChangedRow> for RowDelta {
    fn from(ChangedRow { node, row, session }: ChangedRow) -> Self {
        Self { node, row: row.map(Vec::from), session: session.map(Vec::from) }
    }
}

/// Why a message could not be read. Nothing of it was acted on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadMessage {
    /// It is written in another version's words, or in none.
    #[error("a message of version {found:?}, this node reads {VERSION}")]
    Version { found: Option<u8> },
    /// A newer version has this message. It is to be dropped: nobody relies on its arrival.
    #[error("a message that this version does not know: {0}")]
    Unknown(String),
    /// It does not have the form that its version has.
    #[error("a message cannot be read: {0}")]
    Malformed(String),
}

impl Message {
    /// Says what a leader has read of the members.
    pub(crate) fn view_delta(epoch: Epoch, delta: ViewDelta) -> Self {
        let rows = delta.rows.into_iter().map(Into::into).collect();
        let (from, to) = (delta.from.map(Bytes::from), delta.to.map(Bytes::from));
        Self::ViewDelta { epoch, version: delta.version, from, to, rows }
    }

    #[cfg(any(test, feature = "cores", feature = "fuzz"))]
    pub fn encode(&self) -> Bytes {
        self.encode_with(&[])
    }

    /// As it travels, with the traces of some requests behind it.
    pub(crate) fn encode_with(&self, traced: &[Traced<'_>]) -> Bytes {
        let mut bytes = vec![VERSION];
        // Writing to memory does not fail, and a message has nothing that MessagePack cannot write.
        rmp_serde::encode::write(&mut bytes, self).expect("messages are serializable");
        if !traced.is_empty() {
            rmp_serde::encode::write(&mut bytes, traced).expect("texts are serializable");
        }
        bytes.into()
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMessage> {
        Self::decode_with(bytes, false).map(|(message, _)| message)
    }

    /// Reads what came, with the traces of requests that are behind it, if they are wanted.
    pub(crate) fn decode_with(bytes: &[u8], wants: bool) -> Result<(Self, Vec<Traced<'_>>), BadMessage> {
        let Some((&VERSION, body)) = bytes.split_first() else {
            return Err(BadMessage::Version { found: bytes.first().copied() });
        };
        let mut reader = rmp_serde::Deserializer::from_read_ref(body);
        let message = Self::deserialize(&mut reader).map_err(|error| {
            let name = rmp_serde::from_slice::<VariantName>(body).ok();
            match name.and_then(VariantName::unknown_to::<Self>) {
                // Both may quote what the other side wrote.
                Some(name) => BadMessage::Unknown(printable(&name)),
                None => BadMessage::Malformed(printable(&error.to_string())),
            }
        })?;
        let traced = if wants { traced::behind(&mut reader) } else { Vec::new() };
        Ok((message, traced))
    }

    /// The epoch that it says has begun, if that is what it says: by it alone nobody knows so.
    pub fn says_epoch(&self) -> Option<Epoch> {
        match self {
            Self::Replicate { epoch, .. }
            | Self::ApplyNamesSnapshot { epoch, .. }
            | Self::Heartbeat { epoch, .. }
            | Self::Observers { epoch, .. }
            | Self::ViewDelta { epoch, .. }
            | Self::SnapshotChunk { end: Some((epoch, _)), .. }
            | Self::TransferSnapshot { epoch }
            | Self::RunHandoff { epoch } => Some(*epoch),
            _ => None,
        }
    }

    /// The epoch that it belongs to, if it belongs to one.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Requests { epoch, .. }
            | Self::Verdicts { epoch, .. }
            | Self::Progress { epoch, .. }
            | Self::Fetch { epoch, .. }
            | Self::Fetched { epoch, .. }
            | Self::Transferred { epoch, .. }
            | Self::HandoffDone { epoch } => Some(*epoch),
            other => other.says_epoch(),
        }
    }

    /// What it is, for counts and drawings.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Requests { .. } => "requests",
            Self::Verdicts { .. } => "verdicts",
            Self::Replicate { .. } => "replicate",
            Self::ApplyNamesSnapshot { .. } => "apply_names_snapshot",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Progress { .. } => "progress",
            Self::Fetch { .. } => "fetch",
            Self::Fetched { .. } => "fetched",
            Self::SnapshotWanted { .. } => "snapshot_wanted",
            Self::SnapshotNext { .. } => "snapshot_next",
            Self::SnapshotChunk { .. } => "snapshot_chunk",
            Self::SnapshotRefused { .. } => "snapshot_refused",
            Self::TransferSnapshot { .. } => "transfer_snapshot",
            Self::Transferred { .. } => "transferred",
            Self::RunHandoff { .. } => "run_handoff",
            Self::HandoffDone { .. } => "handoff_done",
            Self::Take(_) => "take",
            Self::LinksWanted => "links_wanted",
            Self::Links { .. } => "links",
            Self::Observers { .. } => "observers",
            Self::ViewDelta { .. } => "view_delta",
        }
    }

    /// Whether it may take the lane that cannot delay the others.
    pub fn is_bulk(&self) -> bool {
        matches!(self, Self::SnapshotChunk { .. } | Self::Fetched { .. } | Self::Take(Taking::Data { .. }))
    }
}

#[cfg(test)]
mod tests;
