//! Callers at the limits: the task of one has used up its turn, and another one would wait for ever.

use futures::FutureExt;

use super::*;

async fn a_reference_is_made_for_a_task_that_has_used_up_its_turn(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, .. } = &scene;
    let address = a.address_of(&counter().await);
    // It receives more than a task may before the others have their turns.
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..1000 {
        send.send(n).unwrap();
    }
    while receive.recv().now_or_never().is_some() {}
    assert!(!receive.is_empty(), "it may go on");
    let remote: ActorRef<CounterMessage> = b.resolve(&address).unwrap();
    assert_eq!(get(&remote).await, Some(0));
}

async fn a_call_whose_caller_would_wait_for_ever_is_answered(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let remote = &scene.remote;
    for patience in [Duration::MAX, Duration::from_millis(u64::MAX)] {
        assert_eq!(answer(remote.call(CounterMessage::Get, Some(patience)).await), Some(0));
    }
    assert_eq!(get(remote).await, Some(0), "and its reference is as it was");
}

suite! {
    paused: [
        a_reference_is_made_for_a_task_that_has_used_up_its_turn,
        a_call_whose_caller_would_wait_for_ever_is_answered,
    ];
}
