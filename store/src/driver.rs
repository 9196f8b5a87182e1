//! The backends, and where drivers of all crates have time, randomness and tasks from.

pub mod clock;
pub mod conformance;
pub mod entropy;
pub mod examine;
#[cfg(any(test, feature = "sqlite", feature = "postgres", feature = "any-fdb"))]
mod failures;
#[cfg(feature = "any-fdb")]
pub mod fdb;
mod finding;
pub mod lock;
pub mod memory;
pub mod metrics;
pub mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod supervision;
