//! For tests, also of the crates above.
#![allow(missing_docs, clippy::unwrap_used)] // tests may panic

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod log;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(all(test, any(feature = "postgres", feature = "etcd", feature = "any-fdb")))]
pub(crate) mod writers;

/// How long a test waits for what must come, where nothing shorter is promised. Only tests that fail wait so long.
pub const TEST_DEADLINE: std::time::Duration = std::time::Duration::from_secs(60);
