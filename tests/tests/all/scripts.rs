//! The scripts beside the tests that start servers for readers of the book: they do what docs/stores.md says of them.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use callsign_tests::{NodeProcess, StartOptions, TEST_DEADLINE, callsign, eventually, signal};
use rustix::process::Signal;

use crate::documented::workspace;

/// The line of docs/stores.md that runs a command with the servers of this script, in words.
fn documented(script: &str) -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/stores.md")).unwrap();
    let line = page.lines().find(|line| line.starts_with(&format!("    {script} callsign ")));
    let line = line.unwrap_or_else(|| panic!("docs/stores.md runs no command with {script}"));
    line.split("    #").next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// A command in the root of the tree, where `callsign` is the one of this build. What it leaves behind is in `directory`.
fn command(words: &[String], directory: &Path) -> Command {
    let mut path = OsString::from(callsign().parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(workspace().join(&words[0]));
    command.args(&words[1..]).current_dir(workspace()).env("PATH", path).env("TMPDIR", directory);
    command
}

/// Runs the documented command. `None`, and a line that says so, where the servers are not installed.
fn run_documented(script: &str) -> Option<Output> {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let done = command(&documented(script), directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.code() == Some(2) && said.starts_with("no ") {
        println!("skipped: {}", said.trim());
        return None;
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{script} leaves {left:?} behind");
    Some(done)
}

/// The servers may run as another user.
fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The demo has seen everything that it shows.
fn is_well(done: &Output) {
    let (said, log) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("13 of 13"), "{}\n{said}\n{log}", done.status);
}

#[test]
fn the_script_for_etcd_runs_the_documented_command_with_three_servers() {
    if let Some(done) = run_documented("tests/etcd-servers") {
        is_well(&done);
    }
}

#[test]
fn the_script_for_a_pair_of_postgres_runs_the_documented_command() {
    if let Some(done) = run_documented("tests/postgres-pair") {
        is_well(&done);
    }
}

/// A script that runs until it is told to end.
struct Script {
    process: Child,
    /// What it says, on either of its outputs.
    lines: mpsc::Receiver<String>,
}

impl Script {
    fn start(script: &str, directory: &Path) -> Self {
        let mut command = command(&[script.to_owned()], directory);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (says, lines) = mpsc::channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(process.stdout.take().unwrap()), Box::new(process.stderr.take().unwrap())];
        for output in outputs {
            let says = says.clone();
            std::thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).all(|line| says.send(line).is_ok())
            });
        }
        Self { process, lines }
    }

    /// Waits for a line with this in it. `None`: the script ends without it.
    fn says(&self, part: &str) -> Option<String> {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(TEST_DEADLINE) {
                Ok(line) if line.contains(part) => return Some(line),
                Ok(line) => before.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    println!("{}", before.join("\n"));
                    return None;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not say {part}: {before:?}"),
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        signal(self.process.id(), Signal::TERM);
        let _ = self.process.wait();
    }
}

#[test]
fn the_script_for_a_pair_of_postgres_promotes_the_standby_and_the_old_primary_follows() {
    let (directory, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open_to_all(directory.path());
    let script = Script::start("tests/postgres-pair", directory.path());
    let Some(url) = script.says("postgres") else { return println!("skipped: no servers of Postgres") };
    if !url.starts_with("postgres://") {
        return println!("skipped: {url}");
    }
    let options = StartOptions::lease(Duration::from_secs(3));
    let node = NodeProcess::start("a", &url, &options, logs.path(), 0)
        .unwrap_or_else(|stopped| panic!("it did not start: {}", stopped.log));
    let held = node.client.register("before").ok();
    for (old, new) in [("a", "b"), ("b", "a")] {
        signal(script.process.id(), Signal::USR1);
        assert!(script.says(&format!("{old} was killed, and {new} is promoted")).is_some());
        assert!(script.says(&format!("{old} follows {new}")).is_some());
        let name = format!("after-{new}");
        eventually("a registration afterwards", TEST_DEADLINE, || node.client.register(&name).result());
    }
    eventually("what was acknowledged is kept", TEST_DEADLINE, || {
        let found = node.client.whereis_consistent("before").result()?;
        if found["token"] == held["token"] { Ok(()) } else { Err(found.to_string()) }
    });
}
