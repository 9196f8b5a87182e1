//! Real processes on one file: this test binary runs one test of itself as another process.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use tokio::time::timeout;

use super::*;
use crate::{core::keys::read_key, testing::TEST_DEADLINE};

const PATH: &str = "CALLSIGN_TEST_STORE";

fn put(value: Vec<u8>) -> Transaction {
    Transaction::new().put(b"k".to_vec(), value)
}

fn node() -> NodeName {
    NodeName::new("other").unwrap()
}

/// Does what the lines of its input say, for the tests below; on its own it does nothing.
#[test]
fn other_process() {
    let Ok(path) = std::env::var(PATH) else { return };
    let store = SqliteStore::open(Path::new(&path), SqliteOptions::default()).unwrap();
    let mut lives = Vec::new();
    for line in std::io::stdin().lines() {
        let said = match line.unwrap().split_once(' ').unwrap() {
            ("guard", n) => {
                lives.push(store.guard_life(&node(), Incarnation(n.parse().unwrap())).unwrap().unwrap());
                "guarded".to_owned()
            }
            ("put", n) => {
                let outcome = futures::executor::block_on(store.commit(put(vec![7; n.parse().unwrap()])));
                format!("{outcome:?}")
            }
            other => panic!("{other:?}"),
        };
        println!("said: {said}");
        std::io::stdout().flush().unwrap();
    }
}

struct Process {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Process {
    /// Starts it by a shell that first does what `before` says.
    fn start(path: &Path, before: &str) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
            .arg(this)
            .args(["--exact", "--nocapture", "driver::sqlite::processes::other_process"])
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut said = self.said.by_ref().map(Result::unwrap);
        // The test runner says things of its own, also at the start of the line.
        said.find_map(|line| line.split_once("said: ").map(|(_, said)| said.to_owned())).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_killed_process_is_proven_dead_and_a_living_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("callsign.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let mut other = Process::start(&path, "");
    assert_eq!(other.ask("guard 5"), "guarded");
    assert_eq!(store.proof_of_death(&node(), Incarnation(5)).await, Proof::None);
    other.kill();
    assert_eq!(store.proof_of_death(&node(), Incarnation(5)).await, Proof::Dead);
}

#[tokio::test]
async fn a_commit_of_another_process_ends_a_watch_and_survives_its_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("callsign.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let mut other = Process::start(&path, "");
    for round in 1..=5 {
        let watch = store.watch(b"k".to_vec(), Version(round - 1));
        assert_eq!(other.ask("put 3"), format!("Committed(Version({round}))"));
        timeout(TEST_DEADLINE, watch).await.unwrap().unwrap();
    }
    other.kill();
    let read = store.read(vec![read_key(b"k".to_vec())]).await.unwrap();
    assert_eq!((read.version, read.value(0)), (Version(5), Some(&vec![7; 3])));
    assert_eq!(store.commit(put(vec![])).await, CommitOutcome::Committed(Version(6)));
}

/// A log that must not grow any more makes the last step of a commit fail.
#[tokio::test]
async fn a_commit_that_fails_on_its_last_step_is_unknown_and_hurts_no_other_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("callsign.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    // In blocks of 512 bytes: room for the file and a short log, not for one with a large value.
    let mut other = Process::start(&path, "trap '' XFSZ; ulimit -f 200;");
    assert_eq!(other.ask("put 1"), "Committed(Version(1))");
    assert_eq!(other.ask("put 99000"), "Unknown");
    let read = store.read(vec![read_key(b"k".to_vec())]).await.unwrap();
    assert_eq!(read.version, Version(1));
    assert_eq!(other.ask("put 2"), "Committed(Version(2))");
    assert_eq!(store.commit(put(vec![])).await, CommitOutcome::Committed(Version(3)));
}
