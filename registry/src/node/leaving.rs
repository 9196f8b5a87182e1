//! How a node leaves: its registries drain together, then their names go, then the session, then the links.
#![allow(clippy::disallowed_methods)] // a driver

use std::{sync::atomic::Ordering, time::Duration};

use futures::future::{BoxFuture, join_all};

use super::{Node, lock};
use crate::{
    actor::Shared,
    error::LeaveError,
    input::Drained,
    input::{Answer, Call},
};

/// How long a node waits for what it asked before to be decided, and for the others to have heard that it leaves.
const SAY: Duration = Duration::from_secs(1);

/// How long a node that leaves waits for the store.
pub(super) const CLOSE: Duration = Duration::from_secs(5);

/// Ends something that is to end before the names do. `None`: it has ended.
pub(crate) type Ending = Box<dyn Fn() -> Option<BoxFuture<'static, ()>> + Send + Sync>;

impl Node {
    /// Has something end when the node begins to drain. False: it has begun, and that will not be asked.
    pub(crate) fn end_with(&self, ending: Ending) -> bool {
        let mut endings = lock(&self.endings);
        // Under the lock: whoever begins to drain takes all, or this sees that it has.
        if self.is_draining.load(Ordering::SeqCst) {
            return false;
        }
        endings.push(ending);
        true
    }

    /// Whether the node has begun to leave.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// No new names are registered from here on; what runs on exactly one node ends here, and every seat is handed over.
    pub(crate) async fn drain(&self) -> Drained {
        self.is_draining.store(true, Ordering::SeqCst);
        let wait = self.config.drain_timeout;
        let registries: Vec<_> = lock(&self.joined).values().map(|joined| joined.shared.clone()).collect();
        let endings: Vec<_> = lock(&self.endings).iter().filter_map(|end| end()).collect();
        let drained = join_all(registries.iter().map(|shared| drain(shared, wait)));
        let (drained, _) = futures::join!(drained, join_all(endings));
        drained.into_iter().max().unwrap_or(Drained::Left)
    }

    /// Drains, leaves every registry, closes the session, says goodbye.
    pub(crate) async fn leave(&self) -> Result<(), LeaveError> {
        // One at a time: whoever comes second must not close the session while the names are still being dropped.
        let _turn = self.leaves.lock().await;
        self.drain().await;
        let registries: Vec<_> = lock(&self.joined).values().map(|joined| joined.shared.clone()).collect();
        join_all(registries.iter().map(|shared| leave(shared))).await;
        let closed = tokio::time::timeout(CLOSE, self.session.leave()).await;
        // Taken only now: if the caller gives up before, the next call finds them all.
        let joined = std::mem::take(&mut *lock(&self.joined));
        if let Some(failure) = self.supervisor.failure() {
            // What closes it ends after some seconds, whatever the store does.
            let _ = self.closed.clone().wait_for(|closed| *closed).await;
            return Err(LeaveError::Failed(failure));
        }
        // From here on everything may end.
        self.supervisor.end();
        for joined in joined.into_values() {
            joined.stop.stop("the node leaves");
        }
        self.endpoint.leave().await;
        match closed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(LeaveError::StoreUnavailable(error.to_string())),
            Err(_) => Err(LeaveError::StoreUnavailable(format!("no answer within {CLOSE:?}"))),
        }
    }
}

async fn drain(shared: &Shared, wait: Duration) -> Drained {
    match shared.call(Call::Drain, wait).await {
        Some(Answer::Drained(drained)) => drained,
        _ => Drained::Left,
    }
}

async fn leave(shared: &Shared) {
    let left = shared.left.notified();
    let told = shared.call(Call::Leave, SAY).await;
    // The member has its elector say so in the queue while the session is open, so that nobody has to find out. A node that
    // cannot say it is found closed.
    if told.is_some() {
        let _ = tokio::time::timeout(SAY, left).await;
    }
}
