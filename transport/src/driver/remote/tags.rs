//! The tags of the message types that this process has used, so that an error can name a kind instead of giving its number.
//!
//! Only the number of a kind travels. A tag is known where a type of it is used: when an actor is exported, an address resolved, a
//! name started or received. There are as many entries as the program has such types.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

static TAGS: RwLock<BTreeMap<u64, &'static str>> = RwLock::new(BTreeMap::new());

/// A type of this kind is used now.
pub(super) fn used(kind: u64, tag: &'static str) {
    if of(kind).is_none() {
        // Nothing panics under this lock, and of two tags with one number the first stays.
        TAGS.write().unwrap_or_else(PoisonError::into_inner).entry(kind).or_insert(tag);
    }
}

/// The tag of a kind, if this process has used a type of it.
pub(super) fn of(kind: u64) -> Option<&'static str> {
    TAGS.read().unwrap_or_else(PoisonError::into_inner).get(&kind).copied()
}
