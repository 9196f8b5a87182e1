//! What one read of the store shows, decoded, with the bytes it was decoded from.
//!
//! The bytes are kept because a transaction checks for exactly what was read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use callsign_store::{
    Key, Read, ReadResult, Transaction, Value, Version,
    ids::{NodeName, Position, Sequence, SessionId},
    keys::{RegistryKeys, read_key, read_range},
    planted,
    record::Record,
};

use crate::core::{
    lineage::{self, LineageId, LineageNumber},
    past::{Fact, Past},
    record::{
        AuthorFloor, AuthorRecord, Lineage, LogEnd, MemberRow, PositionRecord, QueueEntry, SessionFloor,
        SessionRecord, Term,
    },
    sessions::Sessions,
    state::{ElectionState, Relied},
};

/// The most rows of members that are read. Beyond it nothing is decided: a decision by half of the members would be a wrong one. No elector lets
/// so many [join](crate::core::state::MAX_MEMBERS).
const MAX_ROWS: usize = 10_000;

pub(super) const TERM: usize = 0;
pub(super) const LOCK: usize = 1;
const COMMIT: usize = 2;
const FLOOR: usize = 3;
/// Only its bytes count.
pub(super) const QUEUE_MARK: usize = 4;
const AUTHOR: usize = 5;
const AUTHOR_FLOOR: usize = 6;
const SESSION_FLOOR: usize = 7;
pub(super) const SETTINGS: usize = 8;
pub(super) const LINEAGE: usize = 9;
/// So many records come first.
pub(super) const RECORDS: usize = 10;
const MEMBERS: usize = RECORDS;
const QUEUE: usize = 11;
/// The session of the first of the nodes that were asked for; those of the others follow.
const SESSIONS: usize = 12;

/// An entry of the queue as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queued {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) entry: Result<QueueEntry, String>,
}

/// When an elector knew the members last: nothing waited in the queue then. If another one leads since, when it saw that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) version: Version,
    /// The number of its own last entry.
    pub(super) author: Option<Sequence>,
}

/// All that an elector acts on, at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    pub(super) version: Version,
    /// The store's. `None` if it cannot be read.
    pub(super) lineage: Option<Lineage>,
    /// `None` if a record that every decision relies on cannot be read.
    pub(super) state: Option<ElectionState>,
    pub(super) sessions: Sessions,
    pub(super) commit: Option<LogEnd>,
    pub(super) floor: Position,
    /// The last sequence number of the own record; 0 if there is none. `None` if it cannot be read.
    pub(super) author: Option<Sequence>,
    /// The number of the next entry. `None` if it cannot be known; then nothing is enqueued.
    pub(super) next_sequence: Option<Sequence>,
    pub(super) queue: Vec<Queued>,
    /// Whether the queue has more entries than were read.
    pub(super) queue_is_longer: bool,
    /// Records that cannot be read, and why.
    pub(super) corrupt: Vec<(Key, String)>,
    pub(super) raw: Arc<BTreeMap<Key, Value>>,
    /// The nodes whose sessions were asked for.
    pub(super) asked: BTreeSet<NodeName>,
    /// If the members are those of a former reading, and may be other ones: when they were known. The mark of the queue is the one
    /// of then, too, and nothing is known of what waits. All other records are as the store showed them.
    pub(super) untold: Option<Told>,
}

/// The records that an elector always reads, in this order.
pub(super) fn records(keys: &RegistryKeys, node: &NodeName) -> Vec<Read> {
    vec![
        read_key(keys.term()),
        read_key(keys.lock()),
        read_key(keys.commit()),
        read_key(keys.floor()),
        read_key(keys.queue()),
        read_key(keys.author(node)),
        read_key(keys.author_floor()),
        read_key(keys.cluster().session_floor()),
        read_key(keys.settings()),
        read_key(keys.cluster().lineage()),
    ]
}

/// What to read: everything at one version, so that no decision mixes two states.
///
/// Of sessions only those of `nodes`: how many others there were, and are no more, must cost nothing.
pub(super) fn reads(
    keys: &RegistryKeys,
    node: &NodeName,
    queue_limit: usize,
    nodes: &BTreeSet<NodeName>,
) -> Vec<Read> {
    let mut reads = records(keys, node);
    reads.push(read_range(keys.members(), MAX_ROWS));
    reads.push(read_range(keys.queue_entries(), queue_limit));
    reads.extend(nodes.iter().map(|node| read_key(keys.cluster().session(node))));
    reads
}

impl Reading {
    /// Takes in the answer to [`reads`]. What has the bytes that it had in the `former` reading is not decoded again.
    pub(super) fn new(
        keys: &RegistryKeys,
        queue_limit: usize,
        asked: &BTreeSet<NodeName>,
        used: Sequence,
        former: Option<&Self>,
        result: ReadResult,
    ) -> Self {
        let mut decoder = Decoder { result: &result, former, corrupt: Vec::new() };
        let term = decoder.key(TERM, |former| Some(former.state.as_ref()?.term.clone()));
        let lock = decoder.key(LOCK, |former| former.state.as_ref()?.lock.clone());
        let commit = decoder.key(COMMIT, |former| former.commit);
        let floor = decoder.key(FLOOR, |former| former.state.as_ref().map(|_| PositionRecord(former.floor)));
        let settings = decoder.key(SETTINGS, |former| former.state.as_ref().map(|state| state.settings));
        let author = decoder.key(AUTHOR, |former| former.author.map(|sequence| AuthorRecord { sequence }));
        let author_floor = decoder.key::<AuthorFloor>(AUTHOR_FLOOR, |_| None);
        let members = decoder.members(keys);
        let author_unread = usize::from(author.is_err()) + usize::from(author_floor.is_err());
        let all_read = decoder.corrupt.len() == author_unread;
        // A session that cannot be read is neither open nor closed; that is enough, it blocks nobody else's. Without the
        // floor nothing is known of sessions that have no record.
        let session_floor = decoder.key::<SessionFloor>(SESSION_FLOOR, |_| None);
        let mut sessions = Sessions::new(session_floor.unwrap_or_default().unwrap_or_default().0);
        for (nth, node) in asked.iter().enumerate() {
            let known = |former: &Self| former.sessions.record(node).cloned();
            let record = decoder.key::<SessionRecord>(SESSIONS + nth, known);
            if let Ok(record) = record {
                sessions.insert(node.clone(), record);
            }
        }

        let lineage = decoder.key::<Lineage>(LINEAGE, |former| former.lineage);
        let lineage = lineage.ok().map(Option::unwrap_or_default);

        let state = match (term, lock, settings) {
            (Ok(term), Ok(lock), Ok(settings)) if all_read => {
                let (term, settings) = (term.unwrap_or_else(Term::vacant), settings.unwrap_or_default());
                Some(ElectionState { term, lock, members, settings })
            }
            _ => None,
        };
        let corrupt = decoder.corrupt;
        let ReadResult { version, mut answers } = result;
        let queued = answers.get_mut(QUEUE).map(std::mem::take).unwrap_or_default();
        let queue: Vec<Queued> = queued
            .into_iter()
            .map(|(key, value)| {
                let entry = QueueEntry::from_value(&value).map_err(|error| error.to_string());
                Queued { key, value, entry }
            })
            .collect();
        let number = lineage.map(|lineage| lineage.id.number);
        Self {
            version,
            lineage,
            state,
            sessions,
            commit: commit.unwrap_or(None),
            floor: floor.unwrap_or(None).map_or(Position(0), |record| record.0),
            next_sequence: number.and_then(|number| next_sequence(number, used, author, author_floor)),
            author: author.ok().map(|record| record.unwrap_or_default().sequence),
            queue_is_longer: queue.len() >= queue_limit,
            queue,
            corrupt,
            raw: Arc::new(answers.into_iter().flatten().collect()),
            asked: asked.clone(),
            untold: None,
        }
    }

    /// When the members were known that it has.
    pub(super) fn told(&self) -> Told {
        self.untold.unwrap_or(Told { version: self.version, author: self.author })
    }

    /// What is told of the members counts if it is later.
    pub(super) fn tell_from(&mut self, version: Version) {
        self.untold = self.untold.map(|told| Told { version, ..told });
    }

    /// The members are those of then, and what waits in the queue is not known.
    pub(super) fn know_members_of(&mut self, told: Told) {
        self.untold = Some(told);
        self.queue_is_longer = !planted!("untold-passes-for-told");
    }

    /// The nodes whose sessions decide something: those of members, and of authors of entries.
    pub(super) fn concerned(&self) -> impl Iterator<Item = &NodeName> {
        let entries = self.queue.iter().filter_map(|queued| queued.entry.as_ref().ok());
        self.members().chain(entries.map(|entry| &entry.author.node))
    }

    fn members(&self) -> impl Iterator<Item = &NodeName> {
        self.state.iter().flat_map(|state| state.members.values()).map(|row| &row.session.node)
    }

    /// Whether the session of a member was not asked for: then nothing can be decided by this reading.
    pub(super) fn lacks_member(&self) -> bool {
        self.members().any(|node| !self.asked.contains(node))
    }

    /// Ends the queue before the first entry whose author's session was not asked for: it is neither to be applied nor
    /// to be dropped.
    pub(super) fn cut_unknown(&mut self) {
        let is_unknown = |queued: &Queued| {
            queued.entry.as_ref().is_ok_and(|entry| !self.asked.contains(&entry.author.node))
        };
        if let Some(first) = self.queue.iter().position(is_unknown) {
            self.queue.truncate(first);
            self.queue_is_longer = true;
        }
    }

    /// The authors of the entries that wait. `None`: there are more than were read.
    pub(super) fn queued_authors(&self) -> Option<BTreeSet<NodeName>> {
        let entries = self.queue.iter().filter_map(|queued| queued.entry.as_ref().ok());
        (!self.queue_is_longer).then(|| entries.map(|entry| entry.author.node.clone()).collect())
    }

    /// Whether nothing is under way by what it shows, and all of it could be read.
    pub(super) fn is_quiet(&self) -> bool {
        let is_led = |state: &ElectionState| state.lock.is_none() && state.term.leader.is_some();
        let is_known = self.untold.is_none() && self.corrupt.is_empty();
        self.state.as_ref().is_some_and(is_led) && self.queue.is_empty() && is_known
    }

    /// The row of whoever leads, if it is of the join that does.
    pub(super) fn leaders_row(&self) -> Option<&MemberRow> {
        let state = self.state.as_ref()?;
        let leader = state.term.leader.as_ref()?;
        state.members.get(&leader.node).filter(|row| row.token == leader.token)
    }

    /// Whether somebody leads whose session is open, as read.
    pub(super) fn leader_lives(&self) -> bool {
        let row = |state: &ElectionState| {
            Some(state.members.get(&state.term.leader.as_ref()?.node)?.session.clone())
        };
        self.state.as_ref().and_then(row).is_some_and(|session| self.is_open(&session))
    }

    /// The bytes that a key had.
    pub(super) fn raw(&self, key: &Key) -> Option<Value> {
        self.raw.get(key).cloned()
    }

    /// Whether the session is open, as read.
    pub(super) fn is_open(&self, session: &SessionId) -> bool {
        self.sessions.is_open(session)
    }

    /// Adds the check that a key is as it was read.
    pub(super) fn check(&self, transaction: Transaction, key: Key) -> Transaction {
        let expected = self.raw(&key);
        transaction.check(key, expected)
    }

    /// Adds the check that the lineage is as it was read.
    pub(super) fn check_lineage(&self, transaction: Transaction, keys: &RegistryKeys) -> Transaction {
        let value = self.raw(&keys.cluster().lineage());
        lineage::check(transaction, keys.cluster(), value.as_ref())
    }

    /// Which lineage the store is of, if that can be read.
    pub(super) fn lineage(&self) -> Option<LineageId> {
        self.lineage.map(|lineage| lineage.id)
    }

    /// Whether the registry has not been opened in this lineage yet: its log, if there is one, is of another one.
    pub(super) fn is_behind_lineage(&self) -> bool {
        let number = self.lineage().unwrap_or_default().number;
        number.is_after(self.commit.unwrap_or_default().position.0)
    }

    /// Whether a position is of a log that was lost since: who has it has nothing that counts, and must not pass for one that could give it to others.
    pub(super) fn is_of_former_lineage(&self, position: Position) -> bool {
        self.lineage().is_none_or(|lineage| lineage.number.is_after(position.0))
    }

    /// A floor above the end of the log. Whoever cut it knew batches that the store has lost since: without a further loss nobody
    /// could ever get them again.
    pub(super) fn cut_of_a_lost_log(&self, keys: &RegistryKeys) -> Option<(Key, Fact)> {
        // Of what cannot be read nothing is known.
        self.state.as_ref()?;
        let end = self.commit.unwrap_or_default().position;
        if self.floor <= end.next() || self.is_behind_lineage() {
            return None;
        }
        let floor = self.raw.get(&keys.floor())?;
        Some((keys.floor(), Fact::Contradicts(floor.clone())))
    }

    /// Notes what it shows, for later readings.
    pub(super) fn note_in(&self, past: &mut Past, keys: &RegistryKeys, author: &Key) {
        let is_there = |key: &Key| self.raw.contains_key(key);
        let term = keys.term();
        match (&self.state, self.raw.get(&term)) {
            (Some(ElectionState { term: Term { epoch, ballot, .. }, .. }), Some(_)) => {
                past.note(term, Fact::Term { epoch: *epoch, ballot: *ballot });
            }
            // Something else cannot be read.
            (None, Some(value)) => past.note_value(keys, author, &term, value),
            (_, None) => {}
        }
        if let Some(end) = self.commit.filter(|end| end.position > Position(0)) {
            past.note(keys.commit(), Fact::Commit(end));
        }
        if let Some(sequence) = self.author.filter(|_| is_there(author)) {
            past.note(author.clone(), Fact::Author(sequence));
        }
    }

    /// Adds the check of a fact.
    pub(super) fn check_relied(
        &self,
        transaction: Transaction,
        keys: &RegistryKeys,
        relied: &Relied,
    ) -> Transaction {
        let key = match relied {
            Relied::Session(node) => keys.cluster().session(node),
            Relied::Commit => keys.commit(),
            Relied::Floor => keys.floor(),
            Relied::Members => keys.queue(),
        };
        self.check(transaction, key)
    }

    /// The entries of a session that wait in the part of the queue that was read, oldest first.
    pub(super) fn queued_by<'a>(&'a self, author: &'a SessionId) -> impl Iterator<Item = &'a QueueEntry> {
        let entries = self.queue.iter().filter_map(|queued| queued.entry.as_ref().ok());
        entries.filter(move |entry| entry.author == *author)
    }
}

/// The number after the own record's, in this lineage. Without a record it is above the floor: below it, numbers may have been
/// used; and above the one that this elector used itself.
fn next_sequence(
    lineage: LineageNumber,
    used: Sequence,
    author: Result<Option<AuthorRecord>, ()>,
    floor: Result<Option<AuthorFloor>, ()>,
) -> Option<Sequence> {
    let floor = floor.ok()?.unwrap_or_default().0;
    match author.ok()? {
        Some(author) => Some(Sequence(lineage.after(author.sequence.0))),
        None if planted!("enqueues-below-floor") => Some(Sequence(0).next()),
        None => Some(Sequence(lineage.after(floor.max(used).0))),
    }
}

struct Decoder<'a> {
    result: &'a ReadResult,
    former: Option<&'a Reading>,
    corrupt: Vec<(Key, String)>,
}

impl Decoder<'_> {
    /// The record of a key. `known` is what the former reading made of it.
    fn key<R: Record>(
        &mut self,
        index: usize,
        known: impl FnOnce(&Reading) -> Option<R>,
    ) -> Result<Option<R>, ()> {
        let Some((key, value)) = self.result.entries(index).first() else { return Ok(None) };
        self.record(key, value, known).map(Some).map_err(|error| self.corrupt.push((key.clone(), error)))
    }

    fn record<R: Record>(
        &self,
        key: &Key,
        value: &Value,
        known: impl FnOnce(&Reading) -> Option<R>,
    ) -> Result<R, String> {
        let former = self.former.filter(|former| former.raw.get(key) == Some(value));
        match former.and_then(known) {
            Some(record) => Ok(record),
            None => R::from_value(value).map_err(|error| error.to_string()),
        }
    }

    fn members(&mut self, keys: &RegistryKeys) -> BTreeMap<NodeName, MemberRow> {
        let entries = self.result.entries(MEMBERS);
        if entries.len() >= MAX_ROWS {
            let last = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
            self.corrupt.push((last, format!("more than {MAX_ROWS} entries")));
        }
        let mut decoded = BTreeMap::new();
        for (key, value) in entries {
            let Some(node) = keys.member_node(key) else {
                self.corrupt.push((key.clone(), "its key names no node".into()));
                continue;
            };
            let known = |former: &Reading| former.state.as_ref()?.members.get(&node).cloned();
            match self.record(key, value, known) {
                Ok(record) => drop(decoded.insert(node, record)),
                Err(error) => self.corrupt.push((key.clone(), error)),
            }
        }
        decoded
    }
}
