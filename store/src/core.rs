//! What is pure: identifiers, keys, records, transactions as data, and the model of a store.

pub mod hash;
pub mod ids;
pub(crate) mod in_full;
pub mod keys;
pub mod mvcc;
pub(crate) mod printable;
pub mod random;
pub mod record;
pub mod time;
pub(crate) mod transaction;
