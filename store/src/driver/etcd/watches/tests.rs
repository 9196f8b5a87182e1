use super::{
    super::{
        EtcdStore,
        tests::scripted::Scripted,
        wire::{KeyValue, WatchEvent},
    },
    *,
};
use crate::testing::TEST_DEADLINE;

type Ends = oneshot::Receiver<Result<(), StoreError>>;

fn book() -> Book {
    Book::new(Space::new("p"))
}

fn watch(book: &mut Book, key: &str, since: u64) -> (Ends, Option<WatchRequest>) {
    let (ended, ends) = oneshot::channel();
    let wish = book.watch(key.into(), Version(since), ended);
    (ends, wish)
}

fn has_ended(ends: &mut Ends) -> bool {
    match ends.try_recv() {
        Ok(ended) => {
            assert_eq!(ended, Ok(()));
            true
        }
        Err(_) => false,
    }
}

/// From which revision on each key is asked for.
fn begins(wishes: impl IntoIterator<Item = WatchRequest>) -> Vec<(Vec<u8>, i64)> {
    let begin = |wish: WatchRequest| match wish.wish {
        Some(WatchWish::Create(create)) => Some((create.key, create.start_revision)),
        _ => None,
    };
    wishes.into_iter().filter_map(begin).collect()
}

fn event(id: i64, kind: i32, revision: i64) -> WatchResponse {
    let kv = KeyValue { key: b"p/k".to_vec(), mod_revision: revision, value: vec![] };
    let events = vec![WatchEvent { kind, kv: Some(kv) }];
    WatchResponse { watch_id: id, events, ..WatchResponse::default() }
}

fn canceled(id: i64, compacted: i64) -> WatchResponse {
    WatchResponse { watch_id: id, canceled: true, compact_revision: compacted, ..WatchResponse::default() }
}

#[test]
fn a_wait_ends_with_a_change_behind_its_version_and_not_with_an_earlier_one() {
    let mut book = book();
    let (mut early, wish) = watch(&mut book, "k", 5);
    assert_eq!(begins(wish), [(b"p/k".to_vec(), 6)]);
    let (mut late, wish) = watch(&mut book, "k", 8);
    assert_eq!(wish, None, "one watch of etcd's is enough for a key");
    book.heard(&event(1, PUT, 8)).unwrap();
    assert!(has_ended(&mut early) && !has_ended(&mut late));
    // Known from before, and a change that nobody here can know of.
    assert!(has_ended(&mut watch(&mut book, "k", 7).0));
    assert!(has_ended(&mut watch(&mut book, "k", 4).0));
    assert!(!has_ended(&mut watch(&mut book, "k", 8).0));
    book.heard(&event(1, 1, 9)).unwrap();
    assert!(has_ended(&mut late));
    book.heard(&event(77, PUT, 10)).unwrap();
}

#[test]
fn a_new_stream_resumes_each_key_behind_what_is_accounted_for() {
    let mut book = book();
    let _waits = [watch(&mut book, "k", 5), watch(&mut book, "l", 6)];
    let begun = |book: &mut Book| begins(book.resume());
    assert_eq!(begun(&mut book), [(b"p/k".to_vec(), 6), (b"p/l".to_vec(), 7)]);
    book.heard(&event(1, PUT, 9)).unwrap();
    assert_eq!(begun(&mut book), [(b"p/k".to_vec(), 10), (b"p/l".to_vec(), 7)]);
    // A quiet key does not fall behind what etcd forgets.
    book.looked(b"l", 20, Some(3));
    assert_eq!(begun(&mut book), [(b"p/k".to_vec(), 10), (b"p/l".to_vec(), 21)]);
}

#[test]
fn what_came_and_went_between_two_looks_while_the_stream_broke_ends_the_wait() {
    let mut book = book();
    let (_first, _) = watch(&mut book, "k", 5);
    book.looked(b"k", 7, None);
    let (mut waits, _) = watch(&mut book, "k", 7);
    // It is put at 8, and removed at 9. The stream breaks before it says so.
    book.looked(b"k", 12, None);
    assert!(!has_ended(&mut waits), "it looks as before");
    assert_eq!(begins(book.resume()), [(b"p/k".to_vec(), 13)]);
    let (mut joins, _) = watch(&mut book, "k", 7);
    book.looked(b"k", 14, None);
    assert!(has_ended(&mut waits) && has_ended(&mut joins));
    assert!(has_ended(&mut watch(&mut book, "k", 7).0), "also one that comes late");
    // That is for once, and a key that is there looks different after a change.
    let (mut waits, _) = watch(&mut book, "k", 14);
    book.looked(b"k", 16, None);
    assert!(!has_ended(&mut waits));
    book.heard(&event(1, PUT, 17)).unwrap();
    let (mut waits, _) = watch(&mut book, "k", 17);
    assert_eq!(begins(book.resume()), [(b"p/k".to_vec(), 18)]);
    book.looked(b"k", 20, Some(17));
    assert!(!has_ended(&mut waits));
    book.looked(b"k", 22, None);
    assert!(has_ended(&mut waits));
}

#[test]
fn what_etcd_has_forgotten_ends_the_wait_and_the_next_one_asks_anew() {
    let mut book = book();
    let (mut waits, _) = watch(&mut book, "k", 5);
    book.heard(&canceled(1, 40)).unwrap();
    assert!(has_ended(&mut waits));
    assert!(book.is_empty());
    assert_eq!(begins(watch(&mut book, "k", 41).1), [(b"p/k".to_vec(), 42)]);
}

#[test]
fn a_store_that_went_back_ends_the_waits_for_what_it_has_lost_and_the_next_ones_ask_anew() {
    let mut book = book();
    let (mut waits, _) = watch(&mut book, "k", 50);
    book.looked(b"k", 100, Some(40));
    book.begins_at(Version(100));
    assert!(!has_ended(&mut waits), "that is as far as it was");
    book.begins_at(Version(20));
    assert!(has_ended(&mut waits));
    assert!(book.is_empty());
    let (mut waits, wish) = watch(&mut book, "k", 20);
    assert_eq!(begins(wish), [(b"p/k".to_vec(), 21)]);
    assert!(!has_ended(&mut waits));
    // The watch is older than what was lost, and the wait is not.
    let (mut later, wish) = watch(&mut book, "k", 30);
    assert_eq!(wish, None);
    book.begins_at(Version(25));
    assert!(has_ended(&mut later) && book.is_empty());
}

#[test]
fn a_watch_that_was_refused_without_its_number_costs_the_stream() {
    let mut book = book();
    let (mut waits, _) = watch(&mut book, "k", 5);
    let refused = WatchResponse { cancel_reason: "permission denied".to_owned(), ..canceled(-1, 0) };
    assert_eq!(book.heard(&refused), Err("permission denied".to_owned()));
    assert!(!has_ended(&mut waits), "it is asked for again");
    assert_eq!(book.resume().len(), 1);
}

#[test]
fn the_slow_look_finds_what_the_stream_lost() {
    let mut book = book();
    let (mut waits, _) = watch(&mut book, "k", 5);
    book.looked(b"k", 7, Some(5));
    assert!(!has_ended(&mut waits));
    book.looked(b"k", 9, Some(8));
    assert!(has_ended(&mut waits), "it was put");
    let (mut waits, _) = watch(&mut book, "k", 9);
    book.looked(b"k", 12, None);
    assert!(has_ended(&mut waits), "it was removed");
    assert!(has_ended(&mut watch(&mut book, "k", 11).0), "which ends each wait for what was before it");
    let (mut waits, _) = watch(&mut book, "k", 12);
    book.looked(b"k", 14, None);
    assert!(!has_ended(&mut waits), "it is absent still");
    // Of this one nobody knows whether it was there.
    let (mut waits, _) = watch(&mut book, "l", 5);
    book.looked(b"l", 14, None);
    assert!(has_ended(&mut waits));
    let (mut waits, _) = watch(&mut book, "l", 14);
    book.looked(b"l", 15, None);
    assert!(!has_ended(&mut waits));
    assert!(has_ended(&mut watch(&mut book, "l", 13).0), "of what was before the first look, nobody knows");
}

#[test]
fn whether_a_key_is_there_is_known_from_what_the_stream_said() {
    let mut book = book();
    let (_waits, _) = watch(&mut book, "k", 5);
    book.heard(&event(1, PUT, 8)).unwrap();
    book.looked(b"k", 12, None);
    assert!(has_ended(&mut watch(&mut book, "k", 11).0), "it was removed");
    book.heard(&event(1, PUT, 14)).unwrap();
    book.heard(&event(1, 1, 15)).unwrap();
    book.looked(b"k", 19, None);
    assert!(!has_ended(&mut watch(&mut book, "k", 18).0), "that was known");
}

#[test]
fn a_key_that_nobody_comes_for_is_given_up_after_some_looks() {
    let mut book = book();
    let (ends, _) = watch(&mut book, "k", 5);
    for _ in 0..5 {
        assert_eq!(book.due(), (vec![b"k".to_vec()], vec![]));
    }
    drop(ends);
    for _ in 0..IDLE_LOOKS {
        assert_eq!(book.due().0.len(), 1);
    }
    // Somebody comes, and goes again: the looks are counted anew.
    drop(watch(&mut book, "k", 5));
    for _ in 0..IDLE_LOOKS {
        assert_eq!(book.due().0.len(), 1);
    }
    let cancel = WatchRequest { wish: Some(WatchWish::Cancel(WatchCancel { watch_id: 1 })) };
    assert_eq!(book.due(), (vec![], vec![cancel]));
    assert!(book.is_empty());
    // etcd says so, too.
    book.heard(&canceled(1, 0)).unwrap();
}

#[tokio::test]
async fn a_connection_says_from_where_the_store_goes_on() {
    let server = Scripted::start(vec![]).await;
    let url = server.url("");
    let store = tokio::task::spawn_blocking(move || EtcdStore::open(&url)).await.unwrap().unwrap();
    let session = store.shared.line.session(Instant::now() + TEST_DEADLINE).await.unwrap();
    let (events, _heard) = mpsc::unbounded_channel();
    let mut keeper = EtcdKeeper::new(Space::new("p"), events);
    let began_at = session.began_at;
    let (ended, mut known) = oneshot::channel();
    keeper.on_event(Event::Watch(b"k".to_vec(), began_at, ended));
    let (ended, mut lost) = oneshot::channel();
    keeper.on_event(Event::Watch(b"l".to_vec(), Version(began_at.0 + 1), ended));
    keeper.on_event(Event::Up(session));
    assert!(has_ended(&mut lost) && !has_ended(&mut known));
}

#[tokio::test]
async fn what_comes_on_a_stream_that_another_has_replaced_is_not_listened_to() {
    let server = Scripted::start(vec![]).await;
    let url = server.url("");
    let store = tokio::task::spawn_blocking(move || EtcdStore::open(&url)).await.unwrap().unwrap();
    let session = store.shared.line.session(Instant::now() + TEST_DEADLINE).await.unwrap();
    let (events, _heard) = mpsc::unbounded_channel();
    let mut keeper = EtcdKeeper::new(Space::new("p"), events);
    keeper.on_event(Event::Up(session.clone()));
    keeper.on_event(Event::Up(session));
    let (ended, mut ends) = oneshot::channel();
    keeper.on_event(Event::Watch(b"k".to_vec(), Version(5), ended));
    keeper.on_event(Event::Said(1, event(1, PUT, 8)));
    assert!(!has_ended(&mut ends));
    keeper.on_event(Event::Over(1, "it broke".to_owned()));
    assert!(keeper.stream.is_some());
    keeper.on_event(Event::Said(2, event(1, PUT, 8)));
    assert!(has_ended(&mut ends));
    keeper.on_event(Event::Over(2, "it broke".to_owned()));
    assert!(keeper.stream.is_none());
}
