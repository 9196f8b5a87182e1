//! Where the events of watches go.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use callsign_store::{lock::lock, planted};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::core::watch::{Given, WatchId};

/// All watches of a member.
#[derive(Default)]
pub(crate) struct Watching {
    readers: Mutex<HashMap<WatchId, UnboundedSender<Given>>>,
    next: AtomicU64,
}

impl Watching {
    /// Another one. The member gives it no more than it has room for.
    pub(crate) fn open(&self) -> (WatchId, UnboundedReceiver<Given>) {
        let id = WatchId(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, events) = unbounded_channel();
        lock(&self.readers).insert(id, sender);
        (id, events)
    }

    pub(crate) fn close(&self, id: WatchId) {
        lock(&self.readers).remove(&id);
    }

    pub(super) fn give(&self, id: WatchId, events: Vec<Given>) {
        let readers = lock(&self.readers);
        let Some(reader) = readers.get(&id) else { return };
        let most = if planted!("only-the-first-event-given") { 1 } else { events.len() };
        for event in events.into_iter().take(most) {
            // One that is being dropped does not mind.
            let _ = reader.send(event);
        }
    }

    /// Nothing more is given to anybody.
    pub(super) fn end(&self) {
        lock(&self.readers).clear();
    }
}
