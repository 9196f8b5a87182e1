//! What a replica remembers beside its table: registrations that have ended and why, and when it applied what.
//!
//! So a member can say why a name is free, also where nobody [watches](crate::core::watch). A registration costs nothing here: while it
//! lasts it is in the table, and what is put here is put here when it ends. Nothing is decided by what is here.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    ops::Range,
    time::Duration,
};

use callsign_store::{
    Time,
    ids::{Position, SessionId},
    planted,
};

use crate::core::{
    name::{Name, RESERVED},
    table::{More, Row},
    why::Why,
};

/// How many ended registrations are remembered. More: memory, some 200 bytes for each. Fewer: why a name is free is forgotten sooner.
pub(crate) const MAX_ENDED: usize = 4096;

/// Batches that are applied within this time count as applied together. Shorter: times are remembered for less long. Longer: what
/// is said of a time is less exact.
const EXACT_TO: Duration = Duration::from_secs(1);

/// How many times are remembered.
const MAX_TIMES: usize = 4096;

/// A registration that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) name: Name,
    /// The row of its holder, without metadata.
    pub(super) row: Row,
    /// From where on it is over.
    pub(super) at: Position,
    pub(super) why: Why,
}

/// Rows of a session that are gone, and not all swept.
#[derive(Clone, Debug)]
struct GoneRows {
    session: SessionId,
    rows: Range<Position>,
    at: Position,
}

/// Positions that were applied at about one time.
#[derive(Clone, Copy, Debug)]
struct AppliedSpan {
    behind: Position,
    to: Position,
    at: Time,
}

/// See the top of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    now: Time,
    /// What is applied now was committed some time ago.
    is_late: bool,
    /// All that has ended behind this position is here. None: the replica is no prefix of the log now.
    since: Option<Position>,
    /// The registry began with no names there, and all that has ended since is here.
    began_at: Option<Position>,
    /// Those of one name are in the order of the log.
    ended: VecDeque<Ended>,
    gone: Vec<GoneRows>,
    times: VecDeque<AppliedSpan>,
}

/// Nothing is decided by it: replicas are compared without it.
impl PartialEq for Past {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Past {}

impl Hash for Past {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Past {
    /// What comes is applied at this time.
    pub(super) fn tick(&mut self, now: Time) {
        (self.now, self.is_late) = (now, false);
    }

    /// What is applied until the next tick was committed some time ago.
    pub(super) fn is_late(&mut self) {
        self.is_late = true;
    }

    /// What comes is no continuation of what was.
    pub(super) fn lose(&mut self) {
        if !planted!("explains-over-a-gap") {
            let times = std::mem::take(&mut self.times);
            *self = Self { now: self.now, is_late: self.is_late, times, ..Self::default() };
        }
    }

    /// What was applied is of a log that is lost.
    pub(super) fn forget(&mut self) {
        *self = Self { now: self.now, is_late: self.is_late, ..Self::default() };
    }

    /// The replica is a prefix of the log, up to a position.
    pub(super) fn begin_at(&mut self, position: Position) {
        self.since.get_or_insert(position); // what was before is lost
        if planted!("snapshot-taken-for-a-reset") {
            self.began_at.get_or_insert(position);
        }
    }

    /// The registry begins with no names.
    pub(super) fn reset_at(&mut self, position: Position) {
        self.lose();
        self.begin_at(position);
        self.began_at = Some(position);
    }

    /// The replica goes from one position to another by a batch.
    pub(super) fn applied(&mut self, behind: Position, to: Position) {
        if self.is_late {
            return;
        }
        let now = self.now;
        if let Some(last) = self.times.back_mut()
            && last.to == behind
            && now.since(last.at) < EXACT_TO
        {
            last.to = to;
            return;
        }
        if self.times.len() >= MAX_TIMES {
            self.times.pop_front();
        }
        self.times.push_back(AppliedSpan { behind, to, at: now });
    }

    /// A registration is over from a position on.
    pub(super) fn ended(&mut self, name: &Name, row: &Row, at: Position, why: Why) {
        if self.since.is_none() || name.starts_with(RESERVED) {
            return;
        }
        let more = More::of_actor(row.actor(), row.position, row.revision(), None);
        let ended = Ended { name: name.clone(), row: Row { more, ..row.clone() }, at, why };
        self.ended.push_back(ended);
        if self.ended.len() > MAX_ENDED
            && let Some(forgotten) = self.ended.pop_front()
        {
            let is_later = self.since.is_some_and(|since| since < forgotten.at);
            if is_later {
                (self.since, self.began_at) = (Some(forgotten.at), None);
            }
        }
    }

    /// The rows of a session that are of these positions are gone from a position on. They are named as they are swept.
    pub(super) fn gone(&mut self, session: &SessionId, rows: Range<Position>, at: Position) {
        if self.since.is_some() {
            self.gone.push(GoneRows { session: session.clone(), rows, at });
        }
    }

    /// One of these was swept.
    pub(super) fn swept(&mut self, name: &Name, row: &Row) {
        if let Some(at) = self.went_at(row)
            && !planted!("explains-nothing-swept")
        {
            self.ended(name, row, at, Why::NodeGone);
        }
    }

    /// Where the session of a row went that was not swept yet, if it did while this remembers.
    pub(super) fn went_at(&self, row: &Row) -> Option<Position> {
        let is_of = |gone: &&GoneRows| gone.rows.contains(&row.position) && gone.session == *row.session;
        self.gone.iter().find(is_of).map(|gone| gone.at)
    }

    /// Some may be swept wholly: those of which this says that nothing is left.
    pub(super) fn close_swept(&mut self, is_swept: impl Fn(&SessionId) -> bool) {
        self.gone.retain(|gone| !is_swept(&gone.session));
    }

    pub(super) fn since(&self) -> Option<Position> {
        self.since
    }

    /// Where the registry began with no names, if all that has ended since is here.
    pub(super) fn began_at(&self) -> Option<Position> {
        self.began_at
    }

    /// The registrations under a name that have ended, oldest first.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Ended> {
        self.ended.iter().filter(move |ended| ended.name == name)
    }

    /// How long ago a position was applied here, to about a second.
    pub(super) fn ago(&self, position: Position) -> Option<Duration> {
        let at = self.times.partition_point(|applied| applied.to < position);
        let applied = self.times.get(at).filter(|applied| applied.behind < position)?;
        Some(self.now.since(applied.at))
    }
}
