//! The store as a value: versions, checks, appended keys, a window of history. No lock, no time, no faults.
//!
//! [`memory`](crate::memory) puts it behind the trait; a simulator clones it, hashes it, and drives it directly.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::{Bound, Range},
    sync::Arc,
};

use super::transaction::{
    Check, CommitOutcome, Key, Limits, Read, ReadResult, STAMP_LENGTH, Transaction, Value, Version, Write,
};

/// A version that a read asked for and that the store does not have: too old, or not yet there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("version {} is not kept, only those from {} to {}", at.0, oldest.0, newest.0)]
pub struct NotKept {
    /// The version asked for.
    pub at: Version,
    /// The oldest that can be read.
    pub oldest: Version,
    /// The newest that can be read.
    pub newest: Version,
}

/// A store with its recent history.
///
/// Equal states are equal values: what fell out of the window leaves no trace. Cloning costs no copy of the rows
/// until one of the two is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mvcc {
    limits: Limits,
    window: u64,
    version: Version,
    rows: Arc<Rows>,
    /// Which keys each version inside the window wrote, oldest first: what to prune, without a walk over all rows.
    written: VecDeque<(Version, Vec<Arc<[u8]>>)>,
}

type Rows = BTreeMap<Arc<[u8]>, Vec<Change>>;

/// What a commit made of a key. The changes of a row are in the order of their versions, at most one of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Change {
    version: Version,
    /// `None`: removed.
    value: Option<Arc<[u8]>>,
}

impl Mvcc {
    /// An empty store at version 0 that keeps its last `window` versions, apart from the newest.
    ///
    /// A fence that looked at an older version than those is refused, and nothing older can be read. With 0, only
    /// the newest version can be read and fenced on.
    pub fn new(limits: Limits, window: u64) -> Self {
        Self { limits, window, version: Version(0), rows: Arc::default(), written: VecDeque::new() }
    }

    /// The newest version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The oldest version that can be read and fenced on.
    pub fn oldest(&self) -> Version {
        Version(self.version.0.saturating_sub(self.window))
    }

    /// What a transaction may write.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Commits a transaction, or not: `Committed`, `Conflict` or `TooLarge`, never another outcome.
    ///
    /// One that writes raises the version by one; one that only checks is committed at the newest version.
    pub fn apply(&mut self, transaction: &Transaction) -> CommitOutcome {
        if let Some(broken) = self.limits.broken_by(transaction) {
            return CommitOutcome::TooLarge(broken);
        }
        if !transaction.checks.iter().all(|check| self.holds(check)) {
            return CommitOutcome::Conflict;
        }
        if !transaction.writes.is_empty() {
            self.version.0 += 1;
            self.write(&transaction.writes);
            self.prune();
        }
        CommitOutcome::Committed(self.version)
    }

    /// Reads at a version, or at the newest.
    pub fn read(&self, reads: &[Read], at: Option<Version>) -> Result<ReadResult, NotKept> {
        let version = at.unwrap_or(self.version);
        if version < self.oldest() || version > self.version {
            return Err(NotKept { at: version, oldest: self.oldest(), newest: self.version });
        }
        let answers = reads.iter().map(|read| self.answer(read, version)).collect();
        Ok(ReadResult { version, answers })
    }

    /// The value of a key at the newest version.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        value_at(self.rows.get(key)?, self.version)
    }

    /// Whether a commit later than `since` wrote or removed the key. True also if nobody can tell any more: the
    /// key is absent and `since` lies before the window.
    pub fn changed_since(&self, key: &[u8], since: Version) -> bool {
        match self.rows.get(key).and_then(|row| row.last()) {
            Some(last) => last.version > since,
            None => since < self.oldest(),
        }
    }

    fn holds(&self, check: &Check) -> bool {
        // The value is compared also under a fence: a fence only ever refuses more.
        let unwritten =
            check.seen_at.is_none_or(|at| at >= self.oldest() && !self.changed_since(&check.key, at));
        unwritten && self.get(&check.key) == check.expected.as_deref()
    }

    fn answer(&self, read: &Read, at: Version) -> Vec<(Key, Value)> {
        match read {
            Read::Key(key) => {
                let value = self.rows.get(key.as_slice()).and_then(|row| value_at(row, at));
                value.map(|value| (key.clone(), value.to_vec())).into_iter().collect()
            }
            Read::Range { range, limit } => in_range(&self.rows, range)
                .filter_map(|(key, row)| Some((key.to_vec(), value_at(row, at)?.to_vec())))
                .take(*limit)
                .collect(),
        }
    }

    fn write(&mut self, writes: &[Write]) {
        let rows = Arc::make_mut(&mut self.rows);
        let mut writing = Writing { rows, version: self.version, keys: BTreeSet::new() };
        let mut appended: u32 = 0;
        for write in writes {
            match write {
                Write::Put { key, value } => writing.put(key, value),
                Write::Clear(key) => writing.clear(key),
                Write::ClearRange(range) => writing.clear_range(range),
                Write::Append { prefix, value } => {
                    let stamp = stamp(self.version, appended);
                    appended += 1;
                    writing.put(&[prefix.as_slice(), &stamp].concat(), value);
                    writing.put(prefix, &stamp);
                }
            }
        }
        let keys = writing.keys.into_iter().collect();
        self.written.push_back((self.version, keys));
    }

    fn prune(&mut self) {
        let oldest = self.oldest();
        let rows = Arc::make_mut(&mut self.rows);
        while self.written.front().is_some_and(|(version, _)| *version <= oldest) {
            let (_, keys) = self.written.pop_front().expect("there is a front, seen above");
            for key in keys {
                let Some(row) = rows.get_mut(&key) else { continue };
                // What the key was at the oldest version stays readable; what came before does not.
                let mut superseded = row.partition_point(|change| change.version <= oldest).saturating_sub(1);
                if row.get(superseded).is_some_and(|c| c.version <= oldest && c.value.is_none()) {
                    superseded += 1;
                }
                row.drain(..superseded);
                if row.is_empty() {
                    rows.remove(&key);
                }
            }
        }
    }
}

/// The bytes that an append adds to its prefix: the version, then the order within the transaction.
///
/// A counted version leaves the first byte below `0xff`, as [`appended`](crate::appended) needs it.
pub(crate) fn stamp(version: Version, order: u32) -> [u8; STAMP_LENGTH] {
    let mut stamp = [0; STAMP_LENGTH];
    stamp[..8].copy_from_slice(&version.0.to_be_bytes());
    stamp[8..].copy_from_slice(&order.to_be_bytes());
    stamp
}

/// The writes of one commit on their way into the rows.
struct Writing<'a> {
    rows: &'a mut Rows,
    version: Version,
    keys: BTreeSet<Arc<[u8]>>,
}

impl Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.change(key, Some(value.into()));
    }

    fn clear(&mut self, key: &[u8]) {
        // A removal of what is not there is no change, and must not leave a row behind.
        if self.rows.get(key).and_then(|row| row.last()).is_some_and(|last| last.value.is_some()) {
            self.change(key, None);
        }
    }

    fn clear_range(&mut self, range: &Range<Key>) {
        let keys: Vec<Arc<[u8]>> = in_range(self.rows, range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.clear(&key);
        }
    }

    fn change(&mut self, key: &[u8], value: Option<Arc<[u8]>>) {
        let key = match self.rows.get_key_value(key) {
            Some((known, _)) => known.clone(),
            None => key.into(),
        };
        let row = self.rows.entry(key.clone()).or_default();
        // Of several writes of one transaction only the last was ever visible.
        if row.last().is_some_and(|last| last.version == self.version) {
            row.pop();
        }
        row.push(Change { version: self.version, value });
        self.keys.insert(key);
    }
}

fn value_at(row: &[Change], at: Version) -> Option<&[u8]> {
    let known = row.partition_point(|change| change.version <= at);
    row[..known].last()?.value.as_deref()
}

fn in_range<'a>(
    rows: &'a Rows,
    range: &Range<Key>,
) -> impl Iterator<Item = (&'a Arc<[u8]>, &'a Vec<Change>)> {
    // `BTreeMap::range` panics on a range that ends before it starts.
    let end = range.end.as_slice().max(range.start.as_slice());
    rows.range::<[u8], _>((Bound::Included(range.start.as_slice()), Bound::Excluded(end)))
}

#[cfg(test)]
mod tests;
