//! Readers of watches, which count what changes.

use std::{
    mem::take,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result};
use callsign::{Select, WatchEvent};
use tokio::task::JoinHandle;

use super::Node;
use crate::{commands::bench::orders::Names, measure::now_ns};

/// What the readers of a node have seen.
#[derive(Default)]
pub(super) struct Seen {
    /// By each reader.
    counts: Mutex<Vec<Arc<AtomicU64>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    /// How often one was too slow, or had to begin anew.
    gaps: Arc<AtomicU64>,
    /// When each name came, if that is wanted.
    moments: Arc<Mutex<Vec<u64>>>,
}

impl Seen {
    fn counts(&self) -> Vec<Arc<AtomicU64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn moments(&self) -> Vec<u64> {
        take(&mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Begins so many watches of all names, each with a reader.
pub(super) fn watch(node: &Node, readers: u32) -> Result<()> {
    for _ in 0..readers {
        let (mut watch, count) = (node.registry.watch(Select::all())?, Arc::new(AtomicU64::new(0)));
        node.seen.counts.lock().unwrap_or_else(PoisonError::into_inner).push(count.clone());
        let gaps = node.seen.gaps.clone();
        let reader = tokio::spawn(async move {
            while let Some(event) = watch.next().await {
                match event {
                    WatchEvent::Change(_) => _ = count.fetch_add(1, Ordering::Relaxed),
                    WatchEvent::Lagged | WatchEvent::Reset => _ = gaps.fetch_add(1, Ordering::Relaxed),
                    _ => {}
                }
            }
        });
        node.seen.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }
    Ok(())
}

/// Closes these watches: each is gone with its reader.
pub(super) async fn unwatch(node: &Node) {
    let readers = take(&mut *node.seen.readers.lock().unwrap_or_else(PoisonError::into_inner));
    node.seen.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    for reader in readers {
        reader.abort();
        // It says that it was aborted.
        _ = reader.await;
    }
}

/// Waits until each reader has seen so many changes.
pub(super) async fn watched(node: &Node, changes: u64) -> Result<()> {
    let counts = node.seen.counts();
    let fewest = || counts.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(changes);
    let seen = node.until(|| fewest() >= changes, "changes").await;
    seen.with_context(|| {
        let gaps = node.seen.gaps.load(Ordering::Relaxed);
        format!("a reader has seen {} of {changes} changes; readers had {gaps} gaps", fewest())
    })
}

/// Begins a watch that notes when each name comes.
pub(super) fn note(node: &Node, prefix: &str) -> Result<()> {
    let (mut watch, moments) = (node.registry.watch(Select::prefix(prefix))?, node.seen.moments.clone());
    tokio::spawn(async move {
        while let Some(event) = watch.next().await {
            if let WatchEvent::Change(_) = event {
                moments.lock().unwrap_or_else(PoisonError::into_inner).push(now_ns());
            }
        }
    });
    Ok(())
}

/// The moments at which so many names came, in their order.
pub(super) async fn noted(node: &Node, count: usize) -> Result<Vec<u64>> {
    let has_all = || node.seen.moments.lock().unwrap_or_else(PoisonError::into_inner).len() >= count;
    node.until(has_all, "names that are watched").await?;
    Ok(node.seen.moments())
}

/// Registers one name after the other. Returns the moments at which they were acknowledged.
pub(super) async fn acknowledged(node: &Node, names: Names) -> Result<Vec<u64>> {
    let mut moments = Vec::new();
    for number in names.from..names.to {
        node.registry.register(&names.name(number), &node.actor).await?;
        moments.push(now_ns());
    }
    Ok(moments)
}
