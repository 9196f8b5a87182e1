//! One registration after the other while something happens, and a thread beside it that sees the machine's own pauses.

use std::{
    collections::VecDeque,
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
    measure::{micros, now_ns, quantile},
};

/// How long the thread sleeps. One that spins would take a processor from what is measured.
const NAP: Duration = Duration::from_micros(100);

/// So many waits are kept, and the earliest of more are not: 8 MB.
const KEPT: usize = 1_000_000;

/// What goes on until it is asked for.
#[derive(Default)]
pub(super) struct Probe {
    running: Mutex<Option<Running>>,
}

struct Running {
    is_over: Arc<AtomicBool>,
    registering: JoinHandle<Result<Waits>>,
    napping: thread::JoinHandle<u64>,
}

/// How long registrations took, in nanoseconds.
#[derive(Default)]
struct Waits {
    registrations: u32,
    longest: u64,
    kept: VecDeque<u64>,
}

impl Waits {
    fn add(&mut self, wait: u64) {
        self.registrations += 1;
        self.longest = self.longest.max(wait);
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(wait);
    }

    /// The wait in microseconds that only one of ten thousand exceeds: the longest of a few thousand. It is 0 if there was
    /// none.
    fn p9999_us(&self) -> f64 {
        let mut waits: Vec<f64> = self.kept.iter().copied().map(micros).collect();
        quantile(&mut waits, 0.9999).unwrap_or_default()
    }
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
        let mut waits = Waits::default();
        while !over.load(Ordering::SeqCst) {
            let begin = now_ns();
            let acknowledged = register_at_last(&of, &format!("{prefix}{}", waits.registrations)).await?;
            waits.add(acknowledged - begin);
        }
        Ok(waits)
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
    let waits = registering.await??;
    let Ok(longest_gap) = napping.join() else { bail!("the thread beside has panicked") };
    Ok(Probed {
        registrations: waits.registrations,
        longest_wait_us: micros(waits.longest),
        wait_p9999_us: waits.p9999_us(),
        longest_gap_us: micros(longest_gap),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_of_ten_thousand_may_be_longer_and_of_few_none() {
        let mut waits = Waits::default();
        for wait in (1..20_000).chain([90_000_000]) {
            waits.add(wait * 1000);
        }
        assert_eq!((waits.registrations, waits.longest), (20_000, 90_000_000_000));
        assert_eq!(Some(waits.p9999_us()), Some(19_998.0));
        let mut few = Waits::default();
        assert_eq!(Some(few.p9999_us()), Some(0.0), "none waited");
        for wait in [1000, 3000, 2000] {
            few.add(wait);
        }
        assert_eq!(Some(few.p9999_us()), Some(3.0), "the longest of few");
    }

    #[test]
    fn no_more_waits_are_kept_than_may_be_and_the_longest_is_known_all_the_same() {
        let mut waits = Waits::default();
        waits.add(7000);
        for _ in 0..KEPT {
            waits.add(1000);
        }
        assert_eq!((waits.kept.len(), waits.longest), (KEPT, 7000));
        assert_eq!(Some(waits.p9999_us()), Some(1.0), "the earliest is not kept");
    }
}
