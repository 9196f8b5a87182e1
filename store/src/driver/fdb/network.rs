//! The client library's network thread: one in a process, started once, never again.
#![allow(unsafe_code)] // the library cannot be started without, and has to be stopped

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Condvar, LazyLock, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use foundationdb::{
    FdbError, FdbResult,
    api::{FdbApiBuilder, NetworkStop},
};
use tokio::sync::watch;

use super::trouble;
use crate::driver::supervision::text;

/// How far the network's end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Wanted,
    Reached,
}

static END: Mutex<End> = Mutex::new(End::NotYet);
static MOVED: Condvar = Condvar::new();

/// How the network has ended though nobody had asked it to.
static BROKEN: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::channel(None).0);

static IS_LEFT: AtomicBool = AtomicBool::new(false);

/// Says that the application starts the network of the `foundationdb` crate, and stops it. For one that uses
/// `FoundationDB` itself: a second start panics. To be called before the first store is opened. Whether that network still runs
/// is then for the application to see: without it no store answers.
pub fn leave_network_to_application() {
    IS_LEFT.store(true, Ordering::SeqCst);
}

/// Starts it, the first time. What failed then fails always: the library cannot be started twice.
pub(super) fn boot() -> FdbResult<()> {
    static BOOTED: OnceLock<FdbResult<()>> = OnceLock::new();
    *BOOTED.get_or_init(start)
}

fn start() -> FdbResult<()> {
    if IS_LEFT.load(Ordering::SeqCst) {
        return Ok(());
    }
    // As `client_invalid_operation`.
    let refused = || FdbError::from_code(2000);
    let (runner, started) = FdbApiBuilder::default().build()?.build()?;
    let run = move || {
        // SAFETY: it has to be stopped before the process ends. `stop` does, at every end that runs anything at all; one
        // that runs nothing (a signal, `abort`) is no danger.
        has_ended(catch_unwind(AssertUnwindSafe(|| unsafe { runner.run() })));
    };
    let Ok(running) = thread::Builder::new().name("fdb-network".to_owned()).spawn(run) else {
        crate::logged!(warn, "FoundationDB's network thread was not started: the system refuses a thread");
        return Err(refused());
    };
    let network = Network { stop: Some(started.wait()), running: Some(running) };
    // The library uses its thread's own values when it is stopped. When a process ends, those of the thread that ends it
    // are gone before anybody is called: so it is done by a thread that was kept for it.
    let keeper = thread::Builder::new().name("fdb-stop".to_owned()).spawn(move || keep(network));
    if keeper.is_err() {
        crate::logged!(
            warn,
            "FoundationDB's network thread was stopped at once: the system refuses a thread"
        );
        // What was to be kept running is stopped, with its keeper.
        return Err(refused());
    }
    stop_at_exit();
    Ok(())
}

/// Nothing is answered any more, by any store of this process. Its nodes have to know, unless the process ends.
fn has_ended(how: thread::Result<FdbResult<()>>) {
    if *END.lock().unwrap_or_else(PoisonError::into_inner) != End::NotYet {
        return;
    }
    let how = match how {
        Ok(Ok(())) => "ended, and nobody had asked it to".to_owned(),
        Ok(Err(error)) => format!("failed: {}", trouble::in_words(error)),
        Err(panic) => format!("panicked: {}", text(&*panic)),
    };
    BROKEN.send_replace(Some(format!("the network thread of FoundationDB's client {how}")));
}

/// Waits until the network has ended though nobody had asked it to, and says how.
pub(super) async fn broken() -> String {
    let mut broken = BROKEN.subscribe();
    let said = broken.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
    said.unwrap_or_default() // it fails only without a sender, which is static
}

/// The network, which runs. Dropped, it is stopped and waited for.
struct Network {
    stop: Option<NetworkStop>,
    running: Option<JoinHandle<()>>,
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.stop.take().map(NetworkStop::stop) {
            crate::logged!(error, "FoundationDB's network cannot be stopped: {}", trouble::in_words(error));
            // Destroyed under the thread that uses it, the library may do anything.
            std::process::abort();
        }
        if let Some(running) = self.running.take() {
            let _ = running.join(); // it panics nowhere but where that is caught
        }
    }
}

/// Has it stopped at the end of the process, before anything is destroyed that the library has made so far.
///
/// What is made last is destroyed first, and the library makes much of what it uses only when it is first used: so this
/// is said again whenever a cluster was opened, or was not.
pub(super) fn stop_at_exit() {
    if IS_LEFT.load(Ordering::SeqCst) {
        return;
    }
    // SAFETY: the function does not unwind, and may be called more than once.
    if unsafe { libc::atexit(stop) } != 0 {
        crate::logged!(warn, "FoundationDB's network thread will not be stopped when the process ends");
    }
}

/// Keeps the network running until its end is wanted. Dropped, it is stopped and waited for.
fn keep(network: Network) {
    let mut end = END.lock().unwrap_or_else(PoisonError::into_inner);
    while *end != End::Wanted {
        end = MOVED.wait(end).unwrap_or_else(PoisonError::into_inner);
    }
    drop(network);
    *end = End::Reached;
    MOVED.notify_all();
    drop(end);
    // Its own values must not be destroyed while the process destroys the library's globals.
    loop {
        thread::park();
    }
}

extern "C" fn stop() {
    let mut end = END.lock().unwrap_or_else(PoisonError::into_inner);
    if *end == End::NotYet {
        *end = End::Wanted;
        MOVED.notify_all();
    }
    while *end != End::Reached {
        end = MOVED.wait(end).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_network_that_ends_unasked_breaks_every_store_of_the_process() {
        has_ended(Err(Box::new("on request")));
        let said = tokio::time::timeout(Duration::from_secs(60), broken()).await.expect("it is said");
        assert_eq!(said, "the network thread of FoundationDB's client panicked: on request");
    }
}
