//! Actors that are started for a name, where nobody has it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use callsign::{Started, open_store};
use tokio::task::JoinSet;

use super::Node;
use crate::{
    commands::bench::orders::{Names, Starts},
    echo,
    fenced::FencedCommits,
    measure::{micros, now_ns, quantile, rounded},
};

/// Starts a name, and counts the actor that was spawned for it. Whether it is this node's.
async fn start(node: &Node, name: &str, spawned: &Arc<AtomicU32>) -> Result<bool> {
    let (of, spawned) = (node.name.clone(), spawned.clone());
    let started = node.registry.start(name, move |_| async move {
        spawned.fetch_add(1, Ordering::SeqCst);
        Ok(echo::spawn(&of).await?)
    });
    Ok(matches!(started.await?, Started::Ours(_)))
}

/// Starts one name after the other, and commits twice to the same store in between. Returns the medians in microseconds.
pub(super) async fn one_by_one(node: &Node, names: Names, store: &str) -> Result<[f64; 2]> {
    let mut commits =
        FencedCommits::begin(open_store(store)?, format!("callsign-bench/{}", names.prefix)).await?;
    let (mut starts, mut floors) = (Vec::new(), Vec::new());
    let spawned = Arc::default();
    for number in names.from..names.to {
        let begin = now_ns();
        start(node, &names.name(number), &spawned).await?;
        let between = now_ns();
        commits.commit().await?;
        commits.commit().await?;
        starts.push(micros(between - begin));
        floors.push(micros(now_ns() - between));
    }
    commits.remove().await?;
    let median = |samples: &mut [f64]| quantile(samples, 0.5).map(rounded).context("no samples");
    Ok([median(&mut starts)?, median(&mut floors)?])
}

/// So many callers at once start each of the names.
pub(super) async fn together(node: &Node, names: Names, callers: u32) -> Result<Starts> {
    let (spawned, names) = (Arc::new(AtomicU32::new(0)), Arc::new(names));
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (node, names, spawned) = (node.clone(), names.clone(), spawned.clone());
        tasks.spawn(async move {
            let mut ours = 0;
            for number in names.from..names.to {
                ours += u32::from(start(&node, &names.name(number), &spawned).await?);
            }
            anyhow::Ok(ours)
        });
    }
    let mut ours = 0;
    for of_task in tasks.join_all().await {
        ours += of_task?;
    }
    Ok(Starts { spawned: spawned.load(Ordering::SeqCst), ours })
}
