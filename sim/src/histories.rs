//! Histories of the public API: what clients of nodes asked and were told, and whether that can be.
//!
//! Nodes of real processes write them (`callsign-chaos`), and whole nodes under seeds ([`crate::nodes`]). Their clients are the
//! same ([`clients`]), and so is who judges what they were told ([`judge`]).

use std::fmt::Debug;

pub mod acting;
pub mod clients;
pub mod event;
pub mod judge;

use event::{At, Event};

/// Where a node's clients and actors write what they do, and read when it is.
pub trait Journal: Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> At;

    /// Writes an event down, or ends the process: a history with a hole proves nothing.
    fn write(&self, event: &Event);

    /// Something was met that is no part of the history.
    fn note(&self, _what: &'static str) {}

    /// Whether nobody reads it any more: whoever writes may end. Never, by default.
    fn is_closed(&self) -> bool {
        false
    }
}
