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

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    inputs: Mutex<Vec<Input>>,
    is_kicked: AtomicBool,
    has_room: Notify,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Vec<Input>> {
        // Nothing panics under this lock: it only moves values.
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one input. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn push(&self, input: Input) -> bool {
        self.lock().push(input);
        !self.is_kicked.swap(true, Ordering::AcqRel)
    }

    /// Adds inputs that a link delivered. True if the actor has to be woken.
    #[must_use]
    pub(crate) fn extend(&self, inputs: impl IntoIterator<Item = Input>) -> bool {
        self.lock().extend(inputs);
        !self.is_kicked.swap(true, Ordering::AcqRel)
    }

    /// Waits while too much waits.
    pub(crate) async fn room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if self.lock().len() < LINK_LIMIT {
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
        taken
    }
}
