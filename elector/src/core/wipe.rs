//! Removing a registry: what is read, what the transactions are, what stands against it.
//!
//! **What goes**: members, the queue, the lock, the log. **What stays**: what only grows: the term (of nobody, one epoch
//! on), the end of the log, its floor, the authors' numbers. A registry of this name that is opened again goes on from there, so
//! that its fencing tokens are greater than all before. [`forget`] removes these, too.
//!
//! **First the fence.** One transaction, [`fence`], raises the epoch, so that whoever led cannot commit any more; it takes
//! the members and the queue away, and sets the floor behind the end of the log. It is all there is to decide: from then on the
//! registry is empty, whatever becomes of the rest. What is left of the log lies below the floor, where nobody
//! looks, and is cleared piece by piece ([`Sweep`]): stopped half-way, a wipe has only left some bytes behind, which the next one
//! removes.
//!
//! **Who lives.** Names belong to sessions: taking them from a session that its node trusts would give them to two. So sessions of
//! members, and of those who wait in the queue to become members, have to be closed. [`Found::open`] says which are not. `by_force`
//! closes them in the same transaction: their nodes lose all their names, in every registry of the cluster, and notice it with
//! their next beat. Until then P1 does not hold for these names; their fencing tokens still tell old from new.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::{
    Key, Read, ReadResult, Transaction, Value, Version,
    ids::{Ballot, Epoch, NodeName, Position},
    keys::{RegistryKeys, read_key, read_range},
    record::Record,
};

use crate::core::{
    lineage::LineageNumber,
    member_rows::clear_members,
    record::{Lineage, LogEnd, MemberRow, PositionRecord, QueueEntry, SessionRecord, Term},
};

/// The most members, or entries of the queue, that a wipe takes in. Of more, it cannot say who lives.
const MOST_ROWS: usize = 10_000;

/// How many positions of the log are cleared at once: little enough for every store's time limit.
const POSITIONS_AT_ONCE: u64 = 1000;

const TERM: usize = 0;
const LOCK: usize = 1;
const COMMIT: usize = 2;
const FLOOR: usize = 3;
const QUEUE_MARK: usize = 4;
const MEMBERS: usize = 5;
const QUEUE: usize = 6;
const OLDEST: usize = 7;
const ANYTHING: usize = 8;
const LINEAGE: usize = 9;
/// The session of the first of the nodes that were asked for; those of the others follow.
const SESSIONS: usize = 10;

/// What there is of a registry, at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    version: Version,
    lineage: LineageNumber,
    term: Option<Term>,
    commit: Option<Position>,
    floor: Option<Position>,
    members: BTreeMap<NodeName, Value>,
    queued: usize,
    open: BTreeMap<NodeName, SessionRecord>,
    /// The sessions that matter, as they were read.
    sessions: BTreeMap<NodeName, Option<Value>>,
    oldest: Option<Position>,
    exists: bool,
    /// There is neither a lock nor a trace of the queue.
    is_bare: bool,
    counters_unread: Vec<String>,
    others_unread: Vec<String>,
    /// The nodes whose sessions decide, and have to be asked for.
    concerned: BTreeSet<NodeName>,
    is_complete: bool,
    raw: BTreeMap<Key, Value>,
}

/// What to read: [`Found::new`] takes in the answer. Of sessions only those of `nodes`: see [`Found::lacks`].
pub fn reads(keys: &RegistryKeys, nodes: &BTreeSet<NodeName>) -> Vec<Read> {
    let mut reads = vec![
        read_key(keys.term()),
        read_key(keys.lock()),
        read_key(keys.commit()),
        read_key(keys.floor()),
        read_key(keys.queue()),
        read_range(keys.members(), MOST_ROWS),
        read_range(keys.queue_entries(), MOST_ROWS),
        read_range(keys.log(Position(0))..keys.log(Position(u64::MAX)), 1),
        read_range(keys.all(), 1),
        read_key(keys.cluster().lineage()),
    ];
    reads.extend(nodes.iter().map(|node| read_key(keys.cluster().session(node))));
    reads
}

impl Found {
    /// Takes in the answer to [`reads`].
    pub fn new(keys: &RegistryKeys, nodes: &BTreeSet<NodeName>, result: &ReadResult) -> Self {
        let (mut counters_unread, mut others_unread) = (Vec::new(), Vec::new());
        let mut raw = BTreeMap::new();
        for index in [TERM, LOCK, COMMIT, FLOOR, QUEUE_MARK, LINEAGE] {
            raw.extend(result.entries(index).iter().cloned());
        }
        let position = |index, what, unread: &mut Vec<String>| {
            let value: Option<PositionRecord> = decoded(result.value(index), what, unread);
            value.map(|PositionRecord(position)| position)
        };
        let end: Option<LogEnd> = decoded(result.value(COMMIT), "the end of the log", &mut counters_unread);
        let lineage: Option<Lineage> =
            decoded(result.value(LINEAGE), "the lineage of the store", &mut counters_unread);
        let term = decoded(result.value(TERM), "the term", &mut counters_unread);
        let commit = end.map(|end| end.position);
        let floor = position(FLOOR, "the floor of the log", &mut counters_unread);

        for (index, what) in [(MEMBERS, "members"), (QUEUE, "entries of the queue")] {
            if result.entries(index).len() >= MOST_ROWS {
                others_unread.push(format!("there are more than {MOST_ROWS} {what}"));
            }
        }
        let mut stored = BTreeMap::new();
        for (nth, node) in nodes.iter().enumerate() {
            stored.extend(result.value(SESSIONS + nth).map(|value| (node.clone(), value.clone())));
        }
        let mut concerned = BTreeSet::new();
        let mut members = BTreeMap::new();
        for (key, value) in result.entries(MEMBERS) {
            let Some(node) = keys.member_node(key) else { continue };
            let row: Option<MemberRow> =
                decoded(Some(value), &format!("the row of {node}"), &mut others_unread);
            concerned.extend(row.map(|row| row.session.node));
            members.insert(node, value.clone());
        }
        for (_, value) in result.entries(QUEUE) {
            // What cannot be understood is dropped by whoever consumes it, and makes nobody a member.
            concerned.extend(QueueEntry::from_value(value).ok().map(|entry| entry.author.node));
        }
        let (mut open, mut sessions) = (BTreeMap::new(), BTreeMap::new());
        for node in &concerned {
            let value = stored.get(node).cloned();
            let what = format!("the session of {node}");
            let record: Option<SessionRecord> = decoded(value.as_ref(), &what, &mut others_unread);
            // Whatever session it is by now: the node lives, and will join again.
            if let Some(record) = record.filter(|record| record.open) {
                open.insert(node.clone(), record);
            }
            sessions.insert(node.clone(), value);
        }
        Self {
            is_complete: concerned.is_subset(nodes),
            concerned,
            version: result.version,
            lineage: lineage.unwrap_or_default().id.number,
            term,
            commit,
            floor,
            members,
            queued: result.entries(QUEUE).len(),
            open,
            sessions,
            oldest: result.entries(OLDEST).first().and_then(|(key, _)| keys.log_position(key)),
            is_bare: result.value(LOCK).is_none() && result.value(QUEUE_MARK).is_none(),
            exists: !result.entries(ANYTHING).is_empty(),
            counters_unread,
            others_unread,
            raw,
        }
    }

    /// The nodes that have to be asked for, if not all of them were: then nothing else that is said here counts.
    pub fn lacks(&self) -> Option<&BTreeSet<NodeName>> {
        (!self.is_complete).then_some(&self.concerned)
    }

    /// Whether anything is stored of this registry.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Whether only what stays is there, but for what [`Sweep`] clears.
    pub fn is_fenced(&self) -> bool {
        let end = self.commit.map(Position::next);
        let nobody = self.term.as_ref().is_none_or(|term| term.leader.is_none());
        nobody && self.is_bare && self.members.is_empty() && self.queued == 0 && self.floor >= end
    }

    /// The nodes of members, and of those who wait to become members, whose sessions are open.
    pub fn open(&self) -> &BTreeMap<NodeName, SessionRecord> {
        &self.open
    }

    /// Counters that cannot be read, and so cannot be kept.
    pub fn counters_unread(&self) -> &[String] {
        &self.counters_unread
    }

    /// Why it cannot be said whether nodes live.
    pub fn others_unread(&self) -> &[String] {
        &self.others_unread
    }

    /// How many members there are, in whatever session.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// How many entries wait in the queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// The epoch, and the position of the last batch: what stays.
    pub fn counters(&self) -> (Epoch, Position) {
        (self.term.as_ref().map_or(Epoch(0), |term| term.epoch), self.commit.unwrap_or_default())
    }

    /// How many positions the log still has, of the lineage of its end: there are none between two lineages.
    pub fn logged(&self) -> u64 {
        let end = self.commit.unwrap_or_default().0;
        let first = LineageNumber::of(end).after(0);
        self.oldest.map_or(0, |oldest| (end + 1).saturating_sub(oldest.0.max(first)))
    }

    fn check(&self, transaction: Transaction, key: Key) -> Transaction {
        let expected = self.raw.get(&key).cloned();
        transaction.check(key, expected)
    }
}

/// Reads a record that may be absent; notes what is there and cannot be read.
fn decoded<R: Record>(value: Option<&Value>, what: &str, unread: &mut Vec<String>) -> Option<R> {
    R::from_value(value?).map_err(|error| unread.push(format!("{what}: {error}"))).ok()
}

/// Empties the registry, if it is still as it was found. Sessions that were found open are closed.
///
/// It may land late, or never: it holds only for what was found. Ask first what stands against it.
pub fn fence(keys: &RegistryKeys, found: &Found) -> Transaction {
    let mut transaction = Transaction::new();
    for key in [keys.term(), keys.lock(), keys.commit(), keys.floor(), keys.queue(), keys.cluster().lineage()]
    {
        transaction = found.check(transaction, key);
    }
    for (node, value) in &found.members {
        transaction = transaction.check(keys.member(node), Some(value.clone()));
    }
    for (node, value) in &found.sessions {
        transaction = transaction.check(keys.cluster().session(node), value.clone());
    }
    for (node, record) in &found.open {
        let closed = SessionRecord { open: false, ..record.clone() };
        transaction = transaction
            .put(keys.cluster().session(node), closed.to_value())
            .clear(keys.cluster().open_mark(node));
    }
    if let Some(term) = &found.term {
        let after = Term {
            leader: None,
            epoch: Epoch(found.lineage.after(term.epoch.0)),
            ballot: Ballot(found.lineage.after(term.ballot.0)),
            elected_at: found.version,
        };
        transaction = transaction.put(keys.term(), after.to_value());
    }
    if let Some(end) = found.commit {
        let floor = end.next().max(found.floor.unwrap_or_default());
        transaction = transaction.put(keys.floor(), PositionRecord(floor).to_value());
    }
    let transaction = transaction
        .clear(keys.lock())
        .clear(keys.settings())
        .clear(keys.queue())
        .clear_range(keys.queue_entries());
    clear_members(transaction, keys)
}

/// Clears what is left of the log below a floor, oldest first.
#[derive(Clone, Debug)]
pub struct Sweep {
    keys: RegistryKeys,
    below: Position,
}

impl Sweep {
    /// Of a registry that was found fenced, with this floor.
    pub fn new(keys: &RegistryKeys, below: Position) -> Self {
        Self { keys: keys.clone(), below }
    }

    /// The next piece; `None` if nothing is left. It holds while the floor is as found: where the counters were forgotten, positions
    /// begin again.
    pub fn next(&self, found: &Found) -> Option<Transaction> {
        let oldest = found.oldest.filter(|oldest| *oldest < self.below && found.floor >= Some(self.below))?;
        let until = Position(oldest.0.saturating_add(POSITIONS_AT_ONCE)).min(self.below);
        let transaction = found.check(Transaction::new(), self.keys.cluster().lineage());
        let transaction = found.check(transaction, self.keys.floor());
        Some(transaction.clear_range(self.keys.log_range(oldest..until)))
    }
}

/// Removes all that is left of a registry that was found fenced, if nobody came since.
///
/// Fencing tokens begin again: whatever remembers a token of this registry refuses the new ones, or, worse, takes an old one
/// for new.
pub fn forget(keys: &RegistryKeys, found: &Found) -> Transaction {
    let mut transaction = Transaction::new();
    for key in [keys.term(), keys.lock(), keys.commit(), keys.floor(), keys.queue(), keys.cluster().lineage()]
    {
        transaction = found.check(transaction, key);
    }
    transaction.clear_range(keys.all())
}

#[cfg(test)]
mod tests;
