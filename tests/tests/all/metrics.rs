//! What a real node says of itself to Prometheus.

use std::time::Duration;

use callsign_tests::{Cluster, StartOptions, eventually};

/// The value of a metric; absent is 0.
pub(crate) fn value(text: &str, metric: &str) -> u64 {
    let line = text.lines().find(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(' ')));
    line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

#[test]
fn a_node_counts_what_it_does_in_prometheus_text_and_names_nobody() {
    let cluster = Cluster::start(StartOptions::lease(Duration::from_secs(10)), &["a", "b"]);
    let leader = cluster.leader();
    let other = cluster.others(&[&leader])[0].clone();
    let client = |node: &str| cluster.node(node).client.clone();
    assert_eq!(client(&other).register("a-users-name").code(), "ok");
    assert_eq!(client(&leader).register("a-users-name").code(), "taken");
    let of = |node: &str| client(node).metrics().unwrap();

    let text = of(&leader);
    assert!(text.contains("# HELP callsign_registry_names "), "{text}");
    assert!(text.contains("# TYPE callsign_registry_commit_seconds histogram"), "{text}");
    let calls = "callsign_registry_calls_total{registry=\"default\",call=\"register\",outcome";
    assert_eq!(value(&text, &format!("{calls}=\"taken\"}}")), 1);
    assert_eq!(value(&text, "callsign_registry_leader{registry=\"default\"}"), 1);
    assert_eq!(value(&text, "callsign_registry_links{registry=\"default\"}"), 1);
    assert_eq!(value(&text, "callsign_registry_members{registry=\"default\"}"), 2);
    assert_eq!(value(&text, "callsign_session_trusted"), 1);
    assert!(value(&text, "callsign_registry_batch_operations_count{registry=\"default\"}") >= 2);
    assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| !line.contains("a-users-name")));

    let text = of(&other);
    assert_eq!(value(&text, &format!("{calls}=\"granted\"}}")), 1);
    assert_eq!(value(&text, "callsign_registry_leader{registry=\"default\"}"), 0);
    let beats = value(&text, "callsign_session_beats_total");
    eventually("it beats", Duration::from_secs(20), || {
        let text = of(&other);
        let at = "{registry=\"default\"}";
        let is_so = value(&text, "callsign_session_beats_total") > beats
            && value(&text, &format!("callsign_registry_names{at}")) == 1
            && value(&text, &format!("callsign_registry_claims{at}")) == 1;
        if is_so { Ok(()) } else { Err(text) }
    });
}
