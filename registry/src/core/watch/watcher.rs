//! One watch: how far its reader is, and what it is given next.

use std::time::Duration;

use callsign_store::{Time, ids::Position, planted};

use super::{
    Change, Given, WatchEvent,
    memory::{Cursor, Forgets, Next},
    missed::Missed,
};
use crate::core::{
    replica::Replica,
    rows::Tour,
    select::Select,
    table::{Row, Table},
};

/// How often a reader that is given nothing is told how far it is. Shorter: a batch that does not concern it costs it a wake-up. Longer:
/// it continues further behind.
const BOOKMARK_EVERY: Duration = Duration::from_secs(1);

/// How many changes are looked at in the time that it takes to give a name of the present state.
const LOOKS_OF_A_NAME: usize = 4;

/// What a reader is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// What comes behind a position, if this node has it.
    From(Position),
    /// Everything, from the beginning. The reader has to forget what it has, if it has anything.
    Begin { resets: bool },
    /// The present state, name by name, and what changes meanwhile.
    Walk(Tour),
    /// What changes.
    Live,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watcher {
    select: Select,
    /// How many events its reader has room for.
    room: usize,
    phase: Phase,
    cursor: Cursor,
    /// Of the memory in which the cursor is a place.
    generation: u64,
    missed: Missed,
    /// The reader knows that it missed something.
    is_lagging: bool,
    /// How often it was told that the session lapsed and resumed.
    turns: u64,
    /// The position that was passed on last, and when.
    passed: Position,
    passed_at: Time,
}

/// What a watcher looks at.
pub(super) struct Around<'a, T> {
    pub(super) now: Time,
    pub(super) replica: &'a Replica<T>,
    pub(super) turns: u64,
}

impl Watcher {
    /// `turns`: how often the session has lapsed and resumed, as the reader knows.
    pub(super) fn new(select: Select, from: Option<Position>, room: usize, turns: u64) -> Self {
        Self {
            select,
            room,
            phase: from.map_or(Phase::Begin { resets: false }, Phase::From),
            cursor: Cursor::at(Position(0)),
            generation: 0,
            missed: Missed::default(),
            is_lagging: false,
            turns,
            passed: from.unwrap_or_default(),
            passed_at: Time::ZERO,
        }
    }

    pub(super) fn has_room(&mut self, events: usize) {
        self.room += events;
    }

    /// Whether the cursor is a place in the memory.
    fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Walk(_) | Phase::Live)
    }

    fn is_for(&self, change: &Change) -> bool {
        let has = |entry: &Option<_>| entry.as_ref().is_some_and(|entry| self.select.has_entry(entry));
        let is_now = has(&change.now);
        self.select.has_name(&change.name)
            && (is_now || (has(&change.was) && !planted!("watch-sees-only-what-it-is-now")))
    }

    /// Gives the reader what it has room for, as far as there are looks left. Returns whether that was all.
    pub(super) fn proceed<T: Table>(
        &mut self,
        around: &Around<'_, T>,
        looks: &mut usize,
        events: &mut Vec<Given>,
    ) -> bool {
        loop {
            if *looks == 0 {
                return false;
            }
            *looks -= 1;
            if !self.advance(around, looks, events) {
                return true;
            }
        }
    }

    /// Does the next thing. Returns whether there may be more to do now.
    fn advance<T: Table>(
        &mut self,
        around: &Around<'_, T>,
        looks: &mut usize,
        events: &mut Vec<Given>,
    ) -> bool {
        let memory = around.replica.memory();
        if self.turns != around.turns {
            return self.say_turn(around.turns, events);
        }
        // Nothing is known while the replica is no prefix of the log.
        let Some(since) = memory.since() else { return false };
        match self.phase {
            Phase::From(from) => {
                if around.replica.position() < from {
                    return false;
                }
                if from < since {
                    self.phase = Phase::Begin { resets: true };
                } else {
                    (self.cursor, self.generation) = (Cursor::at(from), memory.generation());
                    self.phase = Phase::Live;
                }
                return true;
            }
            Phase::Begin { resets } => {
                if resets && !self.give(WatchEvent::Reset, events) {
                    return false;
                }
                self.missed.clear();
                self.is_lagging = false;
                self.cursor = Cursor::at(around.replica.position());
                self.generation = memory.generation();
                self.phase = Phase::Walk(around.replica.tour());
                return true;
            }
            Phase::Walk(_) | Phase::Live => {}
        }
        // Before what was missed: of what is forgotten wholly not all is there.
        if self.generation != memory.generation() || self.cursor.behind < since {
            self.phase = Phase::Begin { resets: true };
            return true;
        }
        if !self.missed.is_empty() {
            return self.give_missed(events);
        }
        if matches!(self.phase, Phase::Walk(_)) && planted!("watch-walks-ahead") {
            return self.walk(around, looks, events);
        }
        match memory.next(self.cursor) {
            Next::Forgotten => {
                self.phase = Phase::Begin { resets: true };
                true
            }
            Next::Change(change) => {
                if self.is_for(change) && !self.give(WatchEvent::Change(change.clone()), events) {
                    return false;
                }
                self.cursor.taken += 1;
                true
            }
            Next::End(position) => {
                self.cursor = Cursor::at(position);
                self.pass_with_the_last(around.now, events);
                true
            }
            Next::Sweep => false,
            Next::Nothing => {
                self.cursor = Cursor::at(around.replica.position().max(self.cursor.behind));
                match &self.phase {
                    Phase::Walk(_) => self.walk(around, looks, events),
                    _ => self.give_bookmark(around.now, events),
                }
            }
        }
    }

    /// False: there is no room.
    fn give(&mut self, event: WatchEvent, events: &mut Vec<Given>) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        events.push(Given { event, passes: None });
        true
    }

    /// Says that the session lapsed, or resumed. Of many times it is told the last ones.
    fn say_turn(&mut self, turns: u64, events: &mut Vec<Given>) -> bool {
        if turns - self.turns > 2 {
            self.turns = turns - 2 + (turns - self.turns) % 2;
        }
        let is_lapse = self.turns.is_multiple_of(2);
        if !self.give(if is_lapse { WatchEvent::Lapsed } else { WatchEvent::Resumed }, events) {
            return false;
        }
        self.turns += 1;
        true
    }

    fn give_missed(&mut self, events: &mut Vec<Given>) -> bool {
        if self.room == 0 {
            return false;
        }
        if !self.is_lagging {
            self.is_lagging = true;
            return planted!("watch-lags-in-silence") || self.give(WatchEvent::Lagged, events);
        }
        if let Some(change) = self.missed.take() {
            // It may be as it was, in what the reader asks for: never there.
            if self.is_for(&change) {
                self.give(WatchEvent::Change(change), events);
            }
        }
        self.is_lagging = !self.missed.is_empty();
        true
    }

    /// A name of the present state. Only a reader that has all changes: what is in the table is later than these.
    fn walk<T: Table>(&mut self, around: &Around<'_, T>, looks: &mut usize, events: &mut Vec<Given>) -> bool {
        if self.room == 0 {
            return false;
        }
        let Phase::Walk(tour) = &mut self.phase else { return false };
        let Some(name) = tour.next(around.replica.sessions()) else {
            let position = self.cursor.behind;
            self.phase = Phase::Live;
            self.give(WatchEvent::Current { position }, events);
            self.pass(around.now, events);
            return true;
        };
        *looks = looks.saturating_sub(LOOKS_OF_A_NAME);
        if self.select.has_name(name)
            && let Some(row) = around.replica.row(name).filter(|row| self.select.has_row(row))
        {
            let (name, entry) = (name.clone(), Row::entry(&row));
            self.give(WatchEvent::Present { name, entry }, events);
        }
        true
    }

    /// The position that is over is passed on with the last change of it.
    fn pass_with_the_last(&mut self, now: Time, events: &mut [Given]) {
        let is_last = events.last().is_some_and(|given| {
            matches!(&given.event, WatchEvent::Change(change) if change.position == self.cursor.behind)
        });
        if is_last && (matches!(self.phase, Phase::Live) || planted!("watch-passes-before-it-is-current")) {
            self.pass(now, events);
        }
    }

    fn pass(&mut self, now: Time, events: &mut [Given]) {
        if let Some(last) = events.last_mut() {
            (self.passed, self.passed_at) = (self.cursor.behind, now);
            last.passes = Some(self.passed);
        }
    }

    fn give_bookmark(&mut self, now: Time, events: &mut Vec<Given>) -> bool {
        let position = self.cursor.behind;
        let is_due = position > self.passed && now.since(self.passed_at) >= BOOKMARK_EVERY;
        if is_due && self.give(WatchEvent::Bookmark { position }, events) {
            self.pass(now, events);
        }
        false
    }

    /// The memory forgets something: whoever has not got it keeps of it what it can.
    pub(super) fn misses(&mut self, forgets: Forgets<'_>, limit: usize) {
        if !self.has_begun() {
            return;
        }
        match forgets {
            Forgets::Change { change, position, nth } => {
                if self.cursor.behind >= position || self.cursor.taken > nth {
                    return;
                }
                self.cursor.taken = nth + 1;
                if self.is_for(change)
                    && !planted!("watch-forgets-what-was-missed")
                    && self.missed.add(change) > limit
                {
                    self.phase = Phase::Begin { resets: true };
                }
            }
            Forgets::End { since, position } => {
                if since.is_some_and(|since| self.cursor.behind >= since) && self.cursor.behind < position {
                    self.cursor = Cursor::at(position);
                }
            }
        }
    }
}
