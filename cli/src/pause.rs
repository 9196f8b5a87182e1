//! Stops a node's process (SIGSTOP), at a moment at which it keeps nobody from writing to the store.

use std::time::Duration;

use anyhow::{Result, bail};
use callsign::open_store;
use rustix::process::Signal;

use crate::{child::OwnedChild, fenced::FencedCommits};

/// Below it, nothing keeps a commit waiting.
const HELD_UP: Duration = Duration::from_millis(700);
/// How long a process that was caught in the middle of a commit goes on before it is stopped again.
const CHECK_EVERY: Duration = Duration::from_millis(2);

/// Stops all threads of a process, and says when by `now`, read just before. A process that is stopped within a commit to
/// `SQLite` holds the file's lock; so it is tried again until a commit under `scratch` goes through.
pub(crate) fn pause(child: &OwnedChild, store: &str, scratch: &str, now: impl Fn() -> u64) -> Result<u64> {
    let store = open_store(store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for _ in 0..20 {
        let at = now();
        child.signal(Signal::STOP)?;
        let commits = async {
            let commits = FencedCommits::begin(store.clone(), scratch).await?;
            commits.remove().await
        };
        let committed = runtime.block_on(async { tokio::time::timeout(HELD_UP, commits).await });
        if matches!(committed, Ok(Ok(()))) {
            return Ok(at);
        }
        child.signal(Signal::CONT)?;
        std::thread::sleep(CHECK_EVERY);
    }
    bail!("it always was writing to the store")
}

/// Has a process that was stopped go on.
pub(crate) fn go_on(child: &OwnedChild) -> Result<()> {
    child.signal(Signal::CONT)
}
