use std::sync::atomic::{AtomicUsize, Ordering};

use super::{FIGHT, Fate, Faulty, SharedStore, Subject, run};
use crate::driver::{
    memory::{Fault, MemoryStore},
    sqlite::{SqliteOptions, SqliteStore, Synchronous},
};
use std::sync::Arc;

struct FaultyMemory(MemoryStore);

impl Faulty for FaultyMemory {
    fn connect(&self, fate: Fate) -> SharedStore {
        let connection = self.0.connect("faulty");
        connection.inject(Fault::Unknown(fate));
        Arc::new(connection)
    }

    fn land(&self) {
        self.0.land();
    }
}

fn memory() -> Subject {
    let store = MemoryStore::new();
    let count = AtomicUsize::new(0);
    let faulty = FaultyMemory(store.clone());
    Subject::new(move || {
        Arc::new(store.connect(&count.fetch_add(1, Ordering::SeqCst).to_string())) as SharedStore
    })
    .with_faults(faulty)
}

#[tokio::test]
async fn memory_conforms() {
    run(&memory()).await;
}

#[tokio::test(start_paused = true)]
async fn memory_conforms_under_paused_time() {
    run(&memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_conforms_with_several_threads_and_a_long_fight() {
    run(&memory().fighting_for(FIGHT)).await;
}

/// A subject whose connections are spread over so many openings of one file.
fn sqlite(openings: usize, synchronous: Synchronous) -> (Subject, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let path = directory.path().join("callsign.db");
    let stores: Vec<_> = (0..openings).map(|_| SqliteStore::open(&path, options).unwrap()).collect();
    let count = AtomicUsize::new(0);
    let connect = move || {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        Arc::new(stores[turn % stores.len()].clone()) as SharedStore
    };
    (Subject::new(connect), directory)
}

#[tokio::test]
async fn one_sqlite_file_opened_once_conforms() {
    let (subject, _directory) = sqlite(1, Synchronous::Full);
    run(&subject).await;
}

#[tokio::test]
async fn one_sqlite_file_opened_twice_conforms_also_in_a_long_fight() {
    let (subject, _directory) = sqlite(2, Synchronous::Full);
    run(&subject.fighting_for(FIGHT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_sqlite_file_opened_five_times_conforms_without_waiting_for_the_disk() {
    let (subject, _directory) = sqlite(5, Synchronous::Normal);
    run(&subject).await;
}
