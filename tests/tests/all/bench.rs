//! `callsign bench`: what it counts, apart from what it times.

use std::process::Command;

use callsign_tests::callsign;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(callsign()).args(["bench", "--json"]).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_name_is_started_once_and_moves_whole_and_a_broadcast_reaches_all_members() {
    let figures = bench(&["--names-api", "--names", "1000"]);
    let starts = &figures["starts"];
    assert_eq!((&starts["spawned"], &starts["callers"]), (&10.into(), &21.into()), "{figures}");
    let groups = &figures["groups"];
    assert_eq!(groups["members"], 100, "{figures}");
    // The bench waits until all of them have heard it.
    assert!(groups["broadcast_p50_ms"].as_f64().is_some_and(|took| took > 0.0), "{figures}");
    let moves = &figures["moves"];
    assert_eq!((&moves["moved_names"], &moves["held_elsewhere"]), (&10.into(), &10.into()), "{figures}");
    assert_eq!(moves["found_free"], 0, "{figures}");
    let watches = &figures["watches"];
    assert!(watches["with_10_watches_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{figures}");
}
