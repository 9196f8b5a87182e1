//! What a commit says of the keys that it wrote, and who waits for it.

use tokio::sync::oneshot;

use crate::{
    core::transaction::{Key, Version, Write},
    error::StoreError,
};

/// The most keys that a notification names; beyond it says "any". The server takes 8000 bytes.
pub(super) const MOST_NAMED: usize = 100;

/// What a notification says of the written keys: a hash for each, or `*`.
pub(super) fn spelled(writes: &[Write]) -> String {
    let mut words = Vec::new();
    for write in writes {
        match write {
            Write::Put { key, .. } | Write::Clear(key) => words.push(word(key)),
            // The entry has a key that nobody can watch yet.
            Write::Append { prefix, .. } => words.push(word(prefix)),
            Write::ClearRange(_) => return "*".to_owned(),
        }
    }
    if words.len() > MOST_NAMED { "*".to_owned() } else { words.join(" ") }
}

/// FNV-1a. Two keys with one hash cost a look.
fn word(key: &[u8]) -> String {
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

/// Somebody who waits for a change of a key.
#[derive(Debug)]
pub(super) struct PostgresWatch {
    pub(super) key: Key,
    pub(super) word: String,
    /// The last version at which it is known not to have changed.
    pub(super) since: Version,
    pub(super) ended: oneshot::Sender<Result<(), StoreError>>,
    /// Whether a look has found it unchanged.
    pub(super) is_armed: bool,
}

impl PostgresWatch {
    pub(super) fn new(key: Key, since: Version, ended: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { word: word(&key), key, since, ended, is_armed: false }
    }
}

/// What the keeper of the watches is told.
#[derive(Debug)]
pub(super) enum Event {
    Watch(PostgresWatch),
    /// Commits are notified from now on.
    Listens,
    /// They are not.
    Disconnected,
    /// A commit wrote these keys.
    Notified(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::transaction::Transaction;

    /// Nodes of other versions listen, too: the words are part of the format.
    #[test]
    fn a_notification_names_a_hundred_keys_and_of_more_it_says_any() {
        let words = Transaction::new().put(b"a".to_vec(), vec![]).clear(b"foobar".to_vec());
        assert_eq!(spelled(&words.append(vec![], vec![]).writes), "e40c292c bf9cf968 811c9dc5");
        let clears = |count| vec![Write::Clear(b"a".to_vec()); count];
        assert_eq!(spelled(&clears(MOST_NAMED)).split(' ').count(), MOST_NAMED);
        assert_eq!(spelled(&clears(MOST_NAMED + 1)), "*");
        assert_eq!(spelled(&[Write::ClearRange(b"a".to_vec()..b"b".to_vec())]), "*");
    }
}
