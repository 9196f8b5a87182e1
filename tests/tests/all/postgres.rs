//! The demo over a private Postgres server. The promises over one: `CALLSIGN_TEST_STORE=postgres`.

use std::process::Command;

use callsign_tests::{TestStore, callsign};

#[test]
fn the_demo_is_ok_on_postgres() {
    let Some(place) = TestStore::postgres() else { return };
    let output = Command::new(callsign())
        .args(["demo", "--json", "--names", "100", "--store", &place.url])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report["ok"] == true, "{report}\n{said}");
}
