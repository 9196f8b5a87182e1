//! The backends, and where drivers of all crates have time, randomness and tasks from.

pub mod clock;
pub mod conformance;
pub mod entropy;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod examine;
#[cfg(any(test, feature = "sqlite", feature = "postgres", feature = "etcd", feature = "any-fdb"))]
mod failures;
#[cfg(feature = "any-fdb")]
pub mod fdb;
mod finding;
pub mod lock;
pub mod memory;
pub mod metrics;
#[cfg(any(feature = "postgres", feature = "etcd"))]
mod newest;
pub mod open;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod own_thread;
#[cfg(any(feature = "postgres", feature = "etcd"))]
#[cfg_attr(not(feature = "postgres"), allow(unreachable_pub))]
// the store in Postgres shows it to a lease in a table
mod pauses;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod supervision;
