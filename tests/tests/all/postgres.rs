//! A cluster of processes over a private Postgres server.

use std::{process::Command, time::Duration};

use callsign_tests::{NodeProcess, StartOptions, callsign, eventually};

#[allow(dead_code)] // the store's own tests do more with it
#[path = "../../../elector/src/store/postgres/tests/server.rs"]
mod server;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_demo_is_ok_on_postgres() {
    let Some(server) = server::Server::start() else { return };
    let output = Command::new(callsign())
        .args(["demo", "--json", "--names", "100", "--store", &server.url("postgres")])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report["ok"] == true, "{report}\n{said}");
}

/// The outage is longer than the lease: every session lapses.
#[test]
fn an_outage_of_the_server_stops_writes_and_no_lookup_and_all_resumes_by_itself() {
    let Some(mut server) = server::Server::start() else { return };
    let logs = tempfile::tempdir().unwrap();
    let options = StartOptions::lease(Duration::from_secs(2));
    let start = |(name, launch)| {
        NodeProcess::start(name, &server.url("postgres"), &options, logs.path(), launch)
            .unwrap_or_else(|stopped| panic!("{name} did not start: {}", stopped.log))
    };
    let mut nodes = [("a", 0), ("b", 1), ("c", 2)].map(start);
    eventually("the first registration", PATIENCE, || nodes[0].client.register("before").result());
    for node in &nodes {
        eventually("the name everywhere", PATIENCE, || node.client.whereis("before").result());
    }
    server.stop();
    for node in &nodes {
        // Looked up until trust ends: found, and at last marked as lapsed, nothing else.
        eventually("the end of trust", PATIENCE, || match node.client.whereis("before").code() {
            "lapsed" => Ok(()),
            code => {
                assert_eq!(code, "ok");
                Err("it is still found".to_owned())
            }
        });
        assert!(node.client.register("meanwhile").result().is_err());
    }
    server.resume();
    for node in &nodes {
        let name = format!("after-{}", node.ready.incarnation);
        eventually("a registration after the outage", PATIENCE, || node.client.register(&name).result());
    }
    for node in &mut nodes {
        assert!(node.is_running());
        let stopped = node.terminate();
        assert!(stopped.status.is_some_and(|status| status.success()), "{}", stopped.log);
        assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
    }
}
