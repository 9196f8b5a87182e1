//! Watches.
//!
//! The client keeps a watch until the key's value is another than it was at the version at which the transaction that
//! made the watch reads. That version is the caller's: so a change between the caller's read and the watch is seen.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use foundationdb::FdbResult;
use futures::{FutureExt, future::BoxFuture};

use super::{OPERATION_TIMEOUT, Shared, WATCHES, read, trouble, version};
use crate::{
    core::transaction::{Value, Version},
    error::StoreError,
};

/// One of the watches that there may be.
struct WatchPlace<'a>(&'a AtomicUsize);

impl<'a> WatchPlace<'a> {
    fn take(taken: &'a AtomicUsize) -> Option<Self> {
        let place = Self(taken);
        // Given back as it is dropped, if it is one too many.
        (taken.fetch_add(1, Ordering::SeqCst) < WATCHES).then_some(place)
    }
}

impl Drop for WatchPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) async fn watch(shared: &Shared, key: &[u8], since: Version) -> Result<(), StoreError> {
    let Some(_place) = WatchPlace::take(&shared.watches) else {
        return Err(StoreError::Unavailable(format!("there are {WATCHES} watches already")));
    };
    let mut at = Some(version::pin(since));
    // What the key is known to have been.
    let mut known = None;
    let mut deadline = Instant::now() + OPERATION_TIMEOUT;
    loop {
        let error = match arm(shared, key, at, deadline).await {
            Ok((value, _)) if known.as_ref().is_some_and(|known| *known != value) => return Ok(()),
            Ok((value, changed)) => match changed.await {
                Ok(()) => return Ok(()),
                // Too many in the server, for example. Made again, at a later version, and the value looked at.
                Err(error) => {
                    (known, at) = (Some(value), None);
                    deadline = Instant::now() + OPERATION_TIMEOUT;
                    error
                }
            },
            // Nobody knows what it was then: whoever watches looks again.
            Err(error) if trouble::is_too_old(error) => return Ok(()),
            // The cluster is gone for longer than anybody should wait for an answer. For a change one may wait.
            Err(error) if known.is_some() && trouble::is_timeout(error) => {
                deadline = Instant::now() + OPERATION_TIMEOUT;
                continue;
            }
            Err(error) => error,
        };
        shared.pause(error, deadline).await.map_err(StoreError::Unavailable)?;
    }
}

/// The value at a version, the latest if none is given, and a watch for another value.
async fn arm(
    shared: &Shared,
    key: &[u8],
    at: Option<i64>,
    deadline: Instant,
) -> FdbResult<(Option<Value>, BoxFuture<'static, FdbResult<()>>)> {
    let begun = shared.begin(deadline)?;
    if let Some(version) = at {
        begun.set_read_version(version);
    }
    let changed = begun.watch(key).boxed();
    let value = read::value(&begun, key).await?;
    // From here on it outlives the transaction.
    begun.commit().await?;
    Ok((value, changed))
}
