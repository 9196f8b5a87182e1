//! A store on a file system without room: nobody spins or fills the log, and all resumes by itself.

use std::time::{Duration, Instant};

use callsign_tests::{NodeProcess, SmallDisk, StartOptions, TEST_DEADLINE, TestStore, eventually};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(3);
/// What a node may log until then. A node that logs every failed commit has thousands of lines.
const LINES: usize = 150;

/// What the disk of a file has room for, and that of a server.
const ROOM: u64 = 4 << 20;
const ROOM_OF_A_SERVER: u64 = 128 << 20;

#[test]
fn a_full_file_system_makes_nobody_spin_and_all_resumes_when_there_is_room() {
    let disk = match SmallDisk::mount(ROOM) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: {why}"),
    };
    let (place, logs) = (TestStore::file(disk.path()), tempfile::tempdir().unwrap());
    let mut nodes = ["a", "b"].map(|name| {
        NodeProcess::start(name, &place.url, &StartOptions::lease(LEASE), logs.path(), 0)
            .unwrap_or_else(|stopped| panic!("{name} did not start: {}", stopped.log))
    });
    for node in &nodes {
        let name = format!("before-{}", node.life.node);
        eventually("a registration before", TEST_DEADLINE, || node.client.register(&name).result());
    }

    let filler = disk.fill();
    let (began, cpu) = (Instant::now(), nodes.each_ref().map(NodeProcess::cpu));
    let lines = nodes.each_ref().map(|node| node.log().lines().count());
    // One registration is in flight at each, and its caller gives up.
    for node in &nodes {
        let name = format!("during-{}", node.life.node);
        let asked = node.client.post("/register", &json!({"name": name, "wait_ms": 500}));
        assert!(["unknown", "store_unavailable", "lapsed"].contains(&asked.code()), "{asked:?}");
    }
    for node in &nodes {
        eventually("the end of trust", TEST_DEADLINE, || match node.client.whereis("before-a").code() {
            "lapsed" => Ok(()),
            code => Err(code.to_owned()),
        });
    }
    for ((node, before), logged) in nodes.iter().zip(cpu).zip(lines) {
        let (took, lasted) = (node.cpu().saturating_sub(before), began.elapsed());
        let more = node.log().lines().count() - logged;
        println!("{}: {took:?} of a processor and {more} lines in {lasted:?}", node.life.node);
        assert!(took <= lasted / 4, "{} spins: {took:?} in {lasted:?}", node.life.node);
        assert!(more <= LINES, "{} has logged {more} lines", node.life.node);
    }

    std::fs::remove_file(filler).unwrap();
    for node in &mut nodes {
        let name = format!("after-{}", node.life.node);
        eventually("a registration afterwards", TEST_DEADLINE, || node.client.register(&name).result());
        assert!(node.is_running());
    }
}

/// The server may end by itself, when it cannot write its log. Then somebody has to start it when there is room.
#[test]
fn a_postgres_without_room_promises_nothing_and_all_resumes_when_there_is_room() {
    let disk = match SmallDisk::mount(ROOM_OF_A_SERVER) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: {why}"),
    };
    let Some(mut place) = TestStore::postgres_in(disk.path()) else { return };
    let logs = tempfile::tempdir().unwrap();
    let mut nodes = ["a", "b"].map(|name| {
        NodeProcess::start(name, &place.url, &StartOptions::lease(LEASE), logs.path(), 0)
            .unwrap_or_else(|stopped| panic!("{name} did not start: {}", stopped.log))
    });
    let held = nodes[0].client.register("before").ok();

    let filler = disk.fill();
    let mut asked = 0;
    let mut register = || {
        asked += 1;
        let name = format!("during-{asked}");
        nodes[1].client.post("/register", &json!({"name": name, "wait_ms": 500})).code().to_owned()
    };
    for node in &nodes {
        eventually("the end of trust", TEST_DEADLINE, || {
            // What the server has taken of the disk, or gives back, does for some commits.
            disk.fill();
            register();
            match node.client.whereis("before").code() {
                "lapsed" => Ok(()),
                code => Err(code.to_owned()),
            }
        });
    }
    let refused = register();
    assert!(["unknown", "store_unavailable", "lapsed"].contains(&refused.as_str()), "{refused}");

    std::fs::remove_file(filler).unwrap();
    let had_ended = place.server().unwrap().revive();
    println!("{asked} registrations were asked for; the server had ended by itself: {had_ended}");
    for node in &mut nodes {
        let name = format!("after-{}", node.life.node);
        eventually("a registration afterwards", TEST_DEADLINE, || node.client.register(&name).result());
        assert!(node.is_running());
    }
    let found = nodes[1].client.whereis_consistent("before").ok();
    assert_eq!(found["token"], held["token"], "what was acknowledged before is kept");
}
