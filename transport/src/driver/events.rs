//! What readers of channels see of links, in its order.

use std::sync::{Arc, Weak};

use callsign_store::lock::write;
use tokio::sync::{Semaphore, mpsc};

use crate::driver::{
    inner::Inner,
    subscribers::{LinkEvent, Room, RoomTaken, Sink},
};

/// The most room of a reader in KiB: less than a `Semaphore` has on any machine.
const MOST_ROOM: u32 = 1 << 28;

/// Somebody hears of all events of one channel. Dropping it ends that.
#[derive(Debug)]
pub struct Subscription {
    channel: String,
    /// `None` where nothing will come any more.
    id: Option<u64>,
    inner: Weak<Inner>,
    room: Arc<Room>,
}

impl Subscription {
    pub(crate) fn new(inner: &Arc<Inner>, channel: &str, sink: Arc<Sink>) -> Self {
        let capacity = u32::try_from(inner.config.limits.inbox >> 10).unwrap_or(u32::MAX).min(MOST_ROOM);
        let permits = Semaphore::new(usize::try_from(capacity).unwrap_or_default());
        let room = Arc::new(Room { permits, capacity });
        let id = {
            let mut state = write(&inner.state);
            for (link, peer) in state.links.up() {
                let Some(permits) = inner.handles.get(&link).map(|handle| handle.permits.clone()) else {
                    continue;
                };
                sink(LinkEvent::Up { peer: peer.clone(), link, permits }, RoomTaken::none(&room));
            }
            // Under the same lock, so that what comes after these is all of what comes after these.
            (!inner.is_over()).then(|| state.subscribers.add(channel, sink, room.clone()))
        };
        Self { channel: channel.to_owned(), id, inner: Arc::downgrade(inner), room }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some((inner, id)) = self.inner.upgrade().zip(self.id) {
            let removed = write(&inner.state).subscribers.remove(&self.channel, id);
            drop(removed);
        }
        self.room.permits.close(); // links that wait for it go on
    }
}

/// What waits for the reader of a stream.
type Queued = (LinkEvent, RoomTaken);

/// The ordered stream of one channel. Dropping it ends the subscription.
pub struct LinkEvents {
    subscription: Subscription,
    receiver: mpsc::UnboundedReceiver<Queued>,
    batch: Vec<Queued>,
}

impl LinkEvents {
    pub(crate) fn new(inner: &Arc<Inner>, channel: &str) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let sink = move |event, room| drop(sender.send((event, room))); // its reader may be going
        Self { subscription: Subscription::new(inner, channel, Arc::new(sink)), receiver, batch: Vec::new() }
    }

    /// Waits for the next event. `None`: the endpoint is gone. Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<LinkEvent> {
        let (event, _room) = self.receiver.recv().await?;
        Some(event)
    }

    /// Waits for at least one event, then appends as many as there are, up to `limit`; returns how many. 0: the
    /// endpoint is gone. Nothing is lost when the future is dropped.
    pub async fn recv_many(&mut self, events: &mut Vec<LinkEvent>, limit: usize) -> usize {
        let count = self.receiver.recv_many(&mut self.batch, limit).await;
        events.extend(self.batch.drain(..).map(|(event, _room)| event));
        count
    }
}

impl std::fmt::Debug for LinkEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkEvents").field("channel", &self.subscription.channel).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{Endpoint, EndpointConfig, Lane, MemoryNetwork, Network};

    /// Room that a reader has, and what is free of it.
    fn room(events: &LinkEvents) -> (u32, usize) {
        let room = &events.subscription.room;
        (room.capacity, room.permits.available_permits())
    }

    /// Looks at its endpoint as it is dropped, as what an application hands to a node may.
    struct Looks(Endpoint);

    impl Drop for Looks {
        fn drop(&mut self) {
            assert_eq!(self.0.link_to("b"), None);
        }
    }

    #[tokio::test]
    async fn what_a_subscription_owns_may_call_the_endpoint_as_it_is_dropped() {
        let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
        config.network = Network::Memory(MemoryNetwork::new());
        let endpoint = Endpoint::start(config).await.unwrap();
        let subscribe = || {
            let looks = Looks(endpoint.clone());
            endpoint.subscribe_with("names", move |_, _| _ = &looks)
        };
        drop(subscribe());
        let _ended_by_the_endpoint = subscribe();
        endpoint.leave().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_has_its_room_until_it_is_read_and_news_of_links_need_none() {
        let network = MemoryNetwork::new();
        let start = |node: &'static str| {
            let mut config = EndpointConfig::new("prod", node, 1, "127.0.0.1:0".parse().unwrap());
            config.network = Network::Memory(network.clone());
            config.limits.inbox = 5 << 10;
            Endpoint::start(config)
        };
        let (a, b) = (start("a").await.unwrap(), start("b").await.unwrap());
        let mut early = a.subscribe("names");
        b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        assert!(matches!(early.recv().await, Some(LinkEvent::Up { .. })));
        let mut late = a.subscribe("names");
        assert!(matches!(late.recv().await, Some(LinkEvent::Up { .. })));
        let (to_a, _) = b.link_to("a").unwrap();
        b.send(to_a, Lane::Control, "names", vec![0; 2 << 10].into()).unwrap();
        let arrives = async {
            while [room(&early), room(&late)] != [(5, 2); 2] {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), arrives).await.expect("it takes its room");
        assert!(matches!(early.recv().await, Some(LinkEvent::Message { .. })));
        let mut batch = Vec::new();
        assert_eq!(late.recv_many(&mut batch, 10).await, 1);
        b.leave().await;
        assert!(matches!(early.recv().await, Some(LinkEvent::Down { .. })));
        assert_eq!(late.recv_many(&mut batch, 10).await, 1);
        assert_eq!([room(&early), room(&late)], [(5, 5); 2]);
        // Nothing is kept for a reader that is gone.
        let kept = early.subscription.room.clone();
        drop(early);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
