//! The transactions of an elector.
//!
//! Each checks everything that its decision was made from, as it was read, so that it may land at any later time, or
//! never: it is right at the moment at which it lands. The term is written only when the leader changes.

use callsign_store::{
    Transaction,
    ids::{Nonce, SessionId},
    keys::RegistryKeys,
    planted,
    record::Record,
};

use crate::core::{
    elector::reading::{Queued, Reading},
    member_rows::write_member,
    record::{AuthorRecord, Lock, MembershipEvent, QueueEntry},
    state::{Applied, ElectionState, Relied},
};

/// Removes an entry from the queue and writes what it comes to.
pub(super) fn consume(
    keys: &RegistryKeys,
    reading: &Reading,
    before: &ElectionState,
    queued: &Queued,
    applied: &Applied,
) -> Transaction {
    let mut transaction =
        Transaction::new().check(queued.key.clone(), Some(queued.value.clone())).clear(queued.key.clone());
    if planted!("entry-not-checked") {
        transaction.checks.clear();
    }
    // With the entry itself checked, no join that was queued behind it can have been applied.
    for relied in applied.relied.iter().filter(|relied| **relied != Relied::Members) {
        transaction = reading.check_relied(transaction, keys, relied);
    }
    change(keys, reading, before, &applied.after, transaction)
}

/// Takes the vacant seat.
pub(super) fn fill(
    keys: &RegistryKeys,
    reading: &Reading,
    before: &ElectionState,
    applied: &Applied,
) -> Transaction {
    let mut transaction = Transaction::new();
    for relied in &applied.relied {
        transaction = reading.check_relied(transaction, keys, relied);
    }
    change(keys, reading, before, &applied.after, transaction)
}

/// Removes an entry that cannot be understood. It relies on nothing but the entry.
pub(super) fn discard(keys: &RegistryKeys, reading: &Reading, queued: &Queued) -> Transaction {
    let transaction = reading.check_lineage(Transaction::new(), keys);
    transaction.check(queued.key.clone(), Some(queued.value.clone())).clear(queued.key.clone())
}

/// Appends an entry. An equal author record and an open session are checked, so that an entry whose outcome stayed
/// unknown cannot land behind a later one, nor a dead session's behind its successor's.
pub(super) fn enqueue(
    keys: &RegistryKeys,
    reading: &Reading,
    author: &SessionId,
    event: MembershipEvent,
) -> Option<(QueueEntry, Transaction)> {
    let sequence = reading.next_sequence?;
    let entry = QueueEntry { author: author.clone(), sequence, event };
    let transaction = reading.check_lineage(Transaction::new(), keys);
    let transaction = reading.check(transaction, keys.cluster().session(&author.node));
    let transaction = if planted!("author-number-not-checked") {
        transaction
    } else {
        reading.check(transaction, keys.author(&author.node))
    };
    // A record that was not there may have come and gone since.
    let is_first = reading.raw(&keys.author(&author.node)).is_none();
    let transaction = if is_first { reading.check(transaction, keys.author_floor()) } else { transaction };
    let transaction = transaction
        .put(keys.author(&author.node), AuthorRecord { sequence }.to_value())
        .append(keys.queue(), entry.to_value());
    Some((entry, transaction))
}

/// Replaces a lock whose owner does not move.
pub(super) fn take_lock(
    keys: &RegistryKeys,
    reading: &Reading,
    owner: &SessionId,
    old: &Lock,
    nonce: Nonce,
) -> Transaction {
    let lock = Lock { epoch: old.epoch, owner: owner.node.clone(), nonce };
    checked_lock(keys, reading).put(keys.lock(), lock.to_value())
}

/// Clears a lock, if it is still the very one that was read.
pub(super) fn clear_lock(keys: &RegistryKeys, reading: &Reading) -> Transaction {
    checked_lock(keys, reading).clear(keys.lock())
}

fn checked_lock(keys: &RegistryKeys, reading: &Reading) -> Transaction {
    if planted!("lock-without-nonce") {
        return Transaction::new();
    }
    let transaction = reading.check_lineage(Transaction::new(), keys);
    let transaction = reading.check(transaction, keys.lock());
    reading.check(transaction, keys.term())
}

/// Writes what differs, and checks all that the decision saw.
fn change(
    keys: &RegistryKeys,
    reading: &Reading,
    before: &ElectionState,
    after: &ElectionState,
    transaction: Transaction,
) -> Transaction {
    let mut transaction = reading.check_lineage(transaction, keys);
    if !planted!("election-without-term") {
        transaction = reading.check(transaction, keys.term());
    }
    transaction = reading.check(transaction, keys.lock());
    if !planted!("settings-not-checked") {
        transaction = reading.check(transaction, keys.settings());
    }
    for node in before.members.keys() {
        transaction = reading.check(transaction, keys.member(node));
    }
    for (node, row) in &after.members {
        let former = before.members.get(node);
        if former.is_none() {
            transaction = reading.check(transaction, keys.member(node));
        }
        if former != Some(row) {
            transaction = write_member(transaction, keys, node, Some(row));
        }
    }
    for node in before.members.keys().filter(|node| !after.members.contains_key(*node)) {
        transaction = write_member(transaction, keys, node, None);
    }
    if before.term != after.term {
        transaction = transaction.put(keys.term(), after.term.to_value());
    }
    if before.settings != after.settings {
        let former = reading.raw(&keys.settings());
        transaction = transaction.put(keys.settings(), after.settings.over(former.as_ref()));
    }
    match &after.lock {
        lock if *lock == before.lock => transaction,
        Some(lock) => transaction.put(keys.lock(), lock.to_value()),
        None => transaction.clear(keys.lock()),
    }
}
