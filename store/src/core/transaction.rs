//! Transactions as data, what came of them, and what a store takes.

use std::{fmt, ops::Range, time::Duration};

use serde::{Deserialize, Serialize};

/// A key: bytes, ordered lexicographically.
pub type Key = Vec<u8>;
/// A value: bytes.
pub type Value = Vec<u8>;

/// A point in the store's history. Grows with every commit that writes; comparable only within one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Read {
    /// The value of one key. Answered with no entry or one.
    Key(Key),
    /// The first `limit` entries of a range, in key order.
    Range {
        /// First key, and the key after the last.
        range: Range<Key>,
        /// The most entries to return. Whoever gets as many has to ask on behind the last.
        limit: usize,
    },
}

/// What a read saw, all of it at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadResult {
    /// The version at which everything was read.
    pub version: Version,
    /// For each [`Read`] asked, in order, the entries found.
    pub answers: Vec<Vec<(Key, Value)>>,
}

impl ReadResult {
    /// The value that the `index`th read, a [`Read::Key`], found.
    pub fn value(&self, index: usize) -> Option<&Value> {
        self.answers.get(index)?.first().map(|(_, value)| value)
    }

    /// The entries that the `index`th read found.
    pub fn entries(&self, index: usize) -> &[(Key, Value)] {
        self.answers.get(index).map_or(&[], Vec::as_slice)
    }
}

/// What must hold for a transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Check {
    /// The key looked at.
    pub key: Key,
    /// The value that it must have at the commit; `None` for "absent".
    pub expected: Option<Value>,
    /// A version at which the author knows, from a read or from a commit of its own, that the key had the
    /// expected value. A backend may use it in place of a read: "not written since". It never makes a commit
    /// pass that the comparison would have refused; it may refuse one, if the key was rewritten with an equal value, or
    /// if the version is older than what the backend keeps: whoever reads again gets on.
    pub seen_at: Option<Version>,
}

/// A version that was read or written at most so long ago may stand in for a read: see [`Check::seen_at`]. The store that
/// forgets soonest, `FoundationDB`, keeps 5 s.
pub const FENCE_AGE: Duration = Duration::from_secs(4);

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Write {
    /// Sets a key.
    Put {
        /// The key.
        key: Key,
        /// Its new value.
        value: Value,
    },
    /// Removes a key, if it is there.
    Clear(Key),
    /// Removes all keys of a range.
    ClearRange(Range<Key>),
    /// Adds an entry whose key is `prefix` followed by [`STAMP_LENGTH`] bytes that grow with each commit.
    ///
    /// Also sets the key `prefix` itself to those bytes, so that a watch on `prefix` ends.
    Append {
        /// What the key begins with.
        prefix: Key,
        /// The value of the entry.
        value: Value,
    },
}

/// How many bytes [`Write::Append`] adds to its prefix.
pub const STAMP_LENGTH: usize = 12;

/// The range of all entries appended under a prefix. It leaves out the key `prefix` itself.
///
/// Stamps are [`STAMP_LENGTH`] bytes, so every entry sorts behind the prefix and before the prefix followed by
/// more bytes of `0xff` than a stamp has.
pub fn appended(prefix: &[u8]) -> Range<Key> {
    let mut start = prefix.to_vec();
    start.push(0);
    let mut end = prefix.to_vec();
    end.extend([0xff; STAMP_LENGTH + 1]);
    start..end
}

/// Changes that happen together, if the checks hold, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transaction {
    /// What must hold.
    pub checks: Vec<Check>,
    /// What changes, applied in order.
    pub writes: Vec<Write>,
}

impl Transaction {
    /// A transaction that checks and writes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the check that `key` has the value `expected`, or is absent.
    #[must_use]
    pub fn check(mut self, key: Key, expected: Option<Value>) -> Self {
        self.checks.push(Check { key, expected, seen_at: None });
        self
    }

    /// Adds the check that `key` still has the value it had at version `seen_at`.
    #[must_use]
    pub fn fence(mut self, key: Key, expected: Option<Value>, seen_at: Version) -> Self {
        self.checks.push(Check { key, expected, seen_at: Some(seen_at) });
        self
    }

    /// Adds a [`Write::Put`].
    #[must_use]
    pub fn put(mut self, key: Key, value: Value) -> Self {
        self.writes.push(Write::Put { key, value });
        self
    }

    /// Adds a [`Write::Clear`].
    #[must_use]
    pub fn clear(mut self, key: Key) -> Self {
        self.writes.push(Write::Clear(key));
        self
    }

    /// Adds a [`Write::ClearRange`].
    #[must_use]
    pub fn clear_range(mut self, range: Range<Key>) -> Self {
        self.writes.push(Write::ClearRange(range));
        self
    }

    /// Adds a [`Write::Append`].
    #[must_use]
    pub fn append(mut self, prefix: Key, value: Value) -> Self {
        self.writes.push(Write::Append { prefix, value });
        self
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CommitOutcome {
    /// All its writes happened, at this version.
    Committed(Version),
    /// A check did not hold, or another transaction came between. Nothing was changed, and nothing will be.
    Conflict,
    /// Nobody knows. It may have been committed, and **it may still be, later**.
    Unknown,
    /// The store could not be reached or was busy for too long. Nothing was changed, and nothing will be.
    Unavailable(String),
    /// It breaks a limit of the store. Nothing was changed, and it will never be accepted.
    TooLarge(TooLarge),
}

impl fmt::Display for CommitOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed(Version(version)) => write!(f, "it was committed at version {version}"),
            Self::Conflict => f.write_str("it met another transaction, and was not committed"),
            Self::Unknown => f.write_str("it is not known whether it was committed"),
            Self::Unavailable(why) => write!(f, "it was not committed: {why}"),
            Self::TooLarge(why) => write!(f, "it was not committed: {why}"),
        }
    }
}

/// What of a transaction is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// One of its keys.
    Key,
    /// One of its values.
    Value,
    /// All its keys and values together.
    Transaction,
    /// The number of its checks, or of its writes, where the store counts them.
    Operations,
}

impl Piece {
    fn unit(self) -> &'static str {
        if self == Self::Operations { "operations" } else { "bytes" }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "a key",
            Self::Value => "a value",
            Self::Transaction | Self::Operations => "a transaction",
        })
    }
}

/// Which limit a transaction breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{what} of {size} {}, the store takes {limit}", what.unit())]
pub struct TooLarge {
    /// What is too large.
    pub what: Piece,
    /// Its size: in bytes, but for operations.
    pub size: usize,
    /// The most that the store takes, in the same unit.
    pub limit: usize,
}

/// What a store takes: lengths in bytes, and how many checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The longest key.
    pub key: usize,
    /// The longest value.
    pub value: usize,
    /// The most that one transaction may check and write, keys and values together.
    pub transaction: usize,
    /// The most checks that one transaction may have. `None`: any number.
    pub checks: Option<usize>,
}

impl Limits {
    /// The limits of `FoundationDB`; the other backends enforce the same, so that what runs on one runs on all. (Only
    /// Postgres takes shorter keys, 2500 bytes: it has to fit them into its index. And the store in `FoundationDB` takes
    /// some hundred bytes less, which it needs for its fences.)
    pub const FOUNDATIONDB: Self =
        Self { key: 10_000, value: 100_000, transaction: 10_000_000, checks: None };

    /// Says which limit the transaction breaks, if any. Cost: its number of checks and writes.
    pub fn broken_by(&self, transaction: &Transaction) -> Option<TooLarge> {
        let count = transaction.checks.len();
        if let Some(limit) = self.checks.filter(|limit| count > *limit) {
            return Some(TooLarge { what: Piece::Operations, size: count, limit });
        }
        let mut total = 0;
        let mut key_value = |key: usize, value: usize| {
            total += key + value;
            let over = |what, size, limit| (size > limit).then_some(TooLarge { what, size, limit });
            over(Piece::Key, key, self.key).or(over(Piece::Value, value, self.value))
        };
        for check in &transaction.checks {
            // Only the key travels to the store as a read conflict; the expected value is compared here.
            if let Some(broken) = key_value(check.key.len(), 0) {
                return Some(broken);
            }
        }
        for write in &transaction.writes {
            let broken = match write {
                Write::Put { key, value } => key_value(key.len(), value.len()),
                Write::Clear(key) => key_value(key.len(), 0),
                Write::ClearRange(range) => key_value(range.start.len().max(range.end.len()), 0),
                Write::Append { prefix, value } => key_value(prefix.len() + STAMP_LENGTH, value.len()),
            };
            if broken.is_some() {
                return broken;
            }
        }
        (total > self.transaction).then_some(TooLarge {
            what: Piece::Transaction,
            size: total,
            limit: self.transaction,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_transaction_is_that_of_its_keys_and_of_the_values_that_it_writes() {
        let range = |start, end| vec![b'a'; start]..vec![b'b'; end];
        for (transaction, size) in [
            (Transaction::new().check(vec![0; 3], Some(vec![0; 50])), 3),
            (Transaction::new().fence(vec![0; 3], None, Version(1)), 3),
            (Transaction::new().put(vec![0; 3], vec![0; 4]), 7),
            (Transaction::new().clear(vec![0; 3]), 3),
            (Transaction::new().clear_range(range(2, 5)), 5),
            (Transaction::new().clear_range(range(5, 2)), 5),
            (Transaction::new().append(vec![0; 3], vec![0; 4]), 7 + STAMP_LENGTH),
            (Transaction::new().check(vec![0; 3], None).put(vec![0; 3], vec![0; 4]).clear(vec![0; 2]), 12),
        ] {
            let limits = |transaction| Limits { key: 40, value: 20, transaction, checks: None };
            assert_eq!(limits(size).broken_by(&transaction), None, "{transaction:?}");
            let broken = TooLarge { what: Piece::Transaction, size, limit: size - 1 };
            assert_eq!(limits(size - 1).broken_by(&transaction), Some(broken), "{transaction:?}");
        }
    }

    #[test]
    fn checks_are_counted_where_the_store_says_how_many_it_takes() {
        let limits = Limits { checks: Some(2), ..Limits::FOUNDATIONDB };
        let two = Transaction::new().check(vec![1], None).fence(vec![2], None, Version(1));
        let two = two.put(vec![3], vec![]).put(vec![4], vec![]).put(vec![5], vec![]);
        assert_eq!(limits.broken_by(&two), None, "writes are not counted");
        let three = two.check(vec![6], None);
        let broken = TooLarge { what: Piece::Operations, size: 3, limit: 2 };
        assert_eq!(limits.broken_by(&three), Some(broken));
        assert_eq!(Limits::FOUNDATIONDB.broken_by(&three), None);
    }

    #[test]
    fn what_came_of_a_commit_is_a_sentence() {
        let too_large = TooLarge { what: Piece::Key, size: 3, limit: 2 };
        for (outcome, said) in [
            (CommitOutcome::Committed(Version(4)), "it was committed at version 4"),
            (CommitOutcome::Conflict, "it met another transaction, and was not committed"),
            (CommitOutcome::Unknown, "it is not known whether it was committed"),
            (CommitOutcome::Unavailable("no server".into()), "it was not committed: no server"),
            (CommitOutcome::TooLarge(too_large), "it was not committed: a key of 3 bytes, the store takes 2"),
        ] {
            assert_eq!(outcome.to_string(), said);
        }
    }

    #[test]
    fn the_range_of_what_was_appended_has_every_stamp_and_not_the_prefix() {
        let range = appended(b"q");
        for stamp in [[0; STAMP_LENGTH], [0xff; STAMP_LENGTH]] {
            assert!(range.contains(&[b"q".as_slice(), &stamp].concat()), "{stamp:?}");
        }
        assert!(!range.contains(&b"q".to_vec()) && !range.contains(&b"r".to_vec()));
    }
}
