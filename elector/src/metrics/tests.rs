#![allow(clippy::disallowed_methods)] // tests drive

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;
use crate::{
    Clock,
    election::{
        Abort, Campaign, Fence, Grant, LeaseOptions, LeaseOracle, Role, Settings, Timing, campaign::Phase,
    },
    ids::{ClusterName, Incarnation, MemberId, NodeName},
    session::{NodeSession, SessionConfig, SessionTiming},
    store::{SharedStore, memory::MemoryStore},
};

const LEASE: Duration = Duration::from_secs(10);

/// What was counted so far, as Prometheus is told it.
struct Seen(Vec<(String, String, f64)>);

impl Seen {
    fn by(prometheus: &PrometheusHandle) -> Self {
        let text = prometheus.render();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let seen = lines.map(|line| {
            let (what, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = what.split_once('{').unwrap_or((what, ""));
            let labels = labels.trim_end_matches('}').replace('"', "");
            (name.to_owned(), labels, value.parse().unwrap())
        });
        // Of distributions the count is enough.
        let is_part = |name: &str, labels: &str| name.ends_with("_sum") || labels.contains("quantile=");
        Self(seen.filter(|(name, labels, _)| !is_part(name, labels)).collect())
    }

    fn get(&self, name: &str, labels: &str) -> f64 {
        let found = self.0.iter().find(|(n, l, _)| n == name && l == labels);
        found.map_or(0.0, |(_, _, value)| *value)
    }

    /// Everything is in the table, with just its labels.
    fn assert_described(&self) {
        for (name, labels, _) in &self.0 {
            let metric = METRICS.iter().find(|metric| metric.name == name.trim_end_matches("_count"));
            let metric = metric.unwrap_or_else(|| panic!("{name} is not in the table"));
            let has: Vec<_> =
                labels.split(',').filter(|l| !l.is_empty()).map(|l| l.split_once('=').unwrap().0).collect();
            assert_eq!(has, metric.labels, "{name}");
        }
    }
}

struct Idle;

impl Role<Fence> for Idle {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        Ok(())
    }
    async fn deactivate(&mut self, _: Lost, _: Duration) {}
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn h10_an_election_moves_what_it_counts() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (counted, store, clock) = (recorder.handle(), MemoryStore::new(), Clock::runtime());
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let start = async |member: &str, line: &str| {
        let store: SharedStore = Arc::new(store.connect(line));
        let options = LeaseOptions { clock: clock.clone(), ..LeaseOptions::default() };
        let oracle = LeaseOracle::new(store, &ClusterName::new("c").unwrap(), options);
        let settings = Settings::new(ElectionName::new("e").unwrap(), MemberId::new(member).unwrap());
        let settings = Settings { clock: clock.clone(), ..settings.with_timing(Timing::for_lease(LEASE)) };
        Campaign::start(oracle, Idle, settings).await.unwrap().running().unwrap()
    };
    let first = start("first", "first").await;
    until("it leads", || first.status().phase == Phase::Leading).await;
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    seen.assert_described();
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 1.0);
    assert_eq!(seen.get("callsign_election_epoch", "election=e"), 1.0);
    assert_eq!(seen.get("callsign_election_transitions_total", "election=e,to=leading"), 1.0);
    assert_eq!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=granted"), 1.0);
    let refreshes = seen.get("callsign_election_calls_total", "election=e,call=refresh,outcome=granted");
    assert!(refreshes >= 2.0, "{refreshes} in a lease");
    assert_eq!(seen.get("callsign_election_call_seconds_count", "election=e,call=refresh"), refreshes);
    assert_eq!(seen.get("callsign_election_events_total", "election=e,event=campaign.refreshed"), refreshes);

    // Nothing is heard from the store any more: its trust lapses. That is no denial.
    store.connect("first").outage();
    until("it has lapsed", || first.status().phase != Phase::Leading).await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 0.0);
    assert_eq!(seen.get("callsign_election_lost_total", "election=e,why=trust_lapsed"), 1.0);
    assert_eq!(seen.get("callsign_election_lost_total", "election=e,why=denied"), 0.0);
    let failed: f64 = ["failed", "unknown", "abandoned"]
        .iter()
        .map(|outcome| {
            seen.get("callsign_election_calls_total", &format!("election=e,call=refresh,outcome={outcome}"))
        })
        .sum();
    assert!(failed >= 1.0);
    assert_eq!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=denied"), 0.0);

    let second = start("second", "second").await;
    until("the second leads", || second.status().phase == Phase::Leading).await;
    store.connect("first").heal();
    tokio::time::sleep(LEASE).await;
    second.stop().await.unwrap();
    // That it could not give back its former term is what it says.
    assert!(first.stop().await.is_err());
    let seen = Seen::by(&counted);
    seen.assert_described();
    assert!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=denied") >= 1.0);
    assert!(seen.get("callsign_election_calls_total", "election=e,call=abdicate,outcome=given_back") >= 1.0);
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 0.0);
    let labels: BTreeSet<_> = seen.0.iter().flat_map(|(_, labels, _)| labels.split(',')).collect();
    assert!(
        labels.iter().all(|l| !l.contains("first") && !l.contains("second")),
        "nobody is named: {labels:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_what_it_counts() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (counted, store, clock) = (recorder.handle(), MemoryStore::new(), Clock::runtime());
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let config = SessionConfig {
        cluster: ClusterName::new("c").unwrap(),
        node: NodeName::new("a").unwrap(),
        incarnation: Incarnation(1),
        timing: SessionTiming::default(),
        seed: 1,
    };
    let line: SharedStore = Arc::new(store.connect("a"));
    let session = NodeSession::open(line, clock, config, LEASE).await.unwrap();
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    let beats = seen.get("callsign_session_beats_total", "");
    assert!((3.0..=20.0).contains(&beats), "{beats} in a lease");
    assert_eq!(seen.get("callsign_session_trusted", ""), 1.0);
    assert_eq!(seen.get("callsign_session_events_total", "event=opened"), 1.0);
    assert!(seen.get("callsign_session_commits_total", "outcome=committed") >= beats);
    store.connect("a").outage();
    until("it has lapsed", || session.trust().check().is_err()).await;
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("callsign_session_trusted", ""), 0.0);
    assert_eq!(seen.get("callsign_session_events_total", "event=lapsed"), 1.0);
    assert!(seen.get("callsign_session_commits_total", "outcome=unavailable") >= 1.0);
    store.connect("a").heal();
    until("it is trusted again", || session.trust().check().is_ok()).await;
    let seen = Seen::by(&counted);
    seen.assert_described();
    assert_eq!(seen.get("callsign_session_trusted", ""), 1.0);
    assert_eq!(seen.get("callsign_session_events_total", "event=resumed"), 1.0);
}
