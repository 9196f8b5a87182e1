//! `callsign hold`: a program runs while its name is held, and never two of them, whatever is done to nodes, guards and programs.

use std::{ffi::OsString, process::Command, time::Duration};

use callsign_tests::{
    Client, Did, Line, Lines, NodeProcess, Singleton, StartOptions, TEST_DEADLINE, TestStore, callsign,
    eventually, guard_of, signal,
};
use rustix::process::Signal;

/// Long enough for a machine that does other things as well, short enough to wait for its end.
const OPTIONS: [&str; 5] = ["--lease", "4s", "--stop-budget", "800ms", "--wait"];

fn holders(witness: &[&str], names: &[&str]) -> Singleton {
    let mut holders = Singleton::of_a_name(&OPTIONS, witness);
    for name in names {
        holders.launch(name);
    }
    holders
}

/// Waits until a node says this.
fn says(holders: &mut Singleton, name: &str, what: &str) {
    eventually(&format!("{name} says {what:?}"), TEST_DEADLINE, || {
        let log = holders.runner(name).log();
        if log.contains(what) { Ok(()) } else { Err(log) }
    });
}

fn did(holders: &Singleton, of: &Line) -> Vec<Did> {
    holders.lines().0.iter().filter(|line| line.pid == of.pid).map(|line| line.did).collect()
}

#[test]
fn a_node_that_is_stopped_ends_its_program_first_and_the_next_one_has_the_name() {
    let mut holders = holders(&[], &["a", "b"]);
    let first = holders.wait_for_start(0);
    let stopped = holders.runner(&first.member).terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(stopped.log.contains("the name is given up"), "{}", stopped.log);
    assert_eq!(did(&holders, &first).last(), Some(&Did::End), "it was let end by itself");
    let next = holders.wait_for_start(1);
    assert_ne!(next.member, first.member);
    assert!(next.epoch > first.epoch, "the token grows");
    holders.check();
}

/// The time to end is counted from when it is told to, not from when it was started.
#[test]
fn a_program_that_has_run_for_longer_than_the_time_to_end_is_let_end_by_itself() {
    let mut holders = holders(&[], &["a"]);
    let first = holders.wait_for_start(0);
    eventually("it has run for longer than the stop budget", TEST_DEADLINE, || {
        let last = holders.lines().last_of(first.pid).map_or(0, |last| last.at - first.at);
        (Duration::from_nanos(last) > Duration::from_millis(800)).then_some(()).ok_or(last.to_string())
    });
    let stopped = holders.runner(&first.member).terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert_eq!(did(&holders, &first).last(), Some(&Did::End), "{}", stopped.log);
    holders.check();
}

#[test]
fn the_program_dies_with_its_node_that_is_killed_and_the_next_one_has_the_name() {
    let mut holders = holders(&[], &["a", "b", "c"]);
    let first = holders.wait_for_start(0);
    holders.runner(&first.member).kill();
    holders.wait_for_end(&first);
    let next = holders.wait_for_start(1);
    assert_ne!(next.member, first.member);
    assert!(next.epoch > first.epoch, "the token grows");
    holders.check();
}

/// SIGSTOP, as Ctrl-Z does it. The guard alone ends the program, while the name is still held.
#[test]
fn the_guard_ends_the_program_of_a_stopped_node_before_the_name_is_anothers() {
    let mut holders = holders(&["--ignore-term"], &["a", "b"]);
    let first = holders.wait_for_start(0);
    holders.stop_outside_a_commit(&first.member);
    holders.wait_for_end(&first);
    let did = did(&holders, &first);
    assert!(did.contains(&Did::Asked), "it was asked to end before it was killed");
    assert_eq!(did.last(), Some(&Did::Act));
    assert_eq!(holders.starts(), 1, "nobody has the name yet");
    let next = holders.wait_for_start(1);
    assert_ne!(next.member, first.member);
    holders.runner(&first.member).go_on();
    says(
        &mut holders,
        &first.member,
        &format!("waiting: \"program\" is held by an actor on {}", next.member),
    );
    assert_eq!(holders.starts(), 2, "it does not start a second one");
    // It has not given up.
    holders.runner(&next.member).kill();
    assert_eq!(holders.wait_for_start(2).member, first.member);
    holders.check();
}

#[test]
fn a_program_that_was_asked_to_end_too_early_is_started_again_under_the_same_token() {
    let mut holders = holders(&[], &["a"]);
    let first = holders.wait_for_start(0);
    // Longer than the program is trusted without a beat, and nobody else is there to close the session.
    holders.stop_outside_a_commit("a");
    holders.wait_for_end(&first);
    holders.runner("a").go_on();
    let next = holders.wait_for_start(1);
    assert_eq!((next.member.as_str(), next.epoch), ("a", first.epoch));
    holders.check();
}

#[test]
fn the_command_ends_with_its_program_and_gives_the_name_up() {
    let mut holders = holders(&["--exit-after", "20ms", "--status", "7"], &["a"]);
    let stopped = holders.runner("a").wait();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(7), "{}", stopped.log);
    // At once: the lease of a node that said nothing would have to end first.
    holders.set_options(&["--lease", "4s", "--stop-budget", "800ms"]);
    holders.launch("b");
    assert_eq!(holders.wait_for_start(1).member, "b");
    let stopped = holders.runner("b").wait();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(7), "{}", stopped.log);
    holders.check();
}

#[test]
fn the_program_dies_with_its_guard_and_the_command_with_it() {
    let mut holders = holders(&[], &["a", "b"]);
    let first = holders.wait_for_start(0);
    signal(guard_of(&first), Signal::KILL);
    holders.wait_for_end(&first);
    let stopped = holders.runner(&first.member).wait();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(1), "{}", stopped.log);
    let next = holders.wait_for_start(1);
    assert_ne!(next.member, first.member);
    holders.check();
}

/// By an operator, under a node that lives: its session is closed, and its rows are gone.
#[test]
fn a_program_whose_name_is_lost_is_killed_at_once_and_runs_again_under_a_greater_token() {
    let holders = holders(&[], &["a"]);
    let first = holders.wait_for_start(0);
    let (store, cluster) = holders.place();
    let wiped = Command::new(callsign())
        .args(["wipe", "--force", "--store", store, "--cluster", cluster, "--registry", "default"])
        .output()
        .unwrap();
    assert!(wiped.status.success(), "{wiped:?}");
    holders.wait_for_end(&first);
    let did = did(&holders, &first);
    assert!(!did.contains(&Did::Asked) && !did.contains(&Did::End), "it had no time to end: {did:?}");
    let next = holders.wait_for_start(1);
    assert_eq!(next.member, "a");
    assert!(next.epoch > first.epoch, "the token grows");
    holders.check();
}

#[test]
fn a_store_that_cannot_be_reached_is_waited_for() {
    let Some(mut store) = TestStore::postgres() else { return };
    let url = store.url.clone();
    store.server().unwrap().stop();
    let mut holders = holders(&[], &[]);
    holders.options.extend(["--store", &url].map(OsString::from));
    holders.launch("a");
    says(&mut holders, "a", "it is tried again");
    store.server().unwrap().resume();
    assert_eq!(holders.wait_for_start(0).member, "a");

    // Not for ever.
    store.server().unwrap().stop();
    holders.options.extend(["--join-timeout", "100ms"].map(OsString::from));
    holders.launch("b");
    let given_up = holders.runner("b").wait();
    assert_eq!(given_up.status.and_then(|status| status.code()), Some(1), "{}", given_up.log);
    assert!(given_up.log.contains("cannot be reached"), "{}", given_up.log);
}

#[test]
fn without_wait_a_name_that_is_held_ends_the_command() {
    let mut holders = holders(&[], &["a"]);
    holders.wait_for_start(0);
    holders.set_options(&["--lease", "4s", "--stop-budget", "800ms"]);
    holders.launch("b");
    let stopped = holders.runner("b").wait();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(1), "{}", stopped.log);
    assert!(stopped.log.contains("\"program\" is held by an actor on a"), "{}", stopped.log);
    assert_eq!(holders.starts(), 1);
}

#[test]
fn whereis_prints_where_the_program_can_be_reached_and_what_else_it_says_of_itself() {
    let mut holders = Singleton::of_a_name(
        &["--lease", "4s", "--stop-budget", "800ms", "--address", "10.0.0.7:5432", "--meta", "zone=eu"],
        &[],
    );
    holders.launch("a");
    let start = holders.wait_for_start(0);
    let (store, cluster) = holders.place();
    let options = StartOptions {
        arguments: ["--cluster", cluster].map(Into::into).to_vec(),
        ..StartOptions::lease(Duration::from_secs(4))
    };
    let files = tempfile::tempdir().unwrap();
    let node = NodeProcess::start("observer", store, &options, files.path(), 1)
        .unwrap_or_else(|stopped| panic!("{}", stopped.log));
    let client: &Client = &node.client;
    eventually("the node knows the name", TEST_DEADLINE, || {
        client.get("/whereis", &[("name", "program")]).result()
    });
    let asked =
        Command::new(callsign()).args(["whereis", "program", "--node", client.address()]).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    let expected = format!(
        "NAME     NODE  TOKEN  ADDRESS        METADATA\nprogram  a     {:<5}  10.0.0.7:5432  zone=eu\n",
        start.epoch
    );
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&asked.stderr));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    for (arguments, says) in [
        (&["x", "--", "/no/such/program"][..], "/no/such/program is not found"),
        (&["x", "--", "/etc/passwd"], "/etc/passwd may not be executed"),
        (&["x", "--", "/bin"], "/bin is a directory"),
        (&["x", "--meta", "=eu", "--", "true"], "the field has no name"),
        (&["x", "--member", "a b", "--", "true"], "--member"),
        (&["x", "--stop-budget", "9s", "--", "true"], "room for"),
        (&["x", "--address", "nowhere", "--", "true"], "HOST:PORT"),
        (&["x", "--address", "h:1", "--meta", "address=h:2", "--", "true"], "twice"),
        (&["x", "--lease", "10ms", "--", "true"], "--lease-anyway"),
        (&["x"], "COMMAND"),
        (&["", "--", "true"], "NAME"),
    ] {
        let store = ["--store", "memory:"];
        let output = Command::new(callsign()).arg("hold").args(store).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

/// What these tests see depends on it.
#[test]
fn a_witness_says_once_that_it_was_asked_to_end_and_sees_another_one() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("witness");
    let witness = |more: &[&str]| {
        let mut command = Command::new(callsign());
        command.args(["witness", "--every", "1ms", "--file"]).arg(&file).args(more);
        command.env("CALLSIGN_PARENT", std::process::id().to_string());
        command.env("CALLSIGN_MEMBER", "a").env("CALLSIGN_TOKEN", "7").env_remove("CALLSIGN_EPOCH");
        command
    };
    let did = || -> Vec<Did> { Lines::read(&file).0.iter().map(|line| line.did).collect() };
    let mut first = witness(&["--ignore-term"]).spawn().unwrap();
    eventually("it acts", TEST_DEADLINE, || {
        let did = did();
        if did.contains(&Did::Act) { Ok(()) } else { Err(format!("{did:?}")) }
    });
    signal(first.id(), Signal::TERM);
    let did_then = eventually("it acts although it was asked to end", TEST_DEADLINE, || {
        let did = did();
        let asked = did.iter().position(|did| *did == Did::Asked);
        if asked.is_some_and(|asked| did.len() > asked + 5) { Ok(did) } else { Err(format!("{did:?}")) }
    });
    assert_eq!(did_then.iter().filter(|did| **did == Did::Asked).count(), 1, "{did_then:?}");
    assert_eq!(did_then[..2], [Did::Start, Did::Act]);

    let second = witness(&["--exit-after", "20ms", "--status", "7"]).status().unwrap();
    assert_eq!(second.code(), Some(7));
    let lines = Lines::read(&file);
    let overlap = lines.starts().last().unwrap();
    assert_eq!((overlap.did, overlap.epoch, overlap.member.as_str()), (Did::Overlap, 7, "a"));
    assert_eq!(lines.last_of(overlap.pid).map(|line| line.did), Some(Did::End));
    first.kill().unwrap();
    first.wait().unwrap();
}
