//! What waits for a member: many push, its actor takes all of it at once.
//!
//! One wake-up of the actor takes all inputs that came meanwhile, so that one batch, one commit and one message
//! carry them.

use callsign_transport::RoomTaken;

use crate::core::{input::Input, registry::Told};

mod kicked;
#[cfg(test)]
mod raced;

mod sync {
    pub(super) use std::sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    };
}

use kicked::Kicked;

#[derive(Debug, Default)]
struct WaitingInputs {
    /// Actors that have ended.
    ended: Vec<u64>,
    inputs: Vec<Told>,
    /// Of what links delivered, and the room that it takes of what they may deliver.
    bytes: usize,
    rooms: Vec<RoomTaken>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Kicked<WaitingInputs>,
}

impl Inbox {
    /// Adds one input. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn push(&self, input: Told) -> bool {
        self.waiting.put(|waiting| waiting.inputs.push(input))
    }

    /// Adds that an actor has ended, ahead of everything that waits: whoever knows of the end may have asked for something
    /// since. True if the actor of the member has to be woken.
    #[must_use]
    pub(crate) fn push_end(&self, actor: u64) -> bool {
        self.waiting.put(|waiting| waiting.ended.push(actor))
    }

    /// Adds what a link delivered in so many bytes. Its room is free when it is taken. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn push_from_link(&self, input: Told, bytes: usize, room: RoomTaken) -> bool {
        self.waiting.put(|waiting| {
            waiting.inputs.push(input);
            waiting.bytes += bytes;
            waiting.rooms.push(room);
        })
    }

    /// Whether nothing waits but calls of this process.
    pub(crate) fn has_calls_only(&self) -> bool {
        let waiting = self.waiting.lock();
        let is_call = |told: &Told| matches!(told, Told::Member(Input::Call { .. }));
        waiting.ended.is_empty() && waiting.inputs.iter().all(is_call)
    }

    /// Takes all that waits, and says how many bytes links delivered of it. What comes next is put into `next`, which is empty.
    pub(crate) fn take(&self, next: Vec<Told>) -> (Vec<Told>, usize) {
        let nothing = WaitingInputs { inputs: next, ..WaitingInputs::default() };
        let WaitingInputs { ended, inputs, bytes, rooms } = self.waiting.take(nothing);
        drop(rooms);
        if ended.is_empty() {
            return (inputs, bytes);
        }
        let ended = ended.into_iter().map(|actor| Told::Member(Input::ActorEnded { actor }));
        (ended.chain(inputs).collect(), bytes)
    }

    /// Drops all that waits: nobody will take it.
    pub(crate) fn clear(&self) {
        drop(self.take(Vec::new()));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use callsign_transport::{Endpoint, EndpointConfig, Lane, LinkEvent, MemoryNetwork, Network};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::core::{
        input::{Call, CallId},
        name::Name,
    };

    #[test]
    fn the_end_of_an_actor_goes_ahead_of_what_waits() {
        let inbox = Inbox::default();
        let wake = || Told::Member(Input::Wake);
        let idle = || Told::Member(Input::Idle);
        assert!(inbox.push(wake()), "somebody has to wake the member");
        assert!(!inbox.push_end(7) && !inbox.push(idle()) && !inbox.push_end(8));
        let ended = [7, 8].map(|actor| Told::Member(Input::ActorEnded { actor }));
        assert_eq!(inbox.take(Vec::new()).0, [ended.as_slice(), &[wake(), idle()]].concat());
        assert!(inbox.push_end(9) && inbox.take(Vec::new()).0.len() == 1);
    }

    #[test]
    fn a_member_that_has_calls_only_is_told_from_one_for_which_there_is_more() {
        let inbox = Inbox::default();
        let calls = |n| {
            let call = Call::Unregister { name: Name::from("n") };
            let _ = inbox.push(Told::Member(Input::Call { id: CallId(n), call, wait: Duration::ZERO }));
        };
        calls(1);
        calls(2);
        assert!(inbox.has_calls_only());
        let _ = inbox.push(Told::Member(Input::Idle));
        assert!(!inbox.has_calls_only());
        let _ = inbox.take(Vec::new());
        calls(3);
        let _ = inbox.push_end(7);
        assert!(!inbox.has_calls_only());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_link_delivers_has_its_room_until_it_is_taken() {
        let network = MemoryNetwork::new();
        let start = |node: &'static str| {
            let mut config = EndpointConfig::new("prod", node, 1, "127.0.0.1:0".parse().unwrap());
            config.network = Network::Memory(network.clone());
            config.limits.inbox = 5 << 10;
            Endpoint::start(config)
        };
        let (a, b) = (start("a").await.unwrap(), start("b").await.unwrap());
        let inbox = Arc::new(Inbox::default());
        let takes = inbox.clone();
        let _subscription = a.subscribe_with("names", move |event, room| {
            if let LinkEvent::Message { body, .. } = event {
                let _ = takes.push_from_link(Told::Member(Input::Idle), body.len(), room);
            }
        });
        b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        let link = loop {
            match b.link_to("a") {
                Some((link, _)) => break link,
                None => sleep(Duration::from_millis(1)).await,
            }
        };
        // Each takes three of five KiB.
        for _ in 0..3 {
            b.send(link, Lane::Control, "names", vec![0; 2 << 10].into()).unwrap();
        }
        for _ in 0..3 {
            let waits = async {
                while inbox.waiting.lock().inputs.is_empty() {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(60), waits).await.expect("the next one is read");
            let (inputs, bytes) = inbox.take(Vec::new());
            assert_eq!((inputs.len(), bytes), (1, 2 << 10));
        }
    }
}
