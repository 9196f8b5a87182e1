//! Watches: what changes in the registry, told to whoever asked for it, in the order of the log.
//!
//! ```text
//!  Replica --each change--> Memory: the latest ones --(filter, room)--> Effect::Given --> a reader
//!                              |  too many bytes: the oldest go          ^
//!                              '-------> Missed: the names of one reader-'  Lagged
//! ```
//!
//! The replica puts each change into the [`Memory`], while there is one: while somebody watches, and for a minute after. Each
//! [`Watcher`] has its own place in it. A reader says how many events it has room for, and gets no more; what the memory forgets before
//! a reader has it, is kept for that reader name by name, while these are few, and given with [`WatchEvent::Lagged`]. Where that does not
//! do, and where what this node had is no prefix of what it has now, a reader is told [`WatchEvent::Reset`], and gets everything.
//!
//! Promises: a reader gets each change that meets its filter before or after, once, in order, or is told that it does not; the last
//! state of each name always arrives; a position is passed on when all of it was given. Nothing is done where nobody watches.

mod memory;
mod missed;
mod watcher;

use std::{collections::BTreeMap, time::Duration};

use callsign_store::{Time, ids::Position};

pub(crate) use self::memory::Memory;
use self::watcher::{Around, Watcher};
pub use crate::core::watched::{Change, Given, WatchEvent, WatchId};
use crate::core::{input::Effect, replica::Replica, select::Select, table::Table, tuning::Tuning};

/// How long changes are remembered when nobody watches any more. Shorter: a reader that comes back gets everything anew. Longer: a node
/// that nobody watches pays for it.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// All watches of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watchers {
    tuning: Tuning,
    all: BTreeMap<WatchId, Watcher>,
    /// Who comes first the next time, so that nobody always comes last.
    first: WatchId,
    /// There is room for what could not be looked at.
    owes: bool,
    /// How often the session lapsed and resumed. Odd: it is not trusted.
    turns: u64,
    /// Nothing could be given in the last step: names were to be swept first, or the replica was no prefix of the log.
    waits: bool,
    /// When nobody watched any more.
    left_at: Option<Time>,
}

impl Watchers {
    pub(crate) fn new(tuning: Tuning) -> Self {
        Self {
            tuning,
            all: BTreeMap::new(),
            first: WatchId(0),
            owes: false,
            turns: 0,
            waits: false,
            left_at: None,
        }
    }

    /// Begins a watch, for a reader that has room for so many events.
    pub(crate) fn open<T: Table>(
        &mut self,
        replica: &mut Replica<T>,
        (id, select): (WatchId, Select),
        from: Option<Position>,
        room: usize,
    ) {
        replica.remember();
        self.left_at = None;
        // One that begins while the session is not trusted is told so.
        let told = if self.turns % 2 == 1 { self.turns - 1 } else { self.turns };
        self.all.insert(id, Watcher::new(select, from, room, told));
    }

    /// The reader has taken so many events.
    pub(crate) fn has_room(&mut self, id: WatchId, events: usize) {
        if let Some(watcher) = self.all.get_mut(&id) {
            watcher.has_room(events);
        }
    }

    pub(crate) fn close(&mut self, now: Time, id: WatchId) {
        self.all.remove(&id);
        if self.all.is_empty() {
            self.left_at.get_or_insert(now);
        }
    }

    pub(crate) fn lapsed(&mut self) {
        self.turns += u64::from(self.turns.is_multiple_of(2));
    }

    pub(crate) fn resumed(&mut self) {
        self.turns += u64::from(self.turns % 2 == 1);
    }

    /// Whether somebody has room for what there was no time for.
    pub(crate) fn owes(&self) -> bool {
        self.owes
    }

    /// Whether nothing could be given in the last step.
    #[cfg(feature = "cores")]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Gives each reader what it has room for, as far as a step may look. Then what is too much is forgotten.
    pub(crate) fn proceed<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        self.owes = false;
        if !replica.memory().is_on() {
            return;
        }
        let mut looks = self.tuning.watch_looks;
        let order: Vec<WatchId> =
            self.all.range(self.first..).chain(self.all.range(..self.first)).map(|(id, _)| *id).collect();
        for id in order {
            let Some(watcher) = self.all.get_mut(&id) else { continue };
            let around = Around { now, replica, turns: self.turns };
            let mut events = Vec::new();
            let is_done = watcher.proceed(&around, &mut looks, &mut events);
            if !events.is_empty() {
                effects.push(Effect::Given { watch: id, events });
            }
            if !is_done && !self.owes {
                (self.owes, self.first) = (true, id);
            }
        }
        self.waits = replica.memory().is_waiting();
        let at = replica.position();
        replica.memory_mut().shrink(self.tuning.watch_bytes, at, |forgets| {
            self.all.values_mut().for_each(|watcher| watcher.misses(forgets, self.tuning.missed_bytes));
        });
        if self.left_at.is_some_and(|at| now.since(at) >= REMEMBERED_FOR) {
            replica.remember_nothing();
        }
    }
}

#[cfg(test)]
mod tests;
