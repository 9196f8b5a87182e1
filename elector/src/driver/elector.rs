//! Carries out what an [`Elector`](crate::elector::Elector) asks for.
//!
//! Decides nothing: it turns answers of the store, watches and wake-ups into inputs. A rule of the protocol found here is in
//! the wrong place.

use std::{fmt, sync::Arc};

use callsign_store::{
    Clock, CommitOutcome, OPERATION_TIMEOUT, SharedStore, StoreError, supervision::Supervisor,
};
use futures::future::select_all;
use tokio::task::JoinHandle;

use crate::core::elector::{Effect, Input, Notice};

/// What an elector has under way: a request to the store, a watch, and when to wake it. One of each at most, as a new one
/// replaces the one before it. Dropped, it ends them; a commit that was under way may still land.
pub struct UnderWay {
    store: SharedStore,
    clock: Clock,
    supervisor: Supervisor,
    tell: Arc<dyn Fn(Input) + Send + Sync>,
    operation: Option<Task>,
    watch: Option<Task>,
    timer: Option<Task>,
}

/// A task that is aborted when it is replaced or dropped.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay").finish_non_exhaustive()
    }
}

impl UnderWay {
    /// Nothing yet. The elector is told by `tell`, which must not block; a panic in it ends the node of the supervisor.
    pub fn new(
        store: SharedStore,
        clock: Clock,
        supervisor: Supervisor,
        tell: impl Fn(Input) + Send + Sync + 'static,
    ) -> Self {
        let tell = Arc::new(tell);
        Self { store, clock, supervisor, tell, operation: None, watch: None, timer: None }
    }

    fn task(&self, part: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.supervisor.task(part, work))
    }

    /// Carries out one effect. Nothing is done about what the elector only says.
    pub fn carry_out(&mut self, effect: Effect) {
        let tell = Arc::clone(&self.tell);
        match effect {
            Effect::Read { id, reads } => {
                let read = self.store.read(reads);
                self.operation = Some(self.task("a request of an elector to the store", async move {
                    let result = tokio::time::timeout(OPERATION_TIMEOUT, read).await;
                    let result = result.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer".into())));
                    tell(Input::ReadDone { id, result });
                }));
            }
            Effect::Commit { id, transaction } => {
                let commit = self.store.commit(transaction);
                self.operation = Some(self.task("a request of an elector to the store", async move {
                    let outcome = tokio::time::timeout(OPERATION_TIMEOUT, commit).await;
                    let outcome = outcome.unwrap_or(CommitOutcome::Unknown);
                    tell(Input::CommitDone { id, outcome });
                }));
            }
            Effect::Watch { keys, since } => {
                let watches: Vec<_> = keys.into_iter().map(|key| self.store.watch(key, since)).collect();
                self.watch = Some(self.task("a watch of an elector", async move {
                    // A watch that cannot be had is made up for by the poll, which asks for another.
                    let ended = select_all(watches).await.0;
                    tell(Input::Notice(if ended.is_ok() { Notice::Changed } else { Notice::WatchFailed }));
                }));
            }
            Effect::WakeAt(at) => {
                let clock = self.clock.clone();
                self.timer = Some(self.task("the timer of an elector", async move {
                    clock.sleep_until(at).await;
                    tell(Input::Wake);
                }));
            }
            Effect::Emit(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
