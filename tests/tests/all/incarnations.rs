//! A node and its former self: whose name it is, how long one is waited for, and what proves that it is dead.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use callsign_tests::{Cluster, StartOptions, TestStore, leave_behind};

const LEASE: Duration = Duration::from_secs(3);

/// Where the lock files are of the nodes over this store, if it is a file.
fn lives(store: &TestStore) -> Option<PathBuf> {
    let path = store.url.strip_prefix("sqlite:")?;
    Some(PathBuf::from(format!("{path}-lives")))
}

/// Puts copies of the files in the place of a directory, as a backup does that is put back.
fn replace_by_copy(directory: &Path) {
    let aside = directory.with_extension("aside");
    fs::rename(directory, &aside).unwrap();
    fs::create_dir(directory).unwrap();
    for file in fs::read_dir(&aside).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), directory.join(file.file_name())).unwrap();
    }
}

#[test]
fn nodes_join_behind_10_050_names_that_came_and_went() {
    let files = tempfile::tempdir().unwrap();
    let place = TestStore::new(files.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(leave_behind(&place.url, &place.cluster, LEASE, 10_050));
    // Both sort behind all of them.
    let mut cluster = Cluster::start_over(place, StartOptions::lease(LEASE), &["x", "z"]);
    let token = cluster.register("z", "desk");
    let held = cluster.node("x").client.whereis_consistent("desk").ok();
    assert_eq!(held["token"].as_u64(), Some(token));
    // A name that came and went comes back.
    cluster.launch("pod-000007");
    cluster.wait_until_ready();
    cluster.check();
}

#[test]
fn a_node_that_is_started_with_a_shorter_lease_waits_by_that_of_its_former_self() {
    let former = Duration::from_secs(9);
    let mut cluster = Cluster::start(StartOptions::lease(former), &["a"]);
    cluster.kill("a");
    // Where a store proves deaths, nothing is left that could.
    if let Some(lives) = lives(&cluster.place) {
        fs::remove_dir_all(lives).unwrap();
    }
    let begun = Instant::now();
    cluster.launch_with("a", &StartOptions::lease(Duration::from_secs(2)));
    cluster.wait_until_ready();
    assert!(begun.elapsed() > former / 2, "it was waited for: {:?}", begun.elapsed());
}

#[test]
fn a_node_whose_name_is_held_by_one_that_lives_fails_soon_and_says_so_in_words() {
    let lease = Duration::from_secs(10);
    let mut cluster = Cluster::start(StartOptions::lease(lease), &["a"]);
    let begun = Instant::now();
    let refused = cluster.refused("a", &StartOptions::lease(lease));
    let took = begun.elapsed();
    assert_eq!(refused.status.and_then(|status| status.code()), Some(1), "{}", refused.log);
    // It sees the other one beat, which that does every 2 s.
    assert!(took < Duration::from_secs(10), "it failed after {took:?} only:\n{}", refused.log);
    let last = refused.log.lines().last().unwrap_or_default();
    assert!(last.contains("a node a is alive already"), "{}", refused.log);
    for debug in ["NameInUse", "Incarnation(", "{ node"] {
        assert!(!refused.log.contains(debug), "{debug} is not for people:\n{}", refused.log);
    }
    cluster.no_session_was_lost();
}

#[test]
fn lock_files_that_are_replaced_by_copies_cost_no_living_node_its_session() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let Some(lives) = lives(&cluster.place) else { return };
    replace_by_copy(&lives);
    // Long enough to be suspected, and too short for its lease.
    cluster.stop_outside_a_commit("c");
    std::thread::sleep(LEASE / 2);
    cluster.node("c").go_on();
    cluster.wait_until_ready();
    cluster.no_session_was_lost();
    for name in cluster.names() {
        let log = cluster.node(&name).log();
        assert!(log.contains("its death cannot be proven any more"), "{name} says nothing:\n{log}");
    }
    // The next one of its name has a lock file of its own.
    cluster.kill("c");
    cluster.launch("c");
    cluster.wait_until_ready();
}
