//! Electors under their driver, over a store that does not do what they need.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use callsign_store::{
    Key, Read, ReadResult, SharedStore, Store, StoreError, Transaction, Version, memory::MemoryStore,
};
use futures::{FutureExt, future::BoxFuture};

use super::{
    driven::{is_led_by, start_with},
    *,
};

/// More reads than anybody needs in a minute. None is answered after so many, so that time goes on.
const TOO_MANY: usize = 1000;

#[derive(Debug)]
struct Odd {
    memory: MemoryStore,
    reads_are_silent: AtomicBool,
    /// They are done, and not answered.
    commits_are_silent: AtomicBool,
    watches_fail: AtomicBool,
    reads: AtomicUsize,
    /// One handle for each watch that waits.
    watching: Arc<()>,
}

impl Odd {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::new(),
            reads_are_silent: AtomicBool::new(false),
            commits_are_silent: AtomicBool::new(false),
            watches_fail: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
            watching: Arc::new(()),
        })
    }

    fn shared(self: &Arc<Self>) -> SharedStore {
        Arc::<Self>::clone(self)
    }
}

impl Store for Odd {
    fn read(&self, reads: Vec<Read>) -> BoxFuture<'static, Result<ReadResult, StoreError>> {
        let is_silent = self.reads_are_silent.load(SeqCst) || self.reads.fetch_add(1, SeqCst) > TOO_MANY;
        if is_silent { std::future::pending().boxed() } else { self.memory.read(reads) }
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let done = self.memory.commit(transaction);
        if self.commits_are_silent.load(SeqCst) { std::future::pending().boxed() } else { done }
    }

    /// Nothing is ever heard: whoever waits has to look by itself.
    fn watch(&self, _: Key, _: Version) -> BoxFuture<'static, Result<(), StoreError>> {
        if self.watches_fail.load(SeqCst) {
            return async { Err(StoreError::Unavailable("no watches".into())) }.boxed();
        }
        let waits = self.watching.clone();
        async move {
            let never = std::future::pending().await;
            drop(waits);
            never
        }
        .boxed()
    }

    callsign_store::forward_to_store!(memory: nature);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_holds_an_elector_up_for_some_seconds_only() {
    let silent: [fn(&Odd) -> &AtomicBool; 2] = [|odd| &odd.reads_are_silent, |odd| &odd.commits_are_silent];
    for silent in silent {
        let store = Odd::new();
        let mut a = start_with(store.shared(), "a", ElectorTiming::default()).await;
        a.until(|event| is_led_by(event, "a")).await;
        silent(&store).store(true, SeqCst);
        a.handle.tell(Notice::Resign { epoch: Epoch(1) });
        tokio::time::sleep(SECOND * 3).await;
        silent(&store).store(false, SeqCst);
        // There is nobody else: it leads again.
        let leads_on = |event: &ElectorEvent| {
            matches!(event, ElectorEvent::View(view) if view.term.epoch >= Epoch(2)) && is_led_by(event, "a")
        };
        a.until(leads_on).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_watches_an_elector_looks_now_and_then_and_does_not_spin() {
    let store = Odd::new();
    store.watches_fail.store(true, SeqCst);
    let mut a = start_with(store.shared(), "a", ElectorTiming::default()).await;
    a.until(|event| is_led_by(event, "a")).await;
    tokio::time::sleep(SECOND * 60).await;
    let reads = store.reads.load(SeqCst);
    assert!(reads < TOO_MANY, "{reads} reads in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_told_and_is_no_change() {
    let store = Odd::new();
    store.watches_fail.store(true, SeqCst);
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let mut under_way = UnderWay::new(store.shared(), Clock::runtime(), Supervisor::new(), move |input| {
        told.send(input).expect("the test listens");
    });
    under_way.carry_out(Effect::Watch { keys: vec![b"k".to_vec(), b"l".to_vec()], since: Version(0) });
    assert_eq!(tells.recv().await, Some(Input::Notice(Notice::WatchFailed)));
}

#[tokio::test(start_paused = true)]
async fn no_watch_outlives_the_next_one_nor_the_elector() {
    let store = Odd::new();
    let mut a = start_with(store.shared(), "a", ElectorTiming::default()).await;
    a.until(|event| is_led_by(event, "a")).await;
    tokio::time::sleep(SECOND * 10).await;
    let waiting = || Arc::strong_count(&store.watching) - 1;
    let before = waiting();
    let reads = store.reads.load(SeqCst);
    tokio::time::sleep(SECOND * 300).await;
    assert!(
        store.reads.load(SeqCst) > reads + 10,
        "it has looked many times since, and begun to watch again"
    );
    assert_eq!(waiting(), before);
    a.handle.stop();
    while a.events.recv().await.is_some() {}
    let gone = async {
        while waiting() > 0 {
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    tokio::time::timeout(SECOND * 30, gone).await.expect("its watches end with it");
}
