//! A node whose store is on a file system without room.
#![allow(clippy::disallowed_methods)] // real time, and real files

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use callsign_elector::{
    forward_to_store,
    store::{
        CommitOutcome, SharedStore, Store, Transaction,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use callsign_transport::{MemoryNetwork, Network};
use futures::{FutureExt, future::BoxFuture};

use crate::{
    Config, Registry,
    driver_tests::{Cluster, SOON, counter},
};

/// A file system of its own, in memory; gone with this.
struct Small(tempfile::TempDir);

impl Small {
    /// `None`, and a line that says why, where it cannot be mounted.
    fn mount(kibibytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={kibibytes}k");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        match mount {
            Ok(done) if done.status.success() => Some(Self(directory)),
            Ok(done) => {
                println!(
                    "skipped: no tmpfs can be mounted: {}",
                    String::from_utf8_lossy(&done.stderr).trim()
                );
                None
            }
            Err(error) => {
                println!("skipped: no tmpfs can be mounted: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until there is no room.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut filler = std::fs::File::create(&path).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Counts the commits that are not done.
#[derive(Debug)]
struct Counting {
    store: SqliteStore,
    failed: Arc<AtomicU64>,
}

impl Store for Counting {
    forward_to_store!(store: read watch nature);

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let (commit, failed) = (self.store.commit(transaction), self.failed.clone());
        async move {
            let outcome = commit.await;
            if !matches!(outcome, CommitOutcome::Committed(_)) {
                failed.fetch_add(1, Ordering::SeqCst);
            }
            outcome
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_on_a_full_disk_waits_between_commits_and_serves_when_there_is_room_again() {
    let Some(disk) = Small::mount(4096) else { return };
    let failed = Arc::new(AtomicU64::new(0));
    let store = SqliteStore::open(&disk.path().join("callsign.db"), SqliteOptions::default()).unwrap();
    let store: SharedStore = Arc::new(Counting { store, failed: failed.clone() });
    let network = Network::Memory(MemoryNetwork::new());
    let config = Config::new("a", store).listen(Cluster::address("a")).network(network);
    let registry = Registry::join(config).await.unwrap();
    assert!(registry.ready(SOON).await, "{:?}", registry.status());
    registry.register("before", &counter().await).await.unwrap();

    let filler = disk.fill();
    let actor = counter().await;
    let asked = registry.register("meanwhile", &actor);
    let outcome = tokio::time::timeout(Duration::from_secs(1), asked).await;
    // The caller waits no more, and the store is asked now and then.
    assert!(outcome.is_err() || outcome.is_ok_and(|done| done.is_err()), "it is full");
    failed.store(0, Ordering::SeqCst);
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (failed, took) = (failed.load(Ordering::SeqCst), begun.elapsed().as_secs_f64());
    // The leader's, the session's and the elector's together.
    assert!(failed > 0, "no commit failed: the disk is not full");
    assert!(f64::from(u32::try_from(failed).unwrap()) < 20.0 * took, "{failed} commits failed in {took} s");

    std::fs::remove_file(filler).unwrap();
    let granted = async {
        while registry.register("after", &actor).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, granted).await.expect("it serves again");
    registry.leave().await.unwrap();
}
