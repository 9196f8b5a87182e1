//! For tests: every store there is, and faults over any of them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use callsign_store::{
    CommitOutcome, Read, ReadResult, SharedStore, Store, StoreError, Transaction, memory::Fate,
};
use futures::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

thread_local! {
    /// Tells the tests on one store apart.
    static RUN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Called at the start of each test; it runs on one thread.
pub(crate) fn begin() {
    RUN.set(rand::random());
}

/// A name that only this test has.
pub(crate) fn only_here(name: &str) -> String {
    format!("{name}-{:016x}", RUN.get())
}

/// Runs each test on every store: `on_every_store! { name name ... }` makes `memory::name`, `sqlite::name` and so on.
macro_rules! on_every_store {
    ($($name:ident)*) => {
        on_every_store! { @store memory: $($name)* }
        on_every_store! { @store sqlite: $($name)* }
        #[cfg(feature = "postgres")]
        on_every_store! { @store postgres: $($name)* }
        #[cfg(feature = "etcd")]
        on_every_store! { @store etcd: $($name)* }
    };
    (@store $store:ident: $($name:ident)*) => {
        mod $store {
            $(#[tokio::test]
            async fn $name() {
                let Some(stores) = crate::driver::lease::tests::beds::Stores::$store() else { return };
                crate::tests::stores::begin();
                let run = super::$name(stores.store());
                tokio::time::timeout(std::time::Duration::from_secs(60), run).await.expect("it hangs");
            })*
        }
    };
}
pub(crate) use on_every_store;

/// A connection to a store that loses answers, and that stops, as told.
#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    inner: SharedStore,
    fates: Arc<Mutex<VecDeque<Fate>>>,
    late: Arc<Mutex<Vec<Transaction>>>,
    paused: Arc<watch::Sender<bool>>,
    /// How many commits came so far, and of how many the test knows.
    came: Arc<watch::Sender<usize>>,
    known: Arc<Mutex<usize>>,
    down: Arc<Mutex<bool>>,
}

impl Faulty {
    pub(crate) fn over(inner: &SharedStore) -> Self {
        Self {
            inner: inner.clone(),
            fates: Arc::default(),
            late: Arc::default(),
            paused: Arc::default(),
            came: Arc::default(),
            known: Arc::default(),
            down: Arc::default(),
        }
    }

    pub(crate) fn shared(&self) -> SharedStore {
        Arc::new(self.clone())
    }

    /// Answers the next commit without a fate "unknown".
    pub(crate) fn lose(&self, fate: Fate) {
        self.fates.lock().unwrap().push_back(fate);
    }

    /// Lets land what was told to land later.
    pub(crate) async fn land(&self) -> Vec<CommitOutcome> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut outcomes = Vec::new();
        for transaction in late {
            outcomes.push(self.inner.commit(transaction).await);
        }
        outcomes
    }

    /// Stops before each commit, and before each answer that gets lost, until it goes on.
    pub(crate) fn pause(&self) {
        *self.known.lock().unwrap() = *self.came.borrow();
        self.paused.send_replace(true);
    }

    pub(crate) fn go_on(&self) {
        self.paused.send_replace(false);
    }

    /// Waits until another commit has stopped.
    pub(crate) async fn has_stopped(&self) {
        let known = *self.known.lock().unwrap();
        let came = *self.came.subscribe().wait_for(|came| *came > known).await.unwrap();
        *self.known.lock().unwrap() = came;
    }

    /// Refuses everything, or no longer.
    pub(crate) fn set_down(&self, down: bool) {
        *self.down.lock().unwrap() = down;
    }
}

const DOWN: &str = "cut off by the test";

impl Store for Faulty {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        if *self.down.lock().unwrap() {
            return std::future::ready(Err(StoreError::Unavailable(DOWN.to_owned()))).boxed();
        }
        self.inner.read(reads)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let me = self.clone();
        async move {
            let fate = me.fates.lock().unwrap().pop_front();
            match fate {
                None | Some(Fate::NotApplied) => {}
                Some(Fate::Applied) => drop(me.inner.commit(transaction.clone()).await),
                Some(Fate::LandsLater) => me.late.lock().unwrap().push(transaction.clone()),
            }
            me.came.send_modify(|came| *came += 1);
            me.paused.subscribe().wait_for(|paused| !paused).await.unwrap();
            if fate.is_some() {
                return CommitOutcome::Unknown;
            }
            if *me.down.lock().unwrap() {
                return CommitOutcome::Unavailable(DOWN.to_owned());
            }
            me.inner.commit(transaction).await
        }
        .boxed()
    }

    callsign_store::forward_to_store! { inner: watch nature }
}
