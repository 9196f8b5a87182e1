//! A store on a file system without room: nobody spins or fills the log, and all resumes by itself.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use callsign_tests::{NodeProcess, StartOptions, TEST_DEADLINE, TestStore, eventually};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(3);
/// What a node may log until then. A node that logs every failed commit has thousands of lines.
const LINES: usize = 150;

/// A file system of its own, in memory; gone with this.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, and a line that says why, where it cannot be mounted.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(directory.path()).output();
        let why = match done {
            Ok(done) if done.status.success() => return Some(Self(directory)),
            Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: no tmpfs can be mounted: {why}");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until there is no room.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut filler = File::create(&path).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status(); // it is gone with the machine at the latest
    }
}

#[test]
fn a_full_file_system_makes_nobody_spin_and_all_resumes_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
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
