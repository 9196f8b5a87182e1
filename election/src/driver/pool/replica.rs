//! What an application brings: a replica of rows, one per peer.

use std::{future::Future, time::Duration};

use callsign_store::ids::{Incarnation, MemberId};
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::oracle::{Context, Fault};

/// What a peer says of itself. Only the peer itself writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolRow {
    /// Who.
    pub member: MemberId,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// The greater leads; 0 never does.
    pub priority: u32,
    /// When it joined, by its wall clock: its seniority.
    pub joined: Duration,
    /// When it was last seen, by its wall clock.
    pub heartbeat: Duration,
    /// How often it has led: for people, and to name the term.
    pub terms: u64,
    /// Since when it leads, by its wall clock. A better peer waits while it says so.
    pub leads_since: Option<Duration>,
}

impl PoolRow {
    /// Of a peer that joins, with no priority yet, and that has led so often.
    pub(super) fn joining(me: &Context, terms: u64, now: Duration) -> Self {
        Self {
            member: me.member.clone(),
            incarnation: me.incarnation,
            priority: 0,
            joined: now,
            heartbeat: now,
            terms,
            leads_since: None,
        }
    }
}

/// The pool did not do it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct PoolFailed(pub String);

impl PoolFailed {
    /// The row is written again with the next attempt, as it would have been.
    pub(super) fn fault(self) -> Fault {
        Fault::Transient { maybe_committed: true, cause: self.0 }
    }
}

/// This peer's replica of the pool.
pub trait Pool: Send + 'static {
    /// All rows that it has now.
    fn rows(&mut self) -> impl Future<Output = Result<Vec<PoolRow>, PoolFailed>> + Send;

    /// Writes this peer's own row, whole, in place of its former one.
    fn upsert(&mut self, row: PoolRow) -> impl Future<Output = Result<(), PoolFailed>> + Send;

    /// Says that rows have changed. Asked for once. It only brings the next look forward.
    fn changes(&mut self) -> BoxStream<'static, ()> {
        Box::pin(futures::stream::pending())
    }
}
