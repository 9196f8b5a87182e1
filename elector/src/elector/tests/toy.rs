//! The smallest store: one map, one writer at a time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use crate::{
    ids::{Incarnation, NodeName},
    store::{
        CommitOutcome, Key, LifeGuard, Limits, Proof, Read, ReadResult, STAMP_LENGTH, Store, StoreError,
        Transaction, Value, Version, Write,
    },
};

/// The smallest thing that promises what a store does.
#[derive(Clone, Debug, Default)]
pub(super) struct Toy {
    pub(super) data: BTreeMap<Key, Value>,
    pub(super) written: BTreeMap<Key, Version>,
    pub(super) version: Version,
}

impl Toy {
    pub(super) fn read(&self, reads: &[Read]) -> ReadResult {
        let answers = reads.iter().map(|read| match read {
            Read::Key(key) => self.data.get(key).map(|v| (key.clone(), v.clone())).into_iter().collect(),
            Read::Range { range, limit } => self
                .data
                .range(range.clone())
                .take(*limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        });
        ReadResult { version: self.version, answers: answers.collect() }
    }

    pub(super) fn commit(&mut self, transaction: &Transaction) -> bool {
        if !transaction.checks.iter().all(|check| self.data.get(&check.key) == check.expected.as_ref()) {
            return false;
        }
        self.version = Version(self.version.0 + 1);
        for write in &transaction.writes {
            match write {
                Write::Put { key, value } => self.set(key.clone(), Some(value.clone())),
                Write::Clear(key) => self.set(key.clone(), None),
                Write::ClearRange(range) => {
                    let keys: Vec<Key> = self.data.range(range.clone()).map(|(key, _)| key.clone()).collect();
                    for key in keys {
                        self.set(key, None);
                    }
                }
                Write::Append { prefix, value } => {
                    let mut stamp = vec![0; STAMP_LENGTH - 8];
                    stamp.extend(self.version.0.to_be_bytes());
                    let key = [prefix.as_slice(), stamp.as_slice()].concat();
                    self.set(key, Some(value.clone()));
                    self.set(prefix.clone(), Some(stamp));
                }
            }
        }
        true
    }

    pub(super) fn set(&mut self, key: Key, value: Option<Value>) {
        self.written.insert(key.clone(), self.version);
        match value {
            Some(value) => self.data.insert(key, value),
            None => self.data.remove(&key),
        };
    }
}

/// The same behind the trait, for the driver.
#[derive(Debug)]
pub(super) struct SharedToy {
    toy: Mutex<Toy>,
    changed: watch::Sender<Version>,
}

impl SharedToy {
    pub(super) fn new() -> Self {
        Self { toy: Mutex::default(), changed: watch::Sender::new(Version(0)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Toy> {
        self.toy.lock().unwrap()
    }
}

impl Store for SharedToy {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let result = self.lock().read(&reads);
        async move { Ok(result) }.boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let mut toy = self.lock();
        let outcome = if toy.commit(&transaction) {
            CommitOutcome::Committed(toy.version)
        } else {
            CommitOutcome::Conflict
        };
        self.changed.send_replace(toy.version);
        async move { outcome }.boxed()
    }

    fn watch(&self, key: Key, since: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut changed = self.changed.subscribe();
        let is_over = self.lock().written.get(&key).is_some_and(|at| *at > since);
        async move {
            // Any change ends it, which a watch may.
            if !is_over && changed.wait_for(|version| *version > since).await.is_err() {
                return Err(StoreError::Unavailable("closed".into()));
            }
            Ok(())
        }
        .boxed()
    }

    fn limits(&self) -> Limits {
        Limits::FOUNDATIONDB
    }

    fn describe(&self) -> String {
        "toy".into()
    }

    fn guard_life(&self, _: &NodeName, _: Incarnation) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        Ok(None)
    }

    fn proof_of_death(&self, _: &NodeName, _: Incarnation) -> BoxFuture<'static, Proof> {
        async { Proof::None }.boxed()
    }
}
