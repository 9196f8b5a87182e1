//! Options that are not typed: those of the environment, and those of a file.

use std::process::Command;

use callsign_tests::callsign;

/// How a command ends, what it says on standard output, and what on standard error.
fn run(words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(callsign());
    for variable in ["CALLSIGN_CONFIG", "CALLSIGN_NODE", "CALLSIGN_STORE", "CALLSIGN_TOKEN_FILE"] {
        command.env_remove(variable);
    }
    let output = command.args(words).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_variable_that_is_empty_counts_as_none() {
    let empty = ["CALLSIGN_CONFIG", "CALLSIGN_NODE", "CALLSIGN_STORE", "CALLSIGN_TOKEN_FILE"]
        .map(|variable| (variable, ""));
    let words = ["ls", "--print-config"];
    let (code, printed, said) = run(&words, &empty);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(printed, run(&words, &[]).1);
    let (code, printed, said) = run(&words, &[("CALLSIGN_NODE", "127.0.0.1:1")]);
    assert!(code == Some(0) && printed.contains("127.0.0.1:1"), "{printed}{said}");
    // What is needed is missing then, and it is said how to name it.
    let (code, _, said) = run(&["doctor"], &empty);
    assert!(code == Some(2) && said.contains("the variable CALLSIGN_STORE says"), "{said}");
}

#[test]
fn a_value_of_a_file_that_makes_no_sense_is_said_with_the_file() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("callsign.toml");
    std::fs::write(&file, "[node]\nname = 'a'\nstore = 'memory:'\nlease = 5\n").unwrap();
    let file = file.to_str().unwrap();
    let (code, _, said) = run(&["--config", file, "node"], &[]);
    let expected = format!("callsign: --config {file}: invalid value '5' for '--lease <LEASE>': ");
    assert!(code == Some(2) && said.starts_with(&expected), "{said}");
    let (code, _, said) = run(&["--config", file, "node", "--lease", "soon"], &[]);
    assert!(code == Some(2) && said.starts_with("error: invalid value 'soon'"), "{said}");
}
