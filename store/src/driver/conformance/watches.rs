//! A watch ends after its key changed. That it may also end without cause cannot be checked.

use futures::{future::join_all, poll};

use super::{Bed, committed, number, put, read, soon};
use crate::{Key, Read, SharedStore, Transaction};

/// Watches a key, makes a change, and waits for the watch to end.
async fn ends(watcher: &SharedStore, writer: &SharedStore, key: &Key, change: Transaction) {
    let since = read(watcher, vec![]).await.version;
    let mut watch = watcher.watch(key.clone(), since);
    // Started before the change, though it need not have reached the store: `since` covers the rest.
    let early = poll!(&mut watch);
    committed(writer, change).await;
    let ended = if early.is_ready() { Ok(()) } else { soon("the end of a watch", watch).await };
    assert_eq!(ended, Ok(()));
}

pub(super) async fn a_watch_ends_when_the_key_is_put(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    for round in 0..5 {
        ends(&store, &store, &key, put(&key, number(round))).await;
    }
}

pub(super) async fn a_watch_ends_when_the_key_is_cleared(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    for round in 0..5 {
        committed(&store, put(&key, number(round))).await;
        ends(&store, &store, &key, Transaction::new().clear(key.clone())).await;
    }
}

pub(super) async fn a_watch_ends_when_the_key_is_cleared_with_a_range(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    committed(&store, put(&key, number(1))).await;
    ends(&store, &store, &key, Transaction::new().clear_range(bed.key("a")..bed.key("z"))).await;
}

pub(super) async fn a_watch_ends_when_something_is_appended_to_the_key(bed: Bed) {
    let (store, queue) = (bed.connect(), bed.key("queue/"));
    for _ in 0..5 {
        // Always the same value: it is the stamp that differs.
        ends(&store, &store, &queue, Transaction::new().append(queue.clone(), number(1))).await;
    }
}

pub(super) async fn a_watch_ends_at_once_if_the_key_has_changed_since(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    let since = read(&store, vec![]).await.version;
    committed(&store, put(&key, number(1))).await;
    assert_eq!(soon("the end of a watch", store.watch(key.clone(), since)).await, Ok(()));
    let since = read(&store, vec![]).await.version;
    committed(&store, Transaction::new().clear(key.clone())).await;
    assert_eq!(soon("the end of a watch", store.watch(key, since)).await, Ok(()));
}

pub(super) async fn a_watch_notices_the_commit_of_another_connection(bed: Bed) {
    let (watcher, writer, key) = (bed.connect(), bed.connect(), bed.key("k"));
    for round in 0..5 {
        ends(&watcher, &writer, &key, put(&key, number(round))).await;
        ends(&watcher, &writer, &key, Transaction::new().append(key.clone(), number(round))).await;
        ends(&watcher, &writer, &key, Transaction::new().clear(key.clone())).await;
    }
}

/// The change races the watch, on another connection.
pub(super) async fn a_change_between_the_read_and_the_watch_is_not_missed(bed: Bed) {
    let (watcher, writer, key) = (bed.connect(), bed.connect(), bed.key("k"));
    for round in 0..20 {
        let since = read(&watcher, vec![Read::Key(key.clone())]).await.version;
        let change = put(&key, number(round));
        let watch = watcher.watch(key.clone(), since);
        let ended = if round % 2 == 0 {
            let (ended, _) = futures::join!(soon("the end of a watch", watch), committed(&writer, change));
            ended
        } else {
            committed(&writer, change).await;
            soon("the end of a watch", watch).await
        };
        assert_eq!(ended, Ok(()));
    }
}

pub(super) async fn all_who_watch_a_key_hear_of_its_change(bed: Bed) {
    let (stores, key) = ([bed.connect(), bed.connect(), bed.connect()], bed.key("k"));
    let since = read(&stores[0], vec![]).await.version;
    let watches = join_all(stores.iter().chain(&stores).map(|store| store.watch(key.clone(), since)));
    let (ended, _) =
        futures::join!(soon("the end of six watches", watches), committed(&stores[1], put(&key, number(1))),);
    assert!(ended.iter().all(Result::is_ok));
}
