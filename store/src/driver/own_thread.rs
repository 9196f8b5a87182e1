//! The thread of a store that is reached over a network, with a runtime in which its connections are kept: they outlive whichever
//! runtime asks.

use std::future::Future;

use tokio::sync::oneshot;

use super::supervision::Supervisor;
use crate::error::{OpenError, StoreError};

/// What a caller is told when such a thread has ended: it panicked, which is a bug, and the message of the panic is in the log.
const GONE: &str = "the store's thread has ended";

/// Ends when this is dropped.
pub(super) struct OwnThread {
    _stop: oneshot::Sender<()>,
}

impl OwnThread {
    /// Starts a thread that opens the store at `url`, by `open`, and then runs what that has started. Blocks until `open` has ended.
    pub(super) fn start<T, F>(
        name: &str,
        url: &str,
        open: impl FnOnce() -> F + Send + 'static,
    ) -> Result<(Self, T), OpenError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, OpenError>>,
    {
        let unreachable = |cause: String| OpenError::Unreachable { url: url.to_owned(), cause };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (opened, answer) = std::sync::mpsc::channel();
        let run = move || {
            runtime.block_on(async move {
                // Nobody waits any more only if the caller panicked.
                let _ = opened.send(open().await);
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        thread.map_err(|error| unreachable(error.to_string()))?;
        let started = answer.recv().map_err(|_| unreachable(GONE.to_owned()))??;
        Ok((Self { _stop: stop }, started))
    }
}

/// Runs work on such a thread, by its supervisor; `None` if the thread ended before the work did.
pub(super) async fn run<T: Send + 'static>(
    supervisor: &Supervisor,
    what: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    supervisor.task(what, async move {
        // Whoever asked may have given up; the work is done nevertheless.
        let _ = reply.send(work.await);
    });
    answer.await.ok()
}

/// What a read is told whose thread has ended.
pub(super) fn thread_is_gone() -> StoreError {
    StoreError::Unavailable(GONE.to_owned())
}
