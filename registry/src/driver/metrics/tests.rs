use std::{collections::BTreeSet, fmt::Write as _};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;
use crate::{
    RegisterError,
    core::input::Answer,
    tests::driver::{Cluster, TEST_DEADLINE, counter as actor, until},
};

/// What this registry, the only one, has counted so far.
struct Seen(callsign_golden::Seen);

impl Seen {
    fn by(prometheus: &PrometheusHandle) -> Self {
        Self(callsign_golden::Seen::by(prometheus))
    }

    fn get(&self, name: &str, labels: &str) -> u64 {
        let labels = if labels.is_empty() { String::new() } else { format!(",{labels}") };
        self.0.get(&format!("callsign_registry_{name}"), &format!("registry=default{labels}"))
    }

    /// Everything is in the table, and nobody's name is a label.
    fn assert_bounded(&self, names: &[&str]) {
        self.0.assert_described(|name| all().find(|metric| metric.name == name).map(|m| m.labels));
        for (label, said) in self.0.labels() {
            assert!(!names.contains(&said), "{label}: {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_moves_what_it_counts_and_no_label_is_a_name() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("leader", ""), 1);
    assert_eq!(seen.get("handoff_seconds_count", ""), 1);
    assert_eq!(seen.get("events_total", "event=serving"), 1);
    assert_eq!(seen.get("events_total", "event=run_handoff"), 1);
    assert_eq!(seen.get("links", ""), 0);
    assert_eq!((seen.get("synced", ""), seen.get("epoch", "")), (1, 1));
    let before = seen.get("log_position", "");

    let (mine, theirs) = (actor().await, actor().await);
    a.register("of-a-user", &mine).await.unwrap();
    assert!(a.register("of-a-user", &theirs).await.is_err());
    until("all of it is counted", || {
        let seen = Seen::by(&counted);
        seen.get("names", "") == 1 && seen.get("claims", "") == 1
    })
    .await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("calls_total", "call=register,outcome=granted"), 1);
    assert_eq!(seen.get("calls_total", "call=register,outcome=taken"), 1);
    assert_eq!(seen.get("call_seconds_count", "call=register"), 2, "granted and refused");
    assert_eq!(seen.get("log_position", ""), before + 1);
    let batches = seen.get("batch_operations_count", "");
    assert!(batches >= 2, "the epoch's opening and the registration: {batches}");
    assert_eq!(seen.get("batch_bytes_count", ""), batches);
    assert_eq!(seen.get("commit_seconds_count", "what=batch,outcome=committed"), batches);
    assert_eq!(seen.get("messages_total", "direction=sent,kind=replicate"), 0, "it is alone");

    // Another joins.
    let b = cluster.node("b").await;
    b.wait_for(a.status().position, TEST_DEADLINE).await.unwrap();
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("members", ""), 2);
    assert_eq!(seen.get("links", ""), 1);
    assert_eq!(seen.get("link_events_total", "event=up"), 2);
    assert!(seen.get("events_total", "event=synced") >= 2);
    assert_eq!(b.register("of-another", &theirs).await.unwrap().check(), Ok(()));
    b.unregister("of-another").await.unwrap();
    assert!(b.unregister("of-a-user").await.is_err());
    assert!(b.lookup_consistent("of-a-user", TEST_DEADLINE).await.unwrap().is_some());
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("calls_total", "call=unregister,outcome=freed"), 1);
    assert_eq!(seen.get("calls_total", "call=unregister,outcome=not_held_here"), 1);
    assert_eq!(seen.get("calls_total", "call=lookup_consistent,outcome=found"), 1);
    let took = ["register", "unregister", "lookup_consistent", "update"]
        .map(|call| seen.get("call_seconds_count", &format!("call={call}")));
    assert_eq!(took, [3, 2, 1, 0]);
    assert!(seen.get("messages_total", "direction=received,kind=requests") >= 2);
    assert!(seen.get("messages_total", "direction=sent,kind=replicate") >= 2);
    let [sent, received] =
        ["sent", "received"].map(|way| seen.get("message_bytes_total", &format!("direction={way}")));
    assert!(received > 0 && received <= sent, "{received} of {sent}");

    // Its leader leaves, and it takes over.
    let handoffs = seen.get("handoff_seconds_count", "");
    a.leave().await.unwrap();
    until("b serves", || b.status().leads).await;
    let seen = Seen::by(&counted);
    assert_eq!(seen.get("handoff_seconds_count", ""), handoffs + 1);
    assert_eq!(seen.get("events_total", "event=serving"), handoffs + 1);
    assert!(seen.get("link_events_total", "event=down") >= 1);
    seen.assert_bounded(&["of-a-user", "of-another", "a", "b"]);
}

#[test]
fn each_call_is_told_with_how_long_it_took_and_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    ::metrics::with_local_recorder(&recorder, || {
        let mut metrics = OfRegistry::new("default");
        let taken = Answer::Registered(Err(RegisterError::NoLeader));
        let millis = |millis| Some(Duration::from_millis(millis));
        for took in [millis(250), millis(500), None] {
            metrics.answered(Answered::by(&taken), took);
        }
        // It is no call of the table.
        metrics.answered(Answered::by(&Answer::Left), millis(9000));
        metrics.tell();
        metrics.tell();
        let seen = Seen::by(&counted);
        assert_eq!(seen.get("calls_total", "call=register,outcome=no_leader"), 3);
        assert_eq!(seen.get("call_seconds_count", "call=register"), 2, "the third caller had gone");
        let sum = "callsign_registry_call_seconds_sum{registry=\"default\",call=\"register\"} 0.75";
        assert!(counted.render().lines().any(|line| line == sum), "{}", counted.render());
    });
}

#[test]
fn what_comes_rarely_is_counted_once_with_the_next_wake_up() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    ::metrics::with_local_recorder(&recorder, || {
        let mut metrics = OfRegistry::new("default");
        let chunk = Message::SnapshotRefused { id: 1 };
        metrics.event(&Event::SnapshotInstalled { position: callsign_store::ids::Position(7), names: 9 });
        for _ in 0..3 {
            metrics.sent(&chunk, 100);
        }
        // Asked twice for one handoff, deposed before it ended, asked for another.
        for epoch in [1, 1, 2, 2] {
            metrics.handoff_begins(Epoch(epoch));
        }
        for epoch in [1, 2, 2] {
            let position = callsign_store::ids::Position(7);
            metrics.event(&Event::Serving { epoch: Epoch(epoch), position });
        }
        assert!(Seen::by(&counted).0.names().all(|name| name.ends_with("handoff_seconds_count")));
        metrics.tell();
        metrics.tell();
        let seen = Seen::by(&counted);
        assert_eq!(seen.get("events_total", "event=snapshot_installed"), 1);
        assert_eq!(seen.get("messages_total", "direction=sent,kind=snapshot_refused"), 3);
        assert_eq!(seen.get("message_bytes_total", "direction=sent"), 300);
        assert_eq!(seen.get("handoff_seconds_count", ""), 1, "the second one, once");
        // Of a batch what it writes, and its end; of a cut neither.
        let (end, log) = (b"end".to_vec(), b"log/7".to_vec());
        let cut = Transaction::new().put(log.clone(), vec![0; 900]);
        metrics.commits(&cut, &end, None).ended(&CommitOutcome::Conflict);
        let batch = Transaction::new().put(end.clone(), vec![0; 8]).put(log, vec![0; 300]);
        metrics.commits(&batch, &end, Some(3)).ended(&CommitOutcome::Conflict);
        let seen = Seen::by(&counted);
        for (what, sum) in [("batch_bytes", 300), ("batch_operations", 3)] {
            let sum = format!("callsign_registry_{what}_sum{{registry=\"default\"}} {sum}");
            assert!(counted.render().lines().any(|line| line == sum), "{sum}");
            assert_eq!(seen.get(&format!("{what}_count"), ""), 1);
        }
        for what in ["batch", "cut"] {
            assert_eq!(seen.get("commit_seconds_count", &format!("what={what},outcome=conflict")), 1);
        }
        metrics.link("up");
        let me = callsign_store::ids::NodeName::new("a").unwrap();
        metrics.status(&Status { leads: true, synced: true, claims: 4, ..Status::joining(&me) }, 9);
        metrics.links(2);
        metrics.received_bytes(70);
        metrics.received_bytes(30);
        let seen = Seen::by(&counted);
        let gauges = ["leader", "synced", "links", "claims", "names"].map(|gauge| seen.get(gauge, ""));
        assert_eq!(gauges, [1, 1, 2, 4, 9]);
        metrics.ended();
        let seen = Seen::by(&counted);
        assert_eq!(["leader", "synced", "links"].map(|gauge| seen.get(gauge, "")), [0; 3]);
        assert_eq!(seen.get("link_events_total", "event=up"), 1, "the last words, too");
        assert_eq!(seen.get("message_bytes_total", "direction=received"), 100);
    });
}

#[tokio::test(start_paused = true)]
async fn times_are_those_from_the_beginning_to_the_end_and_what_is_not_so_is_a_zero() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let mut metrics = OfRegistry::new("default");
    let wait = |secs| tokio::time::sleep(Duration::from_secs(secs));
    metrics.handoff_begins(Epoch(1));
    wait(2).await;
    // Asked again, it began when it was asked first.
    metrics.handoff_begins(Epoch(1));
    wait(3).await;
    metrics.event(&Event::Serving { epoch: Epoch(1), position: callsign_store::ids::Position(7) });
    let cut = metrics.commits(&Transaction::new().put(b"log".to_vec(), vec![0; 9]), &b"end".to_vec(), None);
    wait(4).await;
    cut.ended(&CommitOutcome::Conflict);
    let me = callsign_store::ids::NodeName::new("a").unwrap();
    metrics.status(&Status { leads: true, synced: false, ..Status::joining(&me) }, 0);
    let seen = Seen::by(&counted);
    for sum in [
        "callsign_registry_handoff_seconds_sum{registry=\"default\"} 5",
        "callsign_registry_commit_seconds_sum{registry=\"default\",what=\"cut\",outcome=\"conflict\"} 4",
    ] {
        assert!(counted.render().lines().any(|line| line == sum), "{sum}: {}", counted.render());
    }
    assert_eq!((seen.get("leader", ""), seen.get("synced", "")), (1, 0));
    metrics.status(&Status { leads: false, synced: true, ..Status::joining(&me) }, 0);
    let seen = Seen::by(&counted);
    assert_eq!((seen.get("leader", ""), seen.get("synced", "")), (0, 1));
}

/// The documentation's table, as it has to be.
fn table() -> String {
    let mut table = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in all() {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", metric.kind).to_lowercase();
        writeln!(table, "| `{}` | {kind} | {} | {} |", metric.name, labels.join(", "), metric.what).unwrap();
    }
    table
}

#[test]
fn the_documentation_has_every_metric() {
    let documentation = include_str!("../../../../docs/metrics.md");
    assert!(documentation.contains(&table()), "docs/metrics.md should have:\n{}", table());
    let names: BTreeSet<_> = all().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all().count(), "each once");
    assert!(names.iter().all(|name| name.starts_with("callsign_")));
}

/// A host that does not lead asks its leader by messages, so these show how often it was stepped.
#[tokio::test(start_paused = true)]
async fn actors_that_end_together_are_given_up_together() {
    const ACTORS: usize = 200;
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let b = cluster.node("b").await;
    let mut actors = Vec::new();
    for number in 0..ACTORS {
        let actor = actor().await;
        b.register(&format!("n{number}"), &actor).await.unwrap();
        actors.push(actor);
    }
    let before = Seen::by(&counted).get("messages_total", "direction=sent,kind=requests");
    assert!(before >= ACTORS as u64, "each was registered by itself: {before}");
    for actor in &actors {
        actor.stop(None);
    }
    until("all names are free", || a.count() == Ok(0)).await;
    let asked = Seen::by(&counted).get("messages_total", "direction=sent,kind=requests") - before;
    assert!(asked < ACTORS as u64 / 4, "{ACTORS} ends took {asked} messages");
}
