//! What one reader has missed: of each name, how it was when the reader heard of it last, and how it is since.

use std::{collections::BTreeMap, sync::Arc};

use super::{Change, memory::weight};
use crate::core::{name::Name, why::Why};

/// The names that a reader has missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Missed {
    names: BTreeMap<Name, Change>,
    bytes: usize,
}

impl Missed {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds a change. Those of one name become one. Returns how many bytes there are.
    pub(super) fn add(&mut self, change: &Change) -> usize {
        let one = match self.names.remove(&change.name) {
            None => Change { why: Why::Unknown, ..change.clone() },
            Some(former) => {
                self.bytes -= weight(&former);
                Change { was: former.was, why: Why::Unknown, ..change.clone() }
            }
        };
        self.bytes += weight(&one);
        self.names.insert(one.name.clone(), one);
        self.bytes
    }

    /// Takes the first one.
    pub(super) fn take(&mut self) -> Option<Arc<Change>> {
        let (_, change) = self.names.pop_first()?;
        self.bytes -= weight(&change);
        Some(Arc::new(change))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
