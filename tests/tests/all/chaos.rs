//! `callsign-chaos`: a short run ends well, and what it wrote down would show a breach.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    process::Command,
};

use callsign_tests::chaos::{event::Event, journal, report::again};

const CHAOS: &str = env!("CARGO_BIN_EXE_callsign-chaos");

#[test]
fn a_short_run_ends_well_and_a_breach_forged_into_it_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(CHAOS)
        .args([
            "--minutes",
            "0.17",
            "--lease",
            "2",
            "--seed",
            "2",
            "--only",
            "kill,restart,pause,freeze,cut,break",
        ])
        .arg("--out")
        .arg(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{:?}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("violations: 0"), "{said}");
    let drawn = fs::read_to_string(directory.path().join("timeline.svg")).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));

    let before = again(directory.path()).unwrap();
    assert!(before.breaches.is_empty(), "{:?}", before.breaches);
    // Somebody acts once more, under a name that another has had since.
    let mut acts = Vec::new();
    for file in fs::read_dir(directory.path().join("history")).unwrap().flatten() {
        if file.path().extension().is_some_and(|extension| extension == "jsonl") {
            for event in journal::read(&file.path()).unwrap() {
                if let Event::Acted { actor, name, token, .. } = event {
                    acts.push((name, token, actor, file.path()));
                }
            }
        }
    }
    acts.sort();
    let followed = acts.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1);
    let (name, token, actor, path) = followed.expect("a name was held by one after the other")[0].clone();
    let late = journal::now();
    let forged = Event::Acted { from: late, to: late + 1, actor, name: name.clone(), token };
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    writeln!(file, "{}", serde_json::to_string(&forged).unwrap()).unwrap();
    let after = again(directory.path()).unwrap();
    assert!(after.breaches.iter().any(|breach| breach.contains(&name)), "{name}: {:?}", after.breaches);
}

#[test]
fn wrong_usage_is_told_apart_from_a_violation() {
    for wrong in [&["--only", "meteor"][..], &["--minutes", "0"], &["--nodes", "2"]] {
        let output = Command::new(CHAOS).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let output = Command::new(CHAOS).args(["--minutes", "0.01", "--store", "nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
