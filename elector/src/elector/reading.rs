//! What one read of the store shows, decoded, with the bytes it was decoded from.
//!
//! The bytes are kept because a transaction checks for exactly what was read.

use std::collections::BTreeMap;

use crate::{
    ids::{NodeName, Position, SessionId},
    keys::{RegistryKeys, read_key, read_range},
    record::{
        AuthorRecord, CorruptRecord, Lock, MemberRow, PositionRecord, QueueEntry, Record, SessionRecord, Term,
    },
    state::{ElectionState, Relied},
    store::{Key, Read, ReadResult, Transaction, Value, Version},
};

/// The most members of one registry, and the most nodes of one cluster, that an elector takes in. Beyond it nothing
/// is decided: a decision by half of the members would be a wrong one.
pub const MAX_MEMBERS: usize = 10_000;

const TERM: usize = 0;
const LOCK: usize = 1;
const COMMIT: usize = 2;
const FLOOR: usize = 3;
const QUEUE_MARK: usize = 4;
const AUTHOR: usize = 5;
const MEMBERS: usize = 6;
const SESSIONS: usize = 7;
const QUEUE: usize = 8;

/// An entry of the queue as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queued {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) entry: Result<QueueEntry, String>,
}

/// All that an elector acts on, at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    pub(super) version: Version,
    /// `None` if a record that every decision relies on cannot be read.
    pub(super) state: Option<ElectionState>,
    pub(super) sessions: BTreeMap<NodeName, SessionRecord>,
    pub(super) commit: Option<Position>,
    pub(super) floor: Position,
    /// `None` if it cannot be read; then nothing is enqueued.
    pub(super) author: Option<AuthorRecord>,
    pub(super) queue: Vec<Queued>,
    /// Whether the queue has more entries than were read.
    pub(super) queue_is_longer: bool,
    /// Records that cannot be read, and why.
    pub(super) corrupt: Vec<(Key, String)>,
    raw: BTreeMap<Key, Value>,
}

/// What to read: everything at one version, so that no decision mixes two states.
pub(super) fn reads(keys: &RegistryKeys, node: &NodeName, queue_limit: usize) -> Vec<Read> {
    vec![
        read_key(keys.term()),
        read_key(keys.lock()),
        read_key(keys.commit()),
        read_key(keys.floor()),
        read_key(keys.queue()),
        read_key(keys.author(node)),
        read_range(keys.members(), MAX_MEMBERS),
        read_range(keys.cluster().sessions(), MAX_MEMBERS),
        read_range(keys.queue_entries(), queue_limit),
    ]
}

impl Reading {
    /// Takes in the answer to [`reads`].
    pub(super) fn new(keys: &RegistryKeys, node: &NodeName, queue_limit: usize, result: &ReadResult) -> Self {
        let mut decoder = Decoder { result, corrupt: Vec::new(), raw: BTreeMap::new() };
        let term = decoder.key::<Term>(keys.term(), TERM);
        let lock = decoder.key::<Lock>(keys.lock(), LOCK);
        let commit = decoder.key::<PositionRecord>(keys.commit(), COMMIT);
        let floor = decoder.key::<PositionRecord>(keys.floor(), FLOOR);
        let author = decoder.key::<AuthorRecord>(keys.author(node), AUTHOR);
        decoder.keep(QUEUE_MARK);
        let members = decoder.range::<MemberRow>(MEMBERS, |key| keys.member_node(key));
        let unread = decoder.corrupt.len();
        let sessions = decoder.range::<SessionRecord>(SESSIONS, |key| keys.cluster().session_node(key));
        // A session that cannot be read is neither open nor closed; that is enough, it blocks nobody else's.
        let only_sessions = decoder.corrupt.len() - unread;
        let author_unread = usize::from(author.is_err());
        let all_read = decoder.corrupt.len() == only_sessions + author_unread;

        let state = match (term, lock) {
            (Ok(term), Ok(lock)) if all_read => {
                Some(ElectionState { term: term.unwrap_or_else(Term::vacant), lock, members })
            }
            _ => None,
        };
        let queue: Vec<Queued> = result
            .entries(QUEUE)
            .iter()
            .map(|(key, value)| Queued {
                key: key.clone(),
                value: value.clone(),
                entry: QueueEntry::from_value(value).map_err(|error| error.to_string()),
            })
            .collect();
        Self {
            version: result.version,
            state,
            sessions,
            commit: commit.unwrap_or(None).map(|record| record.0),
            floor: floor.unwrap_or(None).map_or(Position(0), |record| record.0),
            author: author.ok().map(Option::unwrap_or_default),
            queue_is_longer: queue.len() >= queue_limit,
            queue,
            corrupt: decoder.corrupt,
            raw: decoder.raw,
        }
    }

    /// The bytes that a key had.
    pub(super) fn raw(&self, key: &Key) -> Option<Value> {
        self.raw.get(key).cloned()
    }

    /// Whether the session is open, as read.
    pub(super) fn is_open(&self, session: &SessionId) -> bool {
        self.sessions.get(&session.node).is_some_and(|record| record.is_open_as(session))
    }

    /// Adds the check that a key is as it was read.
    pub(super) fn check(&self, transaction: Transaction, key: Key) -> Transaction {
        let expected = self.raw(&key);
        transaction.check(key, expected)
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

struct Decoder<'a> {
    result: &'a ReadResult,
    corrupt: Vec<(Key, String)>,
    raw: BTreeMap<Key, Value>,
}

impl Decoder<'_> {
    fn keep(&mut self, index: usize) {
        self.raw.extend(self.result.entries(index).iter().cloned());
    }

    fn key<R: Record>(&mut self, key: Key, index: usize) -> Result<Option<R>, ()> {
        self.keep(index);
        let Some(value) = self.result.value(index) else { return Ok(None) };
        R::from_value(value).map(Some).map_err(|error| self.corrupt.push((key, error.to_string())))
    }

    fn range<R: Record>(
        &mut self,
        index: usize,
        node: impl Fn(&[u8]) -> Option<NodeName>,
    ) -> BTreeMap<NodeName, R> {
        self.keep(index);
        let entries = self.result.entries(index);
        if entries.len() >= MAX_MEMBERS {
            let last = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
            self.corrupt.push((last, format!("more than {MAX_MEMBERS} entries")));
        }
        let mut decoded = BTreeMap::new();
        for (key, value) in entries {
            let record: Result<R, CorruptRecord> = R::from_value(value);
            match (node(key), record) {
                (Some(node), Ok(record)) => {
                    decoded.insert(node, record);
                }
                (None, _) => self.corrupt.push((key.clone(), "its key names no node".into())),
                (_, Err(error)) => self.corrupt.push((key.clone(), error.to_string())),
            }
        }
        decoded
    }
}
