//! One registration after the other, and bare commits to the same store and turns of the runtime in between.

use anyhow::{Context, Result};
use callsign::open_store;

use super::Node;
use crate::{
    commands::bench::orders::{Names, Sequential},
    fenced::FencedCommits,
    measure::{micros, now_ns, quantile, rounded},
};

/// Measures in turns, so that all see the same machine.
pub(super) async fn measure(node: &Node, names: Names, store: &str) -> Result<Sequential> {
    let mut commits =
        FencedCommits::begin(open_store(store)?, format!("callsign-bench/{}", names.prefix)).await?;
    let (mut register, mut commit, mut turn) = (Vec::new(), Vec::new(), Vec::new());
    for number in names.from..names.to {
        let name = names.name(number);
        let start = now_ns();
        node.registry.register(&name, &node.actor).await?;
        let between = now_ns();
        commits.commit().await?;
        let committed = now_ns();
        // Behind everything in this process that waits for its turn already.
        tokio::task::yield_now().await;
        register.push(micros(between - start));
        commit.push(micros(committed - between));
        turn.push(micros(now_ns() - committed));
    }
    commits.remove().await?;
    let of = |samples: &mut [f64], share| quantile(samples, share).map(rounded).context("no samples");
    Ok(Sequential {
        register_p50: of(&mut register, 0.5)?,
        register_p99: of(&mut register, 0.99)?,
        commit_p50: of(&mut commit, 0.5)?,
        turn_p50: of(&mut turn, 0.5)?,
    })
}
