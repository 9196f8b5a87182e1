//! Asks every node, all the time, what it holds.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use callsign_store::lock::lock;
use serde::Deserialize;

use crate::{
    client::Answer,
    history::{History, Life, Span},
};

/// Between two questions to a node: enough to see a hold of some ten milliseconds, without being most of the load.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// The living nodes, as those who ask them in the background find them.
pub(crate) type Directory = Arc<Mutex<BTreeMap<String, Arc<Life>>>>;

/// The current incarnation of a node.
pub(crate) fn current(directory: &Directory, node: &str) -> Option<Arc<Life>> {
    let directory = lock(directory);
    directory.get(node).filter(|life| life.ended().is_none()).cloned()
}

#[derive(Deserialize)]
struct HeldName {
    name: String,
    token: u64,
    trusted: bool,
}

#[derive(Deserialize)]
struct AllHeld {
    held: Vec<HeldName>,
}

/// Asks every node what it holds, until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(directory: &Directory, nodes: &[String], history: &Arc<History>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = nodes.iter().map(|node| {
            let (directory, node, history) = (directory.clone(), node.clone(), history.clone());
            let ends = ends.clone();
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    if let Some(life) = current(&directory, &node) {
                        let asked = Instant::now();
                        let answer = life.client.get("/held", &[]);
                        note(&history, &life, asked, answer);
                    }
                    thread::sleep(SAMPLE_INTERVAL);
                }
            })
        });
        let threads = threads.collect();
        Self { ends, threads }
    }
}

/// Notes what a node says it holds.
pub(crate) fn note(history: &History, life: &Life, asked: Instant, answer: Answer) {
    let Answer::Ok(body) = answer else { return };
    let span = Span::since(asked);
    let Ok(AllHeld { held }) = serde_json::from_value(body) else {
        return history.breach(format!("{} answers /held in another form", life.node));
    };
    for HeldName { name, token, trusted } in held {
        history.held(life, &name, token, span, trusted);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It ends with its last question; a test that failed does not wait for nodes that are stopped.
            if !thread::panicking() {
                let _ = thread.join();
            }
        }
    }
}
