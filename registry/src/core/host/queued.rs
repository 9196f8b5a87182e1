//! Calls that wait for another one on the same name, and how many they are.

use std::collections::{BTreeMap, VecDeque};

use super::{Caller, Kind, Name, OnLapse};

/// A call that waits for another one on the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queued {
    Register { caller: Caller, actor: u64, kind: Kind, on_lapse: OnLapse },
    Unregister { caller: Caller },
}

/// All of them, by name, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queues {
    by_name: BTreeMap<Name, VecDeque<Queued>>,
    count: usize,
}

impl Queues {
    pub(super) fn push(&mut self, name: Name, call: Queued) {
        self.by_name.entry(name).or_default().push_back(call);
        self.count += 1;
    }

    /// Takes the call for a name that has waited longest.
    pub(super) fn pop(&mut self, name: &Name) -> Option<Queued> {
        let queue = self.by_name.get_mut(name)?;
        let call = queue.pop_front();
        if queue.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= usize::from(call.is_some());
        call
    }

    /// Keeps those for which this says so. Cost: their number.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&Name, &Queued) -> bool) {
        self.by_name.retain(|name, queue| {
            let before = queue.len();
            queue.retain(|call| keeps(name, call));
            self.count -= before - queue.len();
            !queue.is_empty()
        });
    }

    /// How many calls wait, for all names together.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a call waits for this name.
    pub(super) fn is_waiting(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl IntoIterator for Queues {
    type Item = (Name, VecDeque<Queued>);
    type IntoIter = std::collections::btree_map::IntoIter<Name, VecDeque<Queued>>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_name.into_iter()
    }
}
