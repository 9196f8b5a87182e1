//! The node's own record: opening, beating, trust, leaving.

mod asking;
mod former;

use std::time::Duration;

use callsign_store::{
    CommitOutcome, Key, ReadResult, StoreError, Transaction, Value, Version,
    ids::{Beat, SessionNumber, next_count},
    keys::read_key,
    planted,
    record::{CorruptRecord, Record},
    time::Time,
};

use super::{
    Effect, Phase, RequestId, Session,
    lineage::{Finding, Standing},
    watch::{Sight, Watch},
};
use crate::core::{
    past::Fact,
    record::{Lineage, OpenMark, SessionFloor, SessionRecord},
    session::{
        event::{Obstacle, SessionEvent, SessionFailure},
        timing::MIN_EVERY,
    },
};

/// How many unsettled attempts are remembered. One that is forgotten may still land; it extends no trust then.
const MOST_ATTEMPTS: usize = 64;

/// A beat comes early by less than this part of the interval, so that nodes that were started together do not go on to beat at
/// once. Less: there are more beats than are due. More: such nodes come apart later.
const BEATS_APART: u32 = 30;

/// What the node knows of its own record, and is doing about it. At most one request is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Own {
    /// What the key held when last known. `None` before the first read.
    stored: Option<Stored>,
    /// The floor, as it was read with `stored`. It counts while there is no record.
    floor: Option<Value>,
    /// `stored` may be out of date: read before writing.
    pub(super) stale: bool,
    /// The session that is open, or was last tried to open.
    pub(super) number: Option<SessionNumber>,
    /// The greatest number of a session that was this core's own.
    used: SessionNumber,
    /// The greatest beat ever tried in that session, so that no value is written twice.
    beat: Beat,
    /// Openings and beats that build on `stored`, and may still land. At most one of them can: each checks for the
    /// value that the first to land replaces for ever.
    attempts: Vec<Attempt>,
    pending: Option<Pending>,
    /// When to act next, if nothing is pending.
    pub(super) due: Time,
    /// When the last commit that builds on `stored` was started.
    last_commit: Option<Time>,
    /// End of the last read.
    read_at: Option<Time>,
    /// When the last read was begun.
    read_from: Time,
    pub(super) trusted_until: Option<Time>,
    /// Whether the session was ever trusted, and subscribers know of it.
    pub(super) announced: bool,
    /// Whether any session of this incarnation was ever trusted.
    has_served: bool,
    /// What is wrong with the record, if the last read could not make sense of it.
    unreadable: Option<CorruptRecord>,
    /// The open session of another incarnation that is in the way.
    former: Option<Watch>,
    pub(super) obstacle: Obstacle,
    /// Which store this is, as far as is known.
    pub(super) standing: Standing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    value: Option<Value>,
    record: Option<SessionRecord>,
    version: Version,
    /// The last request that was begun when this was known: a later one has to show as much.
    known_at: RequestId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    /// What it makes of the lineage's record, if it changes that.
    lineage: Option<Lineage>,
    id: RequestId,
    beat: Beat,
    start: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending {
    id: RequestId,
    deadline: Time,
    asks: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Request {
    /// With what is doubted.
    Read(Vec<(Key, Fact)>),
    Write(SessionRecord),
    /// A greater lineage.
    Raise(Lineage),
}

impl Default for Own {
    fn default() -> Self {
        Self {
            stored: None,
            floor: None,
            stale: true,
            number: None,
            used: SessionNumber(0),
            beat: Beat(0),
            attempts: Vec::new(),
            pending: None,
            due: Time::ZERO,
            last_commit: None,
            read_at: None,
            read_from: Time::ZERO,
            trusted_until: None,
            announced: false,
            has_served: false,
            unreadable: None,
            former: None,
            obstacle: Obstacle::Nothing,
            standing: Standing::default(),
        }
    }
}

impl Own {
    /// When the session that is in the way is over and the next one open, if it stays silent.
    pub(super) fn former_is_over_at(&self) -> Option<Time> {
        let lease = self.stored.as_ref()?.record.as_ref()?.lease;
        self.former.as_ref().map(|watch| watch.overdue_at() + lease / 2)
    }

    pub(super) fn is_reading(&self, id: RequestId) -> bool {
        self.pending.as_ref().is_some_and(|p| p.id == id && matches!(p.asks, Request::Read(_)))
    }
}

impl Session {
    pub(super) fn on_own_read(
        &mut self,
        now: Time,
        id: RequestId,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        let asked = match self.own.pending.take().map(|pending| pending.asks) {
            Some(Request::Read(asked)) => asked,
            _ => Vec::new(),
        };
        let read = match result {
            Ok(read) => read,
            Err(StoreError::Unavailable(why)) => {
                self.own.obstacle = Obstacle::Unavailable(why);
                self.own.due = now + self.pause();
                return;
            }
        };
        let is_older = self.own.stored.as_ref().is_some_and(|s| read.version < s.version);
        let is_fresh = self.own.stored.as_ref().is_none_or(|s| s.known_at < id);
        if is_older && !is_fresh {
            // Older than what is known already. It would bring a beat back that was replaced.
            self.own.due = now + self.pause();
            return;
        }
        let value = read.value(0).cloned();
        let floor = read.value(1);
        let record = value.as_deref().map(SessionRecord::from_value).transpose();
        let record = match record.and_then(|r| floor_of(floor).map(|_| r)) {
            Ok(record) => record,
            // It did not come about in this life: whoever starts the node is told, and can see to it.
            Err(corrupt) if !self.own.has_served => {
                return self.fail(SessionFailure::Corrupt(corrupt), effects);
            }
            // Neither open nor closed: nothing is written, and trust runs out by itself. Once the record is repaired
            // the node goes on, or learns that it has lost its session.
            Err(corrupt) => return self.on_unreadable(now, corrupt, effects),
        };
        match self.judge(now, &read, record.as_ref(), &asked, is_fresh, effects) {
            Ok(Finding::Whole) => {}
            Ok(Finding::Greater(lineage)) => {
                self.begin_anew(now, read.value(2).cloned(), lineage, effects);
            }
            Ok(Finding::Gone(gone)) => {
                self.own.stale = true;
                self.on_gone(now, &read, gone, effects);
                if self.own.standing.is_in_doubt() {
                    return;
                }
            }
            Err(corrupt) if !self.own.has_served => {
                return self.fail(SessionFailure::Corrupt(corrupt), effects);
            }
            Err(corrupt) => return self.on_unreadable(now, corrupt, effects),
        }
        if is_older {
            // Nothing is lost that anybody here knows of; but what is known of versions is worth nothing any more.
            self.observer.forget_versions();
        }
        self.own.unreadable = None;
        if self.own.floor.as_ref() != floor {
            self.own.floor = floor.cloned();
            if value.is_none() {
                // What was tried checks the floor that was, and cannot land any more.
                self.own.attempts.clear();
                self.own.last_commit = None;
            }
        }
        self.own.read_at = Some(now);
        self.learn(now, value, record, read.version, effects);
        if self.phase == Phase::Opening {
            self.watch_former(now, effects);
        }
        if self.own.standing.is_in_doubt() {
            // More was said meanwhile.
            (self.own.stale, self.own.due) = (true, now);
        }
    }

    pub(super) fn on_own_commit(
        &mut self,
        now: Time,
        id: RequestId,
        outcome: CommitOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let pending = self.own.pending.take_if(|p| p.id == id);
        let is_current = pending.is_some();
        let is_raise = pending.as_ref().and_then(|pending| match pending.asks {
            Request::Raise(lineage) => Some(lineage),
            _ => None,
        });
        let outcome = match (outcome, &self.own.stored) {
            (CommitOutcome::Unknown, Some(stored)) if planted!("unknown-beat-trusted") => {
                CommitOutcome::Committed(stored.version)
            }
            (outcome, _) => outcome,
        };
        match outcome {
            CommitOutcome::Committed(_) if is_raise.is_some() => {
                self.on_raised(now, is_raise.unwrap_or_default(), effects);
                self.own.stale = true;
                self.own.due = now;
            }
            CommitOutcome::Committed(version) => {
                let lineage = self.own.attempts.iter().find(|a| a.id == id).and_then(|a| a.lineage);
                if let Some(lineage) = lineage {
                    self.on_lineage_opened(now, lineage, effects);
                }
                let written = match pending.map(|p| p.asks) {
                    Some(Request::Write(record)) => Some(record),
                    // Given up, but nothing has happened since that would rule it out: this is news.
                    _ => self.own.attempts.iter().find(|a| a.id == id).map(|a| self.record(a.beat)),
                };
                if let Some(record) = written {
                    self.learn(now, Some(record.to_value()), Some(record), version, effects);
                }
            }
            CommitOutcome::Conflict => {
                self.own.attempts.retain(|a| a.id != id);
                self.own.stale |= is_current;
            }
            CommitOutcome::Unknown => {
                self.own.stale |= is_current;
                if is_current {
                    self.own.obstacle = Obstacle::NoAnswer;
                }
            }
            CommitOutcome::Unavailable(why) => {
                self.own.attempts.retain(|a| a.id != id);
                if is_current {
                    self.own.obstacle = Obstacle::Unavailable(why);
                    self.own.due = now + self.pause();
                }
                return;
            }
            CommitOutcome::TooLarge(limit) => {
                if is_current {
                    self.fail(SessionFailure::TooLarge(limit), effects);
                }
                return;
            }
        }
        if is_current && self.own.stale {
            self.own.due = now;
        }
    }

    fn on_unreadable(&mut self, now: Time, error: CorruptRecord, effects: &mut Vec<Effect>) {
        self.own.stale = true;
        self.own.due = now + self.pause();
        if self.own.unreadable.replace(error.clone()).as_ref() != Some(&error) {
            effects.push(Effect::Emit(SessionEvent::Unreadable { error }));
        }
    }

    /// Takes what the key holds at `version`.
    fn learn(
        &mut self,
        now: Time,
        value: Option<Value>,
        record: Option<SessionRecord>,
        version: Version,
        effects: &mut Vec<Effect>,
    ) {
        self.own.stale = self.own.standing.is_in_doubt();
        self.own.due = now;
        let known_at = self.last_id();
        if let Some(stored) = self.own.stored.as_mut().filter(|s| s.value == value) {
            // The attempts may still land.
            (stored.version, stored.known_at) = (version, known_at);
            return;
        }
        let is_mine = record.as_ref().is_some_and(|r| self.is_mine(r));
        let attempt =
            self.own.attempts.iter().find(|a| is_mine && record.as_ref().map(|r| r.beat) == Some(a.beat));
        let start = attempt.map(|a| a.start);
        self.own.attempts.clear();
        self.own.pending = None;
        self.own.last_commit = None;
        if let Some(record) = record.as_ref().filter(|_| is_mine) {
            self.own.beat = self.own.beat.max(record.beat);
            self.own.used = self.own.used.max(record.number);
        }
        let same_session = |s: &Stored| {
            s.record.as_ref().map(|r| (r.incarnation, r.number))
                == record.as_ref().map(|r| (r.incarnation, r.number))
        };
        if !self.own.stored.as_ref().is_some_and(same_session) {
            self.own.former = None;
        }
        self.own.stored = Some(Stored { value, record, version, known_at });
        if is_mine && self.phase == Phase::Opening {
            // Its own opening, answered or found.
            self.phase = Phase::Open;
        }
        if self.phase != Phase::Open {
            return;
        }
        if !is_mine {
            self.lose(now, effects);
            return;
        }
        if let Some(start) = start {
            self.trust(now, start, effects);
            let every = self.config.timing.beat_every;
            self.own.due = start + every.saturating_sub(self.jitter.below(every / BEATS_APART));
        }
    }

    /// Trusts the session as far as a beat that was started at `start` and committed allows.
    fn trust(&mut self, now: Time, start: Time, effects: &mut Vec<Effect>) {
        if self.own.standing.is_in_doubt() {
            return;
        }
        let start = if planted!("trust-from-end-of-beat") { now } else { start };
        let until = start + self.config.timing.trust_window();
        let Some(number) = self.own.number.filter(|_| now < until) else { return };
        let session = self.id(number);
        self.own.standing.trusted(until);
        let was_trusted = self.own.trusted_until.replace(until).is_some();
        self.own.obstacle = Obstacle::Nothing;
        effects.push(Effect::Trust { number, until });
        if !self.own.announced {
            self.own.announced = true;
            self.own.has_served = true;
            effects.push(Effect::Emit(SessionEvent::Opened { session }));
        } else if !was_trusted {
            effects.push(Effect::Emit(SessionEvent::Resumed { session }));
        }
        if !was_trusted {
            self.observer.begin(now);
            if !self.config.timing.sweep_after.is_zero() {
                self.sweeper.begin(now, self.config.timing.sweep_after);
            }
        }
    }

    pub(super) fn lapse_if_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.own.trusted_until.is_some_and(|until| until <= now) {
            self.lapse(now, effects);
            // Every beat counts now: do not wait for the next regular one.
            self.own.due = self.own.due.min(now);
        }
    }

    pub(super) fn lapse(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(until) = self.own.trusted_until.take() else { return };
        self.own.standing.trusted(until.min(now));
        effects.push(Effect::Lapse);
        self.observer.interrupt();
        if let Some(number) = self.own.number {
            effects.push(Effect::Emit(SessionEvent::Lapsed { session: self.id(number) }));
        }
    }

    /// The session is closed, or gone: opens the next.
    pub(super) fn lose(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.lapse(now, effects);
        self.phase = Phase::Opening;
        if let Some(number) = self.own.number.filter(|_| std::mem::take(&mut self.own.announced)) {
            effects.push(Effect::Emit(SessionEvent::Lost { session: self.id(number) }));
        }
    }

    pub(super) fn leave(&mut self, now: Time, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Leaving(_) | Phase::Over(_) => {}
            Phase::Opening if !self.own.attempts.is_empty() => self.begin_to_leave(now),
            Phase::Open => {
                if !planted!("closes-before-lapsing") {
                    self.lapse(now, effects);
                }
                self.begin_to_leave(now);
            }
            Phase::Idle | Phase::Opening => self.end(effects),
        }
    }

    /// What is open under its number is this node's own, whoever opened it.
    pub(super) fn close_inherited(&mut self, now: Time, number: SessionNumber) {
        if self.phase == Phase::Idle {
            self.own.number = Some(number);
            self.begin_to_leave(now);
            if planted!("inherited-session-not-closed") {
                self.phase = Phase::Over(None);
            }
        }
    }

    fn begin_to_leave(&mut self, now: Time) {
        // Longer makes no sense: after its lease the others close the session anyway.
        self.phase = Phase::Leaving(now + self.config.timing.lease / 2);
        self.own.due = now;
    }

    fn end(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Over(None);
        effects.push(Effect::Emit(SessionEvent::Left));
    }

    fn fail(&mut self, failure: SessionFailure, effects: &mut Vec<Effect>) {
        self.lapse(Time(Duration::MAX), effects);
        self.phase = Phase::Over(Some(failure.clone()));
        effects.push(Effect::Emit(SessionEvent::Failed(failure)));
    }

    /// Whether it is the session that this core opened or tried to open, and open.
    fn is_mine(&self, record: &SessionRecord) -> bool {
        self.own.number.is_some_and(|number| record.is_open_as(&self.id(number)))
    }

    fn record(&self, beat: Beat) -> SessionRecord {
        SessionRecord {
            incarnation: self.config.incarnation,
            number: self.own.number.unwrap_or_default(),
            lease: self.config.timing.lease,
            beat,
            open: true,
        }
    }
}

/// The floor that a value says; without one, 0.
pub(super) fn floor_of(value: Option<&Value>) -> Result<SessionNumber, CorruptRecord> {
    value.map_or(Ok(SessionNumber(0)), |value| SessionFloor::from_value(value).map(|floor| floor.0))
}
