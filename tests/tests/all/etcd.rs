//! The command over three private etcd servers. The promises over them: `CALLSIGN_TEST_STORE=etcd`.

use std::process::Command;

use callsign_tests::{TestStore, callsign};

#[test]
fn the_demo_is_ok_on_etcd() {
    let Some(place) = TestStore::etcd() else { return };
    let output = Command::new(callsign())
        .args(["demo", "--json", "--names", "100", "--store", &place.url])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report["ok"] == true, "{report}\n{said}");
}
