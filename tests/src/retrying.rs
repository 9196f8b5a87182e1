//! Clients that ask some node, and if that is no answer another one, once.
//!
//! They do not know which node is about to be ended: they find out as clients do, by what they are answered, or by
//! nobody answering. What fails twice is a breach.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    client::Answer,
    history::{History, Life, Span},
    sampler::Directory,
};
use callsign_store::lock::lock;

/// Between two requests of a client.
const REQUEST_PAUSE: Duration = Duration::from_millis(3);

/// How many clients there are.
const CLIENTS: u64 = 6;

/// How many names a client keeps.
const NAMES_KEPT: usize = 12;

/// When registrations were acknowledged, and how requests fared.
#[derive(Debug, Default)]
pub struct Fared {
    acknowledged: Mutex<Vec<Instant>>,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Fared {
    fn count(&self, what: &str) {
        *lock(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    /// How often something was counted.
    pub fn counted(&self, what: &str) -> u64 {
        lock(&self.counts).get(what).copied().unwrap_or(0)
    }

    /// The longest time without an acknowledged registration between two moments, both included.
    pub fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let mut acknowledged = lock(&self.acknowledged).clone();
        acknowledged.retain(|at| (from..=to).contains(at));
        acknowledged.extend([from, to]);
        acknowledged.sort_unstable();
        acknowledged.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// How many registrations were acknowledged so far.
    pub fn registered(&self) -> usize {
        lock(&self.acknowledged).len()
    }
}

impl fmt::Display for Fared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} registrations acknowledged; {:?}", self.registered(), lock(&self.counts))
    }
}

/// Clients at work.
#[derive(Debug)]
pub struct Retrying {
    ends: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
    /// What came of it so far.
    pub fared: Arc<Fared>,
}

impl Retrying {
    pub(crate) fn start(directory: &Directory, nodes: &[String], history: &Arc<History>) -> Self {
        let (ends, fared) = (Arc::new(AtomicBool::new(false)), Arc::<Fared>::default());
        let clients = (0..CLIENTS).map(|number| {
            let client = RetryingClient {
                number,
                directory: directory.clone(),
                nodes: nodes.to_vec(),
                history: history.clone(),
                fared: fared.clone(),
                draws: number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                registered: 0,
                kept: Vec::new(),
            };
            let ends = ends.clone();
            thread::spawn(move || client.run(&ends))
        });
        Self { clients: clients.collect(), ends, fared }
    }

    /// Ends the load.
    pub fn finish(mut self) -> Arc<Fared> {
        self.ends.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            assert!(client.join().is_ok(), "a client got stuck");
        }
        self.fared.clone()
    }
}

impl Drop for Retrying {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

struct RetryingClient {
    number: u64,
    directory: Directory,
    nodes: Vec<String>,
    history: Arc<History>,
    fared: Arc<Fared>,
    draws: u64,
    registered: u64,
    /// Names, and the incarnations that hold them.
    kept: Vec<(String, Arc<Life>)>,
}

impl RetryingClient {
    fn draw(&mut self, below: usize) -> usize {
        // xorshift: which node is next must only not be the same everywhere.
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        usize::try_from(self.draws >> 33).unwrap_or(0) % below
    }

    fn run(mut self, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            thread::sleep(REQUEST_PAUSE);
            if self.kept.len() >= NAMES_KEPT {
                let at = self.draw(self.kept.len());
                let (name, life) = self.kept.swap_remove(at);
                self.unregister(&name, &life);
            } else {
                self.register();
            }
            if !self.kept.is_empty() && self.draw(4) == 0 {
                let at = self.draw(self.kept.len());
                let (name, life) = self.kept[at].clone();
                self.read(&name, &life);
            }
        }
    }

    fn life(&self, node: &str) -> Option<Arc<Life>> {
        lock(&self.directory).get(node).cloned()
    }

    fn any(&mut self) -> Arc<Life> {
        loop {
            let at = self.draw(self.nodes.len());
            if let Some(life) = self.life(&self.nodes[at]) {
                return life;
            }
        }
    }

    /// Where to ask again: where the node says, or at the next one.
    fn elsewhere(&mut self, asked: &Life, answer: &Answer) -> Arc<Life> {
        if let Answer::Refused(body) = answer
            && body["error"] == "draining"
        {
            let to = body["ask"][0]["node"].as_str().map(str::to_owned);
            if let Some(life) = to.and_then(|node| self.life(&node)) {
                return life;
            }
            self.fared.count("draining, and nobody to ask");
        }
        loop {
            let other = self.any();
            if other.node != asked.node {
                return other;
            }
        }
    }

    /// Asks, and if that is no answer asks another node.
    fn ask(&mut self, what: &str, ask: impl Fn(&Life) -> Answer) -> (Arc<Life>, Span, Answer) {
        let life = self.any();
        let asked = Instant::now();
        let answer = ask(&life);
        if is_answer(&answer) {
            return (life, Span::since(asked), answer);
        }
        self.fared.count(&format!("{what}: {}", answer.code()));
        let other = self.elsewhere(&life, &answer);
        let asked = Instant::now();
        let again = ask(&other);
        if !is_answer(&again) {
            self.history.breach(format!(
                "{what} failed twice: at {} with {answer:?}, at {} with {again:?}",
                life.node, other.node
            ));
        }
        (other, Span::since(asked), again)
    }

    fn register(&mut self) {
        self.registered += 1;
        let name = format!("r{}-{}", self.number, self.registered);
        let (life, span, answer) = self.ask("register", |life| life.client.register(&name));
        match answer {
            Answer::Ok(body) => {
                lock(&self.fared.acknowledged).push(Instant::now());
                if let Some(token) = body["token"].as_u64() {
                    self.history.granted(&life, &name, token, span);
                }
                self.kept.push((name, life));
            }
            // Nobody else wants this name: it could only be the first try's.
            other => self.history.breach(format!("{name} was not registered: {other:?}")),
        }
    }

    /// Only its host can give a name up. A host that has left has done so, or the end of its session does it.
    fn unregister(&mut self, name: &str, life: &Life) {
        self.history.giving_up(life, name);
        let answer = life.client.unregister(name);
        match &answer {
            Answer::Ok(_) => self.history.freed(life, name),
            Answer::Refused(body) if body["error"] == "left" => self.fared.count("unregister: left"),
            Answer::None(_) if Self::is_ended(life) => self.fared.count("unregister: gone with its host"),
            _ => {
                self.fared.count(&format!("unregister: {}", answer.code()));
                let again = life.client.unregister(name);
                let is_left = matches!(&again, Answer::Refused(body) if body["error"] == "left");
                if !is_answer(&again) && !is_left && !Self::is_ended(life) {
                    let what =
                        format!("unregister of {name} failed twice on {}: {answer:?}, {again:?}", life.node);
                    self.history.breach(what);
                }
            }
        }
    }

    /// A process that was asked to end.
    fn is_ended(life: &Life) -> bool {
        life.ended().is_some()
    }

    fn read(&mut self, name: &str, life: &Life) {
        let began = Instant::now();
        let (_, span, answer) = self.ask("read", |asked| asked.client.whereis_consistent(name));
        let found = match &answer {
            Answer::Ok(body) => body["token"].as_u64(),
            Answer::Refused(body) if body["error"] == "not_found" => None,
            _ => return, // said already
        };
        self.history.read(name, found, span);
        if found.is_none() && life.ended().is_none() {
            let what = format!(
                "P3: {name} of {} was not found {:?} after it was asked for",
                life.node,
                began.elapsed()
            );
            self.history.breach(what);
        }
    }
}

/// Whether it says what is, be it yes or no.
fn is_answer(answer: &Answer) -> bool {
    match answer {
        Answer::Ok(_) => true,
        Answer::Refused(body) => body["verdict"] == "no",
        Answer::None(_) => false,
    }
}
