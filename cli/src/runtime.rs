//! The runtime of a command that is a node, or takes part in an election.

use std::time::Duration;

use anyhow::Result;

/// Runs a command to its end, by so many threads. Without a number: by one for each core.
pub(crate) fn run<T>(threads: Option<usize>, command: impl Future<Output = Result<T>>) -> Result<T> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(command);
    // What still runs has nothing to say any more.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}
