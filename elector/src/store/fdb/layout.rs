//! Which layout the keys of a cluster have. It says also how writers see each other: see `fence`.

use super::{FdbStore, OpenError};
use crate::{
    keys::read_key,
    store::{CommitOutcome, Store, StoreError, Transaction},
};

/// Beside the keys of the registries, which begin with `callsign/`.
const KEY: &[u8] = b"callsign.layout";
const LAYOUT: i32 = 1;

/// Notes the layout if none is noted, and refuses another one.
pub(super) fn prepare(store: &FdbStore) -> Result<(), OpenError> {
    // On a thread of its own: this one may be inside an executor, which minds being blocked by another.
    let noted = std::thread::scope(|scope| {
        let asked = scope.spawn(|| futures::executor::block_on(note(store)));
        asked
            .join()
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the attempt to open it panicked".to_owned())))
    });
    let url = store.describe();
    match noted {
        Ok(LAYOUT) => Ok(()),
        Ok(found) => Err(OpenError::WrongSchema { url, found, expected: LAYOUT }),
        Err(StoreError::Unavailable(cause)) => Err(OpenError::Unreachable { url, cause }),
    }
}

async fn note(store: &FdbStore) -> Result<i32, StoreError> {
    loop {
        let read = store.read(vec![read_key(KEY.to_vec())]).await?;
        if let Some(noted) = read.value(0) {
            // What cannot be read is none of ours.
            return Ok(std::str::from_utf8(noted).ok().and_then(|noted| noted.parse().ok()).unwrap_or(-1));
        }
        let note = Transaction::new().check(KEY.to_vec(), None).put(KEY.to_vec(), LAYOUT.to_string().into());
        match store.commit(note).await {
            // Somebody was first, perhaps ourselves.
            CommitOutcome::Committed(_) | CommitOutcome::Conflict | CommitOutcome::Unknown => {}
            CommitOutcome::Unavailable(why) => return Err(StoreError::Unavailable(why)),
            CommitOutcome::TooLarge(broken) => return Err(StoreError::Unavailable(broken.to_string())),
        }
    }
}
