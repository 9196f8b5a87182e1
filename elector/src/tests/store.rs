//! [`Mvcc`] behind a mutex, with faults that the store in memory has not: silence, outcomes that are scripted, and locks
//! of lives that hang.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use callsign_store::{
    CommitOutcome, Key, LifeGuard, Limits, Proof, Read, ReadResult, Store, StoreError, Transaction, Value,
    Version,
    ids::{Incarnation, NodeName},
    mvcc::Mvcc,
};
use futures::{FutureExt, future::BoxFuture};

/// The data alone, for tests that drive cores.
pub(crate) fn no_rows() -> Mvcc {
    Mvcc::new(Limits::FOUNDATIONDB, 1000)
}

/// What becomes of a request, in place of what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No answer, and nothing happens.
    Silence,
    /// Refused.
    Unavailable,
}

#[derive(Debug, Default)]
pub(crate) struct TestStore {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rows: Mvcc,
    /// What becomes of all requests.
    fault: Option<Fault>,
    /// Outcomes of the next commits: what is answered, and whether it is carried out.
    scripted: VecDeque<(CommitOutcome, bool)>,
    dead: Vec<(NodeName, Incarnation)>,
    guarded: Vec<(NodeName, Incarnation)>,
    /// What becomes of all that is to prove a death.
    guard_fault: Option<Fault>,
}

impl Default for State {
    fn default() -> Self {
        let (scripted, dead, guarded) = Default::default();
        Self { rows: no_rows(), fault: None, scripted, dead, guarded, guard_fault: None }
    }
}

impl TestStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    pub(crate) fn fail_guards(&self, fault: Option<Fault>) {
        self.state().guard_fault = fault;
    }

    pub(crate) fn script(&self, outcome: CommitOutcome, carried_out: bool) {
        self.state().scripted.push_back((outcome, carried_out));
    }

    pub(crate) fn kill(&self, node: &NodeName, incarnation: Incarnation) {
        self.state().dead.push((node.clone(), incarnation));
    }

    pub(crate) fn guarded(&self) -> Vec<(NodeName, Incarnation)> {
        self.state().guarded.clone()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Value> {
        self.state().rows.get(key).map(<[u8]>::to_vec)
    }

    pub(crate) fn put(&self, key: Key, value: Value) {
        self.state().rows.apply(&Transaction::new().put(key, value));
    }
}

impl Store for TestStore {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let state = self.state();
        match state.fault {
            Some(Fault::Silence) => std::future::pending().boxed(),
            Some(Fault::Unavailable) => {
                std::future::ready(Err(StoreError::Unavailable("told so".to_owned()))).boxed()
            }
            None => {
                std::future::ready(Ok(state.rows.read(&reads, None).expect("the newest is kept"))).boxed()
            }
        }
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let mut state = self.state();
        match state.fault {
            Some(Fault::Silence) => return std::future::pending().boxed(),
            Some(Fault::Unavailable) => {
                return std::future::ready(CommitOutcome::Unavailable("told so".to_owned())).boxed();
            }
            None => {}
        }
        let outcome = match state.scripted.pop_front() {
            None => state.rows.apply(&transaction),
            Some((outcome, carried_out)) => {
                if carried_out {
                    state.rows.apply(&transaction);
                }
                outcome
            }
        };
        std::future::ready(outcome).boxed()
    }

    fn watch(&self, _: Key, _: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        std::future::pending().boxed()
    }

    fn limits(&self) -> Limits {
        Limits::FOUNDATIONDB
    }

    fn describe(&self) -> String {
        "test".to_owned()
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        loop {
            let mut state = self.state();
            match state.guard_fault {
                // It blocks its thread, as a file system may.
                Some(Fault::Silence) => {
                    drop(state);
                    std::thread::yield_now();
                }
                Some(Fault::Unavailable) => return Err(StoreError::Unavailable("no locks".to_owned())),
                None => {
                    state.guarded.push((node.clone(), incarnation));
                    return Ok(None);
                }
            }
        }
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        let dead = self.state().dead.contains(&(node.clone(), incarnation));
        std::future::ready(if dead { Proof::Dead } else { Proof::None }).boxed()
    }
}
