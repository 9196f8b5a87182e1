//! `callsign run`: never two programs, checked by the programs themselves, whatever is done to the nodes, their guards and
//! the programs.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use callsign_tests::{
    Did, Line, Singleton, TEST_DEADLINE, callsign, eventually, guard_of, parent_of, signal,
};
use rustix::process::Signal;

/// Long enough for a machine that does other things as well, short enough to wait for its end.
const OPTIONS: [&str; 6] = ["--lease", "4s", "--poll", "500ms", "--stop-budget", "800ms"];

fn three(witness: &[&str]) -> Singleton {
    Singleton::start(&OPTIONS, witness, &["a", "b", "c"])
}

/// Waits until a node says this.
fn says(singleton: &mut Singleton, name: &str, what: &str) {
    eventually(&format!("{name} says {what:?}"), TEST_DEADLINE, || {
        let log = singleton.runner(name).log();
        if log.contains(what) { Ok(()) } else { Err(log) }
    });
}

#[test]
fn a_node_that_is_stopped_in_good_order_ends_its_program_first_and_another_takes_over() {
    let mut singleton = three(&[]);
    for before in 1..=2 {
        let holder = singleton.wait_for_start(before - 1);
        let stopped = singleton.runner(&holder.member).terminate();
        assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
        for said in [
            "SIGTERM: stops",
            "the program is asked to end (TERM)",
            "stopped: nothing of the program is left, and the lease is given back",
        ] {
            assert!(stopped.log.contains(said), "{said:?} is missing: {}", stopped.log);
        }
        let next = singleton.wait_for_start(before);
        assert_ne!(next.member, holder.member);
        assert!(next.epoch > holder.epoch);
        let last = singleton.lines().last_of(holder.pid).cloned();
        assert_eq!(last.map(|line| line.did), Some(Did::End), "it was let end by itself");
    }
    singleton.check();
}

#[test]
fn a_node_that_waits_is_stopped_and_says_that_the_program_did_not_run_there() {
    let mut singleton = Singleton::start(&OPTIONS, &[], &["a"]);
    singleton.launch("b");
    says(&mut singleton, "b", "waiting: a leads in epoch");
    let stopped = singleton.runner("b").terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(stopped.log.contains("stopped: the program did not run here"), "{}", stopped.log);
}

#[test]
fn nodes_that_are_started_with_another_lease_take_part_by_the_one_that_was_agreed_on() {
    let mut singleton = Singleton::start(&["--lease", "2s"], &[], &["a"]);
    for (before, lease) in [(1, "60s"), (2, "1s")] {
        // Nobody gives it back: it is waited for by the lease that is in the store.
        singleton.runner("a").kill();
        singleton.set_options(&["--lease", lease]);
        singleton.launch("a");
        singleton.wait_for_start(before);
        says(&mut singleton, "a", "this singleton has a lease of 2s");
    }
    singleton.check();
}

#[test]
fn the_program_dies_with_its_node_that_is_killed_and_another_takes_over() {
    let mut singleton = three(&[]);
    for before in 1..=2 {
        let holder = singleton.wait_for_start(before - 1);
        singleton.runner(&holder.member).kill();
        singleton.wait_for_end(&holder);
        let next = singleton.wait_for_start(before);
        assert_ne!(next.member, holder.member);
        assert!(next.epoch > holder.epoch);
        singleton.launch(&holder.member);
    }
    singleton.check();
}

/// The bounds that `docs/figures.md` states for `callsign run`. The quickest of some rounds keeps them: another program of a busy
/// machine may hold up a round, but hardly all of them.
#[test]
fn another_node_takes_over_within_a_lease_and_a_poll_and_at_once_after_a_clean_stop() {
    let mut singleton = three(&[]);
    let (mut killed, mut stopped) = (Vec::new(), Vec::new());
    for before in 0..6 {
        let holder = singleton.wait_for_start(before);
        if before % 2 == 0 {
            let since = Instant::now();
            singleton.runner(&holder.member).kill();
            singleton.wait_for_start(before + 1);
            killed.push(since.elapsed());
        } else {
            singleton.runner(&holder.member).terminate();
            let since = Instant::now();
            singleton.wait_for_start(before + 1);
            stopped.push(since.elapsed());
        }
        singleton.launch(&holder.member);
    }
    println!("killed, to the next start: {killed:?}; stopped: {stopped:?}");
    let (lease, poll) = (Duration::from_secs(4), Duration::from_millis(500));
    // A start takes a moment, and the test looks for it every so often.
    let a_moment = Duration::from_millis(250);
    assert!(killed.iter().min() <= Some(&(lease + poll + a_moment)), "{killed:?}");
    assert!(stopped.iter().min() <= Some(&(Duration::from_millis(250) + a_moment)), "{stopped:?}");
    singleton.check();
}

/// SIGSTOP, as Ctrl-Z does it: the whole group of the node. Its guard is in another one.
fn the_guard_ends_the_program_of_a_stopped_node(witness: &[&str], ends: Did) {
    let mut singleton = three(witness);
    let holder = singleton.wait_for_start(0);
    singleton.stop_outside_a_commit(&holder.member);
    singleton.wait_for_end(&holder);
    let lines = singleton.lines();
    let did: Vec<_> = lines.0.iter().filter(|line| line.pid == holder.pid).map(|line| line.did).collect();
    assert!(did.contains(&Did::Asked), "it was asked to end before it was killed");
    assert_eq!(did.last(), Some(&ends));
    let next = singleton.wait_for_start(1);
    assert_ne!(next.member, holder.member);
    singleton.runner(&holder.member).go_on();
    says(&mut singleton, &holder.member, &format!("waiting: {} leads", next.member));
    assert_eq!(singleton.starts(), 2, "it does not start a second one");
    // It takes part again.
    for name in ["a", "b", "c"].into_iter().filter(|name| *name != holder.member) {
        singleton.runner(name).kill();
    }
    let again = singleton.wait_for_start(2);
    assert_eq!(again.member, holder.member);
    singleton.check();
}

#[test]
fn the_guard_ends_the_program_of_a_stopped_node_when_its_trust_ends() {
    the_guard_ends_the_program_of_a_stopped_node(&[], Did::End);
}

#[test]
fn the_guard_kills_a_program_of_a_stopped_node_that_does_not_end() {
    the_guard_ends_the_program_of_a_stopped_node(&["--ignore-term"], Did::Act);
}

#[test]
fn a_program_that_does_not_end_when_it_is_asked_is_killed_before_the_lease_is_given_back() {
    let mut singleton = three(&["--ignore-term"]);
    let holder = singleton.wait_for_start(0);
    let stopped = singleton.runner(&holder.member).terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(!Path::new(&format!("/proc/{}", holder.pid)).exists());
    let next = singleton.wait_for_start(1);
    assert_ne!(next.member, holder.member);
    singleton.check();
}

#[test]
fn a_second_signal_does_not_wait_for_the_program() {
    let options = ["--lease", "120s", "--poll", "500ms", "--stop-budget", "40s"];
    let mut singleton = Singleton::start(&options, &["--ignore-term"], &["a"]);
    let holder = singleton.wait_for_start(0);
    let runner = singleton.runner("a");
    runner.ask_to_end();
    eventually("the program was asked", TEST_DEADLINE, || {
        let asked = singleton.lines().0.iter().any(|line| line.did == Did::Asked);
        if asked { Ok(()) } else { Err("it was not".to_owned()) }
    });
    let runner = singleton.runner("a");
    let stopped = runner.terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(stopped.log.contains("the program is killed"), "{}", stopped.log);
    singleton.wait_for_end(&holder);
}

#[test]
fn the_program_dies_with_its_guard_and_is_started_again_under_another() {
    let mut singleton = three(&[]);
    let holder = singleton.wait_for_start(0);
    let guard = guard_of(&holder);
    signal(guard, Signal::KILL);
    singleton.wait_for_end(&holder);
    let next = singleton.wait_for_start(1);
    assert_eq!((next.member.as_str(), next.epoch), (holder.member.as_str(), holder.epoch), "in place");
    assert_ne!(guard_of(&next), guard);
    says(&mut singleton, &holder.member, "the guard is gone");
    singleton.check();
}

#[test]
fn the_program_dies_with_its_guard_also_while_its_node_is_stopped() {
    let mut singleton = three(&[]);
    let holder = singleton.wait_for_start(0);
    singleton.stop_outside_a_commit(&holder.member);
    signal(guard_of(&holder), Signal::KILL);
    singleton.wait_for_end(&holder);
    let asked = singleton.lines().0.iter().any(|line| line.did == Did::Asked);
    assert!(!asked, "killed by the kernel, before trust ended");
    let next = singleton.wait_for_start(1);
    assert_ne!(next.member, holder.member);
    singleton.runner(&holder.member).go_on();
    says(&mut singleton, &holder.member, &format!("waiting: {} leads", next.member));
    singleton.check();
}

#[test]
fn a_guard_that_is_stopped_still_kills_the_program_when_its_node_is_killed() {
    let mut singleton = three(&[]);
    let holder = singleton.wait_for_start(0);
    signal(guard_of(&holder), Signal::STOP);
    singleton.runner(&holder.member).kill();
    singleton.wait_for_end(&holder);
    singleton.wait_for_start(1);
    singleton.check();
}

#[test]
fn a_node_whose_guard_is_stopped_ends_the_program_itself() {
    let mut singleton = three(&[]);
    let holder = singleton.wait_for_start(0);
    signal(guard_of(&holder), Signal::STOP);
    let stopped = singleton.runner(&holder.member).terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(!Path::new(&format!("/proc/{}", holder.pid)).exists());
    singleton.wait_for_start(1);
    singleton.check();
}

/// A program that writes its process id, and each signal that it gets, to a file.
fn with_a_listener(names: &[&str]) -> (Singleton, PathBuf) {
    let mut singleton = Singleton::new(&OPTIONS, &[]);
    let received = singleton.file("received");
    let traps: Vec<_> = ["HUP", "USR1", "USR2", "WINCH"]
        .iter()
        .map(|signal| format!("trap 'echo {signal} >>{0}' {signal}; ", received.display()))
        .collect();
    let traps = traps.join("");
    let script = format!("{traps} echo pid $$ >>{}; while :; do sleep 0.05; done", received.display());
    singleton.program = ["sh", "-c", &script].map(Into::into).to_vec();
    for name in names {
        singleton.launch(name);
        // The first one has it.
        receives(&singleton, &received, "pid", 1);
    }
    (singleton, received)
}

/// Waits until the programs have written this so often, and returns the last such line.
fn receives(singleton: &Singleton, received: &Path, what: &str, count: usize) -> String {
    eventually(&format!("{what:?} is received {count} times"), TEST_DEADLINE, || {
        let text = std::fs::read_to_string(received).unwrap_or_default();
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(what)).collect();
        let is_received = lines.len() == count;
        if is_received {
            Ok(lines[count - 1].to_owned())
        } else {
            Err(format!("{text}\n{}", singleton.logs()))
        }
    })
}

#[test]
fn signals_for_the_program_are_handed_on_to_it_and_others_do_nothing() {
    let (mut singleton, received) = with_a_listener(&["a", "b"]);
    let program = receives(&singleton, &received, "pid", 1).replace("pid ", "").parse().unwrap();
    let guard = parent_of(program);
    let (node, waits) = (singleton.runner("a").pid(), singleton.runner("b").pid());
    let meant_for_it =
        [("HUP", Signal::HUP), ("USR1", Signal::USR1), ("USR2", Signal::USR2), ("WINCH", Signal::WINCH)];
    for (name, handed_on) in meant_for_it {
        signal(node, handed_on);
        receives(&singleton, &received, name, 1);
        // Neither is for a guard, nor is there anybody to hand it on to where nobody leads.
        signal(guard, handed_on);
        signal(waits, handed_on);
    }
    for ignored in [Signal::PIPE, Signal::ALARM, Signal::QUIT] {
        for process in [node, guard, waits] {
            signal(process, ignored);
        }
    }
    says(&mut singleton, "b", "SIGHUP: the program does not run here");
    signal(node, Signal::HUP);
    receives(&singleton, &received, "HUP", 2);
    assert_eq!(
        receives(&singleton, &received, "pid", 1),
        format!("pid {program}"),
        "it is still the same one"
    );
    let stopped = singleton.runner("a").terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    receives(&singleton, &received, "pid", 2);
}

/// A program whose real work is done by a process that left its group, its session and its parent.
fn with_a_stray(names: &[&str]) -> (Singleton, Line) {
    let mut singleton = Singleton::new(&OPTIONS, &[]);
    let stray: Vec<_> = singleton.program.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
    let script = format!("(setsid {} &); exec sleep 600", stray.join(" "));
    singleton.program = ["sh", "-c", &script].map(Into::into).to_vec();
    for name in names {
        singleton.launch(name);
    }
    let line = singleton.wait_for_start(0);
    (singleton, line)
}

#[test]
fn processes_that_left_the_programs_group_are_killed_with_it() {
    let (mut singleton, stray) = with_a_stray(&["a", "b"]);
    let stopped = singleton.runner(&stray.member).terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(!Path::new(&format!("/proc/{}", stray.pid)).exists());
    let next = singleton.wait_for_start(1);
    assert_ne!(next.member, stray.member);
    singleton.check();
    // The same if the node is killed, and if the guard is.
    signal(guard_of(&next), Signal::KILL);
    singleton.wait_for_end(&next);
    let next = singleton.wait_for_start(2);
    singleton.runner(&next.member).kill();
    singleton.wait_for_end(&next);
    singleton.check();
}

#[test]
fn a_program_that_ends_by_itself_is_started_again_three_times_and_then_elsewhere() {
    let singleton = Singleton::start(&OPTIONS, &["--exit-after", "20ms"], &["a", "b"]);
    singleton.wait_for_start(4);
    let lines = singleton.lines();
    let starts: Vec<_> = lines.starts().collect();
    for again in &starts[1..4] {
        assert_eq!((&again.member, again.epoch), (&starts[0].member, starts[0].epoch), "in place");
    }
    assert_ne!(starts[4].member, starts[0].member, "{}", singleton.logs());
    singleton.check();
}

#[test]
fn what_becomes_of_a_program_that_fails_is_said_and_where_it_failed_its_next_term_begins_later() {
    let options = ["--lease", "4s", "--poll", "100ms", "--stop-budget", "800ms"];
    let mut singleton = Singleton::start(&options, &["--exit-after", "20ms", "--status", "1"], &["a"]);
    let later = "the program failed here before: it starts in 1s";
    says(&mut singleton, "a", later);
    let stopped = singleton.runner("a").terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    let mut rest = stopped.log.as_str();
    for said in [
        ", started as process ",
        "the program has ended, with exit status 1: started again (1 of 3 times in 30s)",
        ", started as process ",
        "started again (2 of 3 times in 30s)",
        "started again (3 of 3 times in 30s)",
        "the program has ended, with exit status 1: another node may have it",
        "leads no more: the program does not run here",
        later,
        "SIGTERM: stops",
    ] {
        let found = rest.split_once(said);
        rest = found.unwrap_or_else(|| panic!("{said:?} is missing, or too early: {}", stopped.log)).1;
    }
    singleton.check();
}

#[test]
fn with_on_exit_release_another_node_has_it_next() {
    let options = [&OPTIONS[..], &["--on-exit", "release"]].concat();
    let singleton = Singleton::start(&options, &["--exit-after", "20ms", "--status", "1"], &["a", "b"]);
    let next = singleton.wait_for_start(1);
    let first = singleton.lines().starts().next().cloned().unwrap();
    assert_ne!(next.member, first.member);
    assert!(next.epoch > first.epoch);
    singleton.check();
}

#[test]
fn with_on_exit_stop_the_command_ends_with_the_programs_status_and_another_node_has_it() {
    let options = [&OPTIONS[..], &["--on-exit", "stop"]].concat();
    let mut singleton = Singleton::start(&options, &["--exit-after", "20ms", "--status", "7"], &["a", "b"]);
    for name in ["a", "b"] {
        let stopped = singleton.runner(name).wait();
        assert_eq!(stopped.status.and_then(|status| status.code()), Some(7), "{}", stopped.log);
    }
    let lines = singleton.lines();
    let members: Vec<_> = lines.starts().map(|start| start.member.as_str()).collect();
    assert!(members == ["a", "b"] || members == ["b", "a"], "{members:?}");
    singleton.check();
}

#[test]
fn a_program_that_was_killed_is_told_as_shells_tell_it() {
    let options = [&OPTIONS[..], &["--on-exit", "stop"]].concat();
    let mut singleton = Singleton::start(&options, &[], &["a"]);
    signal(singleton.wait_for_start(0).pid, Signal::KILL);
    let stopped = singleton.runner("a").wait();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(128 + 9), "{}", stopped.log);
    let said = "the program was ended by signal 9: so ends this command";
    assert!(stopped.log.contains(said), "{}", stopped.log);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    for (arguments, says) in [
        (&["--singleton", "x", "--", "/no/such/program"][..], "/no/such/program is not found"),
        (&["--singleton", "a/b", "--", "true"], "--singleton"),
        (&["--singleton", "x", "--member", "a b", "--", "true"], "--member"),
        (&["--singleton", "x", "--stop-budget", "9s", "--", "true"], "stop budget 9s"),
        (&["--singleton", "x", "--store", "memory:", "--", "true"], "share"),
        (&["--singleton", "x"], "COMMAND"),
        (&["--", "true"], "--singleton"),
    ] {
        let output = Command::new(callsign()).arg("run").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn a_store_that_cannot_be_reached_is_waited_for() {
    let mut singleton = Singleton::new(&["--store", "postgres://nobody@127.0.0.1:1/none"], &[]);
    singleton.launch("a");
    says(&mut singleton, "a", "tries again");
    let stopped = singleton.runner("a").terminate();
    assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{}", stopped.log);
    assert!(stopped.log.contains("SIGTERM: nothing was started"), "{}", stopped.log);
}

#[test]
fn without_a_store_it_is_in_a_file_that_all_processes_of_the_user_find() {
    let files = tempfile::tempdir().unwrap();
    let run = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(callsign());
        command.args(["run", "--singleton", "x", "--lease-anyway", "--on-exit", "stop", "--", "true"]);
        for name in ["CALLSIGN_STORE", "CALLSIGN_CONFIG", "XDG_STATE_HOME", "HOME"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).env("CALLSIGN_PARENT", std::process::id().to_string());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (state, home) = (files.path().join("state"), files.path().join("home"));
    let in_home = home.join(".local/state/callsign/run.db");
    let (code, said) = run(&[("XDG_STATE_HOME", state.as_path()), ("HOME", home.as_path())]);
    assert_eq!(code, Some(0), "{said}");
    assert!(state.join("callsign/run.db").exists() && !in_home.exists(), "{said}");
    let (code, said) = run(&[("XDG_STATE_HOME", Path::new("")), ("HOME", home.as_path())]);
    assert_eq!(code, Some(0), "{said}");
    assert!(in_home.exists(), "{said}");
    let (code, said) = run(&[]);
    assert!(code == Some(2) && said.contains("give --store"), "{said}");
}
