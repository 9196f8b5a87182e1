//! One registration after the other while something happens, and a thread beside it that sees the machine's own pauses.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use callsign_store::lock::lock;
use tokio::task::JoinHandle;

use super::{Node, registrations::register_at_last};
use crate::{
    commands::bench::orders::Probed,
    measure::{micros, now_ns},
};

/// How long the thread sleeps. One that spins would take a processor from what is measured.
const NAP: Duration = Duration::from_micros(100);

/// What goes on until it is asked for.
#[derive(Default)]
pub(super) struct Probe {
    running: Mutex<Option<Running>>,
}

struct Running {
    is_over: Arc<AtomicBool>,
    registering: JoinHandle<Result<(u32, u64)>>,
    napping: thread::JoinHandle<u64>,
}

/// Begins to register one name after the other, until [`end`].
pub(super) fn begin(node: &Node, prefix: String) -> Result<()> {
    let mut running = lock(&node.probe.running);
    if running.is_some() {
        bail!("names are registered already");
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let (of, over) = (node.clone(), is_over.clone());
    let registering = tokio::spawn(async move {
        let (mut registrations, mut longest) = (0, 0);
        while !over.load(Ordering::SeqCst) {
            let begin = now_ns();
            let acknowledged = register_at_last(&of, &format!("{prefix}{registrations}")).await?;
            longest = longest.max(acknowledged - begin);
            registrations += 1;
        }
        Ok((registrations, longest))
    });
    let over = is_over.clone();
    let napping = thread::spawn(move || {
        let nap = u64::try_from(NAP.as_nanos()).unwrap_or(u64::MAX);
        let mut longest = 0;
        while !over.load(Ordering::SeqCst) {
            let begin = now_ns();
            thread::sleep(NAP);
            longest = longest.max((now_ns() - begin).saturating_sub(nap));
        }
        longest
    });
    *running = Some(Running { is_over, registering, napping });
    Ok(())
}

/// What was seen.
pub(super) async fn end(node: &Node) -> Result<Probed> {
    let running = lock(&node.probe.running).take();
    let Running { is_over, registering, napping } = running.context("no names are registered")?;
    is_over.store(true, Ordering::SeqCst);
    let (registrations, longest_wait) = registering.await??;
    let Ok(longest_gap) = napping.join() else { bail!("the thread beside has panicked") };
    Ok(Probed { registrations, longest_wait_us: micros(longest_wait), longest_gap_us: micros(longest_gap) })
}
