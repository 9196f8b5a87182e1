//! Which layout the keys of a cluster have. It says also how writers see each other: see `fence`.

use std::time::Instant;

use super::{FdbStore, OPERATION_TIMEOUT, OpenError, trouble};
use crate::{
    contract::Store,
    core::{
        keys::read_key,
        transaction::{CommitOutcome, Transaction},
    },
    error::StoreError,
};

/// Beside the keys of the registries, which begin with `callsign/`.
const KEY: &[u8] = b"callsign.layout";
const LAYOUT: i32 = 1;

/// Notes the layout if none is noted, and refuses another one.
pub(super) fn prepare(store: &FdbStore) -> Result<(), OpenError> {
    let unreachable = |cause| OpenError::Unreachable { url: store.describe(), cause };
    // On a thread of its own: this one may be inside an executor, which minds being blocked by another.
    let noted = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            futures::executor::block_on(async {
                has_cluster_file(store).await?;
                note(store).await.map_err(|StoreError::Unavailable(cause)| unreachable(cause))
            })
        });
        asked.join().unwrap_or_else(|_| Err(unreachable("the attempt to open it panicked".to_owned())))
    });
    match noted? {
        LAYOUT => Ok(()),
        found => Err(OpenError::WrongSchema { url: store.describe(), found, expected: LAYOUT }),
    }
}

/// The client reads the cluster file only when it is first asked for something.
async fn has_cluster_file(store: &FdbStore) -> Result<(), OpenError> {
    let asked = async { store.shared.begin(Instant::now() + OPERATION_TIMEOUT)?.get_read_version().await };
    match asked.await {
        Err(error) if trouble::is_of_cluster_file(error) => {
            Err(OpenError::FoundationDbClient { url: store.describe(), cause: trouble::in_words(error) })
        }
        // Whether anybody answers is found out next.
        _ => Ok(()),
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
