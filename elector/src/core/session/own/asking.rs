//! What is asked of the store for the node's own record: to open it, to beat, to close it, and to read it.

use std::time::Duration;

use callsign_store::planted;

use super::{
    Attempt, Beat, Effect, Lineage, MOST_ATTEMPTS, Obstacle, OpenMark, Pending, Phase, Record, Request,
    RequestId, Session, SessionFailure, SessionNumber, SessionRecord, Time, Transaction, floor_of,
    next_count, read_key,
};

impl Session {
    /// Does what is due to the node's own record.
    pub(in crate::core::session) fn act_own(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Leaving(until) if until <= now) {
            let obstacle = self.own.obstacle.clone();
            return self.fail(SessionFailure::LeaveUnconfirmed { obstacle }, effects);
        }
        if let Some(pending) = &self.own.pending {
            if now < pending.deadline || planted!("beat-waited-for-ever") {
                return;
            }
            // An attempt that never answers is an unknown outcome.
            self.own.pending = None;
            self.own.stale = true;
            self.own.due = now;
            self.own.obstacle = Obstacle::NoAnswer;
        }
        if now < self.own.due {
            return;
        }
        match self.phase {
            Phase::Idle | Phase::Over(_) => {}
            _ if self.own.stale => self.read_own(now, effects),
            Phase::Opening if self.left_open().is_some() => self.close_left(now, effects),
            Phase::Opening => match self.former_open().filter(|_| !planted!("former-not-waited-for")) {
                Some((_, record)) => self.wait_for_former(now, &record, effects),
                None => self.open_next(now, effects),
            },
            Phase::Open => self.attempt(now, effects),
            Phase::Leaving(_) => self.close_own(now, effects),
        }
    }

    fn open_next(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let stored = self.own.stored.as_ref().and_then(|s| s.record.as_ref());
        // Without a record the floor says which numbers may have been used. Its own ones the node knows itself.
        let floor = floor_of(self.own.floor.as_ref()).unwrap_or_default();
        let floor = if planted!("opens-below-floor") { SessionNumber(0) } else { floor };
        let before = stored.map_or(floor, |record| record.number).max(self.own.used).0;
        let next = next_count(before).map(|_| self.own.standing.after(before));
        let Some(number) =
            if planted!("session-number-reused") { Some(before) } else { next }.map(SessionNumber)
        else {
            return self.fail(SessionFailure::Exhausted, effects);
        };
        if self.own.number != Some(number) {
            self.own.number = Some(number);
            self.own.beat = Beat(0);
            // They were to open another session, and what they built on is gone.
            self.own.attempts.clear();
        }
        self.attempt(now, effects);
    }

    /// Writes the next beat. The first one of a session opens it.
    fn attempt(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(beat) = next_count(self.own.beat.0).map(Beat) else {
            return self.fail(SessionFailure::Exhausted, effects);
        };
        let lineage = self.lineage_to_open().filter(|_| self.phase == Phase::Opening);
        if let Some(id) = self.write_own(now, self.record(beat), lineage, effects) {
            self.own.beat = beat;
            if self.own.attempts.len() == MOST_ATTEMPTS {
                self.own.attempts.remove(0);
            }
            self.own.attempts.push(Attempt { lineage, id, beat, start: now });
        }
    }

    fn close_own(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let stored = self.own.stored.as_ref().and_then(|s| s.record.clone());
        match stored {
            Some(record) if self.is_mine(&record) => {
                self.write_own(now, SessionRecord { open: false, ..record }, None, effects);
            }
            // An opening may still land. Closing over what it builds on, under its number, rules that out.
            _ if !self.own.attempts.is_empty() => {
                let closed = SessionRecord { open: false, ..self.record(self.own.beat) };
                self.write_own(now, closed, None, effects);
            }
            _ => self.end(effects),
        }
    }

    /// Commits a change of the own key, conditional on what it held when last known. `None`: not yet, too soon
    /// after the last one.
    pub(super) fn write_own(
        &mut self,
        now: Time,
        record: SessionRecord,
        lineage: Option<Lineage>,
        effects: &mut Vec<Effect>,
    ) -> Option<RequestId> {
        let stored = self.own.stored.as_ref()?;
        let earliest = self.own.last_commit.map_or(now, |at| at + self.config.timing.retry());
        if now < earliest {
            self.own.due = earliest;
            return None;
        }
        let key = self.keys.session(&self.config.node);
        let mut transaction =
            Transaction::new().check(key.clone(), stored.value.clone()).put(key, record.to_value());
        if stored.value.is_none() {
            // A record that was not there may have come and gone since.
            transaction = transaction.check(self.keys.session_floor(), self.own.floor.clone());
        }
        transaction = self.check_lineage(transaction);
        let mark = self.keys.open_mark(&self.config.node);
        if !record.open {
            transaction = transaction.clear(mark);
        } else if self.phase == Phase::Opening {
            transaction = transaction.put(mark, OpenMark(record.number).to_value());
            if let Some(lineage) = lineage {
                transaction = transaction.put(self.keys.lineage(), lineage.to_value());
            }
        }
        if planted!("beat-unconditional") {
            transaction.checks.clear();
        }
        let id = self.next_id();
        self.own.last_commit = Some(now);
        self.ask_own(now, id, Request::Write(record));
        effects.push(Effect::Commit { id, transaction });
        Some(id)
    }

    pub(super) fn read_own(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let id = self.next_id();
        self.own.read_from = now;
        self.ask_own(now, id, Request::Read(self.doubted()));
        let mut reads =
            vec![read_key(self.keys.session(&self.config.node)), read_key(self.keys.session_floor())];
        reads.extend(self.lineage_keys().into_iter().map(read_key));
        effects.push(Effect::Read { id, reads });
    }

    /// A commit that raises the lineage is under way.
    pub(in crate::core::session) fn ask_raise(&mut self, now: Time, id: RequestId, lineage: Lineage) {
        self.ask_own(now, id, Request::Raise(lineage));
    }

    fn ask_own(&mut self, now: Time, id: RequestId, asks: Request) {
        self.own.pending = Some(Pending { id, deadline: self.patience(now), asks });
    }

    fn patience(&self, now: Time) -> Time {
        now + self.config.timing.attempt().max(Duration::from_millis(1))
    }

    pub(in crate::core::session) fn own_wake_at(&self) -> Option<Time> {
        let next = self.own.pending.as_ref().map_or(self.own.due, |p| p.deadline);
        match self.phase {
            Phase::Idle | Phase::Over(_) => None,
            Phase::Leaving(until) => Some(next.min(until)),
            Phase::Opening => Some(next),
            Phase::Open => Some(self.own.trusted_until.map_or(next, |until| until.min(next))),
        }
    }
}
