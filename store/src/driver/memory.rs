//! A store in memory, for tests: [`Mvcc`] behind the trait, with every fault that a real store has.
//!
//! A handle is one node's connection. [`MemoryStore::connect`] gives another by name, and outage, latency, faults
//! and holds are set per connection; the data are shared. Nothing happens by chance: a test says what goes wrong.
//!
//! ```text
//! commit --> [latency/2] --> [hold_commits] --> applied, or a fault --> [latency/2] --> [hold_answers] --> answer
//!            dropped here: abandoned, may land later                    outage here: answered Unknown
//! ```
//!
//! Works in any runtime; only a latency needs tokio's timer, and follows it when it is paused.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;

use crate::{
    contract::{LifeGuard, Proof, Store},
    core::{
        ids::{Incarnation, NodeName},
        mvcc::Mvcc,
        transaction::{CommitOutcome, Key, Limits, Read, ReadResult, Transaction, Version},
    },
    driver::lock::lock,
    error::StoreError,
};

mod gate;

pub use gate::Hold;
use gate::{Gate, Stage};

/// How many versions are kept. A fence that looked at an older one is refused, as other stores do after seconds.
const VERSIONS_KEPT: u64 = 10_000;

/// What happens to a commit instead of the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Answered `Conflict`, whatever it checks.
    Conflict,
    /// Answered `Unavailable`.
    Unavailable,
    /// Answered `Unknown`.
    Unknown(Fate),
}

/// What becomes of a transaction whose author is told `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is committed now, if its checks hold.
    Applied,
    /// It never will be.
    NotApplied,
    /// It waits for [`MemoryStore::land`]; its checks are looked at only then.
    LandsLater,
}

/// A connection to a store in memory. Clones are the same connection.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<MemoryShared>,
    name: Arc<str>,
}

#[derive(Default)]
struct MemoryShared(Mutex<State>);

struct State {
    data: Mvcc,
    connections: BTreeMap<Arc<str>, Connection>,
    /// Nobody reaches the store, also who connects only now.
    is_down: bool,
    /// Faults for whichever connection commits next.
    faults: VecDeque<Fault>,
    abandoned: VecDeque<Transaction>,
    watches: Vec<MemoryWatch>,
    lost_watches: Vec<MemoryWatch>,
    lives: BTreeMap<(NodeName, Incarnation), Proof>,
    proves_deaths: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            data: Mvcc::new(Limits::FOUNDATIONDB, VERSIONS_KEPT),
            connections: BTreeMap::new(),
            is_down: false,
            faults: VecDeque::new(),
            abandoned: VecDeque::new(),
            watches: Vec::new(),
            lost_watches: Vec::new(),
            lives: BTreeMap::new(),
            proves_deaths: true,
        }
    }
}

#[derive(Default)]
struct Connection {
    is_down: bool,
    latency: Duration,
    faults: VecDeque<Fault>,
    commits: Gate,
    answers: Gate,
}

struct MemoryWatch {
    connection: Arc<str>,
    key: Key,
    since: Version,
    ended: oneshot::Sender<()>,
}

impl MemoryStore {
    /// A connection to a fresh, empty store.
    pub fn new() -> Self {
        Self { shared: Arc::default(), name: "".into() }
    }

    /// The connection of that name to the same store. Asked twice it is the same one.
    #[must_use]
    pub fn connect(&self, name: &str) -> Self {
        Self { shared: self.shared.clone(), name: name.into() }
    }

    /// Takes every request that much time, half on the way there, half on the way back. Needs tokio's timer.
    pub fn set_latency(&self, latency: Duration) {
        self.state().connection(&self.name).latency = latency;
    }

    /// Cuts this connection off until [`heal`](Self::heal): reads and commits are `Unavailable`, watches wait.
    ///
    /// A commit that was applied and whose answer is still on its way is answered `Unknown`.
    pub fn outage(&self) {
        self.state().connection(&self.name).is_down = true;
    }

    /// Ends this connection's own outage; one of all connections goes on.
    pub fn heal(&self) {
        let mut state = self.state();
        state.connection(&self.name).is_down = false;
        state.end_watches();
    }

    /// Cuts off every connection, also those made later, until [`heal_all`](Self::heal_all).
    pub fn outage_for_all(&self) {
        self.state().is_down = true;
    }

    /// Ends every outage.
    pub fn heal_all(&self) {
        let mut state = self.state();
        state.is_down = false;
        state.connections.values_mut().for_each(|connection| connection.is_down = false);
        state.end_watches();
    }

    /// Lets this connection's next commit that has no fault yet meet this one.
    pub fn inject(&self, fault: Fault) {
        self.state().connection(&self.name).faults.push_back(fault);
    }

    /// Lets the next commit of any connection that has no fault yet meet this one.
    pub fn inject_into_any(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// How many injected faults were not yet met, by this connection or by any.
    pub fn faults_left(&self) -> usize {
        let mut state = self.state();
        state.faults.len() + state.connection(&self.name).faults.len()
    }

    /// How many transactions were abandoned and may still land, whoever their author was.
    pub fn abandoned(&self) -> usize {
        self.state().abandoned.len()
    }

    /// Lets all abandoned transactions land, oldest first, and says what became of each.
    pub fn land(&self) -> Vec<CommitOutcome> {
        std::iter::from_fn(|| self.land_next()).collect()
    }

    /// Lets the oldest abandoned transaction land.
    pub fn land_next(&self) -> Option<CommitOutcome> {
        let mut state = self.state();
        let transaction = state.abandoned.pop_front()?;
        Some(state.apply(&transaction))
    }

    /// Lets no abandoned transaction ever land.
    pub fn forget_abandoned(&self) {
        self.state().abandoned.clear();
    }

    /// Holds this connection's commits back before they are applied, until the hold is dropped.
    pub fn hold_commits(&self) -> Hold {
        self.state().connection(&self.name).commits.hold()
    }

    /// Holds the answers of this connection's commits back after they were applied, until the hold is dropped.
    pub fn hold_answers(&self) -> Hold {
        self.state().connection(&self.name).answers.hold()
    }

    /// Loses the watches that this connection has: they never end.
    pub fn lose_watches(&self) {
        let mut state = self.state();
        let (lost, kept) = state.watches.drain(..).partition(|watch| watch.connection == self.name);
        state.watches = kept;
        state.lost_watches.extend::<Vec<_>>(lost);
    }

    /// Ends the watches that this connection has, although nothing changed.
    pub fn end_watches_without_cause(&self) {
        let mut state = self.state();
        let (ended, kept) = state.watches.drain(..).partition(|watch| watch.connection == self.name);
        state.watches = kept;
        ended.into_iter().for_each(MemoryWatch::end);
    }

    /// Makes it a store that cannot prove a death.
    pub fn stop_proving_deaths(&self) {
        self.state().proves_deaths = false;
    }

    /// Makes it a store that can prove a death again, as it does at first.
    pub fn prove_deaths(&self) {
        self.state().proves_deaths = true;
    }

    /// The data as they are now.
    pub fn data(&self) -> Mvcc {
        self.state().data.clone()
    }

    /// The store loses what was committed since: the data are as they were then. Watches do not end by it.
    pub fn put_back(&self, data: Mvcc) {
        self.state().data = data;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    fn is_down(&self) -> bool {
        self.state().is_down(&self.name)
    }

    fn unavailable(&self) -> String {
        format!("connection {:?} to memory: is cut off by the test", &*self.name)
    }

    async fn travel_half(&self) {
        let latency = self.state().connection(&self.name).latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency / 2).await;
        }
    }

    async fn pass(&self, stage: Stage) {
        let gate = {
            let mut state = self.state();
            let connection = state.connection(&self.name);
            match stage {
                Stage::Commit => connection.commits.clone(),
                Stage::Answer => connection.answers.clone(),
            }
        };
        gate.pass().await;
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("connection", &self.name).finish_non_exhaustive()
    }
}

impl MemoryShared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while it held the lock was a test; the data were changed whole or not at all.
        lock(&self.0)
    }
}

impl State {
    fn connection(&mut self, name: &Arc<str>) -> &mut Connection {
        self.connections.entry(name.clone()).or_default()
    }

    fn is_down(&self, name: &Arc<str>) -> bool {
        self.is_down || self.connections.get(name).is_some_and(|connection| connection.is_down)
    }

    fn next_fault(&mut self, name: &Arc<str>) -> Option<Fault> {
        self.connection(name).faults.pop_front().or_else(|| self.faults.pop_front())
    }

    fn apply(&mut self, transaction: &Transaction) -> CommitOutcome {
        let outcome = self.data.apply(transaction);
        self.end_watches();
        outcome
    }

    /// Whether a watch has something to tell, which arrives.
    fn is_due(&self, watch: &MemoryWatch) -> bool {
        self.data.changed_since(&watch.key, watch.since) && !self.is_down(&watch.connection)
    }

    fn end_watches(&mut self) {
        let mut watches = std::mem::take(&mut self.watches);
        // In their order. Those that nobody waits for any more go, too.
        let over = watches.extract_if(.., |watch| watch.ended.is_closed() || self.is_due(watch));
        over.for_each(MemoryWatch::end);
        self.watches = watches;
    }
}

impl MemoryWatch {
    fn end(self) {
        // Nobody waits any more: nothing to tell.
        let _ = self.ended.send(());
    }
}

/// A commit that is on its way. Dropped before it arrives, its transaction is abandoned: it may land later.
struct Flight {
    store: MemoryStore,
    transaction: Option<Transaction>,
}

impl Flight {
    fn arrive(&mut self) -> CommitOutcome {
        let transaction = self.transaction.take().expect("a flight arrives once, and starts with one");
        let store = self.store.clone();
        let mut state = store.state();
        if state.is_down(&store.name) {
            return CommitOutcome::Unavailable(store.unavailable());
        }
        match state.next_fault(&store.name) {
            None => state.apply(&transaction),
            Some(Fault::Conflict) => CommitOutcome::Conflict,
            Some(Fault::Unavailable) => CommitOutcome::Unavailable(store.unavailable()),
            Some(Fault::Unknown(fate)) => {
                match fate {
                    Fate::Applied => drop(state.apply(&transaction)),
                    Fate::NotApplied => {}
                    Fate::LandsLater => state.abandoned.push_back(transaction),
                }
                CommitOutcome::Unknown
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.store.state().abandoned.push_back(transaction);
        }
    }
}

/// The life of an incarnation; it ends when this is dropped.
struct MemoryLife {
    shared: Arc<MemoryShared>,
    of: (NodeName, Incarnation),
}

impl LifeGuard for MemoryLife {}

impl fmt::Debug for MemoryLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLife").field(&self.of).finish()
    }
}

impl Drop for MemoryLife {
    fn drop(&mut self) {
        self.shared.state().lives.insert(self.of.clone(), Proof::Dead);
    }
}

impl Store for MemoryStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let store = self.clone();
        async move {
            let cut = || StoreError::Unavailable(store.unavailable());
            if store.is_down() {
                return Err(cut());
            }
            store.travel_half().await;
            let result = store.state().data.read(&reads, None).expect("the newest version is always kept");
            store.travel_half().await;
            if store.is_down() { Err(cut()) } else { Ok(result) }
        }
        .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let store = self.clone();
        async move {
            if let Some(broken) = store.limits().broken_by(&transaction) {
                return CommitOutcome::TooLarge(broken);
            }
            if store.is_down() {
                return CommitOutcome::Unavailable(store.unavailable());
            }
            let mut flight = Flight { store: store.clone(), transaction: Some(transaction) };
            store.travel_half().await;
            store.pass(Stage::Commit).await;
            let outcome = flight.arrive();
            if let CommitOutcome::Unavailable(_) = outcome {
                return outcome;
            }
            store.travel_half().await;
            store.pass(Stage::Answer).await;
            if store.is_down() { CommitOutcome::Unknown } else { outcome }
        }
        .boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let store = self.clone();
        async move {
            let waiting = {
                let mut state = store.state();
                if state.is_down(&store.name) {
                    return Err(StoreError::Unavailable(store.unavailable()));
                }
                let (ended, waiting) = oneshot::channel();
                let watch = MemoryWatch { connection: store.name.clone(), key, since, ended };
                // All others were looked at when something changed.
                if state.is_due(&watch) {
                    watch.end();
                } else {
                    state.watches.push(watch);
                }
                waiting
            };
            // This future holds the store, so the sender cannot be gone while it waits.
            waiting.await.map_err(|_| StoreError::Unavailable("the store was closed".to_owned()))
        }
        .boxed()
    }

    fn limits(&self) -> Limits {
        Limits::FOUNDATIONDB
    }

    fn describe(&self) -> String {
        "memory:".to_owned()
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        let mut state = self.state();
        if state.is_down(&self.name) {
            return Err(StoreError::Unavailable(self.unavailable()));
        }
        if !state.proves_deaths {
            return Ok(None);
        }
        let of = (node.clone(), incarnation);
        state.lives.insert(of.clone(), Proof::None);
        Ok(Some(Box::new(MemoryLife { shared: self.shared.clone(), of })))
    }

    fn guards_at_once(&self) -> bool {
        true
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        let (store, of) = (self.clone(), (node.clone(), incarnation));
        async move {
            let state = store.state();
            if state.is_down(&store.name) || !state.proves_deaths {
                return Proof::None;
            }
            state.lives.get(&of).copied().unwrap_or(Proof::None)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
