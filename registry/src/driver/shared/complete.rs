//! Whether the rows of a table are complete: what readers look at before and after they look for a row.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Counts how often the rows became complete, and how often they ceased to be. They are complete if it is odd.
#[derive(Debug, Default)]
pub(super) struct Changes(AtomicU64);

/// Says that the rows are complete. If two of one table are equal, they were at each moment between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Complete(u64);

fn is_complete(changes: u64) -> bool {
    changes & 1 == 1
}

impl Changes {
    #[inline]
    pub(super) fn get(&self) -> Option<Complete> {
        // The rows that a reader has looked at were looked at before this.
        fence(Ordering::Acquire);
        let changes = self.0.load(Ordering::Acquire);
        is_complete(changes).then_some(Complete(changes))
    }

    /// Nothing is written if it was so before: every reader has this in its cache.
    pub(super) fn set(&self, are_complete: bool) {
        let mut was = self.0.load(Ordering::Relaxed);
        while is_complete(was) != are_complete {
            match self.0.compare_exchange(was, was + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => was = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use callsign_elector::record::LogEnd;
    use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, Position, SessionId, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use crate::{
        core::{
            message::Chunk,
            replica::{Replica, Staged},
            table::{RequestNumber, Row, Slot, Table},
        },
        driver::shared::SharedTable,
    };

    fn session() -> Arc<SessionId> {
        let node = NodeName::new("b").unwrap();
        Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) })
    }

    #[test]
    fn rows_that_are_complete_again_are_told_from_rows_that_always_were() {
        let changes = Changes::default();
        assert_eq!(changes.get(), None);
        changes.set(true);
        let first = changes.get();
        changes.set(true);
        assert!(first.is_some() && changes.get() == first);
        changes.set(false);
        changes.set(false);
        assert_eq!(changes.get(), None);
        changes.set(true);
        assert!(changes.get().is_some() && changes.get() != first);
    }

    #[test]
    fn a_replica_that_gives_its_rows_up_for_a_snapshot_is_seen_not_to_be_complete_before_its_turn_ends() {
        let row = Row {
            position: Position(1),
            session: session(),
            request: RequestNumber(1),
            actor: 1,
            kind: Kind::of("x"),
            more: None,
            slot: Slot::default(),
        };
        let (mut chunk, mut staged) = (Chunk::default(), Staged::default());
        chunk.push("x".into(), Some(row));
        staged.take(chunk).unwrap();
        let table = SharedTable::new(1, true);
        let reader = table.reader();
        let mut replica = Replica::new(NodeName::new("a").unwrap(), table);
        let end = |position| LogEnd { position: Position(position), nonce: Nonce(position) };
        assert!(replica.install(staged, Epoch(1), end(1)));
        while replica.is_installing() {
            replica.proceed(9);
        }
        // The member says so when its turn ends.
        reader.set_complete(true);
        assert!(reader.get("x").is_some() && reader.complete().is_some());

        assert!(replica.install(Staged::default(), Epoch(1), end(2)));
        assert!(reader.get("x").is_none() && reader.complete().is_none());
    }

    #[test]
    fn rows_that_are_gone_by_the_log_leave_the_others_complete() {
        let mut table = SharedTable::new(1, true);
        let reader = table.reader();
        reader.set_complete(true);
        table.hide(&session(), Position(5), 1);
        assert!(reader.complete().is_some());
    }
}
