//! `callsign demo` where its nodes cannot start: it says so, and where the logs are that say why.

use std::{fs, path::Path, process::Command};

use callsign_tests::callsign;
use serde_json::Value;

/// Exit status, report, and what is said on standard error.
fn demo(more: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(callsign());
    command.args(["demo", "--json", "--nodes", "2", "--names", "10", "--store", "mysql:there"]).args(more);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
    (output.status.code(), report, told)
}

#[test]
fn a_demo_whose_nodes_do_not_start_has_failed_and_keeps_their_logs() {
    let (code, report, told) = demo(&[]);
    assert_eq!((code, &report["ok"]), (Some(1), &Value::Bool(false)), "{report}\n{told}");
    assert_eq!((&report["nodes"], &report["names"]), (&2.into(), &10.into()), "{report}");
    assert!(report["leader_before"].is_null() && report["join_ms"].is_null(), "{report}");
    assert!(told.contains("n1 did not start, see "), "{told}");
    let kept = told.lines().find_map(|line| line.split_once("the logs of the nodes are kept in "));
    let kept = Path::new(kept.unwrap_or_else(|| panic!("{told}")).1);
    let log = fs::read_to_string(kept.join("n1.log")).unwrap();
    fs::remove_dir_all(kept).unwrap();
    assert!(log.contains("is not a store"), "{log}");
}

#[test]
fn logs_are_where_they_were_asked_for_and_nowhere_else() {
    let files = tempfile::tempdir().unwrap();
    let logs = files.path().join("of/a-demo");
    let (code, _, told) = demo(&["--keep-logs", logs.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{told}");
    assert!(!told.contains("are kept in"), "{told}");
    let log = fs::read_to_string(logs.join("n1.log")).unwrap();
    assert!(log.contains("is not a store"), "{log}");
}
