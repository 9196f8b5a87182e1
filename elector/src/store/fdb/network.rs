//! The client library's network thread: one in a process, started once, never again.
#![allow(unsafe_code)] // the library cannot be started without, and has to be stopped

use std::sync::{
    Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use foundationdb::{
    FdbResult,
    api::{FdbApiBuilder, NetworkAutoStop},
};

static RUNNING: Mutex<Option<NetworkAutoStop>> = Mutex::new(None);

static IS_LEFT: AtomicBool = AtomicBool::new(false);

/// Says that the application starts the network of the `foundationdb` crate, and stops it. For one that uses
/// `FoundationDB` itself: a second start panics. To be called before the first store is opened.
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
    let network = FdbApiBuilder::default().build()?;
    // SAFETY: it has to be stopped before the process ends. `stop` does, at every end that runs anything at all; one
    // that runs nothing (a signal, `abort`) is no danger.
    let network = unsafe { network.boot() }?;
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(network);
    // SAFETY: the function does not unwind, and the library's own globals, which were made before, are destroyed after it.
    if unsafe { libc::atexit(stop) } != 0 {
        tracing::warn!("FoundationDB's network thread will not be stopped when the process ends");
    }
    Ok(())
}

extern "C" fn stop() {
    // Stopped and waited for.
    drop(RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take());
}
