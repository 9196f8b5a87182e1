//! Where a node meets its store: what it asks may be late, lost, refused, or done though nobody says so.
#![allow(clippy::disallowed_methods)] // time passes here

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign::{Incarnation, NodeName, Turns};
use callsign_store::{
    CommitOutcome, Key, LifeGuard, Limits, Proof, Read, ReadResult, Store, StoreError, Transaction, Version,
    lock::lock, memory::MemoryStore,
};
use futures::{FutureExt, future::BoxFuture};
use tokio::{runtime::Handle, time::sleep};

use super::{counts::NodeCounts, life::Life};
use crate::rng::Rng;

/// How long a transaction that was given up may still take to land.
const LATE: Duration = Duration::from_secs(4);

/// What all edges have in common.
#[derive(Debug)]
pub struct Sky {
    /// Nobody reaches the store.
    pub is_down: AtomicBool,
    /// Whether a death can be proven.
    pub proves_deaths: bool,
    lives: Mutex<BTreeMap<(NodeName, Incarnation), Mark>>,
}

#[derive(Debug)]
struct Mark {
    life: Arc<Life>,
    is_over: bool,
}

impl Sky {
    /// A store that everybody reaches.
    pub fn new(proves_deaths: bool) -> Self {
        Self { is_down: AtomicBool::new(false), proves_deaths, lives: Mutex::default() }
    }
}

/// How a node's way to the store is. Chances are of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// It is cut off.
    pub is_down: bool,
    /// That a commit comes to something else than usual.
    pub unsure: u64,
    /// That no answer ever comes.
    pub lost: u64,
    /// That a watch never ends, or ends without cause.
    pub blind: u64,
    /// What everything takes longer, at most.
    pub slow: Duration,
}

/// One node's connection to the store. Clones are the same.
#[derive(Clone)]
pub struct Edge(Arc<EdgeInner>);

struct EdgeInner {
    base: MemoryStore,
    life: Arc<Life>,
    sky: Arc<Sky>,
    weather: Mutex<Weather>,
    rng: Mutex<Rng>,
    counts: NodeCounts,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edge({:?})", self.0.life)
    }
}

/// What becomes of a commit.
#[derive(Clone, Copy, Debug)]
enum CommitFate {
    Usual,
    Conflict,
    Refused,
    /// Nobody says what became of it: it was done, will be, or never is.
    Done,
    Lands(Duration),
    Never,
    /// It is done, and no answer comes.
    Mute,
    /// It is done, and the answer takes long.
    Late(Duration),
}

impl Edge {
    /// A connection of this life to a store.
    pub fn new(base: &MemoryStore, life: &Arc<Life>, sky: &Arc<Sky>, seed: u64, counts: &NodeCounts) -> Self {
        Self(Arc::new(EdgeInner {
            base: base.connect(&life.who),
            life: life.clone(),
            sky: sky.clone(),
            weather: Mutex::default(),
            rng: Mutex::new(Rng::new(seed)),
            counts: counts.clone(),
        }))
    }

    /// Changes how the way is.
    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut lock(&self.0.weather));
    }

    fn weather(&self) -> Weather {
        *lock(&self.0.weather)
    }

    fn is_down(&self) -> bool {
        self.weather().is_down || self.0.sky.is_down.load(SeqCst)
    }

    fn met(&self, what: &'static str) {
        self.0.counts.met(what);
    }

    /// Half of the way.
    async fn travel(&self) {
        // What of a dead process is not a part of the node goes on, and reaches nobody.
        if self.0.life.is_dead() {
            std::future::pending::<()>().await;
        }
        let time = {
            let slow = self.weather().slow;
            let mut rng = lock(&self.0.rng);
            Duration::from_micros(100) + rng.duration(Duration::from_millis(2)) + rng.duration(slow)
        };
        sleep(time).await;
    }

    fn draw(&self, per_mille: impl Fn(Weather) -> u64) -> bool {
        let chance = per_mille(self.weather());
        lock(&self.0.rng).per_mille(chance)
    }

    fn fate(&self) -> CommitFate {
        let Weather { unsure, lost, .. } = self.weather();
        let mut rng = lock(&self.0.rng);
        if rng.per_mille(lost) {
            return CommitFate::Mute;
        }
        if !rng.per_mille(unsure) {
            return CommitFate::Usual;
        }
        match rng.below(6) {
            0 => CommitFate::Conflict,
            1 => CommitFate::Refused,
            2 => CommitFate::Done,
            3 => CommitFate::Lands(rng.duration(LATE)),
            4 => CommitFate::Never,
            _ => CommitFate::Late(rng.duration(LATE)),
        }
    }

    fn land(&self, transaction: Transaction, after: Duration) {
        // Without a runtime the run is over.
        let Ok(runtime) = Handle::try_current() else { return };
        let me = self.clone();
        drop(runtime.spawn(async move {
            sleep(after).await;
            let outcome = me.0.base.commit(transaction).await;
            me.met("store: a transaction lands late");
            me.0.life.say(&format!("lands late: {outcome:?}"));
        }));
    }

    async fn carry(&self, transaction: Transaction) -> CommitOutcome {
        let mut flight = Flight { edge: self.clone(), transaction: Some(transaction) };
        self.travel().await;
        if self.is_down() {
            flight.transaction = None;
            self.met("store: a commit in an outage");
            return CommitOutcome::Unavailable(unavailable());
        }
        let fate = self.fate();
        let transaction = flight.transaction.take().expect("nobody else has taken it");
        let apply = || self.0.base.commit(transaction.clone());
        let outcome = match fate {
            CommitFate::Usual => apply().await,
            CommitFate::Conflict => {
                self.met("store: a conflict without a cause");
                CommitOutcome::Conflict
            }
            CommitFate::Refused => {
                self.met("store: a commit is refused");
                return CommitOutcome::Unavailable(unavailable());
            }
            CommitFate::Done => {
                self.met("store: unknown, and done");
                let _ = apply().await; // nobody is told
                CommitOutcome::Unknown
            }
            CommitFate::Lands(after) => {
                self.met("store: unknown, and done later");
                self.land(transaction, after);
                CommitOutcome::Unknown
            }
            CommitFate::Never => {
                self.met("store: unknown, and never done");
                CommitOutcome::Unknown
            }
            CommitFate::Mute => {
                self.met("store: an answer never comes");
                let _ = apply().await;
                std::future::pending().await
            }
            CommitFate::Late(time) => {
                self.met("store: an answer is late");
                let outcome = apply().await;
                sleep(time).await;
                outcome
            }
        };
        self.travel().await;
        if self.is_down() {
            self.met("store: an outage before the answer");
            return CommitOutcome::Unknown;
        }
        outcome
    }
}

/// What a store says that is cut off.
fn unavailable() -> String {
    "the run says so".to_owned()
}

/// A transaction on its way. Given up before it arrives, it lands later, or never.
struct Flight {
    edge: Edge,
    transaction: Option<Transaction>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            let (lands, after) = {
                let mut rng = lock(&self.edge.0.rng);
                (rng.per_mille(500), rng.duration(LATE))
            };
            self.edge.met("store: a commit is given up on its way");
            if lands {
                self.edge.land(transaction, after);
            }
        }
    }
}

/// What is laid down for a life.
struct Guard {
    sky: Arc<Sky>,
    of: (NodeName, Incarnation),
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.of).finish()
    }
}

impl LifeGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mark) = lock(&self.sky.lives).get_mut(&self.of) {
            mark.is_over = true;
        }
    }
}

impl Store for Edge {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let me = self.clone();
        async move {
            let refused = || StoreError::Unavailable(unavailable());
            me.travel().await;
            if me.is_down() {
                me.met("store: a read in an outage");
                return Err(refused());
            }
            if me.draw(|weather| weather.lost) {
                me.met("store: a read is never answered");
                std::future::pending::<()>().await;
            }
            let result = me.0.base.read(reads).await;
            if me.draw(|weather| weather.lost) {
                // Whoever asked may have given it up, and asked again, when it is told what was so then.
                me.met("store: what was read is told late");
                let late = lock(&me.0.rng).duration(LATE);
                sleep(late).await;
            }
            me.travel().await;
            if me.is_down() { Err(refused()) } else { result }
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let me = self.clone();
        async move {
            let size = transaction.writes.len();
            let outcome = me.carry(transaction).await;
            me.0.life.say(&format!("commit of {size}: {outcome:?}"));
            outcome
        }
        .boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let me = self.clone();
        async move {
            if me.is_down() {
                return Err(StoreError::Unavailable(unavailable()));
            }
            if me.draw(|weather| weather.blind) {
                me.met("store: a watch is lost");
                std::future::pending::<()>().await;
            }
            if me.draw(|weather| weather.blind) {
                me.met("store: a watch ends without cause");
                me.travel().await;
                return Ok(());
            }
            let ended = me.0.base.watch(key, since).await;
            me.travel().await;
            ended
        }
        .boxed()
    }

    fn limits(&self) -> Limits {
        self.0.base.limits()
    }

    fn describe(&self) -> String {
        format!("memory: of {}", self.0.life.who)
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        if self.is_down() {
            return Err(StoreError::Unavailable(unavailable()));
        }
        if !self.0.sky.proves_deaths {
            return Ok(None);
        }
        let of = (node.clone(), incarnation);
        let mark = Mark { life: self.0.life.clone(), is_over: false };
        lock(&self.0.sky.lives).insert(of.clone(), mark);
        Ok(Some(Box::new(Guard { sky: self.0.sky.clone(), of })))
    }

    fn guards_at_once(&self) -> bool {
        true
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        let (me, of) = (self.clone(), (node.clone(), incarnation));
        async move {
            let lives = lock(&me.0.sky.lives);
            match lives.get(&of) {
                Some(mark) if !me.is_down() && (mark.is_over || mark.life.is_dead()) => {
                    me.met("store: a death is proven");
                    Proof::Dead
                }
                _ => Proof::None,
            }
        }
        .boxed()
    }
}
