//! What an election in a store comes to: who asks for what, what was found, and what is written.

pub(crate) mod error;
pub(crate) mod event;
pub mod member;
pub(crate) mod memory;
pub mod operation;
pub(crate) mod signals;
mod snapshot;
mod sweep;
pub(crate) mod watched;
