//! The latest changes, in the order of the log.
//!
//! The names of a session that is gone are removed slice by slice, and so their changes come late. So the changes of one position are
//! complete only when the sweep is, and until then nobody is given any of the next position.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use callsign_store::{
    ids::{Position, SessionId},
    planted,
};

use super::Change;
use crate::core::{meta, name::Name, table::Row, why::Why};

/// What a change takes beside its name and its metadata.
const CHANGE_BYTES: usize = 320;

/// What the changes of a position take together beside themselves.
const SEGMENT_BYTES: usize = 96;

/// How far a reader is: it has everything up to a position, and so many of the changes behind it at the next position that has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    pub(super) behind: Position,
    pub(super) taken: usize,
}

impl Cursor {
    /// It has everything up to there.
    pub(super) fn at(behind: Position) -> Self {
        Self { behind, taken: 0 }
    }
}

/// The changes of one position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Segment {
    position: Position,
    changes: VecDeque<Arc<Change>>,
    /// How many are forgotten already.
    forgotten: usize,
    /// Sessions whose rows of these positions are gone with it, and are not all swept.
    open: Vec<(SessionId, Range<Position>)>,
}

impl Segment {
    fn of(position: Position) -> Self {
        Self { position, changes: VecDeque::new(), forgotten: 0, open: Vec::new() }
    }

    fn is_complete(&self) -> bool {
        self.open.is_empty() || planted!("watch-passes-what-is-swept")
    }
}

/// What comes next for a reader.
pub(super) enum Next<'a> {
    Change(&'a Arc<Change>),
    /// All of this position was given.
    End(Position),
    /// More of this position comes.
    Sweep,
    /// Nothing.
    Nothing,
    /// It is forgotten.
    Forgotten,
}

/// The latest changes, if somebody wants to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    is_on: bool,
    /// Everything behind this position is here. None: the replica is no prefix of the log now.
    since: Option<Position>,
    segments: VecDeque<Segment>,
    bytes: usize,
    /// Counts how often what was here before is no prefix of what is here now.
    generation: u64,
}

impl Memory {
    /// Whether changes are put into it.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins to remember, behind a position; or as soon as there is one.
    pub(crate) fn turn_on(&mut self, since: Option<Position>) {
        if !self.is_on {
            *self = Self { is_on: true, since, generation: self.generation, ..Self::default() };
        }
    }

    pub(crate) fn turn_off(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    /// What comes is no continuation of what was.
    pub(crate) fn lose(&mut self) {
        if self.is_on && !planted!("watch-goes-on-over-a-gap") {
            let generation = self.generation + u64::from(!planted!("watch-goes-on-in-a-lost-log"));
            *self = Self { is_on: true, generation, ..Self::default() };
        }
    }

    /// The replica is a prefix of the log again, up to a position.
    pub(crate) fn begin_at(&mut self, position: Position) {
        if self.is_on {
            self.forget_all(position);
        }
    }

    fn forget_all(&mut self, position: Position) {
        self.segments.clear();
        self.bytes = 0;
        self.since = Some(position);
    }

    fn segment(&mut self, position: Position) -> &mut Segment {
        if self.segments.back().is_none_or(|last| last.position < position) {
            self.bytes += SEGMENT_BYTES;
            self.segments.push_back(Segment::of(position));
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// A name is held in another way from this position on.
    pub(crate) fn changed(
        &mut self,
        name: &Name,
        position: Position,
        (was, now): (Option<&Row>, Option<&Row>),
        why: Why,
    ) {
        let change = change(name, position, (was, now), why);
        self.bytes += weight(&change);
        self.segment(position).changes.push_back(Arc::new(change));
    }

    /// The rows of a session that are of these positions are gone from this position on. They are named as they are swept.
    pub(crate) fn hidden(&mut self, position: Position, session: &SessionId, rows: Range<Position>) {
        self.segment(position).open.push((session.clone(), rows));
    }

    /// One of these was swept.
    pub(crate) fn swept(&mut self, name: &Name, row: &Row) {
        let is_of = |(session, rows): &(SessionId, Range<Position>)| {
            rows.contains(&row.position) && *session == *row.session
        };
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.open.iter().any(is_of)) else {
            return;
        };
        let change = change(name, segment.position, (Some(row), None), Why::NodeGone);
        self.bytes += weight(&change);
        segment.changes.push_back(Arc::new(change));
    }

    /// Whether names are still to be swept.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.segments.iter().any(|segment| !segment.open.is_empty())
    }

    /// Whether nothing can be given now.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_sweeping() || self.since.is_none()
    }

    /// Some may be swept wholly: those of which this says that nothing is left.
    pub(crate) fn close_swept(&mut self, is_swept: impl Fn(&SessionId) -> bool) {
        for segment in &mut self.segments {
            segment.open.retain(|(session, _)| !is_swept(session));
        }
    }

    /// The changes of one name. Cost: a look at all.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Change> {
        let changes = self.segments.iter().flat_map(|segment| &segment.changes);
        changes.map(Arc::as_ref).filter(move |change| change.name == name)
    }

    pub(super) fn since(&self) -> Option<Position> {
        self.since
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// What comes next behind a cursor.
    pub(super) fn next(&self, cursor: Cursor) -> Next<'_> {
        if self.since.is_none_or(|since| cursor.behind < since) {
            return Next::Forgotten;
        }
        let at = self.segments.partition_point(|segment| segment.position <= cursor.behind);
        let Some(segment) = self.segments.get(at) else { return Next::Nothing };
        let Some(nth) = cursor.taken.checked_sub(segment.forgotten) else { return Next::Forgotten };
        match segment.changes.get(nth) {
            Some(change) => Next::Change(change),
            None if segment.is_complete() => Next::End(segment.position),
            None => Next::Sweep,
        }
    }

    /// Forgets the oldest changes, until the rest has so few bytes, and says what. `at` is where the replica is.
    pub(super) fn shrink(&mut self, limit: usize, at: Position, mut says: impl FnMut(Forgets<'_>)) {
        while self.bytes > limit
            && let Some(first) = self.segments.front_mut()
        {
            let position = first.position;
            if let Some(change) = first.changes.pop_front() {
                self.bytes -= weight(&change);
                says(Forgets::Change { change: &change, position, nth: first.forgotten });
                first.forgotten += 1;
            } else if first.is_complete() {
                self.bytes -= SEGMENT_BYTES;
                says(Forgets::End { since: self.since, position });
                self.since = Some(position);
                self.segments.pop_front();
            } else {
                // What waits for the sweep is too much.
                self.forget_all(at);
            }
        }
    }
}

/// What is forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) enum Forgets<'a> {
    /// The nth change of the first position behind `since`.
    Change { change: &'a Change, position: Position, nth: usize },
    /// This position, whose changes are forgotten already: everything behind `since` was here.
    End { since: Option<Position>, position: Position },
}

fn change(name: &Name, position: Position, (was, now): (Option<&Row>, Option<&Row>), why: Why) -> Change {
    Change { name: name.clone(), position, was: was.map(Row::entry), now: now.map(Row::entry), why }
}

/// About how many bytes a change takes.
pub(super) fn weight(change: &Change) -> usize {
    let meta = |entry: &Option<crate::core::entry::Entry>| {
        meta::weight(entry.as_ref().and_then(|entry| entry.raw_meta()))
    };
    CHANGE_BYTES + change.name.len() + meta(&change.was) + meta(&change.now)
}
