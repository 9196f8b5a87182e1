//! The client library's network thread: one in a process, started once, never again.
#![allow(unsafe_code)] // the library cannot be started without, and has to be stopped

use std::{
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use foundationdb::{
    FdbResult,
    api::{FdbApiBuilder, NetworkAutoStop},
};

/// How far the network's end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Wanted,
    Reached,
}

static END: Mutex<End> = Mutex::new(End::NotYet);
static MOVED: Condvar = Condvar::new();

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
    // The library uses its thread's own values when it is stopped. When a process ends, those of the thread that ends it
    // are gone before anybody is called: so it is done by a thread that was kept for it.
    let keeper = thread::Builder::new().name("fdb-stop".to_owned()).spawn(move || keep(network));
    if keeper.is_err() {
        tracing::warn!("FoundationDB's network thread was stopped at once: the system refuses a thread");
        // As `client_invalid_operation`: what was to be kept running is stopped, with its keeper.
        return Err(foundationdb::FdbError::from_code(2000));
    }
    stop_at_exit();
    Ok(())
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
        tracing::warn!("FoundationDB's network thread will not be stopped when the process ends");
    }
}

/// Keeps the network running until its end is wanted. Dropped, it is stopped and waited for.
fn keep(network: NetworkAutoStop) {
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
