//! What an elector reads while others look after the registry: not the members and their sessions, as often as they were read, but what is changed
//! with them.
//!
//! So a member that only waits costs the store the same however many members there are. Which members came and went the leader tells it
//! by a [`ViewDelta`]; the store says whether it was told all.
//!
//! When the leader is gone, too, it looks at little: it says that it misses the leader, sees who leads next, and is told by that one what
//! became of the members. Until then it knows the members of before, and says so ([`Reading::untold`]). All this it leaves to others for as
//! long as they go on: if they do not, it reads everything, and acts. So it does if it is elected, or nobody is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_store::{
    Key, Read, ReadResult, StoreError, Time, Value, Version,
    ids::NodeName,
    keys::{RegistryKeys, read_key, read_range},
    planted,
    record::Record,
};

use super::{
    Doing, Effect, Elector, Leaving, Reading, RowDelta, ViewDelta, Wish,
    act::LONG_TURN,
    delta::Deltas,
    reading::{LOCK, QUEUE_MARK, RECORDS, TERM, records},
};
use crate::core::record::MemberRow;

/// How often everything is read nevertheless. Shorter: more to read, with many members. Longer: what nobody said stays unseen for as long.
const READ_ALL_EVERY: Duration = Duration::from_secs(60);

/// For how many polls an elector waits to be told what came of a change. Shorter: with many members all read everything because one message is
/// late. Longer: if the leader is too slow to see to it, so are the others.
const UNTOLD_POLLS: u32 = 2;

/// What shows that others go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Signs {
    term: Option<Value>,
    /// While no leader is there that lives and is heard: the lock, the mark of the queue, and its first entry.
    unled: Option<[Option<Value>; 3]>,
}

/// Since when the members may be other ones, it was not told, and nobody has gone on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Untold {
    since: Time,
    signs: Signs,
}

/// Whether the elector rests, how long ago it read everything, and what it was told since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    rests: bool,
    read_all_at: Time,
    deltas: Deltas,
    untold: Option<Untold>,
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
        self.untold = None;
        self.deltas.forget_until(version);
    }

    /// What was said is of no use: everything will be read.
    pub(super) fn forget_deltas(&mut self) {
        self.deltas.clear();
        self.untold = None;
    }

    #[cfg(test)]
    pub(super) fn has_heard_nothing(&self) -> bool {
        self.untold.is_none() && self.deltas == Deltas::default()
    }

    /// Since when it has seen no other signs than these.
    fn since(&mut self, now: Time, signs: Signs) -> Time {
        match &self.untold {
            Some(untold) if untold.signs == signs => untold.since,
            _ => {
                self.untold = Some(Untold { since: now, signs });
                now
            }
        }
    }

    /// Whether it waits for others while nobody leads.
    fn is_unled(&self) -> bool {
        self.untold.as_ref().is_some_and(|untold| untold.signs.unled.is_some())
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
        let is_new = |reading: &Reading| delta.version > reading.told().version;
        if self.may_glance(now) && self.reading.as_ref().is_some_and(is_new) {
            self.rest.deltas.keep(delta);
            self.poll_at = self.poll_at.min(now);
        }
    }

    /// Whether a look at what changes with everything else is enough.
    pub(super) fn may_glance(&self, now: Time) -> bool {
        let is_enough = |reading: &Reading| {
            reading.is_quiet() || reading.untold.is_some() || planted!("rests-while-something-waits")
        };
        let wants = self.wish == Wish::Leaving || self.leaving == Leaving::ToSay || self.configure.is_some();
        self.rest.may_glance(now) && !wants && self.reading.as_ref().is_some_and(is_enough)
    }

    pub(super) fn glance(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.known.ask();
        let id = self.begin(Doing::Glance);
        let mut reads = records(&self.keys, &self.config.node);
        reads.push(read_key(self.keys.member(&self.config.node)));
        reads.extend(self.watched().iter().map(|node| read_key(self.keys.cluster().session(node))));
        let leader = self.readable().and_then(|(_, state)| state.term.leader.as_ref());
        if self.rest.is_unled() || leader.is_some_and(|leader| self.silence.is_out(now, &leader.node)) {
            reads.push(read_range(self.keys.queue_entries(), 1));
        }
        effects.push(Effect::Read { id, reads });
    }

    /// Whose sessions are looked at.
    fn watched(&self) -> BTreeSet<NodeName> {
        let leader = self.readable().and_then(|(_, state)| state.term.leader.as_ref());
        leader.map(|leader| leader.node.clone()).into_iter().chain([self.config.node.clone()]).collect()
    }

    /// Takes in what was looked at; says whether something was. If anything else may have changed, everything is read.
    pub(super) fn on_glance(
        &mut self,
        now: Time,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(seen) = self.answer(now, result, effects) else { return false };
        let Some(former) = &self.reading else { return false };
        let version = seen.version;
        let Some(Glimpse { whole, asked, is_told }) = self.completed(former, &seen) else {
            self.stale = true;
            return false;
        };
        let mut reading = Reading::new(&self.keys, self.queue_limit, &asked, self.used, Some(former), whole);
        let is_new_term = former.raw.get(&self.keys.term()) != reading.raw.get(&self.keys.term());
        let was_told = former.untold.is_none();
        let told = if is_told { reading.told() } else { former.told() };
        if !self.is_our_store(now, &reading, effects) {
            return false;
        }
        let is_led = self.is_led(now, &reading, is_new_term);
        let is_taken_in = if is_told && reading.leader_lives() {
            self.rest.has_caught_up(version);
            self.wanted.hold(&asked);
            self.take_in(now, reading, effects);
            true
        } else if is_led && was_told && !is_new_term {
            self.await_delta(now, &seen, effects);
            false
        } else if let Some(until) = self.left_to_others_until(now, &reading, &seen, is_led, is_new_term) {
            reading.know_members_of(told);
            // The next leader changed rows when it took the seat. What was said before does not tell of that.
            if is_new_term {
                self.rest.deltas.forget_until(version);
                reading.tell_from(version);
            }
            // What it tells of is known.
            self.watched = None;
            self.wanted.hold(&asked);
            self.take_in(now, reading, effects);
            self.poll_at = self.poll_at.min(until);
            true
        } else {
            self.stale = true;
            false
        };
        // A delta came during the look, and tells of what happened behind it.
        if self.rest.deltas.tell_more_than(version) {
            self.poll_at = self.poll_at.min(now + self.config.timing.turn);
        }
        is_taken_in
    }

    /// Whether somebody leads that lives, as read, and is heard.
    fn is_led(&self, now: Time, reading: &Reading, is_new_term: bool) -> bool {
        let Some(row) = reading.leaders_row() else { return false };
        let node = &row.session.node;
        // Whether the leader of another term is silent cannot be said yet.
        let is_out =
            if is_new_term { self.silence.unlinked().contains(node) } else { self.silence.is_out(now, node) };
        reading.leader_lives() && !is_out
    }

    /// The members may be other ones. The leader says which, or everything is read.
    fn await_delta(&mut self, now: Time, seen: &ReadResult, effects: &mut Vec<Effect>) {
        let poll = self.config.timing.poll;
        let signs = Signs { term: seen.value(TERM).cloned(), unled: None };
        let until = self.rest.since(now, signs) + poll * UNTOLD_POLLS;
        if now >= until && !planted!("waits-for-a-delta-for-ever") {
            self.stale = true;
            return;
        }
        self.poll_at = (now + poll + self.seed.below(poll / 4)).min(until.max(now));
        self.watch_since(now, seen.version, effects);
    }

    /// The leader is gone, or another one leads, and the members may be other ones: until when that is left to others.
    /// They have to go on, and the leader has to say what became of the members. `None`: everything is to be read now.
    fn left_to_others_until(
        &mut self,
        now: Time,
        reading: &Reading,
        seen: &ReadResult,
        is_led: bool,
        is_new_term: bool,
    ) -> Option<Time> {
        let state = reading.state.as_ref().filter(|_| reading.corrupt.is_empty())?;
        // It was a member before, and if it leads anew it lived. This elector has to act as soon as it leads itself.
        let is_other = |row: &MemberRow| {
            let lived = !is_new_term || reading.is_open(&row.session);
            row.session.node != self.config.node && lived
        };
        if !reading.leaders_row().is_some_and(is_other) {
            return None;
        }
        let first = || seen.entries(SESSIONS + self.watched().len()).first().map(|(key, _)| key.clone());
        let work = || [seen.value(LOCK).cloned(), seen.value(QUEUE_MARK).cloned(), first()];
        let signs = Signs { term: seen.value(TERM).cloned(), unled: (!is_led).then(work) };
        let timing = self.config.timing;
        let told_within = timing.poll * UNTOLD_POLLS;
        let patience = if is_led {
            told_within
        } else {
            told_within.min(timing.turn * LONG_TURN.saturating_add(self.rank(now, reading, state)))
        };
        let until = self.rest.since(now, signs) + patience;
        (now < until).then_some(until)
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
        let path = self.rest.deltas.path(known(QUEUE_MARK), seen.value(QUEUE_MARK), seen.version);
        // Beside an entry of the queue, only who takes the seat changes rows. What became of an entry the next leader says.
        if !blind && known(TERM) != seen.value(TERM) && path.is_some() {
            return None;
        }
        let is_told = path.is_some() || blind;
        let Members { mut rows, sessions } = Members::new(keys, former, path.unwrap_or_default());
        let own = rows.get(&keys.member(node));
        if !blind && own != seen.value(OWN_ROW) {
            if is_told || !differs_by_its_vote(own, seen.value(OWN_ROW)) {
                return None;
            }
            rows.extend(seen.entries(OWN_ROW).iter().cloned());
        }
        let watched: Vec<_> = self.watched().into_iter().collect();
        let session = |(node, record): (&NodeName, &Option<Value>)| {
            let watched_as = watched.iter().position(|watched| watched == node);
            let known =
                || record.iter().map(|record| (keys.cluster().session(node), record.clone())).collect();
            watched_as.map_or_else(known, |nth| seen.entries(SESSIONS + nth).to_vec())
        };
        let mut answers = seen.answers.get(..RECORDS)?.to_vec();
        if !is_told {
            // The rows follow from the former one.
            answers[QUEUE_MARK] =
                known(QUEUE_MARK).map(|mark| (keys.queue(), mark.clone())).into_iter().collect();
        }
        answers.push(rows.into_iter().collect());
        // Nothing waits in the queue, or nothing is known of it.
        answers.push(Vec::new());
        answers.extend(sessions.iter().map(session));
        let whole = ReadResult { version: seen.version, answers };
        Some(Glimpse { whole, asked: sessions.into_keys().collect(), is_told })
    }
}

/// Whether a row is as it was, but for whether it accuses the leader.
fn differs_by_its_vote(former: Option<&Value>, seen: Option<&Value>) -> bool {
    let row = |value: Option<&Value>| {
        let row = MemberRow::from_value(value?).ok()?;
        Some(MemberRow { accuses: None, ..row })
    };
    let former = row(former);
    former.is_some() && former == row(seen)
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
