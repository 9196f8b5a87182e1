//! The store: ordered keys, transactions as data, watches.
//!
//! Takes as given nothing but the backend. Promises, for every backend, what [`conformance`] checks:
//!
//! - transactions are serializable: all checks hold at the one point at which all writes happen;
//! - keys written by [`Write::Append`] sort in the order of their commits, over all writers;
//! - a read sees one version; versions grow with commits;
//! - a watch ends after the key changed. It may end without cause, and it may be lost: poll, slowly, always.
//!
//! Does not promise that a commit is answered. A transaction whose outcome is unknown **may still land later,
//! also after its author died**: absence proves nothing while it may still land. Therefore every transaction
//! checks what it builds on, and writes something by which it can be recognised.
//!
//! A transaction is data, so that a core can ask for it as an effect and a simulator can run it.

pub mod conformance;
pub(crate) mod contract;
pub(crate) mod error;
pub mod examine;
mod failures;
#[cfg(feature = "any-fdb")]
pub mod fdb;
mod finding;
mod forward;
pub mod memory;
pub mod mvcc;
pub mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
pub(crate) mod transaction;

pub use self::{
    contract::{LifeGuard, Proof, SharedStore, Store},
    error::{OpenError, StoreError},
    open::{open, open_existing},
    transaction::{
        Check, CommitOutcome, FENCE_AGE, Key, Limits, Piece, Read, ReadResult, STAMP_LENGTH, TooLarge,
        Transaction, Value, Version, Write, appended,
    },
};
