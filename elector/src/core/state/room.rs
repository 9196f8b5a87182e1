//! How many members a registry may have.

/// The most members of a registry. Another node may join once one of them has left or is removed.
pub const MAX_MEMBERS: usize = 256;

/// How many checks the transaction of an entry has at most, beside one for each member's row: those of the entry, the lineage, the
/// term, the lock and the settings, and three of what the entry relies on.
const BESIDE_ROWS: usize = 8;

/// The most members of a registry in a store that takes so many checks in a transaction. With more of them an entry could come
/// that no transaction can apply, and what is behind it in the queue would wait for ever.
pub fn most_members(most_checks: Option<usize>) -> usize {
    most_checks.map_or(MAX_MEMBERS, |most| most.saturating_sub(BESIDE_ROWS).min(MAX_MEMBERS))
}
