//! What becomes of the command when nobody can read what it says.

use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

/// Replays a seed; there is more than one line to say of it.
fn replayed(stdout: impl Into<Stdio>) -> Output {
    let drawings = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_callsign-sim"))
        .args(["replay", "--scenario", "calm", "--seed", "1", "--print", "--out"])
        .arg(drawings.path())
        .stdout(stdout)
        .output()
        .unwrap()
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let Output { status, stderr, .. } = replayed(writer);
    assert!(status.success() && stderr.is_empty(), "{status}: {}", String::from_utf8_lossy(&stderr));
}

#[test]
fn what_cannot_be_written_is_a_failure_that_says_so() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let Output { status, stderr, .. } = replayed(full);
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(1) && said.contains("could not be printed"), "{status}: {said}");
}
