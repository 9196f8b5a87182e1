//! One registration after the other, and bare commits to the same store in between.

use anyhow::{Context, Result};
use callsign::open_store;

use super::Node;
use crate::{
    commands::bench::orders::{Names, Sequential},
    fenced::FencedCommits,
    measure::{micros, now_ns, quantile, rounded},
};

/// Measures in pairs, so that both see the same machine.
pub(super) async fn measure(node: &Node, names: Names, store: &str) -> Result<Sequential> {
    let mut commits =
        FencedCommits::begin(open_store(store)?, format!("callsign-bench/{}", names.prefix)).await?;
    let (mut register, mut commit) = (Vec::new(), Vec::new());
    for number in names.from..names.to {
        let name = names.name(number);
        let start = now_ns();
        node.registry.register(&name, &node.actor).await?;
        let between = now_ns();
        commits.commit().await?;
        register.push(micros(between - start));
        commit.push(micros(now_ns() - between));
    }
    commits.remove().await?;
    let of = |samples: &mut [f64], share| quantile(samples, share).map(rounded).context("no samples");
    Ok(Sequential {
        register_p50: of(&mut register, 0.5)?,
        register_p99: of(&mut register, 0.99)?,
        commit_p50: of(&mut commit, 0.5)?,
    })
}
