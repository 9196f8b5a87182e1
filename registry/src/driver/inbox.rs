//! What waits for a member: many push, its actor takes all of it at once.
//!
//! One wake-up of the actor takes all inputs that came meanwhile, so that one batch, one commit and one message
//! carry them.

use tokio::sync::Notify;

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

/// How many inputs may wait before the links are not read any more. Calls are bounded by the host.
const LINK_LIMIT: usize = 16_384;

/// How many bytes of messages may, as they came. Each link's reader has at most an inbox of its own more.
const BYTE_LIMIT: usize = 16 << 20;

#[derive(Debug, Default)]
struct Waiting {
    /// Actors that have ended.
    ended: Vec<u64>,
    inputs: Vec<Told>,
    /// Of what links delivered.
    bytes: usize,
}

impl Waiting {
    fn has_room(&self) -> bool {
        self.inputs.len() < LINK_LIMIT && self.bytes < BYTE_LIMIT
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Kicked<Waiting>,
    has_room: Notify,
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

    /// Adds inputs that links delivered in so many bytes. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn extend(&self, inputs: Vec<Told>, bytes: usize) -> bool {
        self.waiting.put(|waiting| {
            waiting.inputs.extend(inputs);
            waiting.bytes += bytes;
        })
    }

    /// Waits while too much waits.
    pub(crate) async fn room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if self.waiting.lock().has_room() {
                return;
            }
            has_room.await;
        }
    }

    /// Whether nothing waits but calls of this process.
    pub(crate) fn has_calls_only(&self) -> bool {
        let waiting = self.waiting.lock();
        let is_call = |told: &Told| matches!(told, Told::Member(Input::Call { .. }));
        waiting.ended.is_empty() && waiting.inputs.iter().all(is_call)
    }

    /// Takes all that waits.
    pub(crate) fn take(&self) -> Vec<Told> {
        let Waiting { ended, inputs, .. } = self.waiting.take();
        self.has_room.notify_waiters();
        if ended.is_empty() {
            return inputs;
        }
        let ended = ended.into_iter().map(|actor| Told::Member(Input::ActorEnded { actor }));
        ended.chain(inputs).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::core::{
        input::{Call, CallId},
        name::Name,
    };
    use futures::FutureExt;

    #[test]
    fn the_end_of_an_actor_goes_ahead_of_what_waits() {
        let inbox = Inbox::default();
        let wake = || Told::Member(Input::Wake);
        let idle = || Told::Member(Input::Idle);
        assert!(inbox.push(wake()), "somebody has to wake the member");
        assert!(!inbox.push_end(7) && !inbox.push(idle()) && !inbox.push_end(8));
        let ended = [7, 8].map(|actor| Told::Member(Input::ActorEnded { actor }));
        assert_eq!(inbox.take(), [ended.as_slice(), &[wake(), idle()]].concat());
        assert!(inbox.push_end(9) && inbox.take().len() == 1);
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
        let _ = inbox.take();
        calls(3);
        let _ = inbox.push_end(7);
        assert!(!inbox.has_calls_only());
    }

    #[tokio::test]
    async fn links_are_not_read_while_too_much_waits_and_are_once_it_is_taken() {
        let inbox = Arc::new(Inbox::default());
        for (inputs, bytes) in [(LINK_LIMIT, 0), (1, BYTE_LIMIT)] {
            inbox.room().now_or_never().expect("there is room");
            let _ = inbox.extend((0..inputs).map(|_| Told::Member(Input::Wake)).collect(), bytes);
            let waiter = inbox.clone();
            let waits = tokio::spawn(async move { waiter.room().await });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished() && inbox.room().now_or_never().is_none());
            assert_eq!(inbox.take().len(), inputs);
            waits.await.unwrap();
        }
    }
}
