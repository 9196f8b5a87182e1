//! `callsign guard`, with the test in place of its node: what becomes of what it is told, and what it reports and says.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use callsign_store::Clock;
use callsign_tests::{Lines, TEST_DEADLINE, callsign, eventually, signal};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// A guard, and its node's end of the socket. Where that is dropped the guard kills the program.
struct Guarded {
    guard: Child,
    node: UnixStream,
    reports: BufReader<UnixStream>,
}

impl Guarded {
    /// A guard of `callsign run` for this program, without a word of trust.
    fn new(program: &[&str]) -> Self {
        Self::of("run", program)
    }

    /// The same of another command.
    fn of(command: &str, program: &[&str]) -> Self {
        let (node, theirs) = UnixStream::pair().unwrap();
        let reports = BufReader::new(node.try_clone().unwrap());
        let guard = Command::new(callsign())
            .args(["guard", "--of", command, "--grace", "60s", "--"])
            .args(program)
            .env_remove("CALLSIGN_PARENT")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { guard, node, reports }
    }

    /// Says a word about a time that is so far from now.
    fn says(&mut self, word: &str, from_now: Duration) {
        let at = (Clock::boot().now() + from_now).0.as_nanos();
        self.node.write_all(format!("{{\"{word}\":{at}}}\n").as_bytes()).unwrap();
    }

    /// Trusts the program for this long, and again if that was over before the guard heard of it. Returns the program's
    /// process.
    fn starts(&mut self, trusted: Duration) -> u32 {
        self.node.set_read_timeout(Some(trusted.min(TEST_DEADLINE))).unwrap();
        let started = eventually("the program is started", TEST_DEADLINE, || {
            self.says("trusted_until", trusted);
            let mut line = String::new();
            let read = self.reports.read_line(&mut line);
            read.map(|_| line).map_err(|error| error.to_string())
        });
        self.node.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let started: Value = serde_json::from_str(&started).unwrap();
        let process = started["started"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        process.unwrap_or_else(|| panic!("{started}"))
    }

    /// It reports this, and ends well. Returns what it has said.
    fn ends(mut self, reports: &[Value]) -> String {
        for expected in reports {
            let mut line = String::new();
            self.reports.read_line(&mut line).unwrap();
            let report: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(report, *expected);
        }
        let output = self.guard.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The state of a process: `S` for one that sleeps, `T` for one that is stopped, `Z` for one that has ended.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // PID (NAME) STATE
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_program_that_cannot_be_run_ends_as_shells_tell_it() {
    for (program, status) in [("/no/such/program", 127), ("/", 126)] {
        let mut guarded = Guarded::new(&[program]);
        guarded.starts(LONG);
        let said = guarded.ends(&[json!({ "ended": { "exit": status } }), json!("gone")]);
        assert!(said.starts_with(&format!("callsign: cannot run {program}: ")), "{said}");
    }
}

#[test]
fn a_program_that_is_stopped_hears_that_it_is_to_end() {
    let script = "trap 'exit 7' TERM; kill -STOP $$; while :; do sleep 0.05; done";
    let mut guarded = Guarded::new(&["sh", "-c", script]);
    let program = guarded.starts(LONG);
    eventually("the program is stopped", TEST_DEADLINE, || match state(program) {
        Some('T') => Ok(()),
        other => Err(format!("{other:?}")),
    });
    guarded.says("stop_kill_at", LONG);
    let ended = json!({ "ended": { "exit": 7 } });
    let said = guarded.ends(&[json!({ "ending": "asked" }), ended, json!("gone")]);
    assert_eq!(said, "", "the node knows why");
}

#[test]
fn a_guard_says_why_a_program_was_ended_although_its_node_did_not_ask_for_it() {
    let mut guarded = Guarded::new(&["sleep", "600"]);
    guarded.starts(Duration::from_millis(200));
    let ended = json!({ "ended": { "signal": 15 } });
    let said = guarded.ends(&[json!({ "ending": "trust_ended" }), ended, json!("gone")]);
    let why = "did not say in time that it still leads, so its program was ended";
    assert_eq!(said, format!("callsign guard: `callsign run` {why}\n"));

    let mut guarded = Guarded::new(&["sleep", "600"]);
    guarded.starts(LONG);
    guarded.node.shutdown(Shutdown::Write).unwrap();
    let said = guarded.ends(&[json!({ "ended": { "signal": 9 } }), json!("gone")]);
    assert_eq!(said, "callsign guard: `callsign run` is gone, so its program was killed\n");

    let mut guarded = Guarded::of("hold", &["sleep", "600"]);
    guarded.starts(LONG);
    guarded.node.shutdown(Shutdown::Write).unwrap();
    let said = guarded.ends(&[json!({ "ended": { "signal": 9 } }), json!("gone")]);
    assert_eq!(said, "callsign guard: `callsign hold` is gone, so its program was killed\n");
}

#[test]
fn a_node_that_says_what_makes_no_sense_is_not_listened_to_any_longer() {
    let mut guarded = Guarded::new(&["sleep", "600"]);
    guarded.starts(LONG);
    guarded.node.write_all(b"trust me\n").unwrap();
    guarded.ends(&[json!({ "ended": { "signal": 9 } }), json!("gone")]);
}

#[test]
fn a_guard_has_a_name_and_rests_while_its_program_runs() {
    let mut guarded = Guarded::new(&["sleep", "600"]);
    guarded.starts(LONG);
    let guard = guarded.guard.id();
    let name = fs::read_to_string(format!("/proc/{guard}/comm")).unwrap();
    assert_eq!(name, "callsign-guard\n");
    // The guard hears of it, and has nothing to do.
    signal(guard, Signal::USR1);
    eventually("the guard sleeps whenever it is looked at", TEST_DEADLINE, || {
        let states: Vec<_> = (0..20).map(|_| state(guard)).collect();
        if states.iter().all(|state| *state == Some('S')) { Ok(()) } else { Err(format!("{states:?}")) }
    });
    guarded.says("stop_kill_at", LONG);
    let ended = json!({ "ended": { "signal": 15 } });
    guarded.ends(&[json!({ "ending": "asked" }), ended, json!("gone")]);
}

#[test]
fn nothing_is_started_for_a_guard_or_a_parent_that_has_ended() {
    let started = Command::new(callsign())
        .args(["guarded-start", "--guard", "0", "--", "echo", "it runs"])
        .env_remove("CALLSIGN_PARENT")
        .output()
        .unwrap();
    assert_eq!((started.status.code(), &*started.stdout), (Some(1), &b""[..]), "{started:?}");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(said.contains("the guard has ended"), "{said}");

    let completions = |parent: &str| {
        let mut command = Command::new(callsign());
        command.args(["completions", "bash"]).env("CALLSIGN_PARENT", parent).output().unwrap()
    };
    let refused = completions("0");
    assert_eq!((refused.status.code(), &*refused.stdout), (Some(1), &b""[..]), "{refused:?}");
    assert!(completions(&std::process::id().to_string()).status.success());
}

#[test]
fn a_process_that_was_told_its_parent_is_killed_when_that_is() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("witness");
    let mut parent = Command::new("sh")
        .args(["-c", "CALLSIGN_PARENT=$$ \"$0\" witness --exit-after 2m --file \"$1\" & wait"])
        .arg(callsign())
        .arg(&file)
        .env("CALLSIGN_MEMBER", "a")
        .env("CALLSIGN_EPOCH", "1")
        .spawn()
        .unwrap();
    let child = eventually("it runs", TEST_DEADLINE, || {
        Lines::read(&file).starts().last().map(|line| line.pid).ok_or_else(|| "it does not".to_owned())
    });
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("it is gone", TEST_DEADLINE, || match state(child) {
        // Nobody may have asked yet how it has ended.
        None | Some('Z') => Ok(()),
        Some(other) => Err(other.to_string()),
    });
}
