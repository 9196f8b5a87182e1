//! For tests: bytes that must stay readable ([`Golden`]), bytes that readers must survive ([`corpus()`]), and commands that
//! people are told to type ([`documented()`]), and metrics that somebody counted ([`Seen`]).

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // it is for tests, which may panic, and read files

mod corpus;
mod documented;
mod files;
mod next;
mod seen;
mod variants;

pub use corpus::{corpus, seed, seed_pieces};
pub use documented::{Documented, assert_takes_what_is_documented, documented};
pub use files::Golden;
pub use next::with_unknown_fields;
pub use seen::Seen;
pub use variants::variants;
