//! When the reader has to look at the watched keys: what it and whoever commits tell each other, without a lock.
//!
//! Compiled twice: with the primitives of the standard library, and in tests with those of `loom`, which tries every order
//! in which threads can meet here.

use super::sync::{AtomicBool, AtomicUsize, Ordering};

#[derive(Default)]
pub(super) struct LookState {
    is_asked: AtomicBool,
    /// How many watches wait, or are about to.
    watches: AtomicUsize,
    /// Nobody tells what other processes commit.
    is_deaf: AtomicBool,
}

impl LookState {
    /// Something was committed. True if the reader is to be asked for a look: somebody watches, and nobody has asked yet.
    #[must_use]
    pub(super) fn is_wanted(&self) -> bool {
        self.watches.load(Ordering::SeqCst) > 0 && !self.is_asked.swap(true, Ordering::SeqCst)
    }

    /// The reader was asked, and is about to look: whoever commits from now on asks for another.
    pub(super) fn taken(&self) {
        self.is_asked.store(false, Ordering::SeqCst);
    }

    /// Reads the key of a watch that will be one of so many. It is counted before: a commit that the reading does not see
    /// then asks for a look.
    pub(super) fn counted<T>(&self, watches: usize, read: impl FnOnce() -> T) -> T {
        self.watch(watches);
        read()
    }

    /// So many watches wait.
    pub(super) fn watch(&self, watches: usize) {
        self.watches.store(watches, Ordering::SeqCst);
    }

    /// Nothing is notified any more. Says whether it was before.
    pub(super) fn look_slowly(&self) -> bool {
        !self.is_deaf.swap(true, Ordering::SeqCst)
    }

    /// Whether nothing is notified.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::SeqCst)
    }
}
