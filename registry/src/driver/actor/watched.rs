//! The actors of this node that hold names, or ask for them. Also for whoever ends a node whose member is gone.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use callsign_store::lock::lock;
use foldhash::fast::FixedState;
use ractor::ActorCell;

// Actors are counted, and their numbers are no secret: the default hasher, against strangers who choose keys, costs three times as much.
type ActorCells = HashMap<u64, ActorCell, FixedState>;

#[derive(Default)]
pub(super) struct Watched(Mutex<ActorCells>);

impl Watched {
    pub(super) fn contains(&self, actor: u64) -> bool {
        self.lock().contains_key(&actor)
    }

    pub(super) fn add(&self, actor: u64, cell: ActorCell) {
        self.lock().insert(actor, cell);
    }

    pub(super) fn get(&self, actor: u64) -> Option<ActorCell> {
        self.lock().get(&actor).cloned()
    }

    pub(super) fn remove(&self, actor: u64) -> Option<ActorCell> {
        self.lock().remove(&actor)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn take_all(&self) -> Vec<(u64, ActorCell)> {
        let mut all: Vec<_> = self.lock().drain().collect();
        all.sort_unstable_by_key(|(actor, _)| *actor);
        all
    }

    fn lock(&self) -> MutexGuard<'_, ActorCells> {
        // Nothing panics under this lock: it guards a plain map.
        lock(&self.0)
    }
}
