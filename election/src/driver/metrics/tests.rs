use std::{collections::BTreeSet, sync::Arc, time::Duration};

use callsign_golden::Seen;
use callsign_store::{
    Clock, SharedStore,
    ids::{ClusterName, MemberId},
    memory::MemoryStore,
};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::{
    Campaign, CampaignSettings, LeaseOptions, LeaseOracle, Timing, driver::campaign::Phase, tests::Idle,
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
async fn h10_an_election_moves_what_it_counts() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (counted, store, clock) = (recorder.handle(), MemoryStore::new(), Clock::runtime());
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let start = async |member: &str, line: &str| {
        let store: SharedStore = Arc::new(store.connect(line));
        let options = LeaseOptions { clock: clock.clone(), ..LeaseOptions::default() };
        let oracle = LeaseOracle::new(store, &ClusterName::new("c").unwrap(), options);
        let settings = CampaignSettings::new(ElectionName::new("e").unwrap(), MemberId::new(member).unwrap());
        let settings =
            CampaignSettings { clock: clock.clone(), ..settings.with_timing(Timing::for_lease(LEASE)) };
        Campaign::start(oracle, Idle, settings).await.unwrap().running().unwrap()
    };
    let first = start("first", "first").await;
    until("it leads", || first.status().phase == Phase::Leading).await;
    tokio::time::sleep(LEASE).await;
    let seen = Seen::by(&counted);
    assert_described(&seen);
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 1);
    assert_eq!(seen.get("callsign_election_epoch", "election=e"), 1);
    assert_eq!(seen.get("callsign_election_transitions_total", "election=e,to=leading"), 1);
    assert_eq!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=granted"), 1);
    let refreshes = seen.get("callsign_election_calls_total", "election=e,call=refresh,outcome=granted");
    assert!(refreshes >= 2, "{refreshes} in a lease");
    assert_eq!(seen.get("callsign_election_call_seconds_count", "election=e,call=refresh"), refreshes);
    assert_eq!(seen.get("callsign_election_events_total", "election=e,event=campaign.refreshed"), refreshes);

    // Nothing is heard from the store any more: its trust lapses. That is no denial.
    store.connect("first").outage();
    until("it has lapsed", || first.status().phase != Phase::Leading).await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 0);
    assert_eq!(seen.get("callsign_election_lost_total", "election=e,why=trust_lapsed"), 1);
    assert_eq!(seen.get("callsign_election_lost_total", "election=e,why=denied"), 0);
    let failed: u64 = ["failed", "unknown", "abandoned"]
        .iter()
        .map(|outcome| {
            seen.get("callsign_election_calls_total", &format!("election=e,call=refresh,outcome={outcome}"))
        })
        .sum();
    assert!(failed >= 1);
    assert_eq!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=denied"), 0);

    let second = start("second", "second").await;
    until("the second leads", || second.status().phase == Phase::Leading).await;
    store.connect("first").heal();
    tokio::time::sleep(LEASE).await;
    second.stop().await.unwrap();
    // Its former term was over long ago.
    first.stop().await.unwrap();
    let seen = Seen::by(&counted);
    assert_described(&seen);
    assert!(seen.get("callsign_election_calls_total", "election=e,call=claim,outcome=denied") >= 1);
    assert!(seen.get("callsign_election_calls_total", "election=e,call=leave,outcome=given_back") >= 1);
    assert_eq!(seen.get("callsign_election_leader", "election=e"), 0);
    let said: BTreeSet<_> = seen.labels().map(|(_, said)| said).collect();
    assert!(!said.iter().any(|s| s.contains("first") || s.contains("second")), "nobody is named: {said:?}");
}

#[test]
fn an_answer_that_may_have_been_carried_out_is_counted_as_unknown() {
    let transient = |maybe_committed| Fault::Transient { maybe_committed, cause: "away".to_owned() };
    for (fault, label) in [
        (transient(true), "unknown"),
        (transient(false), "failed"),
        (Fault::Fatal("no".to_owned()), "failed"),
    ] {
        assert_eq!(verdict::<()>(&Err(fault.clone())), label);
        assert_eq!(abdication(&Err(fault)), label);
    }
    assert_eq!((abdication(&Ok(true)), abdication(&Ok(false))), ("given_back", "was_gone"));
}
