//! What an elector reads while others look after the registry: not the members and their sessions, as often as they were read, but what is changed
//! with them.
//!
//! So a member that only waits costs the store the same however many members there are. Which members came and went the leader tells it
//! by a [`ViewDelta`]; the store says whether it was told all. It does not rest while anything is under way that it was not told the end
//! of: an entry waits, a lock is held, nobody leads.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_store::{
    Key, Read, ReadResult, StoreError, Time, Value, Version,
    ids::NodeName,
    keys::{RegistryKeys, read_key},
    planted,
};

use super::{
    Doing, Effect, Elector, Reading, RowDelta, ViewDelta,
    delta::Deltas,
    reading::{QUEUE_MARK, RECORDS, TERM, records},
};

/// How often everything is read nevertheless. Shorter: more to read, with many members. Longer: what nobody said stays unseen for as long.
const READ_ALL_EVERY: Duration = Duration::from_secs(60);

/// For how many polls an elector waits to be told what came of a change. Shorter: with many members all read everything because one message is
/// late. Longer: if the leader is too slow to see to it, so are the others.
const UNTOLD_POLLS: u32 = 2;

/// Whether the elector rests, how long ago it read everything, and what it was told since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    rests: bool,
    read_all_at: Time,
    deltas: Deltas,
    /// Since when the members may be other ones, and it was not told.
    untold_since: Option<Time>,
}

impl Rest {
    /// Says whether everything is to be read now: the elector rests no more.
    pub(super) fn turn_to(&mut self, rests: bool) -> bool {
        std::mem::replace(&mut self.rests, rests) && !rests
    }

    pub(super) fn has_read_all(&mut self, now: Time, version: Version) {
        self.read_all_at = now;
        self.has_caught_up(version);
    }

    fn has_caught_up(&mut self, version: Version) {
        self.untold_since = None;
        self.deltas.forget_until(version);
    }

    /// What was said is of no use: everything will be read.
    pub(super) fn forget_deltas(&mut self) {
        self.deltas.clear();
        self.untold_since = None;
    }

    #[cfg(test)]
    pub(super) fn has_heard_nothing(&self) -> bool {
        self.untold_since.is_none() && self.deltas == Deltas::default()
    }

    fn may_glance(&self, now: Time) -> bool {
        self.rests && now < self.read_all_at + READ_ALL_EVERY
    }
}

/// Behind the records: the own row, and the sessions of the own node and of the leader.
const OWN_ROW: usize = RECORDS;
const SESSIONS: usize = RECORDS + 1;

/// What a look at a few records comes to.
struct Glimpse {
    /// What reading everything would have shown.
    whole: ReadResult,
    /// The nodes whose sessions are in it.
    asked: BTreeSet<NodeName>,
    /// Whether the members are known, too. Otherwise they are the former ones.
    is_told: bool,
}

impl Elector {
    /// Something may have changed. If a watch told of it, that has ended.
    pub(super) fn look(&mut self, now: Time) {
        self.watched = None;
        if self.may_glance(now) {
            self.poll_at = self.poll_at.min(now);
        } else {
            self.stale = true;
        }
    }

    /// Takes what the leader says of the members. The store is looked at first: it may know more.
    pub(super) fn take_delta(&mut self, now: Time, delta: ViewDelta) {
        let is_new = |reading: &Reading| delta.version > reading.version;
        if self.may_glance(now) && self.reading.as_ref().is_some_and(is_new) {
            self.rest.deltas.keep(delta);
            self.poll_at = self.poll_at.min(now);
        }
    }

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
        let version = seen.version;
        let Some(Glimpse { whole, asked, is_told }) = self.completed(former, &seen) else {
            self.stale = true;
            return;
        };
        let reading = Reading::new(&self.keys, self.queue_limit, &asked, self.used, Some(former), whole);
        if !self.is_our_store(now, &reading, effects) {
            return;
        }
        if !reading.leader_lives() {
            self.stale = true;
        } else if is_told {
            self.rest.has_caught_up(version);
            self.wanted.hold(&asked);
            self.take_in(now, reading, effects);
        } else {
            self.await_delta(now, version, effects);
        }
        // A delta came during the look, and tells of what happened behind it.
        if self.rest.deltas.tell_more_than(version) {
            self.poll_at = self.poll_at.min(now + self.config.timing.turn);
        }
    }

    /// The members may be other ones. The leader says which, or everything is read.
    fn await_delta(&mut self, now: Time, version: Version, effects: &mut Vec<Effect>) {
        let poll = self.config.timing.poll;
        let until = *self.rest.untold_since.get_or_insert(now) + poll * UNTOLD_POLLS;
        if now >= until && !planted!("waits-for-a-delta-for-ever") {
            self.stale = true;
            return;
        }
        self.poll_at = (now + poll + self.seed.below(poll / 4)).min(until.max(now));
        self.watch_since(now, version, effects);
    }

    /// What reading everything would have shown, if nothing but the members has changed beside what was seen. `None`: more may have.
    fn completed(&self, former: &Reading, seen: &ReadResult) -> Option<Glimpse> {
        let (keys, node) = (&self.keys, &self.config.node);
        let blind = planted!("glance-sees-no-change");
        let records = records(keys, node);
        let known = |nth: usize| match &records[nth] {
            Read::Key(key) => former.raw.get(key),
            Read::Range { .. } => None,
        };
        // Beside an entry of the queue, only who takes the seat changes rows.
        if !blind && known(TERM) != seen.value(TERM) {
            return None;
        }
        let path = self.rest.deltas.path(known(QUEUE_MARK), seen.value(QUEUE_MARK), seen.version);
        let Members { rows, sessions } = Members::new(keys, former, path.unwrap_or_default());
        if !blind && rows.get(&keys.member(node)) != seen.value(OWN_ROW) {
            return None;
        }
        let watched: Vec<_> = self.watched().into_iter().collect();
        let session = |(node, record): (&NodeName, &Option<Value>)| {
            let watched_as = watched.iter().position(|watched| watched == node);
            let known =
                || record.iter().map(|record| (keys.cluster().session(node), record.clone())).collect();
            watched_as.map_or_else(known, |nth| seen.entries(SESSIONS + nth).to_vec())
        };
        let mut answers = seen.answers.get(..RECORDS)?.to_vec();
        answers.push(rows.into_iter().collect());
        // Nothing waits in the queue.
        answers.push(Vec::new());
        answers.extend(sessions.iter().map(session));
        let whole = ReadResult { version: seen.version, answers };
        Some(Glimpse { whole, asked: sessions.into_keys().collect(), is_told: path.is_some() || blind })
    }
}

/// The rows of members, and the session records of the nodes that are asked for.
struct Members {
    rows: BTreeMap<Key, Value>,
    sessions: BTreeMap<NodeName, Option<Value>>,
}

impl Members {
    /// Those of the former reading, as far as no delta says otherwise.
    fn new(keys: &RegistryKeys, former: &Reading, deltas: &[ViewDelta]) -> Self {
        let rows = former.raw.range(keys.members()).map(|(key, row)| (key.clone(), row.clone()));
        let record = |node: &NodeName| former.raw(&keys.cluster().session(node));
        let sessions = former.asked.iter().map(|node| (node.clone(), record(node)));
        let mut members = Self { rows: rows.collect(), sessions: sessions.collect() };
        for RowDelta { node, row, session } in deltas.iter().flat_map(|delta| &delta.rows) {
            let key = keys.member(node);
            match row {
                Some(row) => members.rows.insert(key, row.clone()),
                None => members.rows.remove(&key),
            };
            members.sessions.insert(node.clone(), session.clone());
        }
        members
    }
}
