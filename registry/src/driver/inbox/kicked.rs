//! What many put in and one takes, all of it at once; and when that one has to be woken.
//!
//! Compiled twice: with the primitives of the standard library, and in tests with those of `loom`, which tries every order
//! in which threads can meet here.

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Kicked<T> {
    waiting: Mutex<T>,
    is_kicked: AtomicBool,
}

impl<T> Kicked<T> {
    /// What waits.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        // Nothing panics under this lock: it only moves values.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in. True if the one who takes has to be woken.
    #[must_use]
    pub(super) fn put(&self, put: impl FnOnce(&mut T)) -> bool {
        put(&mut self.lock());
        !self.is_kicked.swap(true, Ordering::AcqRel)
    }

    /// Takes all that waits, and leaves this in its place: nothing, as a rule, with room for as much again.
    pub(super) fn take(&self, nothing: T) -> T {
        // First the flag: who puts something in after the taking wakes again.
        self.is_kicked.store(false, Ordering::Release);
        std::mem::replace(&mut *self.lock(), nothing)
    }
}
