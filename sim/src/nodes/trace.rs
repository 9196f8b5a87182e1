//! What happened, a line each, and a number that stands for all of it.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::lock::lock;
use foldhash::quality::FixedState;

/// The lines of a run. Clones write to the same.
#[derive(Clone, Debug)]
pub struct RunTrace(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    hash: u64,
    count: u64,
    /// The last one, for its room.
    line: String,
    /// Nothing is kept unless somebody wants to read it.
    kept: Option<Vec<String>>,
    /// Numbers that were drawn, by what they are called here: in the order in which they appear.
    names: BTreeMap<u64, u64>,
}

impl RunTrace {
    /// An empty one; its lines are kept if they are to be read.
    pub fn new(keeps: bool) -> Self {
        let kept = keeps.then(Vec::new);
        Self(Arc::new(Mutex::new(Lines {
            hash: 0,
            count: 0,
            line: String::new(),
            kept,
            names: BTreeMap::new(),
        })))
    }

    /// Writes a line.
    pub fn line(&self, at: Duration, who: &str, what: &str) {
        self.write(at, who, |line| line.write_str(what));
    }

    /// Writes a line that says this.
    pub fn write(&self, at: Duration, who: &str, what: impl FnOnce(&mut String) -> fmt::Result) {
        let mut lines = lock(&self.0);
        let mut line = std::mem::take(&mut lines.line);
        line.clear();
        write!(line, "{:>5}.{:06} {who:<6} ", at.as_secs(), at.subsec_micros())
            .and_then(|()| what(&mut line))
            .expect("a string takes everything");
        let mut hash = FixedState::with_seed(lines.hash).build_hasher();
        hash.write(line.as_bytes());
        lines.hash = hash.finish();
        lines.count += 1;
        if let Some(kept) = &mut lines.kept {
            kept.push(line.clone());
        }
        lines.line = line;
    }

    /// What a drawn number is called in this trace.
    pub fn name(&self, drawn: u64) -> u64 {
        let mut lines = lock(&self.0);
        let next = lines.names.len() as u64 + 1;
        *lines.names.entry(drawn).or_insert(next)
    }

    /// The number that stands for it, and how many lines it has.
    pub fn sum(&self) -> (u64, u64) {
        let lines = lock(&self.0);
        (lines.hash, lines.count)
    }

    /// The lines, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.0).kept.clone().unwrap_or_default()
    }
}
