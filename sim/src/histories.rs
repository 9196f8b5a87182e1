//! Histories of the public API: what clients of nodes asked and were told, and whether that can be.
//!
//! Nodes of real processes write them (`callsign-chaos`), and whole nodes under seeds ([`crate::nodes`]). Their clients are the
//! same ([`clients`]), and so is who judges what they were told ([`judge`]).

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use callsign_store::lock::lock;

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

/// Where nodes tell each other how far their watches are.
pub trait Positions: Debug + Send + Sync + 'static {
    /// A watch of this node has everything up to there.
    fn tell(&self, node: &str, position: u64);

    /// What was said last of a node.
    fn heard(&self, node: &str) -> Option<u64>;
}

/// The same, for nodes of one process. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<BTreeMap<String, u64>>>);

impl Positions for InMemory {
    fn tell(&self, node: &str, position: u64) {
        lock(&self.0).insert(node.to_owned(), position);
    }

    fn heard(&self, node: &str) -> Option<u64> {
        lock(&self.0).get(node).copied()
    }
}
