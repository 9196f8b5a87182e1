//! Names that come and go all the time, in a registry of their own: what a cluster that works for long must not keep.
//!
//! Every name is a new one. It is held for as long as some hundred others take to come, is changed now and then, and is given up
//! in words or by the end of its actor. Memberships of a group and watches come and go, too, and the leader gives up its seat from
//! time to time. What was done, and how long registrations took, goes into a file, a line each second.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::OpenOptions,
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use callsign::{
    Membership, Meta, NotHeld, Notice, RegisterOptions, Registration, Registry, Select, WatchEvent,
};
use callsign_sim::{histories::acting::Act, rng::Rng};
use callsign_store::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{ACT_EVERY, CAMPAIGN_AGAIN, RARER, Shared};

/// The end of the name of the file that says what was done.
pub const CHURNED: &str = "churned";

/// The registry of these names.
const REGISTRY: &str = "churn";
/// The group that all join.
const GROUP: &str = "crowd";
/// How many clients a node has.
const CHURNERS: u64 = 2;
/// How many names a client holds at a time.
const HELD: usize = 100;
/// How many memberships and watches a client has at a time.
const FEW: usize = 3;
/// The most bytes that a name says of itself.
const SAYS: u64 = 200;
/// Between two rounds of a client.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a call waits for its verdict.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take until a node says that a session was lost, or which holder a name has.
const NEWS_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two lines.
const LINE: Duration = Duration::from_secs(1);
/// How long a node leads before it gives up the seat.
const LEADS: Duration = Duration::from_secs(15);
/// How many events of a watch are read in a round.
const READS: usize = 200;

/// What was done since the line before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Churned {
    /// How often each thing was done, or failed.
    pub counts: BTreeMap<String, u64>,
    /// How many microseconds each registration took that was granted.
    pub took: Vec<u32>,
    /// What must not be.
    pub breaches: Vec<String>,
}

/// What the clients of a node write to.
#[derive(Clone, Debug, Default)]
struct Tally(Arc<Mutex<Churned>>);

impl Tally {
    fn count(&self, what: impl Into<String>) {
        *lock(&self.0).counts.entry(what.into()).or_default() += 1;
    }

    fn breach(&self, what: String) {
        lock(&self.0).breaches.push(what);
    }

    /// Writes down what was done since the last call.
    fn write(&self, file: &Path) {
        let done = std::mem::take(&mut *lock(&self.0));
        let mut line = serde_json::to_vec(&done).expect("plain data has JSON");
        line.push(b'\n');
        let written = OpenOptions::new().create(true).append(true).open(file);
        if let Err(error) = written.and_then(|mut file| file.write_all(&line)) {
            eprintln!("what was done cannot be written: {error}");
            std::process::exit(70);
        }
    }
}

/// An actor that does nothing.
struct Idle;

impl Actor for Idle {
    type Msg = Act;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Act>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

async fn idle() -> Option<ActorRef<Act>> {
    Actor::spawn(None, Idle, ()).await.ok().map(|(actor, _)| actor)
}

/// A name that is held.
struct Piece {
    actor: ActorRef<Act>,
    held: Registration,
    /// How many sessions the node had lost before.
    lost: u64,
}

/// The clients of a node.
pub struct Churners {
    registry: Registry,
    clients: Vec<JoinHandle<Vec<Piece>>>,
    tally: Tally,
    lost: Arc<AtomicU64>,
}

/// What they hold in the end.
pub struct Kept {
    registry: Registry,
    pieces: Vec<Piece>,
    tally: Tally,
    lost: Arc<AtomicU64>,
}

impl Churners {
    /// Starts them, once the registry is joined.
    pub(super) async fn start(shared: &Arc<Shared>) -> Self {
        let registry = beside(&shared.site.registry).await;
        let (tally, lost) = (Tally::default(), Arc::<AtomicU64>::default());
        let (writes, file) = (tally.clone(), shared.args.history.with_extension(CHURNED));
        tokio::spawn(async move {
            loop {
                sleep(LINE).await;
                writes.write(&file);
            }
        });
        tokio::spawn(pass_on(shared.site.registry.clone()));
        tokio::spawn(pass_on(registry.clone()));
        if shared.args.leak > 0 {
            tokio::spawn(leak(shared.args.leak));
        }
        let clients = (0..CHURNERS).map(|number| {
            let rng = Rng::new(shared.site.seed.wrapping_mul(CHURNERS) + number);
            let (registry, tally, lost) = (registry.clone(), tally.clone(), lost.clone());
            let client = Churner { registry, number, rng, tally, lost, made: 0, held: VecDeque::new() };
            let shared = shared.clone();
            tokio::spawn(async move { client.run(&shared).await })
        });
        Self { clients: clients.collect(), registry, tally, lost }
    }

    /// Waits until they have ended, and returns what they hold.
    pub(super) async fn end(self) -> Kept {
        let mut pieces = Vec::new();
        for client in self.clients {
            match client.await {
                Ok(held) => pieces.extend(held),
                Err(error) => self.tally.breach(format!("a client has failed: {error}")),
            }
        }
        Kept { registry: self.registry, pieces, tally: self.tally, lost: self.lost }
    }
}

/// The registry of these names, however long that takes.
async fn beside(registry: &Registry) -> Registry {
    loop {
        match registry.join_beside(REGISTRY).await {
            Ok(registry) => return registry,
            Err(error) => tracing::warn!("not joined: {error}"),
        }
        sleep(CAMPAIGN_AGAIN).await;
    }
}

/// Gives up the seat of a registry after a while, again and again.
async fn pass_on(registry: Registry) {
    let mut since = Instant::now();
    loop {
        sleep(LINE).await;
        let status = registry.status();
        if !status.leads {
            since = Instant::now();
        } else if since.elapsed() > LEADS {
            registry.resign(status.epoch);
        }
    }
}

/// Never gives anything back.
async fn leak(kib_per_second: u64) {
    let each = usize::try_from(kib_per_second * 1024 / 10).unwrap_or(usize::MAX);
    let mut kept = Vec::new();
    loop {
        sleep(Duration::from_millis(100)).await;
        kept.push(vec![0x5a_u8; each]);
        std::hint::black_box(&kept);
    }
}

struct Churner {
    registry: Registry,
    number: u64,
    rng: Rng,
    tally: Tally,
    lost: Arc<AtomicU64>,
    made: u64,
    held: VecDeque<Piece>,
}

impl Churner {
    async fn run(mut self, shared: &Shared) -> Vec<Piece> {
        let (mut seats, mut watches) = (VecDeque::new(), VecDeque::new());
        while *shared.site.works.borrow() {
            self.register().await;
            if self.rng.per_mille(300) {
                self.update().await;
            }
            while self.held.len() > HELD {
                self.let_go().await;
            }
            if self.rng.per_mille(50) {
                seats.extend(self.join().await);
                if seats.len() > FEW {
                    self.leave(seats.pop_front()).await;
                }
            }
            if self.rng.per_mille(50)
                && let Ok(watch) = self.registry.watch(Select::prefix("s."))
            {
                self.tally.count("watches");
                watches.push_back(watch);
                if watches.len() > FEW {
                    watches.pop_front();
                }
            }
            // Only the newest one is read: the others wait with what they may keep.
            if let Some(watch) = watches.back_mut() {
                for _ in 0..READS {
                    match timeout(Duration::ZERO, watch.next()).await {
                        Ok(Some(WatchEvent::Lagged)) => self.tally.count("watches that lagged"),
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => break,
                    }
                }
            }
            sleep(PAUSE + self.rng.duration(PAUSE)).await;
        }
        while let Some(seat) = seats.pop_front() {
            self.leave(Some(seat)).await;
        }
        self.held.into()
    }

    fn says(&mut self) -> Option<Meta> {
        let length = self.rng.below(SAYS);
        Meta::new(&"x".repeat(usize::try_from(length).unwrap_or(0))).ok()
    }

    fn options(&mut self) -> RegisterOptions {
        let lost = self.lost.clone();
        let mut options = RegisterOptions::default().wait(VERDICT_TIMEOUT).tell(move |notice| {
            if matches!(notice, Notice::Lost) {
                lost.fetch_add(1, Relaxed);
            }
        });
        options.meta = self.says();
        options
    }

    async fn register(&mut self) {
        let Some(actor) = idle().await else { return };
        self.made += 1;
        let (node, incarnation) = (self.registry.node(), self.registry.incarnation());
        let name = format!("s.{node}.{incarnation:x}.{}.{}", self.number, self.made);
        let (lost, options, asked) = (self.lost.load(Relaxed), self.options(), Instant::now());
        match self.registry.register_with(&name, &actor, options).await {
            Ok(held) => {
                let took = u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX);
                lock(&self.tally.0).took.push(took);
                self.tally.count("registered");
                self.held.push_back(Piece { actor, held, lost });
            }
            Err(error) => {
                self.failed("not registered", &error);
                actor.stop(None);
            }
        }
    }

    fn failed(&self, what: &str, error: &impl std::fmt::Debug) {
        let text = format!("{error:?}");
        let word = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        self.tally.count(format!("{what}: {word}"));
    }

    async fn update(&mut self) {
        let (at, says) = (self.rng.index(self.held.len()), self.says());
        let Some(piece) = self.held.get(at) else { return };
        match piece.held.update(None, says).await {
            Ok(_) => self.tally.count("updated"),
            Err(error) => self.failed("not updated", &error),
        }
    }

    /// Gives up the oldest name.
    async fn let_go(&mut self) {
        let Some(piece) = self.held.pop_front() else { return };
        if piece.held.check() == Err(NotHeld::Ended) {
            self.tally.count("lost");
            let leaves = self.registry.status().draining;
            if !leaves && !was_lost(&self.lost, piece.lost).await {
                self.tally.breach(format!("P3: {} was acknowledged, and is held no more", piece.held.name()));
            }
        } else if self.rng.per_mille(700) {
            match self.registry.unregister(piece.held.name()).await {
                Ok(_) => self.tally.count("unregistered"),
                Err(error) => self.failed("not unregistered", &error),
            }
        } else {
            self.tally.count("actors that ended");
        }
        piece.actor.stop(None);
    }

    async fn join(&mut self) -> Option<(Membership, ActorRef<Act>)> {
        let (actor, says) = (idle().await?, self.says());
        match self.registry.group::<Act>(GROUP).join(&actor, says).await {
            Ok(membership) => {
                self.tally.count("joined");
                Some((membership, actor))
            }
            Err(error) => {
                self.failed("not joined", &error);
                actor.stop(None);
                None
            }
        }
    }

    async fn leave(&mut self, seat: Option<(Membership, ActorRef<Act>)>) {
        let Some((membership, actor)) = seat else { return };
        if self.rng.per_mille(500) {
            match self.registry.group::<Act>(GROUP).leave(&membership).await {
                Ok(_) => self.tally.count("left"),
                Err(error) => self.failed("not left", &error),
            }
        }
        actor.stop(None);
    }
}

/// Whether a session was lost since there were so many.
async fn was_lost(lost: &AtomicU64, before: u64) -> bool {
    let said = async {
        while lost.load(Relaxed) == before {
            sleep(CAMPAIGN_AGAIN).await;
        }
    };
    timeout(NEWS_TIMEOUT, said).await.is_ok()
}

impl Kept {
    /// All nodes have come to rest: what was acknowledged is held, by its actor and nobody else.
    pub(super) async fn check(self, shared: &Shared) {
        // Actors of the other clients act once more meanwhile.
        sleep(ACT_EVERY * RARER * 4).await;
        for piece in &self.pieces {
            let (name, token) = (piece.held.name(), piece.held.token());
            let seen = async {
                loop {
                    match (self.registry.lookup_consistent(name, VERDICT_TIMEOUT).await, piece.held.check()) {
                        (Ok(entry), Ok(())) => return Some(entry.map(|entry| entry.token())),
                        (_, Err(NotHeld::Ended)) => return None,
                        _ => sleep(CAMPAIGN_AGAIN).await,
                    }
                }
            };
            let what = match timeout(NEWS_TIMEOUT, seen).await {
                Ok(Some(found)) if found == Some(token) => {
                    self.tally.count("held in the end");
                    continue;
                }
                Ok(None) if was_lost(&self.lost, piece.lost).await => continue,
                Ok(Some(found)) => format!("P1: {name} is held under {token:?}, and found under {found:?}"),
                Ok(None) => format!("P3: {name} was acknowledged, and is not held in the end"),
                Err(_) => format!("P8: nobody says within {NEWS_TIMEOUT:?} who holds {name}"),
            };
            self.tally.breach(what);
        }
        self.tally.write(&shared.args.history.with_extension(CHURNED));
    }
}
