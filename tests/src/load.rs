//! Clients that register, unregister and register again, all the time.
//!
//! On each node two of them: one with names of its node's own, one with names that the clients of all nodes contest.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    client::Answer,
    history::{History, Life, Span},
    sampler::{Directory, current},
    wait::wait_for,
};

/// Between two requests of a client.
const REQUEST_PAUSE: Duration = Duration::from_millis(5);

/// Names of a node's own.
const OWN: usize = 20;
/// Names that all contest.
const CONTESTED: usize = 3;

/// What a client believes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    Free,
    Held(u64),
    /// The last request has no verdict.
    Unsure,
}

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    ends: Arc<AtomicBool>,
    clients: Vec<(String, JoinHandle<()>)>,
}

impl Load {
    pub(crate) fn start(directory: &Directory, nodes: &[String], history: &Arc<History>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let own = (0..OWN).map(|i| format!("{node}-{i}")).collect();
            let contested = (0..CONTESTED).map(|i| format!("contested-{i}")).collect();
            for (names, keeps) in [(own, true), (contested, false)] {
                let seed = (index as u64 * 2 + u64::from(keeps)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let client = LoadClient {
                    directory: directory.clone(),
                    node: node.clone(),
                    peers: nodes.to_vec(),
                    history: history.clone(),
                    names,
                    keeps,
                    draws: seed,
                };
                let ends = ends.clone();
                clients.push((node.clone(), thread::spawn(move || client.run(&ends))));
            }
        }
        Self { ends, clients }
    }

    /// Ends the load and waits until every client has a verdict on every name, of which it keeps its own.
    pub fn finish(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for (node, client) in self.clients.drain(..) {
            assert!(client.join().is_ok(), "a client of {node} got stuck");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

struct LoadClient {
    directory: Directory,
    node: String,
    peers: Vec<String>,
    history: Arc<History>,
    names: Vec<String>,
    /// Whether names are kept for a while, and in the end.
    keeps: bool,
    draws: u64,
}

impl LoadClient {
    fn draw(&mut self, below: usize) -> usize {
        // xorshift: which name is next must only not be the same everywhere.
        self.draws |= 1;
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        usize::try_from(self.draws >> 33).unwrap_or(0) % below
    }

    fn run(mut self, ends: &AtomicBool) {
        let mut beliefs = vec![Belief::Free; self.names.len()];
        let mut former: Option<Arc<Life>> = None;
        while !ends.load(Ordering::Relaxed) {
            thread::sleep(REQUEST_PAUSE);
            let Some(life) = current(&self.directory, &self.node) else { continue };
            if former.as_ref().is_none_or(|former| former.incarnation != life.incarnation) {
                beliefs.fill(Belief::Free);
                former = Some(life.clone());
            }
            let index = self.draw(self.names.len());
            beliefs[index] = self.act(&life, index, beliefs[index]);
        }
        self.settle(&beliefs, former.as_ref());
    }

    fn act(&mut self, life: &Life, index: usize, belief: Belief) -> Belief {
        let name = self.names[index].clone();
        match belief {
            Belief::Free | Belief::Unsure => {
                let belief = self.register(life, &name);
                if self.keeps
                    && let Belief::Held(_) = belief
                {
                    self.read_elsewhere(&name);
                }
                belief
            }
            // What is kept is now and then asked for again: the same actor gets the same token.
            Belief::Held(token) if self.keeps && self.draw(4) == 0 => match self.register(life, &name) {
                Belief::Held(again) if again != token => {
                    // Legal only if the session was lost between, which `denied` is judged by, too.
                    self.history.denied(life, &name);
                    Belief::Held(again)
                }
                belief => belief,
            },
            Belief::Held(_) => self.unregister(life, &name),
        }
    }

    fn register(&self, life: &Life, name: &str) -> Belief {
        let asked = Instant::now();
        let answer = life.client.register(name);
        let span = Span::since(asked);
        match answer {
            Answer::Ok(body) => {
                let Some(token) = body["token"].as_u64() else {
                    self.history.breach(format!("{name} was registered without a token: {body}"));
                    return Belief::Unsure;
                };
                let is_new = self.history.granted(life, name, token, span);
                self.history.count(if is_new { "registered" } else { "registered already" });
                Belief::Held(token)
            }
            Answer::Refused(body) => {
                self.history.count(body["error"].as_str().unwrap_or("other"));
                if body["error"] != "taken" {
                    return Belief::Unsure;
                }
                if let Some(token) = body["holder"]["token"].as_u64() {
                    self.history.taken(name, token, span);
                }
                Belief::Free
            }
            Answer::None(_) => {
                self.history.count("unanswered");
                self.history.unanswered(life, name);
                Belief::Unsure
            }
        }
    }

    fn unregister(&self, life: &Life, name: &str) -> Belief {
        self.history.giving_up(life, name);
        match life.client.unregister(name) {
            Answer::Ok(_) => {
                self.history.count("unregistered");
                self.history.freed(life, name);
                Belief::Free
            }
            Answer::Refused(body) => {
                self.history.count(body["error"].as_str().unwrap_or("other"));
                if body["error"] == "not_held_here" {
                    self.history.denied(life, name);
                }
                Belief::Free
            }
            Answer::None(_) => {
                self.history.count("unanswered");
                self.history.unanswered(life, name);
                Belief::Unsure
            }
        }
    }

    /// Another node, asked for what is there now, must not answer with less.
    fn read_elsewhere(&mut self, name: &str) {
        let peer = self.draw(self.peers.len());
        let Some(life) = current(&self.directory, &self.peers[peer]) else { return };
        let asked = Instant::now();
        match life.client.whereis_consistent(name) {
            Answer::Ok(body) => self.history.read(name, body["token"].as_u64(), Span::since(asked)),
            Answer::Refused(body) if body["error"] == "not_found" => {
                self.history.read(name, None, Span::since(asked));
            }
            answer => self.history.count(&format!("consistent read: {}", answer.code())),
        }
    }

    /// Gets a verdict on every name; of its own ones it registers all.
    fn settle(&self, beliefs: &[Belief], former: Option<&Arc<Life>>) {
        for (name, belief) in self.names.iter().zip(beliefs) {
            let mut belief = *belief;
            let settled = wait_for(Duration::from_secs(30), || {
                let life = current(&self.directory, &self.node);
                let Some(life) = life else { return Some(()) };
                if former.is_none_or(|former| former.incarnation != life.incarnation) {
                    belief = Belief::Free;
                }
                match belief {
                    Belief::Held(_) if self.keeps => return Some(()),
                    Belief::Held(_) => belief = self.unregister(&life, name),
                    Belief::Free if !self.keeps => return Some(()),
                    _ => belief = self.register(&life, name),
                }
                None
            });
            if settled.is_none() {
                let (node, counts) = (&self.node, &self.history);
                self.history.breach(format!("P8: {node} gets no verdict on {name}: {belief:?}, {counts}"));
            }
        }
    }
}
