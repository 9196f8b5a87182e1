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

/// What a short sweep prints, with these variables set.
fn swept(variables: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_callsign-sim"))
        .args(["run", "--scenario", "calm", "--seeds", "2", "--jobs", "1"])
        .envs(variables.iter().copied())
        .env_remove("CI")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_no_terminal_gets_no_colour_unless_it_is_forced() {
    let plain = swept(&[]);
    assert!(plain.contains(" seeds/s, 0 failed, ") && !plain.contains('\u{1b}'), "{plain}");
    let forced = swept(&[("CLICOLOR_FORCE", "1")]);
    assert!(forced.contains(" seeds/s, \u{1b}[32m0 failed\u{1b}[0m, "), "{forced}");
    assert!(forced.contains("\u{1b}[1mexercised:\u{1b}[0m"), "{forced}");
    let refused = swept(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
    assert!(!refused.contains('\u{1b}'), "{refused}");
}
