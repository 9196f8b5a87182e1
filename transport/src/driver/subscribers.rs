//! Who reads what of which channel, and the room that each has.
//!
//! Messages wait in a bounded room; `Up` and `Down` always find a place, so that a reader who sleeps on one channel
//! never holds up what the others learn of links.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use callsign_store::logged;
use tokio::sync::Semaphore;

use crate::{
    core::{
        peer::{LinkId, PeerId},
        permits::Permits,
    },
    error::DownReason,
};

/// What a channel's reader sees. For each link: `Up`, its messages, `Down`; and that before the next link's `Up` to the
/// same node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link is up.
    Up {
        /// The other end.
        peer: PeerId,
        /// The link.
        link: LinkId,
        /// What the peer may do, by the certificate that it showed.
        permits: Permits,
    },
    /// A message of the channel came.
    Message {
        /// The other end.
        peer: PeerId,
        /// The link.
        link: LinkId,
        /// What was sent.
        body: Bytes,
    },
    /// The link is down; nothing more comes of it.
    Down {
        /// The other end.
        peer: PeerId,
        /// The link.
        link: LinkId,
        /// Why.
        reason: DownReason,
    },
}

/// What is done with each event. It is called where the event happens, and must not wait.
pub(crate) type Sink = dyn Fn(LinkEvent, RoomTaken) + Send + Sync;

/// The room that a message takes of its reader's. Drop it when the message has been dealt with.
#[derive(Debug)]
pub struct RoomTaken {
    room: Arc<Room>,
    permits: u32,
}

impl RoomTaken {
    /// Of news of a link, which need none.
    pub(crate) fn none(room: &Arc<Room>) -> Self {
        Self { room: room.clone(), permits: 0 }
    }
}

impl Drop for RoomTaken {
    fn drop(&mut self) {
        self.room.give_back(self.permits);
    }
}

/// Room for messages that wait, in KiB; each takes one more than its body.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) permits: Semaphore,
    pub(crate) capacity: u32,
}

impl Room {
    fn cost(&self, body: usize) -> u32 {
        u32::try_from(body >> 10).unwrap_or(u32::MAX).saturating_add(1).min(self.capacity)
    }

    /// Waits for room for a message, which is taken then, or until the reader is gone.
    pub(crate) async fn wait(&self, body: usize) {
        if let Ok(permit) = self.permits.acquire_many(self.cost(body)).await {
            permit.forget();
        }
    }

    /// Gives back the room for a message that was not delivered after all.
    pub(crate) fn give_up(&self, body: usize) {
        self.give_back(self.cost(body));
    }

    fn give_back(&self, permits: u32) {
        self.permits.add_permits(usize::try_from(permits).unwrap_or_default());
    }
}

pub(crate) struct Subscriber {
    id: u64,
    sink: Arc<Sink>,
    room: Arc<Room>,
}

/// Everybody who reads.
#[derive(Default)]
pub(crate) struct Subscribers {
    by_channel: BTreeMap<String, Vec<Subscriber>>,
    last: u64,
}

/// How far a message got that has several readers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The last reader that has it.
    served: u64,
    /// The reader that has made room for it.
    granted: Option<u64>,
}

/// A reader whose room is full.
pub(crate) struct Full {
    id: u64,
    pub(crate) room: Arc<Room>,
}

impl Progress {
    /// The full reader has made room, or is gone.
    pub(crate) fn grant(&mut self, full: &Full) {
        self.granted = Some(full.id);
    }
}

impl Subscribers {
    pub(crate) fn add(&mut self, channel: &str, sink: Arc<Sink>, room: Arc<Room>) -> u64 {
        self.last += 1;
        let subscriber = Subscriber { id: self.last, sink, room };
        self.by_channel.entry(channel.to_owned()).or_default().push(subscriber);
        self.last
    }

    /// Returns the reader that is no more. Drop it outside of locks: what it owns may call this endpoint as it is dropped.
    pub(crate) fn remove(&mut self, channel: &str, id: u64) -> Option<Subscriber> {
        let readers = self.by_channel.get_mut(channel)?;
        let at = readers.iter().position(|reader| reader.id == id)?;
        let removed = readers.remove(at);
        if readers.is_empty() {
            self.by_channel.remove(channel);
        }
        Some(removed)
    }

    /// Tells everybody; never waits.
    pub(crate) fn tell_all(&self, event: &LinkEvent) {
        for reader in self.by_channel.values().flatten() {
            (reader.sink)(event.clone(), RoomTaken::none(&reader.room));
        }
    }

    /// Gives a message to the channel's readers, from where `progress` left off. Stops at a full one.
    pub(crate) fn offer(
        &self,
        channel: &str,
        body: &Bytes,
        from: (&PeerId, LinkId),
        progress: &mut Progress,
    ) -> Option<Full> {
        let Some(readers) = self.by_channel.get(channel) else {
            logged!(debug, %channel, peer = %from.0, "nobody reads this channel, message dropped");
            return None;
        };
        let served = progress.served;
        for reader in readers.iter().filter(|reader| reader.id > served) {
            let permits = reader.room.cost(body.len());
            if progress.granted.take() != Some(reader.id) {
                match reader.room.permits.try_acquire_many(permits) {
                    Ok(permit) => permit.forget(),
                    Err(_) => return Some(Full { id: reader.id, room: reader.room.clone() }),
                }
            }
            let event = LinkEvent::Message { peer: from.0.clone(), link: from.1, body: body.clone() };
            (reader.sink)(event, RoomTaken { room: reader.room.clone(), permits });
            progress.served = reader.id;
        }
        None
    }

    /// Ends all streams, after what is in them. Drop what it returns outside of locks.
    pub(crate) fn take_all(&mut self) -> Self {
        Self { by_channel: std::mem::take(&mut self.by_channel), last: self.last }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn room(capacity: u32) -> Arc<Room> {
        Arc::new(Room { permits: Semaphore::new(usize::try_from(capacity).unwrap()), capacity })
    }

    #[tokio::test]
    async fn a_message_takes_what_it_has_and_a_kib_more_and_at_most_all_the_room() {
        let room = room(10);
        for (body, cost) in [(0, 1), (1023, 1), (1024, 2), (2048, 3), (9 << 10, 10), (10 << 10, 10)] {
            assert_eq!(room.cost(body), cost, "{body} bytes");
        }
        room.wait(3 << 10).await;
        assert_eq!(room.permits.available_permits(), 6);
        room.give_up(3 << 10);
        assert_eq!(room.permits.available_permits(), 10);
    }

    #[test]
    fn a_reader_that_is_gone_is_told_nothing_and_nothing_is_kept_of_it() {
        let mut all = Subscribers::default();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let sink = Arc::new(move |event, taken: RoomTaken| sender.send((event, taken.permits)).unwrap());
        let [first, second] = [(); 2].map(|()| all.add("names", sink.clone(), room(10)));
        drop(all.remove("names", first));
        let event =
            LinkEvent::Down { peer: PeerId::new("a", 1), link: LinkId(1), reason: DownReason::Closed };
        all.tell_all(&event);
        let told = receiver.try_recv().unwrap();
        assert_eq!(told, (event, 0));
        assert!(receiver.try_recv().is_err(), "only who is left is told");
        drop(all.remove("names", second));
        assert!(all.by_channel.is_empty());
    }
}
