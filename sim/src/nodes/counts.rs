//! How often each fault was met at the edge of a node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign_elector::lock::lock;

/// Counts what was met. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Counts {
    /// It was met once more.
    pub fn met(&self, what: &'static str) {
        *lock(&self.0).entry(what).or_default() += 1;
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.0).clone()
    }
}
