//! Campaigns over a lease, under virtual time. In memory only: other stores take real time.

use std::{sync::Arc, time::Duration};

use callsign_store::{Clock, SharedStore, ids::ElectionName, memory::MemoryStore};

use super::{
    beds::{LEASE, cluster},
    people::id,
};
use crate::{
    Abort, Campaign, CampaignSettings, ElectionConfig, Fence, Grant, LeaseOptions, LeaseOracle, Lost, Policy,
    Role, driver::campaign::Phase, tests::Idle,
};

/// A role that never gets going.
struct Fails;

impl Role<Fence> for Fails {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        Err(Abort("as the test wants".to_owned()))
    }

    async fn deactivate(&mut self, _: Lost, _: Duration) {}
}

/// While it rests, it must be silent for so long that it does not count as alive, or nobody else may lead.
#[tokio::test(start_paused = true)]
async fn g10_e8_a_best_candidate_whose_role_always_fails_leaves_most_of_the_time_to_the_next() {
    let (store, clock) = (MemoryStore::new(), Clock::runtime());
    let config = ElectionConfig::new(Policy::ranked(), LEASE);
    let part = |member: &str, priority: u32| {
        let store: SharedStore = Arc::new(store.connect(member));
        let (config, own) = (Some(config.clone()), clock.clone());
        let options = LeaseOptions { config, priority, clock: own, ..LeaseOptions::default() };
        let settings = CampaignSettings::new(ElectionName::new("e").unwrap(), id(member));
        let settings = CampaignSettings { clock: clock.clone(), seed: priority.into(), ..settings };
        (LeaseOracle::new(store, &cluster(), options), settings)
    };
    let (oracle, settings) = part("best", 9);
    let best = Campaign::start(oracle, Fails, settings).await.unwrap().running().unwrap();
    let (oracle, settings) = part("next", 1);
    let next = Campaign::start(oracle, Idle, settings).await.unwrap().running().unwrap();
    // Each second of ten minutes, by the paused clock.
    let (mut led, mut seconds) = (0, tokio::time::interval(Duration::from_secs(1)));
    for _ in 0..600 {
        seconds.tick().await;
        led += u32::from(next.status().phase == Phase::Leading);
    }
    assert!(led > 300, "it led for {led} of 600 seconds");
    assert_eq!(best.status().lost, Some(Lost::RoleFailed), "it tried");
}
