//! Sending a snapshot in chunks, while the table changes.
//!
//! The walk goes once over the names that were there when it began, session by session. What is changed meanwhile is remembered, and
//! walked over again, until what is left fits in the last chunk; that one is taken at one position, at which the
//! whole is exact.
//!
//! The receiver says up to which chunk it may be sent, so that a slow one holds up nobody, and so many are on their way that none of the
//! two waits for the other. A member goes on with one chunk of one snapshot at a time, and with all else in between.
//!
//! A receiver that gives up says nothing, and asks somebody else. So a walk is forgotten when nothing was asked of it for a
//! while, and what it remembers of a table that changes fast is bounded.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use callsign_store::{Time, ids::NodeName, planted};

use crate::core::{
    message::{Chunk, MESSAGE_BYTES, Message},
    name::Name,
    replica::{Replica, Touched},
    rows::Tour,
    table::{Row, Table},
    tuning::Tuning,
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
    /// The receiver has room for the chunks below this one.
    below: u64,
    last_asked: Time,
}

impl Walk {
    fn may_go_on(&self) -> bool {
        self.next_index < self.below
    }
}

/// The member that is sent a snapshot, and its number among those of this receiver.
type To = (NodeName, u64);

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
    /// How many chunks may be on their way to a receiver, whatever it says.
    window: u64,
    under_way: BTreeMap<To, Walk>,
    /// Which one was gone on with last. The one behind it is the next.
    last: Option<To>,
}

impl Walks {
    pub(crate) fn new(tuning: Tuning) -> Self {
        let (chunk, window) = (tuning.chunk_names, tuning.snapshot_window);
        Self { chunk, window, under_way: BTreeMap::new(), last: None }
    }

    /// Begins a snapshot for a member, in place of any former one of its. False: it gets none.
    #[must_use]
    pub(crate) fn begin<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        to: &NodeName,
        id: u64,
        below: u64,
    ) -> bool {
        self.forget(replica, |(node, _), walk| node == to || now.since(walk.last_asked) > FORGET_AFTER);
        if !replica.is_based() || self.under_way.len() >= MAX_WALKS {
            return false;
        }
        let (tour, again) = (replica.tour(), VecDeque::new());
        self.under_way
            .insert((to.clone(), id), Walk { tour, again, next_index: 0, below: 0, last_asked: now });
        let limit = replica.count().max(TOUCHED_CHUNKS * self.chunk);
        replica.touched.insert((to.clone(), id), Touched::at_most(limit));
        self.let_on(now, to, id, below)
    }

    /// Its receiver has room for the chunks below that one. False: it is not being sent. Its last chunk may be on the way.
    pub(crate) fn let_on(&mut self, now: Time, to: &NodeName, id: u64, below: u64) -> bool {
        let Some(walk) = self.under_way.get_mut(&(to.clone(), id)) else { return false };
        let most = walk.next_index + self.window;
        let below = if planted!("snapshot-without-window") { u64::MAX } else { below.min(most) };
        walk.below = walk.below.max(below);
        walk.last_asked = now;
        true
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
        self.under_way.len()
    }

    /// Whether there is something to [`proceed`](Self::proceed) with.
    pub(crate) fn is_busy<T>(&self, replica: &Replica<T>) -> bool {
        self.under_way.values().any(Walk::may_go_on) || self.lost(replica).is_some()
    }

    /// One of which the replica has forgotten what was touched, because another snapshot took its own place, or it became too much.
    fn lost<T>(&self, replica: &Replica<T>) -> Option<&To> {
        self.under_way.keys().find(|key| !replica.touched.contains_key(*key))
    }

    /// Goes on with one of them: its next chunk, or that there is none any more, and whom it is for.
    pub(crate) fn proceed<T: Table>(&mut self, replica: &mut Replica<T>) -> Option<(NodeName, Message)> {
        if let Some(key) = self.lost(replica).cloned() {
            self.remove(replica, &key);
            let (to, id) = key;
            return Some((to, Message::SnapshotRefused { id }));
        }
        let from = self.last.clone().map_or(Unbounded, Excluded);
        let in_turn = self.under_way.range((from, Unbounded)).chain(&self.under_way);
        let key = in_turn.filter(|(_, walk)| walk.may_go_on()).map(|(key, _)| key).next()?.clone();
        self.last = Some(key.clone());
        let chunk = self.next(replica, &key)?;
        Some((key.0, chunk))
    }

    fn next<T: Table>(&mut self, replica: &mut Replica<T>, key: &To) -> Option<Message> {
        let walk = self.under_way.get_mut(key)?;
        let (id, index) = (key.1, walk.next_index);
        walk.next_index += 1;
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
        if let Some(touched) = replica.touched.get_mut(key) {
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
            self.remove(replica, key);
        }
        Some(Message::SnapshotChunk { id, index, chunk, end })
    }

    /// Drops the walks for a node that is gone.
    pub(crate) fn drop_node<T>(&mut self, replica: &mut Replica<T>, node: &NodeName) {
        self.forget(replica, |(to, _), _| to == node);
    }

    fn remove<T>(&mut self, replica: &mut Replica<T>, key: &To) {
        self.forget(replica, |other, _| other == key);
    }

    fn forget<T>(&mut self, replica: &mut Replica<T>, gone: impl Fn(&To, &Walk) -> bool) {
        self.under_way.retain(|key, walk| !gone(key, walk));
        replica.touched.retain(|key, _| self.under_way.contains_key(key));
        if self.under_way.is_empty() {
            self.last = None;
        }
    }
}
