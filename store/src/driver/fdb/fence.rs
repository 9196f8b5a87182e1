//! How a transaction is refused whose checks do not hold: by conflict ranges, and nothing else.
//!
//! A transaction with read version *r* is refused if one of its read conflict ranges was written by a commit later than
//! *r*, or by one that shares its version and comes before it. A leader appends to a log with a transaction that checks
//! `term`, and checks and moves `commit`. It has to be fenced at its own former commit, say at version 7, with two keys:
//!
//! - `term` was only checked. Another commit at version 7, behind ours, may have changed it: so the read version must
//!   be 6, or the change is not seen.
//! - `commit` was written by ourselves, at 7: so the read version must be 7, or we conflict with ourselves.
//!
//! Therefore a transaction that checks a key and writes it does not say "I wrote this key", but "I moved it away from the
//! value that I checked", by a write conflict on a *mark*, a key made of both that is never stored. Who checks a key
//! has a read conflict with the key, which those write who did not check it, and with the mark of the value that is
//! expected. Our own move, away from another value, is not in the way, and the read version is 6.
//!
//! Programs that write the same keys without marks are noticed, but do not notice us.

use foundationdb::{
    FdbResult, Transaction as Begun,
    options::{ConflictRangeType, MutationType, TransactionOption},
};

use crate::core::{
    hash::{FNV_BASIS, fnv1a},
    transaction::{Check, Key, STAMP_LENGTH, Transaction, Write},
};

/// How much longer than its key a mark is.
const MARK_LENGTH: usize = 9;
/// How many bytes of a stamp the cluster fills in. The others are the number of the entry in its transaction.
const FILLED_LENGTH: usize = 10;

/// Stands for "this key has this value". Two values with one mark cost an attempt.
fn mark(key: &[u8], value: Option<&[u8]>) -> Key {
    let hash = value.map_or(0, |value| fnv1a(FNV_BASIS, value));
    [key, &[0], &hash.to_be_bytes()].concat()
}

fn behind(key: &[u8]) -> Key {
    [key, &[0]].concat()
}

fn conflict(begun: &Begun, key: &[u8], how: ConflictRangeType) -> FdbResult<()> {
    begun.add_conflict_range(key, &behind(key), how)
}

/// Makes the transaction conflict with whoever changes what it checks.
pub(super) fn check(begun: &Begun, checks: &[Check]) -> FdbResult<()> {
    for Check { key, expected, .. } in checks {
        conflict(begun, key, ConflictRangeType::Read)?;
        conflict(begun, &mark(key, expected.as_deref()), ConflictRangeType::Read)?;
    }
    Ok(())
}

/// Writes, in order. It needs a transaction that does not read its own writes: such a one keeps the order.
pub(super) fn write(begun: &Begun, transaction: &Transaction) -> FdbResult<()> {
    // By its size, a transaction has some ten thousand at most.
    let mut entry: u16 = 0;
    for write in &transaction.writes {
        match write {
            Write::Put { key, value } => {
                moves(begun, transaction, key)?;
                begun.set(key, value);
            }
            Write::Clear(key) => {
                moves(begun, transaction, key)?;
                begun.clear(key);
            }
            // Backwards is empty for us, and an error for the library.
            Write::ClearRange(range) if range.start < range.end => {
                begun.clear_range(&range.start, &range.end);
            }
            Write::ClearRange(_) => {}
            Write::Append { prefix, value } => {
                // Nobody can have checked the key of the entry, which is made as it is committed.
                begun.set_option(TransactionOption::NextWriteNoWriteConflictRange)?;
                begun.atomic_op(&stamped(prefix, entry), value, MutationType::SetVersionstampedKey);
                moves(begun, transaction, prefix)?;
                begun.atomic_op(prefix, &stamped(&[], entry), MutationType::SetVersionstampedValue);
                entry += 1;
            }
        }
    }
    Ok(())
}

/// Prepares the next write: if the key is checked, it is moved away from that value.
fn moves(begun: &Begun, transaction: &Transaction, key: &[u8]) -> FdbResult<()> {
    let checked = transaction.checks.iter().filter(|check| check.key == key);
    for Check { expected, .. } in checked {
        begun.set_option(TransactionOption::NextWriteNoWriteConflictRange)?;
        conflict(begun, &mark(key, expected.as_deref()), ConflictRangeType::Write)?;
    }
    Ok(())
}

/// `prefix`, a stamp to be filled in, and where it is, as the library wants it.
fn stamped(prefix: &[u8], entry: u16) -> Vec<u8> {
    // A key is limited to far fewer bytes than 2^32.
    let place = u32::try_from(prefix.len()).unwrap_or(u32::MAX);
    [prefix, &[0xff; FILLED_LENGTH], &entry.to_be_bytes(), &place.to_le_bytes()].concat()
}

/// An upper bound of the bytes that a transaction takes by the library's count: what it checks and writes, and
/// conflict ranges, which are two keys each.
pub(super) fn size(transaction: &Transaction) -> usize {
    const ITEM: usize = 64;
    let range = |key: usize| 2 * key + 1 + ITEM;
    let checks =
        transaction.checks.iter().map(|check| range(check.key.len()) + range(check.key.len() + MARK_LENGTH));
    let put = |key: usize, value: usize| ITEM + key + value + range(key + MARK_LENGTH);
    let writes = transaction.writes.iter().map(|write| match write {
        Write::Put { key, value } => put(key.len(), value.len()),
        Write::Clear(key) => put(key.len(), key.len() + 1),
        Write::ClearRange(cleared) => 2 * (cleared.start.len() + cleared.end.len() + ITEM),
        Write::Append { prefix, value } => {
            put(prefix.len() + STAMP_LENGTH + 4, value.len()) + put(prefix.len(), STAMP_LENGTH + 4)
        }
    });
    checks.chain(writes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ_by_key_and_value_and_absent_is_not_empty() {
        let marks = [
            mark(b"k", None),
            mark(b"k", Some(b"")),
            mark(b"k", Some(b"1")),
            mark(b"k", Some(b"2")),
            mark(b"l", Some(b"1")),
        ];
        for (index, mark) in marks.iter().enumerate() {
            assert_eq!(mark.len(), 1 + MARK_LENGTH);
            assert!(!marks[..index].contains(mark));
        }
    }

    #[test]
    fn a_stamp_is_filled_in_behind_the_prefix() {
        let expected = [&b"q/"[..], &[0xff; 10], &[0, 3], &[2, 0, 0, 0]].concat();
        assert_eq!(stamped(b"q/", 3), expected);
    }
}
