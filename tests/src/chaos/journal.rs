//! What a node of a chaos run writes down, a line each, before and after everything that it does.
//!
//! A file of the machine outlives a SIGKILL: what was written is there. Moments are nanoseconds of the machine's boot-time
//! clock, which all its processes share and nobody sets.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use callsign_sim::histories;
use callsign_store::lock::lock;
use rustix::time::{ClockId, clock_gettime};

use super::event::{At, Event};

/// Now.
pub fn now() -> At {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Where a process writes its lines.
#[derive(Debug)]
pub struct Journal(Mutex<File>);

impl Journal {
    /// Goes on with a file, or begins it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }
}

impl histories::Journal for Journal {
    fn now(&self) -> At {
        now()
    }

    /// Writes a line, with one call of the kernel. Ends the process if it cannot be written: a history with a hole proves
    /// nothing.
    fn write(&self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("plain data has JSON");
        line.push(b'\n');
        let mut file = lock(&self.0);
        if let Err(error) = file.write_all(&line) {
            eprintln!("the history cannot be written: {error}");
            std::process::exit(70);
        }
    }
}

/// Where nodes tell each other how far their watches are: a file for each, in this directory.
#[derive(Debug)]
pub struct Places(pub PathBuf);

impl Places {
    fn file(&self, node: &str) -> PathBuf {
        self.0.join(format!("watched-{node}"))
    }
}

impl histories::Positions for Places {
    fn tell(&self, node: &str, position: u64) {
        // Of two lives of a node one may come in the way of the other: then nobody hears of it.
        let new = self.0.join(format!("watched-{node}-{}", std::process::id()));
        let written = std::fs::write(&new, position.to_string());
        if let Err(error) = written.and_then(|()| std::fs::rename(&new, self.file(node))) {
            tracing::warn!("nobody hears how far this node's watch is: {error}");
        }
    }

    fn heard(&self, node: &str) -> Option<u64> {
        std::fs::read_to_string(self.file(node)).ok()?.parse().ok()
    }
}

/// The lines of a file. A last one that was not finished is not there.
pub fn read(path: &Path) -> io::Result<Vec<Event>> {
    let text = std::fs::read(path)?;
    let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    whole.map(|line| serde_json::from_slice(line).map_err(io::Error::other)).collect()
}
