//! `callsign-soak`: a short run in which every node leaks ends badly, for that and nothing else; and its usage.

use std::process::Command;

const SOAK: &str = env!("CARGO_BIN_EXE_callsign-soak");

#[test]
fn a_leak_is_noticed_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    // 4 MiB a second: more than pools and held names come to while they fill up.
    let output = Command::new(SOAK)
        .args([
            "--minutes",
            "0.25",
            "--nodes",
            "3",
            "--lease",
            "10",
            "--seed",
            "3",
            "--json",
            "--leak",
            "4096",
        ])
        .arg("--out")
        .arg(directory.path().join("run"))
        .output()
        .unwrap();
    let [said, meanwhile] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(1), "{said}\n{meanwhile}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let breaches: Vec<_> =
        report["breaches"].as_array().unwrap().iter().map(|breach| breach.as_str().unwrap()).collect();
    for node in ["a", "b"] {
        let begin = format!("grew: node {node}: memory of its own: from ");
        assert!(breaches.iter().any(|breach| breach.starts_with(&begin)), "{breaches:#?}");
    }
    // On a machine that is very busy so short a run does not come to all that it is to do.
    let is_expected = |breach: &&str| breach.contains(": memory ") || breach.starts_with("never exercised: ");
    assert!(breaches.iter().all(is_expected), "{breaches:#?}");
    for done in ["registered", "held in the end"] {
        assert!(report["counts"][done].as_u64().is_some_and(|count| count > 0), "{done}: {said}");
    }
    assert!(meanwhile.contains("seed 3, in "), "{meanwhile}");
    assert!(meanwhile.contains(" joins"), "{meanwhile}");
}

#[test]
fn wrong_usage_is_told_apart_from_growth() {
    for wrong in [&["--minutes", "0"][..], &["--nodes", "2"], &["--nodes", "10"], &["--leak", "x"]] {
        let output = Command::new(SOAK).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let output = Command::new(SOAK).args(["--minutes", "0.01", "--store", "nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let output = Command::new(SOAK).arg("--out").arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "it is not empty: {output:?}");
}
