//! The book, page by page: the code of each compiles, and that of `testing.md` runs, too. A page with code in Rust that is not here fails a
//! test (`tests/tests/all/book.rs`).
//!
//! It is there for doc tests only. What users download has no folder `docs/`.

#[doc = include_str!("../../README.md")]
mod readme {}
#[cfg(feature = "admin")]
#[doc = include_str!("../../docs/axum.md")]
mod axum {}
#[cfg(feature = "election")]
#[doc = include_str!("../../docs/elections.md")]
mod elections {}
#[doc = include_str!("../../docs/example-chat.md")]
mod example_chat {}
#[cfg(feature = "admin")]
#[doc = include_str!("../../docs/example-jobs.md")]
mod example_jobs {}
#[doc = include_str!("../../docs/getting-started.md")]
mod getting_started {}
#[doc = include_str!("../../docs/groups.md")]
mod groups {}
#[doc = include_str!("../../docs/messages.md")]
mod messages {}
#[doc = include_str!("../../docs/metrics.md")]
mod metrics {}
#[doc = include_str!("../../docs/names.md")]
mod names {}
#[cfg(feature = "node-server")]
#[doc = include_str!("../../docs/node-server.md")]
mod node_server {}
#[doc = include_str!("../../docs/rolling-restart.md")]
mod rolling_restart {}
#[cfg(feature = "election")]
#[doc = include_str!("../../docs/singletons.md")]
mod singletons {}
#[doc = include_str!("../../docs/testing.md")]
mod testing {}
#[doc = include_str!("../../docs/tracing.md")]
mod tracing {}
