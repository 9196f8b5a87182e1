//! One registration after the other, and bare commits to the same store in between.

use anyhow::{Context, Result, bail};
use callsign::{SharedStore, open_store};
use callsign_elector::store::{CommitOutcome, Transaction, Version};

use super::Node;
use crate::{
    commands::bench::orders::{Names, Sequential},
    measure::{now_ns, quantile, rounded},
};

/// About as many bytes as a batch with one registration has.
const ENTRY: usize = 150;

/// Measures in pairs, so that both see the same machine.
pub(super) async fn measure(node: &Node, names: Names, store: &str) -> Result<Sequential> {
    let mut commits = BareCommits::begin(open_store(store)?, &names.prefix).await?;
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
    let of = |samples: &mut [f64], share| quantile(samples, share).map(rounded).context("no samples");
    Ok(Sequential {
        register_p50: of(&mut register, 0.5)?,
        register_p99: of(&mut register, 0.99)?,
        commit_p50: of(&mut commit, 0.5)?,
    })
}

#[expect(clippy::cast_precision_loss)] // of a sample, not of a date
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Commits of the same form as a leader's batches: two checks, a log entry, and the new end.
struct BareCommits {
    store: SharedStore,
    prefix: String,
    end: u64,
    at: Version,
}

impl BareCommits {
    async fn begin(store: SharedStore, prefix: &str) -> Result<Self> {
        let prefix = format!("callsign-bench/{prefix}");
        let mut commits = Self { store, prefix, end: 0, at: Version(0) };
        let begin = Transaction::new()
            .put(commits.key("term"), b"term".to_vec())
            .put(commits.key("commit"), 0_u64.to_be_bytes().to_vec());
        commits.at = commits.run(begin).await?;
        Ok(commits)
    }

    fn key(&self, key: &str) -> Vec<u8> {
        format!("{}/{key}", self.prefix).into_bytes()
    }

    async fn commit(&mut self) -> Result<()> {
        let end = self.end + 1;
        let transaction = Transaction::new()
            .fence(self.key("term"), Some(b"term".to_vec()), self.at)
            .fence(self.key("commit"), Some(self.end.to_be_bytes().to_vec()), self.at)
            .put(self.key(&format!("log/{end:016x}")), vec![7; ENTRY])
            .put(self.key("commit"), end.to_be_bytes().to_vec());
        self.at = self.run(transaction).await?;
        self.end = end;
        Ok(())
    }

    async fn run(&self, transaction: Transaction) -> Result<Version> {
        match self.store.commit(transaction).await {
            CommitOutcome::Committed(version) => Ok(version),
            other => bail!("a bare commit ended as {other:?}"),
        }
    }
}
