//! What happened, a line each, and a number that stands for all of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_elector::lock::lock;

/// The lines of a run. Clones write to the same.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    hash: u64,
    count: u64,
    /// Nothing is kept unless somebody wants to read it.
    kept: Option<Vec<String>>,
    /// Numbers that were drawn, by what they are called here: in the order in which they appear.
    names: BTreeMap<u64, u64>,
}

impl Trace {
    /// An empty one; its lines are kept if they are to be read.
    pub fn new(keeps: bool) -> Self {
        let kept = keeps.then(Vec::new);
        Self(Arc::new(Mutex::new(Lines {
            hash: 0xcbf2_9ce4_8422_2325,
            count: 0,
            kept,
            names: BTreeMap::new(),
        })))
    }

    /// Writes a line.
    pub fn line(&self, at: Duration, who: &str, what: &str) {
        let mut lines = lock(&self.0);
        let line = format!("{:>12.6} {who:<6} {what}", at.as_secs_f64());
        // FNV-1a, over what people read.
        lines.hash = line
            .bytes()
            .fold(lines.hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        lines.count += 1;
        if let Some(kept) = &mut lines.kept {
            kept.push(line);
        }
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
