//! What an elector reads while others look after the registry: not the members and their sessions, as often as they were read, but what is changed
//! with them.
//!
//! So a member that only waits costs the store the same however many members there are. It does not rest while anything is under way:
//! an entry waits, a lock is held, nobody leads.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::{Key, Read, ReadResult, StoreError, Time, ids::NodeName, keys::read_key, planted};

use super::{
    Doing, Effect, Elector, Reading,
    reading::{LINEAGE, LOCK, QUEUE_MARK, RECORDS, SETTINGS, TERM, records},
};

/// How often everything is read nevertheless. Shorter: more to read, with many members. Longer: what nobody said stays unseen for as long.
const READ_ALL_EVERY: Duration = Duration::from_secs(60);

/// Whether the elector rests, and how long ago it read everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    rests: bool,
    read_all_at: Time,
}

impl Rest {
    /// Says whether everything is to be read now: the elector rests no more.
    pub(super) fn turn_to(&mut self, rests: bool) -> bool {
        std::mem::replace(&mut self.rests, rests) && !rests
    }

    pub(super) fn has_read_all(&mut self, now: Time) {
        self.read_all_at = now;
    }

    fn may_glance(&self, now: Time) -> bool {
        self.rests && now < self.read_all_at + READ_ALL_EVERY
    }
}

/// A transaction that changes members, the queue or the leader changes one of these records, or the own row.
const SIGNS: [usize; 5] = [TERM, LOCK, QUEUE_MARK, SETTINGS, LINEAGE];

/// Behind the records: the own row, and the sessions of the own node and of the leader.
const OWN_ROW: usize = RECORDS;
const SESSIONS: usize = RECORDS + 1;

impl Elector {
    /// Whether a look at what changes with everything else is enough.
    pub(super) fn may_glance(&self, now: Time) -> bool {
        let is_quiet = |reading: &Reading| reading.is_quiet() || planted!("rests-while-something-waits");
        self.rest.may_glance(now) && self.reading.as_ref().is_some_and(is_quiet)
    }

    pub(super) fn glance(&mut self, effects: &mut Vec<Effect>) {
        self.known.ask();
        let id = self.begin(Doing::Glance);
        let mut reads = records(&self.keys, &self.config.node);
        reads.push(read_key(self.keys.member(&self.config.node)));
        reads.extend(self.watched().iter().map(|node| read_key(self.keys.cluster().session(node))));
        effects.push(Effect::Read { id, reads });
    }

    /// Whose sessions are looked at.
    fn watched(&self) -> BTreeSet<NodeName> {
        let leader = self.readable().and_then(|(_, state)| state.term.leader.as_ref());
        leader.map(|leader| leader.node.clone()).into_iter().chain([self.config.node.clone()]).collect()
    }

    /// Takes in what was looked at. If anything else may have changed, everything is read.
    pub(super) fn on_glance(
        &mut self,
        now: Time,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(seen) = self.answer(now, result, effects) else { return };
        let Some(former) = &self.reading else { return };
        let Some(whole) = self.completed(former, &seen) else {
            self.stale = true;
            return;
        };
        let (limit, asked) = (self.queue_limit, &former.asked);
        let reading = Reading::new(&self.keys, limit, asked, self.used, Some(former), whole);
        if self.is_our_store(now, &reading, effects) {
            self.take_in(now, reading, effects);
        }
    }

    /// What reading everything would have shown, if it is as it was but for what was seen. `None`: more may have changed.
    fn completed(&self, former: &Reading, seen: &ReadResult) -> Option<ReadResult> {
        let (keys, node) = (&self.keys, &self.config.node);
        let asked = records(keys, node);
        let is_as_before =
            |nth: &usize| matches!(&asked[*nth], Read::Key(key) if former.raw.get(key) == seen.value(*nth));
        let own_row = former.raw.get(&keys.member(node));
        let is_as_before = SIGNS.iter().all(is_as_before) && own_row == seen.value(OWN_ROW);
        if !is_as_before && !planted!("glance-sees-no-change") {
            return None;
        }
        let known =
            |key: Key| former.raw.get_key_value(&key).map(|(key, value)| (key.clone(), value.clone()));
        let watched: Vec<_> = self.watched().into_iter().collect();
        let session = |node: &NodeName| match watched.iter().position(|seen| seen == node) {
            Some(nth) => seen.entries(SESSIONS + nth).to_vec(),
            None => known(keys.cluster().session(node)).into_iter().collect(),
        };
        let mut answers = seen.answers.get(..RECORDS)?.to_vec();
        let rows = former.raw.range(keys.members());
        answers.push(rows.map(|(key, value)| (key.clone(), value.clone())).collect());
        // Nothing waits in the queue.
        answers.push(Vec::new());
        answers.extend(former.asked.iter().map(session));
        Some(ReadResult { version: seen.version, answers })
    }
}
