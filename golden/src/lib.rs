//! For tests: bytes that must stay readable ([`Golden`]), and bytes that readers must survive ([`corpus()`]).

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // it is for tests, which may panic, and read files

mod corpus;
mod files;
mod next;
mod variants;

pub use corpus::{corpus, seed};
pub use files::Golden;
pub use next::with_unknown_fields;
pub use variants::variants;
