//! The log: batches of operations at positions, and how they are written in the store and on links.
//!
//! A batch is read whole or not at all. An operation that this version does not know stops the replica where it is: one
//! that was passed over would leave it different from the others for ever.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use callsign_elector::record::LogEnd;
use callsign_store::{
    ids::{Epoch, Nonce, Position, SessionId},
    record::SCHEMA,
};
use callsign_transport::{Kind, VariantName};
use serde::{Deserialize, Serialize};

use crate::core::{
    meta::{self, Meta},
    name::Name,
    table::RequestNumber,
    why::GivenUp,
};

/// The most bytes of one encoded batch. Below the smallest limit of a store's value (100 000).
pub const MAX_BATCH_BYTES: usize = 90_000;

/// A store that refuses a batch as too large is offered smaller ones, down to this, and then batches of one operation.
pub const LEAST_BATCH_BYTES: usize = 2048;

/// As a limit of a batch's bytes: its first operation may have more, and there is no second.
pub const ONE_OPERATION: usize = 1;

/// What an operation takes beside its name and its metadata; and what one more session of a batch takes.
const OP_BYTES: usize = 56;
pub(crate) const SESSION_BYTES: usize = 160;

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    /// A name is registered; without an actor, it is taken while one is started. `session` is an index into the batch's sessions.
    Register {
        name: Name,
        session: u32,
        request: RequestNumber,
        actor: Option<u64>,
        kind: Kind,
        meta: Option<Meta>,
    },
    /// The actor of a name was started, if its registration is the one at `position` and has none.
    Bind { name: Name, position: Position, request: RequestNumber, actor: u64, meta: Option<Meta> },
    /// A name goes to another actor, with its metadata, if its registration is the one at `position`. `session` is an index into the
    /// batch's sessions, and `request` is that of the new holder.
    Transfer { name: Name, position: Position, session: u32, request: RequestNumber, actor: u64, kind: Kind },
    /// The metadata of a name is replaced, if its registration is the one at `position`.
    Update { name: Name, position: Position, request: RequestNumber, meta: Option<Meta> },
    /// A name is freed, if its registration is the one at `position`.
    Unregister { name: Name, position: Position, why: GivenUp },
    /// All names of a closed session are freed.
    HostGone { session: u32 },
    /// A new epoch is open.
    Open,
    /// Every replica that applies it is empty from here on.
    Reset,
}

impl Op {
    /// About how many bytes the operation takes, encoded; never less than it does.
    pub fn weight(&self) -> usize {
        match self {
            Self::Register { name, meta, .. }
            | Self::Bind { name, meta, .. }
            | Self::Update { name, meta, .. } => Self::weight_of(name, meta.as_ref()),
            Self::Unregister { name, why, .. } => Self::weight_of(name, None) + why.weight(),
            Self::Transfer { name, .. } => Self::weight_of(name, None),
            Self::HostGone { .. } | Self::Open | Self::Reset => OP_BYTES,
        }
    }

    /// The same, of an operation on a name that brings this metadata.
    pub fn weight_of(name: &Name, meta: Option<&Meta>) -> usize {
        OP_BYTES + name.len() + meta::weight(meta)
    }
}

/// What is committed together, at one position. A name is in at most one operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// The epoch whose leader wrote it.
    pub epoch: Epoch,
    /// Drawn by the leader: how it recognises its own batch after an unknown outcome.
    pub nonce: Nonce,
    /// Where it is in the log.
    pub position: Position,
    /// The batch before it. It follows no other, also if another one is at that position.
    pub prev: LogEnd,
    /// The sessions that the operations name by index.
    pub sessions: Vec<Arc<SessionId>>,
    /// The changes.
    pub ops: Vec<Op>,
}

/// Why a batch could not be read. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CorruptBatch {
    /// It is written in another version's words, or in none.
    #[error("a batch of the log has schema {found:?}, this version reads {SCHEMA}")]
    Schema { found: Option<u8> },
    /// A newer version has this operation. Nothing is applied from there on, until the node runs that version.
    #[error("the log has an operation that this version does not know, {op}: run the version that wrote it")]
    UnknownOp { op: String },
    /// It does not have the form that its schema has.
    #[error("the log cannot be read: {0}")]
    Malformed(String),
    /// It is of another log than what was applied before: the two differ at this position, or before it.
    #[error("the log has another batch at {} than the one that was applied", at.position)]
    Diverged { at: LogEnd },
}

/// A batch as any version may have written it: the first operation that this one does not know.
fn unknown_op(body: &[u8]) -> Option<String> {
    type Any = serde::de::IgnoredAny;
    let (_, _, _, _, _, ops) =
        rmp_serde::from_slice::<(Any, Any, Any, Any, Any, Vec<VariantName>)>(body).ok()?;
    ops.into_iter().find_map(VariantName::unknown_to::<Op>)
}

impl Batch {
    /// Where the log ends with it.
    pub fn end(&self) -> LogEnd {
        LogEnd { position: self.position, nonce: self.nonce }
    }

    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(64 + self.ops.iter().map(Op::weight).sum::<usize>());
        bytes.push(SCHEMA);
        // Writing to memory does not fail, and a batch has nothing that MessagePack cannot write.
        rmp_serde::encode::write(&mut bytes, self).expect("batches are serializable");
        bytes.into()
    }

    /// Reads the batch that is said to be at this position.
    pub fn decode_at(position: Position, bytes: &[u8]) -> Result<Self, CorruptBatch> {
        let batch = Self::decode(bytes)?;
        if batch.position == position {
            return Ok(batch);
        }
        Err(CorruptBatch::Malformed(format!("a batch at {position} says that it is at {}", batch.position)))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptBatch> {
        let Some((&SCHEMA, body)) = bytes.split_first() else {
            return Err(CorruptBatch::Schema { found: bytes.first().copied() });
        };
        let batch: Self = rmp_serde::from_slice(body).map_err(|error| match unknown_op(body) {
            Some(op) => CorruptBatch::UnknownOp { op },
            None => CorruptBatch::Malformed(error.to_string()),
        })?;
        let known = |session: &u32| (*session as usize) < batch.sessions.len();
        let sound = batch.ops.iter().all(|op| match op {
            Op::Register { session, .. } | Op::Transfer { session, .. } | Op::HostGone { session } => {
                known(session)
            }
            Op::Bind { .. } | Op::Update { .. } | Op::Unregister { .. } | Op::Open | Op::Reset => true,
        });
        if sound {
            Ok(batch)
        } else {
            Err(CorruptBatch::Malformed("a batch names a session that it does not list".into()))
        }
    }
}

/// Builds a batch, sharing each session among its operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchBuilder {
    pub sessions: Vec<Arc<SessionId>>,
    pub ops: Vec<Op>,
    weight: usize,
}

impl BatchBuilder {
    /// The index of a session, added if it is new.
    pub fn session(&mut self, session: &Arc<SessionId>) -> u32 {
        // A batch has the sessions of a few hosts: a scan is the fastest map. Most often it is the last one.
        let found = self.sessions.iter().rposition(|s| Arc::ptr_eq(s, session) || s == session);
        let index = found.unwrap_or_else(|| {
            self.weight += SESSION_BYTES;
            self.sessions.push(session.clone());
            self.sessions.len() - 1
        });
        // Bounded by the operations of a batch, which are bounded by its bytes.
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    pub fn push(&mut self, op: Op) {
        self.weight += op.weight();
        self.ops.push(op);
    }

    /// Whether an operation of so many bytes may not fit any more. The first one always does.
    pub fn is_full(&self, limit: usize, operation: usize) -> bool {
        self.weight > 0 && self.weight + operation + SESSION_BYTES > limit
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub fn build(self, epoch: Epoch, nonce: Nonce, prev: LogEnd, position: Position) -> Batch {
        Batch { epoch, nonce, position, prev, sessions: self.sessions, ops: self.ops }
    }
}
