//! Consistent reads: wait until the own replica has what the registry had when the read was asked for.
//!
//! One read of `commit` serves all who asked before it began. There is no old answer: at the deadline the caller
//! learns what was missing.

#[cfg(test)]
mod tests;

use std::time::Duration;

use callsign_elector::{past::Fact, record::LogEnd};
use callsign_store::{ReadResult, StoreError, Time, ids::Position, keys::read_key, planted, record::Record};

use crate::{
    core::{
        input::{Answer, CallId, Effect, OpId, Turn},
        name::Name,
        replica::Replica,
        table::{Row, Table},
    },
    error::ConsistentError,
};

/// A read that has not answered for so long is begun again.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait after a read that failed.
const READ_RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AskedRead {
    call: CallId,
    name: Name,
    began: Time,
    deadline: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    id: OpId,
    since: Time,
    /// What the own replica had applied when it was begun.
    end: Option<LogEnd>,
    serves: Vec<AskedRead>,
}

/// A read showed less than the own replica had applied before it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WentBack;

/// The consistent reads of one member, and the waits for a position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reads {
    asked: Vec<AskedRead>,
    reading: Option<Reading>,
    reaching: Vec<(Position, AskedRead)>,
    waiting: Vec<(Position, CallId, Time)>,
    not_before: Time,
}

impl Reads {
    pub(crate) fn consistent(&mut self, now: Time, call: CallId, name: Name, wait: Duration) {
        self.asked.push(AskedRead { call, name, began: now, deadline: now + wait });
    }

    pub(crate) fn wait_for(&mut self, now: Time, call: CallId, position: Position, wait: Duration) {
        self.waiting.push((position, call, now + wait));
    }

    /// Nobody waits for the answer to this call any more. A read that has begun goes on.
    pub(crate) fn forget(&mut self, call: CallId) {
        self.asked.retain(|asked| asked.call != call);
        if let Some(reading) = &mut self.reading {
            reading.serves.retain(|asked| asked.call != call);
        }
        self.reaching.retain(|(_, asked)| asked.call != call);
        self.waiting.retain(|(_, waits, _)| *waits != call);
    }

    /// Begins the next read, if somebody waits for one.
    pub(crate) fn proceed(&mut self, mut turn: Turn<'_>, end: Option<LogEnd>) {
        let now = turn.now;
        let is_over =
            |reading: &mut Reading| now >= reading.since + READ_TIMEOUT && !planted!("read-waited-for-ever");
        if let Some(reading) = self.reading.take_if(is_over) {
            self.asked.extend(reading.serves);
        }
        if self.asked.is_empty() || self.reading.is_some() || now < self.not_before {
            return;
        }
        let id = turn.read(vec![read_key(turn.keys.commit())]);
        self.reading = Some(Reading { id, since: now, end, serves: std::mem::take(&mut self.asked) });
    }

    /// A read ended. Returns how far the replica has to come, if it was one of these. Whoever waited is served by a later read if
    /// this one shows that the store went back.
    pub(crate) fn on_read(
        &mut self,
        now: Time,
        id: OpId,
        result: &Result<ReadResult, StoreError>,
    ) -> Result<Option<Position>, WentBack> {
        let Some(reading) = self.reading.take_if(|reading| reading.id == id) else { return Ok(None) };
        if let (Ok(read), Some(end)) = (result, reading.end)
            && Fact::Commit(end).is_gone(read.value(0))
        {
            self.asked.extend(reading.serves);
            self.not_before = now + READ_RETRY;
            return Err(WentBack);
        }
        let commit = result.as_ref().ok().and_then(|read| match read.value(0) {
            None => Some(Position(0)),
            // A record that cannot be read is not "nothing": the callers learn at their deadlines.
            Some(value) => LogEnd::from_value(value).ok().map(|end| end.position),
        });
        let Some(commit) = commit else {
            self.asked.extend(reading.serves);
            self.not_before = now + READ_RETRY;
            return Ok(None);
        };
        self.reaching.extend(reading.serves.into_iter().map(|asked| (commit, asked)));
        if planted!("consistent-read-from-old-commit") {
            self.reaching.extend(std::mem::take(&mut self.asked).into_iter().map(|asked| (commit, asked)));
        }
        Ok(Some(commit))
    }

    /// Answers whoever the replica is far enough for, and whoever has waited long enough.
    pub(crate) fn settle<T: Table>(&mut self, now: Time, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let at = replica.position();
        let is_based = replica.is_based();
        let mut answer = |call, answer| effects.push(Effect::Answer { call, answer });
        self.reaching.retain(|(wanted, asked)| {
            if is_based && (at >= *wanted || planted!("consistent-read-of-own-replica")) {
                let entry = replica.row(&asked.name).as_ref().map(Row::entry);
                answer(asked.call, Answer::Consistent(Ok((at, entry))));
                return false;
            }
            let is_over = now >= asked.deadline;
            if is_over {
                let waited = now.since(asked.began);
                let error = ConsistentError::Behind { at, wanted: *wanted, waited };
                answer(asked.call, Answer::Consistent(Err(error)));
            }
            !is_over
        });
        let mut is_waiting = |asked: &AskedRead| {
            let is_over = now >= asked.deadline;
            if is_over {
                let error = ConsistentError::StoreUnavailable { waited: now.since(asked.began) };
                answer(asked.call, Answer::Consistent(Err(error)));
            }
            !is_over
        };
        self.asked.retain(&mut is_waiting);
        if let Some(reading) = &mut self.reading {
            reading.serves.retain(&mut is_waiting);
        }
        self.waiting.retain(|(wanted, call, deadline)| {
            if is_based && at >= *wanted {
                answer(*call, Answer::Reached(Ok(())));
                return false;
            }
            let is_over = now >= *deadline;
            if is_over {
                answer(*call, Answer::Reached(Err(at)));
            }
            !is_over
        });
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
            || self.reading.is_some()
            || !self.reaching.is_empty()
            || !self.waiting.is_empty()
    }
}
