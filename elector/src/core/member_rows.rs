//! The rows of members: nothing else writes them.
//!
//! The elector that consumes an entry writes the rows that the entry changes. A leader that cuts its log clears `synced` of members that lag.
//! A wipe clears all rows. Each transaction checks the rows that its decision was made from.

use callsign_store::{Transaction, ids::NodeName, keys::RegistryKeys, record::Record};

use crate::core::record::MemberRow;

/// Adds to a transaction that a member's row is so, or that there is none.
#[must_use]
pub fn write_member(
    transaction: Transaction,
    keys: &RegistryKeys,
    node: &NodeName,
    row: Option<&MemberRow>,
) -> Transaction {
    match row {
        Some(row) => transaction.put(keys.member(node), row.to_value()),
        None => transaction.clear(keys.member(node)),
    }
}

/// Adds to a transaction that there are no members.
pub(crate) fn clear_members(transaction: Transaction, keys: &RegistryKeys) -> Transaction {
    transaction.clear_range(keys.members())
}
