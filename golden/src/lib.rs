//! For tests: bytes that must stay readable ([`Golden`]), bytes that readers must survive ([`corpus()`]), and commands that
//! people are told to type ([`documented()`]).

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // it is for tests, which may panic, and read files

mod corpus;
mod documented;
mod files;
mod next;
mod variants;

pub use corpus::{corpus, seed};
pub use documented::{Documented, assert_takes_what_is_documented, documented};
pub use files::Golden;
pub use next::with_unknown_fields;
pub use variants::variants;
