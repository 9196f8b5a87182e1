//! Sending a snapshot in chunks, while the table changes.
//!
//! The walk goes once over the names that were there when it began, session by session. What is changed meanwhile is remembered, and
//! walked over again, until what is left fits in the last chunk; that one is taken at one position, at which the
//! whole is exact. The receiver asks for each chunk, so that a slow one holds up nobody.
//!
//! A receiver that gives up says nothing, and asks somebody else. So a walk is forgotten when nothing was asked of it for a
//! while, and what it remembers of a table that changes fast is bounded.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use callsign_store::{Time, ids::NodeName, planted};

use crate::core::{
    message::{Chunk, MESSAGE_BYTES, Message},
    name::Name,
    replica::{Replica, Touched},
    rows::Tour,
    table::{Row, Table},
};

/// A receiver that asks for nothing for so long has gone: it waits a second itself. Shorter: a pause on the way costs it the
/// snapshot. Longer: its walk costs memory.
const FORGET_AFTER: Duration = Duration::from_secs(3);

/// How many chunks of changed names a walk remembers at least; more, if it has more names to walk over. A table that changes
/// faster than the receiver reads comes to this; the receiver is refused, and begins again.
const TOUCHED_CHUNKS: usize = 16;

/// How many snapshots are sent at a time. More wait, by being refused and asking again.
const MAX_WALKS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Walk {
    /// Over the names that were there.
    tour: Tour,
    /// Then the names that were changed meanwhile.
    again: VecDeque<Name>,
    next_index: u64,
    last_asked: Time,
}

/// What there is still room for in a chunk. The last row may be larger than the room that was left.
struct Room {
    names: usize,
    bytes: usize,
}

impl Room {
    fn is_left(&self) -> bool {
        self.names > 0 && self.bytes > 0
    }

    fn take(&mut self, name: &Name, row: Option<&Row>) {
        self.names = self.names.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(Chunk::weight(name, row));
    }
}

/// All snapshots that are being sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Walks {
    /// How many names a chunk has at most. It has fewer if they say much of themselves.
    chunk: usize,
    walks: BTreeMap<(NodeName, u64), Walk>,
}

impl Walks {
    pub(crate) fn new(chunk: usize) -> Self {
        Self { chunk, walks: BTreeMap::new() }
    }

    /// Begins a snapshot for a member, in place of any former one of its. Returns the first chunk.
    pub(crate) fn begin<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        to: &NodeName,
        id: u64,
    ) -> Message {
        self.forget(replica, |(node, _), walk| node == to || now.since(walk.last_asked) > FORGET_AFTER);
        if !replica.is_based() || self.walks.len() >= MAX_WALKS {
            return Message::SnapshotRefused { id };
        }
        let count = replica.count();
        let walk = Walk { tour: replica.tour(), again: VecDeque::new(), next_index: 0, last_asked: now };
        self.walks.insert((to.clone(), id), walk);
        let limit = count.max(TOUCHED_CHUNKS * self.chunk);
        replica.touched.insert((to.clone(), id), Touched::at_most(limit));
        self.next(now, replica, to, id, 0)
    }

    /// Forgets the snapshots that nobody has asked for any more.
    pub(crate) fn forget_abandoned<T>(&mut self, now: Time, replica: &mut Replica<T>) {
        if !planted!("abandoned-walk-kept") {
            self.forget(replica, |_, walk| now.since(walk.last_asked) > FORGET_AFTER);
        }
    }

    /// How many are being sent.
    #[cfg(feature = "cores")]
    pub(crate) fn count(&self) -> usize {
        self.walks.len()
    }

    /// The chunk asked for.
    pub(crate) fn next<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        to: &NodeName,
        id: u64,
        index: u64,
    ) -> Message {
        let key = (to.clone(), id);
        // The replica forgets what was touched when another snapshot took its own place, and when it became too much.
        let (Some(walk), true) = (self.walks.get_mut(&key), replica.touched.contains_key(&key)) else {
            self.walks.remove(&key);
            return Message::SnapshotRefused { id };
        };
        if walk.next_index != index {
            return Message::SnapshotRefused { id };
        }
        walk.next_index += 1;
        walk.last_asked = now;
        let mut chunk = Chunk::default();
        let mut room = Room { names: self.chunk, bytes: MESSAGE_BYTES };
        let mut taken = Vec::new();
        while room.is_left()
            && let Some(name) = walk.tour.next(replica.sessions()).cloned().or_else(|| walk.again.pop_front())
        {
            let row = replica.row(&name);
            room.take(&name, row.as_ref());
            taken.push((name, row));
        }
        let walked = walk.tour.is_over() && walk.again.is_empty();
        let mut end = None;
        if let Some(touched) = replica.touched.get_mut(&key) {
            for (session, below) in touched.take_gone() {
                chunk.push_gone(session, below);
            }
            // More than there is room for are not looked at in this step: they may be very many.
            let fit = touched.count() <= room.names;
            let changed = if walked { touched.take() } else { Vec::new() };
            if walked && planted!("snapshot-without-touched") {
                end = Some((replica.epoch(), replica.end()));
            } else if fit {
                let rows: Vec<_> = changed.iter().map(|name| replica.row(name)).collect();
                let weights = changed.iter().zip(&rows).map(|(name, row)| Chunk::weight(name, row.as_ref()));
                if weights.sum::<usize>() <= room.bytes {
                    taken.extend(changed.into_iter().zip(rows));
                    end = walked.then(|| (replica.epoch(), replica.end()));
                } else {
                    walk.again = changed.into();
                }
            } else {
                walk.again.extend(changed);
            }
        }
        for (name, row) in taken {
            chunk.push(name, row);
        }
        if end.is_some() {
            self.walks.remove(&key);
            replica.touched.remove(&key);
        }
        Message::SnapshotChunk { id, index, chunk, end }
    }

    /// Drops the walks for a node that is gone.
    pub(crate) fn drop_node<T>(&mut self, replica: &mut Replica<T>, node: &NodeName) {
        self.forget(replica, |(to, _), _| to == node);
    }

    fn forget<T>(&mut self, replica: &mut Replica<T>, gone: impl Fn(&(NodeName, u64), &Walk) -> bool) {
        self.walks.retain(|key, walk| !gone(key, walk));
        replica.touched.retain(|key, _| self.walks.contains_key(key));
    }
}
