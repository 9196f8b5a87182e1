//! What the leader remembers of the log, and of how far its members are.

use callsign_store::planted;

use super::{Bytes, Follower, Leader, NodeName, Position};
use crate::core::log::MAX_BATCH_BYTES;

impl Leader {
    /// A member says where its replica is.
    pub(crate) fn on_progress(&mut self, from: &NodeName, position: Position) {
        self.followers.insert(from.clone(), Follower { position });
    }

    /// What the members are known to have applied.
    pub(crate) fn progress_of(&self, member: &NodeName) -> Option<Position> {
        self.followers.get(member).map(|follower| follower.position)
    }

    pub(crate) fn forget_follower(&mut self, member: &NodeName) {
        self.followers.remove(member);
    }

    /// The batches after a position, from memory: one, or as many as a member applies in a moment; none if memory does not go back so
    /// far.
    pub(crate) fn remembered(&self, after: Position) -> Vec<(Position, Bytes)> {
        let Some((first, _)) = self.memory.front() else { return Vec::new() };
        if *first > after.next() && !planted!("gap-in-memory-not-seen") {
            return Vec::new();
        }
        let mut bytes = 0;
        let newer = self.memory.iter().skip_while(|(position, _)| *position <= after);
        newer
            .take_while(|(_, batch)| {
                let is_first = bytes == 0;
                bytes += batch.len();
                is_first || bytes <= MAX_BATCH_BYTES
            })
            .cloned()
            .collect()
    }

    /// Keeps a batch for members that lack it.
    pub(crate) fn remember(&mut self, position: Position, bytes: Bytes) {
        self.sizes.push_back((position, bytes.len()));
        self.memory_bytes += bytes.len();
        self.memory.push_back((position, bytes));
        while self.memory_bytes > self.memory_limit && self.memory.len() > 1 {
            if let Some((_, dropped)) = self.memory.pop_front() {
                self.memory_bytes -= dropped.len();
            }
        }
    }

    /// The log is cut up to `floor`: what is before it is not kept either.
    pub(crate) fn forget_below(&mut self, floor: Position) {
        while self.memory.front().is_some_and(|(position, _)| *position < floor) {
            if let Some((_, dropped)) = self.memory.pop_front() {
                self.memory_bytes -= dropped.len();
            }
        }
        while self.sizes.front().is_some_and(|(position, _)| *position < floor) {
            self.sizes.pop_front();
        }
    }

    /// How many bytes of the log lie behind a position, of what was written since this leader began.
    pub(crate) fn bytes_after(&self, position: Position) -> usize {
        self.sizes.iter().rev().take_while(|(p, _)| *p > position).map(|(_, size)| size).sum()
    }
}
