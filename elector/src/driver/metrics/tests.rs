use std::{sync::Arc, time::Duration};

use callsign_golden::Seen;
use callsign_store::{
    Clock, SharedStore,
    ids::{ClusterName, Incarnation, NodeName},
    memory::MemoryStore,
    supervision::Supervisor,
};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::{
    session::{SessionConfig, SessionTiming},
    tests::bare,
};

const LEASE: Duration = Duration::from_secs(10);

/// Everything is in the table.
fn assert_described(seen: &Seen) {
    seen.assert_described(|name| METRICS.iter().find(|metric| metric.name == name).map(|m| m.labels));
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
    let session = bare::open(line, clock.clone(), config.clone(), LEASE, Supervisor::new()).await.unwrap();
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    let beats = seen.get("callsign_session_beats_total", "");
    assert!((3..=20).contains(&beats), "{beats} in a lease");
    assert_eq!(seen.get("callsign_session_trusted", ""), 1);
    assert_eq!(seen.get("callsign_session_events_total", "event=opened"), 1);
    for event in ["lapsed", "lost", "store_went_back"] {
        let line = format!("callsign_session_events_total{{event=\"{event}\"}} 0");
        assert!(
            counted.render().contains(&line),
            "an alert sees no counter that appears with its first event"
        );
    }
    let commits = seen.get("callsign_session_commits_total", "outcome=committed");
    assert!(commits >= beats);
    assert_eq!(seen.get("callsign_session_commit_seconds_count", ""), commits);
    store.connect("a").outage();
    until("it has lapsed", || session.trust().check().is_err()).await;
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("callsign_session_trusted", ""), 0);
    assert_eq!(seen.get("callsign_session_events_total", "event=lapsed"), 1);
    assert!(seen.get("callsign_session_commits_total", "outcome=unavailable") >= 1);
    store.connect("a").heal();
    until("it is trusted again", || session.trust().check().is_ok()).await;
    let seen = Seen::by(&counted);
    assert_described(&seen);
    assert_eq!(seen.get("callsign_session_trusted", ""), 1);
    assert_eq!(seen.get("callsign_session_events_total", "event=resumed"), 1);
    // However it ends, nobody goes on saying that it is trusted.
    let is_trusted = || Seen::by(&counted).get("callsign_session_trusted", "") == 1;
    drop(session);
    until("what is dropped is not trusted", || !is_trusted()).await;
    let config = SessionConfig { node: NodeName::new("b").unwrap(), ..config };
    let (line, supervisor): (SharedStore, _) = (Arc::new(store.connect("b")), Supervisor::new());
    let opened = bare::open(line, clock, config, LEASE, supervisor.clone()).await;
    let _failed = opened.unwrap();
    assert!(is_trusted());
    supervisor.fail("a part", "it says so".to_owned());
    assert!(!is_trusted());
}
