//! What waits for a member: many push, its actor takes all of it at once.
//!
//! One wake-up of the actor takes all inputs that came meanwhile, so that one batch, one commit and one message
//! carry them.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use crate::input::Input;

/// How many inputs may wait before the links are not read any more. Calls are bounded by the host.
const LINK_LIMIT: usize = 16_384;

/// How many bytes of messages may, as they came. Each link's reader has at most an inbox of its own more.
const BYTE_LIMIT: usize = 16 << 20;

#[derive(Debug, Default)]
struct Waiting {
    inputs: Vec<Input>,
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
    waiting: Mutex<Waiting>,
    is_kicked: AtomicBool,
    has_room: Notify,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics under this lock: it only moves values.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one input. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn push(&self, input: Input) -> bool {
        self.lock().inputs.push(input);
        !self.is_kicked.swap(true, Ordering::AcqRel)
    }

    /// Adds inputs that links delivered in so many bytes. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn extend(&self, inputs: Vec<Input>, bytes: usize) -> bool {
        let mut waiting = self.lock();
        waiting.inputs.extend(inputs);
        waiting.bytes += bytes;
        drop(waiting);
        !self.is_kicked.swap(true, Ordering::AcqRel)
    }

    /// Waits while too much waits.
    pub(crate) async fn room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if self.lock().has_room() {
                return;
            }
            has_room.await;
        }
    }

    /// Takes all that waits.
    pub(crate) fn take(&self) -> Vec<Input> {
        // First the flag: who pushes after the taking wakes the actor again.
        self.is_kicked.store(false, Ordering::Release);
        let taken = std::mem::take(&mut *self.lock());
        self.has_room.notify_waiters();
        taken.inputs
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn links_are_not_read_while_too_much_waits_and_are_once_it_is_taken() {
        let inbox = Arc::new(Inbox::default());
        for (inputs, bytes) in [(LINK_LIMIT, 0), (1, BYTE_LIMIT)] {
            inbox.room().now_or_never().expect("there is room");
            let _ = inbox.extend((0..inputs).map(|_| Input::Wake).collect(), bytes);
            let waiter = inbox.clone();
            let waits = tokio::spawn(async move { waiter.room().await });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished() && inbox.room().now_or_never().is_none());
            assert_eq!(inbox.take().len(), inputs);
            waits.await.unwrap();
        }
    }
}
