//! `callsign-chaos --netns`: nodes in network namespaces, whose packets are lost.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use callsign_tests::{
    Carried, Links, TEST_DEADLINE, TestStore,
    chaos::{
        event::{Answer, At, Event},
        journal::now,
        report::again,
        settle,
        world::{Setup, World},
    },
    eventually,
};
use rustix::process::{Pid, Signal, kill_process};

const CHAOS: &str = env!("CARGO_BIN_EXE_callsign-chaos");
/// `false`, and a line that says why, where there are none.
fn can_be_had() -> bool {
    Links::in_namespaces(&["a", "b"].map(str::to_owned)).map_err(|why| println!("skipped: {why}")).is_ok()
}

/// Waits until clients on these nodes were granted names after that moment, each of them.
fn wait_for_grants(world: &World, nodes: &[String], after: At) {
    let is_grant =
        |event: &Event| matches!(event, Event::Told { at, answer: Answer::Granted(_), .. } if *at > after);
    for node in nodes {
        eventually(&format!("{node} is granted a name"), TEST_DEADLINE, || {
            if world.history(node).iter().any(is_grant) { Ok(()) } else { Err("not yet".to_owned()) }
        });
    }
}

fn wait_for_another_leader(world: &World, than: &str) -> String {
    eventually(&format!("another than {than} leads"), TEST_DEADLINE, || {
        world.leader().filter(|leader| leader != than).ok_or("not yet".to_owned())
    })
}

/// Over a file whatever the environment says.
#[test]
fn names_go_on_while_the_leaders_packets_are_lost_one_way_and_then_both_ways() {
    if !can_be_had() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup {
        nodes: 3,
        lease: Duration::from_secs(3),
        seed: 1,
        clocks: false,
        plant: None,
        netns: true,
        program: PathBuf::from(CHAOS),
        records: true,
        callsign: None,
        arguments: Vec::new(),
    };
    let mut world = World::new(directory.path(), TestStore::file(directory.path()), setup).unwrap();
    let names = world.names();
    for name in &names {
        world.launch(name);
    }
    wait_for_grants(&world, &names, 0);
    for is_one_way in [true, false] {
        let leader = wait_for_another_leader(&world, "");
        let others: Vec<_> = names.iter().filter(|name| **name != leader).cloned().collect();
        if is_one_way {
            for other in &others {
                world.links.cut_way(&leader, other);
            }
        } else {
            world.links.isolate(&leader);
        }
        let cut = now();
        wait_for_another_leader(&world, &leader);
        wait_for_grants(&world, &others, cut);
        let healed = now();
        world.links.heal_all();
        wait_for_grants(&world, &names, healed);
    }
    let carried = world.links.carried();
    assert!(matches!(carried, Carried::Packets { lost: 1.. }), "{carried}");
    settle(&world, TEST_DEADLINE).unwrap();
    world.end().unwrap();
    assert_eq!(world.breaches, Vec::<String>::new());
    let verdict = again(directory.path()).unwrap();
    assert_eq!(verdict.breaches, Vec::<String>::new());
    // Whether a name is left at the end is up to chance.
    assert!(verdict.checked["tokens of one actor"] > 0, "{:?}", verdict.checked);
    assert!(verdict.elections.len() > 2, "one for each cut: {:?}", verdict.elections);
}

/// The network namespaces of processes, by what the kernel calls them.
fn network_of(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path.join("ns").exists())
}

/// A field of what the kernel says of a process, counted from its state: 0.
fn field_of(process: &Path, nth: usize) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // PID (NAME) STATE PARENT
    stat.rsplit_once(") ")?.1.split(' ').nth(nth)?.parse().ok()
}

fn is_child_of(process: &Path, parent: u32) -> bool {
    field_of(process, 1) == Some(parent.into())
}

/// When a process began, in ticks since the machine did.
fn begun(process: &Path) -> Option<u64> {
    field_of(process, 19)
}

#[test]
fn a_run_that_is_killed_leaves_no_namespace_behind() {
    if !can_be_had() {
        return;
    }
    let own = network_of(Path::new("/proc/self")).unwrap();
    for signal in [Signal::KILL, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let mut run = Command::new(CHAOS)
            .args(["--netns", "--nodes", "3", "--minutes", "5", "--lease", "2", "--only", "cut", "--out"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let networks = eventually("every node runs in a namespace", TEST_DEADLINE, || {
            let children: Vec<_> = processes().filter(|process| is_child_of(process, run.id())).collect();
            let networks: Vec<_> = children.iter().filter_map(|child| network_of(child)).collect();
            let private: BTreeSet<_> = networks.iter().filter(|network| **network != own).cloned().collect();
            // A shell and a node in each.
            let inhabited = networks.iter().filter(|network| private.contains(*network)).count();
            if private.len() == 3 && inhabited == 6 { Ok(private) } else { Err(format!("{networks:?}")) }
        });
        let pid = Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        run.wait().unwrap();
        // The kernel gives the number of a namespace that is gone to the next, which may be another test's: whoever is in
        // that one has begun later than this.
        let mut mark = Command::new("sleep").arg("60").spawn().unwrap();
        let gone = begun(Path::new(&format!("/proc/{}", mark.id()))).unwrap();
        mark.kill().and_then(|()| mark.wait()).unwrap();
        eventually("nobody is in these namespaces", TEST_DEADLINE, || {
            let left: Vec<_> = processes()
                .filter(|process| network_of(process).is_some_and(|network| networks.contains(&network)))
                .filter(|process| begun(process).is_some_and(|begun| begun <= gone))
                .collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
}

#[test]
fn where_there_are_no_namespaces_one_line_says_why() {
    let no_programs =
        Command::new(CHAOS).args(["--netns", "--minutes", "0.01"]).env("PATH", "").output().unwrap();
    let out_of_reach = Command::new(CHAOS)
        .args(["--netns", "--minutes", "0.01", "--store", "postgres://me@192.0.2.1/db"])
        .output()
        .unwrap();
    for (output, why) in
        [(no_programs, "make network namespaces|need the program"), (out_of_reach, "Unix socket")]
    {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(why.split('|').any(|why| said.contains(why)), "{said}");
    }
}
