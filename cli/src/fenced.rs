//! Bare fenced commits: what a store takes for one, with nothing of Callsign around it.

use anyhow::{Result, bail};
use callsign::SharedStore;
use callsign_store::{CommitOutcome, Key, Transaction, Version};

/// About as many bytes as a batch with one registration has.
const ENTRY: usize = 150;

/// Commits of the same form as a leader's batches: two checks, a log entry, and the new end. In a range of their own.
pub(crate) struct FencedCommits {
    store: SharedStore,
    prefix: String,
    end: u64,
    at: Version,
}

impl FencedCommits {
    /// Begins, under keys that start with `prefix/`.
    pub(crate) async fn begin(store: SharedStore, prefix: impl Into<String>) -> Result<Self> {
        let mut commits = Self { store, prefix: prefix.into(), end: 0, at: Version(0) };
        let begin = Transaction::new()
            .put(commits.key("term"), b"term".to_vec())
            .put(commits.key("commit"), 0_u64.to_be_bytes().to_vec());
        commits.at = done(commits.store.commit(begin).await)?;
        Ok(commits)
    }

    /// A key of the range.
    pub(crate) fn key(&self, key: &str) -> Key {
        format!("{}/{key}", self.prefix).into_bytes()
    }

    /// The version of the last commit.
    pub(crate) fn at(&self) -> Version {
        self.at
    }

    fn next(&self, from: u64, at: Version) -> Transaction {
        let end = from + 1;
        Transaction::new()
            .fence(self.key("term"), Some(b"term".to_vec()), at)
            .fence(self.key("commit"), Some(from.to_be_bytes().to_vec()), at)
            .put(self.key(&format!("log/{end:016x}")), vec![7; ENTRY])
            .put(self.key("commit"), end.to_be_bytes().to_vec())
    }

    /// Commits the next one.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.at = done(self.store.commit(self.next(self.end, self.at)).await)?;
        self.end += 1;
        Ok(())
    }

    /// Tries again what was committed already: what becomes of it.
    pub(crate) async fn commit_stale(&self) -> CommitOutcome {
        self.store.commit(self.next(self.end.saturating_sub(1), self.at)).await
    }

    /// Removes the range.
    pub(crate) async fn remove(&self) -> Result<()> {
        let range = self.key("")..format!("{}0", self.prefix).into_bytes();
        done(self.store.commit(Transaction::new().clear_range(range)).await).map(drop)
    }
}

fn done(outcome: CommitOutcome) -> Result<Version> {
    match outcome {
        CommitOutcome::Committed(version) => Ok(version),
        other => bail!("a bare commit was not acknowledged: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::{Read, memory::MemoryStore};

    use super::*;

    #[tokio::test]
    async fn a_stale_one_is_refused_and_nothing_is_left() {
        let store: SharedStore = std::sync::Arc::new(MemoryStore::new());
        let mut commits = FencedCommits::begin(store.clone(), "scratch/1").await.unwrap();
        commits.commit().await.unwrap();
        commits.commit().await.unwrap();
        assert_eq!(commits.commit_stale().await, CommitOutcome::Conflict);
        commits.remove().await.unwrap();
        let all = store.read(vec![Read::Range { range: vec![]..vec![0xff], limit: 10 }]).await.unwrap();
        assert!(all.entries(0).is_empty());
    }

    #[tokio::test]
    async fn one_is_refused_after_another_term_has_begun_and_other_ranges_stay() {
        let store: SharedStore = std::sync::Arc::new(MemoryStore::new());
        let mut commits = FencedCommits::begin(store.clone(), "scratch/1").await.unwrap();
        let other = FencedCommits::begin(store.clone(), "scratch/10").await.unwrap();
        let term = Transaction::new().put(commits.key("term"), b"another".to_vec());
        assert!(matches!(store.commit(term).await, CommitOutcome::Committed(_)));
        let refused = commits.commit().await.unwrap_err().to_string();
        assert!(refused.contains("was not acknowledged"), "{refused}");
        commits.remove().await.unwrap();
        let all = store.read(vec![Read::Range { range: vec![]..vec![0xff], limit: 10 }]).await.unwrap();
        let keys: Vec<_> = all.entries(0).iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, [other.key("commit"), other.key("term")]);
    }
}
