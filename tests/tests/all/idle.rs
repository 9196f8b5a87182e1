//! What it costs to take part in an election in which nothing happens.
//!
//! `cargo test -p callsign-tests --test all idle -- --nocapture` prints it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use callsign_election::{
    Abort, Campaign, CampaignSettings, ElectionConfig, Fence, Grant, LeaseOptions, LeaseOracle, Lost, Policy,
    Role, Timing, campaign::Transition,
};
use callsign_store::{
    Clock, CommitOutcome, Read, ReadResult, SharedStore, Store, StoreError, Transaction,
    ids::{ClusterName, ElectionName, MemberId},
    memory::MemoryStore,
};
use futures::future::BoxFuture;

/// A store that counts what one member asks of it.
#[derive(Debug)]
struct Counting {
    store: SharedStore,
    reads: AtomicU64,
    commits: AtomicU64,
}

impl Counting {
    fn over(store: &SharedStore) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), reads: AtomicU64::new(0), commits: AtomicU64::new(0) })
    }

    /// Reads and commits so far.
    fn counted(&self) -> [u64; 2] {
        [self.reads.load(Relaxed), self.commits.load(Relaxed)]
    }
}

impl Store for Counting {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        self.reads.fetch_add(1, Relaxed);
        self.store.read(reads)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.commits.fetch_add(1, Relaxed);
        self.store.commit(transaction)
    }

    callsign_store::forward_to_store! { store: watch nature }
}

/// Work that is none.
struct Idle;

impl Role<Fence> for Idle {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        Ok(())
    }

    async fn deactivate(&mut self, _: Lost, _: Duration) {}
}

/// Takes part as `callsign run` does, with its defaults.
async fn take_part(store: Arc<Counting>, member: &str, timing: Timing) -> Campaign<LeaseOracle> {
    let clock = Clock::runtime();
    let options = LeaseOptions {
        config: Some(ElectionConfig::new(Policy::sticky(), timing.lease)),
        clock: clock.clone(),
        ..LeaseOptions::default()
    };
    let oracle = LeaseOracle::new(store, &ClusterName::new("default").unwrap(), options);
    let mut settings =
        CampaignSettings::new(ElectionName::new("program").unwrap(), MemberId::new(member).unwrap());
    settings = settings.with_timing(timing);
    settings.clock = clock;
    Campaign::start(oracle, Idle, settings).await.unwrap().running().unwrap()
}

/// What one waiting member and the holder ask of the store in a minute, each: reads and commits.
async fn per_minute(timing: Timing) -> [[f64; 2]; 2] {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let (leads, waits) = (Counting::over(&store), Counting::over(&store));
    let leader = take_part(leads.clone(), "a", timing).await;
    let mut transitions = leader.subscribe();
    while !matches!(transitions.next().await.unwrap(), Transition::Leading(_)) {}
    let follower = take_part(waits.clone(), "b", timing).await;
    // Both have settled.
    tokio::time::sleep(timing.lease * 3).await;
    let before = [leads.counted(), waits.counted()];
    let minutes = 60;
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
    let after = [leads.counted(), waits.counted()];
    assert!(leader.leadership().check().is_ok(), "the same one leads");
    assert!(follower.leadership().check().is_err());
    let mut rates = [[0.0; 2]; 2];
    for (member, rate) in rates.iter_mut().enumerate() {
        for (kind, rate) in rate.iter_mut().enumerate() {
            #[expect(clippy::cast_precision_loss)]
            let counted = (after[member][kind] - before[member][kind]) as f64;
            #[expect(clippy::cast_precision_loss)]
            let over = minutes as f64;
            *rate = counted / over;
        }
    }
    rates
}

/// `docs/figures.md` says so.
#[tokio::test(start_paused = true)]
async fn an_idle_member_costs_a_stated_number_of_statements() {
    let [[leader_reads, leader_commits], [reads, commits]] = per_minute(Timing::default()).await;
    println!(
        "a lease of 10 s, a poll of 2 s and up to 1 s of jitter; a minute of one idle member, over an hour:"
    );
    println!("  one that waits: {reads:.1} reads and {commits:.1} commits");
    println!("  the one that leads: {leader_reads:.1} reads and {leader_commits:.1} commits");
    assert!(reads + commits <= 60.0, "{reads} + {commits}");
    assert!(leader_reads + leader_commits <= 60.0, "{leader_reads} + {leader_commits}");
}
