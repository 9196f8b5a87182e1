//! A store and the runtimes of those who wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::executor::block_on;

use super::*;

/// Blocks the only worker of a runtime while a task of it waits for an answer, and has many tasks wait behind. How many of them
/// ran before the answer was taken, when `answered` has returned and the worker goes on?
fn ran_before<T: Send + 'static>(
    answer: impl Future<Output = T> + Send + 'static,
    answered: impl FnOnce(),
) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ran: Arc<AtomicUsize> = Arc::default();
    let counted = ran.clone();
    let waits = runtime.spawn(async move {
        answer.await;
        counted.load(Ordering::SeqCst)
    });
    let ((blocks, is_blocked), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    runtime.spawn(async move {
        blocks.send(()).unwrap();
        goes.recv().unwrap();
    });
    is_blocked.recv().unwrap();
    for _ in 0..MANY {
        let ran = ran.clone();
        runtime.spawn(async move { ran.fetch_add(1, Ordering::SeqCst) });
    }
    answered();
    go.send(()).unwrap();
    runtime.block_on(waits).unwrap()
}

const MANY: usize = 1000;

#[test]
fn a_busy_runtime_takes_an_answer_before_what_has_waited_for_longer() {
    let place = Place::new();
    let (store, other) = (place.open(), place.other());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ran = ran_before(store.commit(put("1")), || {
        other.execute_batch("ROLLBACK").unwrap();
        // It is answered after the one before it.
        assert!(matches!(block_on(store.commit(put("2"))), CommitOutcome::Committed(_)));
    });
    assert!(ran < MANY, "{ran} of {MANY}");
    // So much that it is not answered before it is waited for.
    let much = vec![read_key(b"k".to_vec()); 20_000];
    let ran = ran_before(store.read(much), || {
        assert!(block_on(store.read(vec![])).is_ok());
    });
    assert!(ran < MANY, "{ran} of {MANY}");
}

#[test]
fn one_store_serves_runtimes_of_which_only_one_runs() {
    let place = Place::new();
    let store = place.open();
    let [first, second] =
        [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    for (runtime, value) in [(&first, "1"), (&second, "2"), (&first, "3")] {
        let outcome = runtime.block_on(async { timeout(TEST_DEADLINE, store.commit(put(value))).await });
        assert!(matches!(outcome, Ok(CommitOutcome::Committed(_))), "{value}: {outcome:?}");
    }
}
