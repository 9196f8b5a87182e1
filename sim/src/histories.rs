//! Histories of the public API: what clients of nodes asked and were told, and whether that can be.
//!
//! Nodes of real processes write them (`callsign-chaos`), and whole nodes under seeds ([`crate::nodes`]).

pub mod event;
pub mod judge;
