//! Places in semaphores, as those wait for them who asked.

use std::{collections::HashMap, sync::Mutex};

use callsign_store::lock::lock;
use tokio::sync::watch;

use crate::core::input::CallId;

/// Of each place, by its claim, whether it holds. Dropped with the claim: then it never will.
#[derive(Default)]
pub(crate) struct Holding(Mutex<HashMap<CallId, watch::Sender<bool>>>);

impl Holding {
    /// A place is asked for.
    pub(super) fn open(&self, claim: CallId) {
        lock(&self.0).insert(claim, watch::Sender::new(false));
    }

    /// It holds from here on, until its claim ends.
    pub(super) fn holds(&self, claim: CallId) {
        if let Some(place) = lock(&self.0).get(&claim) {
            place.send_replace(true);
        }
    }

    /// Its claim has ended.
    pub(super) fn forget(&self, claim: CallId) {
        lock(&self.0).remove(&claim);
    }

    /// All claims have.
    pub(super) fn end(&self) {
        lock(&self.0).clear();
    }

    /// What is said of a place. None: its claim has ended.
    pub(crate) fn of(&self, claim: CallId) -> Option<watch::Receiver<bool>> {
        Some(lock(&self.0).get(&claim)?.subscribe())
    }
}
