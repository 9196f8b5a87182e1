//! The ordered streams that readers of channels see.

use std::sync::{Arc, Weak};

use callsign_store::lock::write;
use tokio::sync::{Semaphore, mpsc};

use crate::driver::{
    inner::Inner,
    subscribers::{LinkEvent, Queued, Room},
};

/// The ordered stream of one channel. Dropping it ends the subscription.
pub struct LinkEvents {
    channel: String,
    id: u64,
    inner: Weak<Inner>,
    receiver: mpsc::UnboundedReceiver<Queued>,
    room: Arc<Room>,
    batch: Vec<Queued>,
}

impl LinkEvents {
    pub(crate) fn new(inner: &Arc<Inner>, channel: &str) -> Self {
        let capacity = u32::try_from(inner.config.limits.inbox >> 10).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        let permits = Semaphore::new(usize::try_from(capacity).unwrap_or(1));
        let room = Arc::new(Room { permits, capacity });
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = write(&inner.state);
        for (link, peer) in state.links.up() {
            let Some(permits) = inner.handles.get(&link).map(|handle| handle.permits.clone()) else {
                continue;
            };
            let event = LinkEvent::Up { peer: peer.clone(), link, permits };
            let _ = sender.send(Queued { event, permits: 0 });
        }
        // Under the same lock, so that what comes after these is all of what comes after these.
        let id = if inner.is_over() { 0 } else { state.subscribers.add(channel, sender, room.clone()) };
        drop(state);
        Self {
            channel: channel.to_owned(),
            id,
            inner: Arc::downgrade(inner),
            receiver,
            room,
            batch: Vec::new(),
        }
    }

    /// Waits for the next event. `None`: the endpoint is gone. Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<LinkEvent> {
        let Queued { event, permits } = self.receiver.recv().await?;
        self.room.give_back(permits);
        Some(event)
    }

    /// Waits for at least one event, then appends as many as there are, up to `limit`; returns how many. 0: the
    /// endpoint is gone. Nothing is lost when the future is dropped.
    pub async fn recv_many(&mut self, events: &mut Vec<LinkEvent>, limit: usize) -> usize {
        let count = self.receiver.recv_many(&mut self.batch, limit).await;
        self.room.give_back(self.batch.iter().map(|queued| queued.permits).sum());
        events.extend(self.batch.drain(..).map(|queued| queued.event));
        count
    }
}

impl Drop for LinkEvents {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            write(&inner.state).subscribers.remove(&self.channel, self.id);
        }
        self.room.permits.close(); // links that wait for it go on
    }
}

impl std::fmt::Debug for LinkEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkEvents").field("channel", &self.channel).finish_non_exhaustive()
    }
}
