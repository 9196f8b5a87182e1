//! The store: ordered keys, transactions as data, watches. And what everything above it shares.
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
//!
//! Beside it: [`ids`] and [`keys`] (who, and where in the store), [`record`] (how values are written), [`hash`] and [`time`] for
//! cores, and [`clock`], [`entropy`] and [`supervision`] for drivers.

#![cfg_attr(not(feature = "any-fdb"), forbid(unsafe_code))]

mod contract;
mod core;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // where time, tasks and randomness come from
mod driver;
mod error;
mod forward;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod logging;
#[doc(hidden)]
pub mod planted;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
pub mod testing;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use self::core::printable::printable;
#[cfg(feature = "etcd")]
#[doc(inline)]
pub use self::driver::etcd;
#[cfg(feature = "any-fdb")]
#[doc(inline)]
pub use self::driver::fdb;
#[doc(hidden)]
pub use self::driver::lock;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use self::driver::postgres;
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use self::driver::sqlite;
pub use self::{
    contract::{LifeGuard, OPERATION_TIMEOUT, Proof, SharedStore, Store},
    core::{
        in_full::in_full,
        time::Time,
        transaction::{
            Check, CommitOutcome, FENCE_AGE, Key, Limits, Piece, Read, ReadResult, STAMP_LENGTH, TooLarge,
            Transaction, Value, Version, Write, appended,
        },
    },
    driver::{
        clock::Clock,
        entropy::Entropy,
        open::{open, open_existing, open_patiently},
    },
    error::{OpenError, StoreError},
};
#[doc(inline)]
pub use self::{
    core::{hash, ids, keys, mvcc, random, record, time},
    driver::{clock, conformance, entropy, examine, memory, metrics, open, supervision},
};
