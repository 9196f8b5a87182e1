//! Readers of watches, which count names.

use std::{
    collections::HashSet,
    mem::take,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result};
use callsign::{Name, Select, WatchEvent};
use tokio::task::JoinHandle;

use super::Node;
use crate::{commands::bench::orders, measure::now_ns};

/// The names that a watch has told of, each of which is registered once.
#[derive(Debug)]
struct ToldNames {
    /// While the present state is given: some may change meanwhile, and be told of twice.
    present: Option<HashSet<Name>>,
    /// How many there are, since it was complete.
    changed: u64,
}

impl Default for ToldNames {
    fn default() -> Self {
        Self { present: Some(HashSet::new()), changed: 0 }
    }
}

impl ToldNames {
    fn take(&mut self, event: WatchEvent) {
        match (event, &mut self.present) {
            (WatchEvent::Present { name, .. }, Some(present)) => _ = present.insert(name),
            (WatchEvent::Change(change), Some(present)) => _ = present.insert(change.name.clone()),
            (WatchEvent::Change(_), None) => self.changed += 1,
            (WatchEvent::Current { .. }, Some(present)) => {
                (self.changed, self.present) = (present.len() as u64, None);
            }
            (WatchEvent::Reset, _) => *self = Self::default(),
            _ => {}
        }
    }

    fn count(&self) -> u64 {
        self.present.as_ref().map_or(self.changed, |present| present.len() as u64)
    }
}

/// What the readers of a node have seen.
#[derive(Default)]
pub(super) struct SeenByReaders {
    /// By each reader.
    counts: Mutex<Vec<Arc<AtomicU64>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    /// How often one was too slow, or had to begin anew.
    gaps: Arc<AtomicU64>,
    /// When each name came, if that is wanted.
    moments: Arc<Mutex<Vec<u64>>>,
}

impl SeenByReaders {
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
            let mut names = ToldNames::default();
            while let Some(event) = watch.next().await {
                if let WatchEvent::Lagged | WatchEvent::Reset = event {
                    gaps.fetch_add(1, Ordering::Relaxed);
                }
                names.take(event);
                count.store(names.count(), Ordering::Relaxed);
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

/// Waits until each reader has been told of so many names. Returns how often one was too slow, or had to begin anew.
pub(super) async fn watched(node: &Node, names: u64) -> Result<u64> {
    let counts = node.seen.counts();
    let fewest = || counts.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(names);
    let gaps = || node.seen.gaps.load(Ordering::Relaxed);
    let seen = node.until(|| fewest() >= names, "names that are watched").await;
    let lacks = || format!("a reader was told of {} of {names} names; readers had {} gaps", fewest(), gaps());
    seen.with_context(lacks)?;
    Ok(gaps())
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
pub(super) async fn acknowledged(node: &Node, names: orders::Names) -> Result<Vec<u64>> {
    let mut moments = Vec::new();
    for number in names.from..names.to {
        node.registry.register(&names.name(number), &node.actor).await?;
        moments.push(now_ns());
    }
    Ok(moments)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use callsign::{Config, Registry, SharedStore};
    use callsign_store::memory::MemoryStore;
    use tokio::time::timeout;

    use super::*;
    use crate::echo;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn each_name_is_counted_once_whenever_the_watch_began_and_however_slow_its_reader_is() {
        const NAMES: u64 = 60;
        let store = Arc::new(MemoryStore::new()) as SharedStore;
        // One change may wait, and what is missed takes few bytes.
        let config = Config::new("a", store).watch_room(2).watch_memory(1000);
        let registry = Registry::join(config).await.unwrap();
        let actor = echo::spawn("a").await.unwrap();
        let (mut kinds, mut counted) = ([0; 3], Vec::new());
        let mut watches = Vec::new();
        for number in 0..NAMES {
            if number % 20 == 0 {
                watches.push((registry.watch(Select::all()).unwrap(), ToldNames::default()));
            }
            registry.register(&format!("n{number}"), &actor).await.unwrap();
            // The first one reads now and then, the others at the end.
            let (watch, names) = &mut watches[0];
            if number % 3 == 0 {
                names.take(watch.next().await.unwrap());
            }
        }
        for (mut watch, mut names) in watches {
            while names.count() < NAMES {
                let event = timeout(DEADLINE, watch.next()).await.expect("all names come").unwrap();
                kinds[0] += u32::from(matches!(event, WatchEvent::Present { .. }));
                kinds[1] += u32::from(matches!(event, WatchEvent::Change(_)));
                kinds[2] += u32::from(matches!(event, WatchEvent::Reset));
                names.take(event);
            }
            counted.push(names.count());
        }
        assert_eq!(counted, [NAMES; 3]);
        assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    }
}
