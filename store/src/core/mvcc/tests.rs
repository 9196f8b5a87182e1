use super::*;
use crate::{Piece, TooLarge, appended};

const LIMITS: Limits = Limits { key: 40, value: 20, transaction: 200, checks: None };

fn store(window: u64) -> Mvcc {
    Mvcc::new(LIMITS, window)
}

fn key(text: &str) -> Key {
    text.as_bytes().to_vec()
}

fn put(text: &str, value: &str) -> Transaction {
    Transaction::new().put(key(text), key(value))
}

fn committed(store: &mut Mvcc, transaction: &Transaction) -> Version {
    match store.apply(transaction) {
        CommitOutcome::Committed(version) => version,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_writing_commit_raises_the_version_by_one_and_a_check_alone_does_not() {
    let mut store = store(10);
    assert_eq!(committed(&mut store, &put("a", "1")), Version(1));
    assert_eq!(committed(&mut store, &Transaction::new().check(key("a"), Some(key("1")))), Version(1));
    assert_eq!(committed(&mut store, &put("a", "2")), Version(2));
}

#[test]
fn a_fence_refuses_a_value_that_was_written_again_although_it_is_equal() {
    let mut store = store(10);
    let seen = committed(&mut store, &put("a", "1"));
    let fenced = |seen| put("b", "1").fence(key("a"), Some(key("1")), seen);
    committed(&mut store, &fenced(seen));
    let again = committed(&mut store, &put("a", "1"));
    assert_eq!(store.apply(&fenced(seen)), CommitOutcome::Conflict);
    committed(&mut store, &fenced(again));
}

#[test]
fn a_fence_on_an_absent_key_refuses_one_that_came_and_went() {
    let mut store = store(10);
    committed(&mut store, &put("b", "1"));
    let fenced = put("b", "2").fence(key("a"), None, Version(1));
    committed(&mut store.clone(), &fenced);
    committed(&mut store, &put("a", "1"));
    committed(&mut store, &Transaction::new().clear(key("a")));
    assert_eq!(store.get(b"a"), None);
    assert_eq!(store.apply(&fenced), CommitOutcome::Conflict);
}

#[test]
fn a_fence_with_a_wrong_value_is_refused_like_the_comparison() {
    let mut store = store(10);
    let seen = committed(&mut store, &put("a", "1"));
    assert_eq!(store.apply(&put("b", "1").fence(key("a"), Some(key("2")), seen)), CommitOutcome::Conflict);
}

#[test]
fn a_fence_older_than_the_window_is_refused() {
    let mut store = store(2);
    let seen = committed(&mut store, &put("a", "1"));
    let fenced = put("c", "1").fence(key("a"), Some(key("1")), seen);
    committed(&mut store, &put("b", "1"));
    committed(&mut store, &put("b", "2"));
    committed(&mut store.clone(), &fenced);
    committed(&mut store, &put("b", "3"));
    assert_eq!(store.apply(&fenced), CommitOutcome::Conflict);
}

#[test]
fn old_versions_are_read_as_they_were_until_they_leave_the_window() {
    let mut store = store(2);
    for value in ["1", "2", "3"] {
        committed(&mut store, &put("a", value).append(key("q/"), key(value)));
    }
    committed(&mut store, &Transaction::new().clear(key("a")).clear_range(appended(b"q/")));
    let read = |at| {
        let range = Read::Range { range: appended(b"q/"), limit: 10 };
        let read = store.read(&[Read::Key(key("a")), range], Some(Version(at))).unwrap();
        assert_eq!(read.version, Version(at));
        (read.value(0).cloned(), read.entries(1).len())
    };
    assert_eq!(read(2), (Some(key("2")), 2));
    assert_eq!(read(3), (Some(key("3")), 3));
    assert_eq!(read(4), (None, 0));
    for at in [1, 5] {
        let refused = NotKept { at: Version(at), oldest: Version(2), newest: Version(4) };
        assert_eq!(store.read(&[], Some(Version(at))), Err(refused));
    }
}

#[test]
fn what_left_the_window_leaves_no_trace() {
    let mut plain = store(1);
    let mut busy = store(1);
    for _ in 0..3 {
        committed(&mut plain, &put("b", "1"));
    }
    committed(&mut busy, &put("a", "1").append(key("q/"), key("1")));
    committed(&mut busy, &Transaction::new().clear_range(key("a")..key("z")));
    committed(&mut busy, &put("b", "1"));
    for store in [&mut plain, &mut busy] {
        committed(store, &put("b", "1"));
        committed(store, &put("b", "1"));
    }
    assert_eq!(plain, busy);
}

#[test]
fn with_no_window_only_the_newest_version_is_kept() {
    let mut store = store(0);
    committed(&mut store, &put("a", "1"));
    let seen = committed(&mut store, &put("a", "2"));
    assert_eq!(store.oldest(), seen);
    assert_eq!(store.rows.values().map(Vec::len).sum::<usize>(), 1);
    committed(&mut store, &put("a", "3").fence(key("a"), Some(key("2")), seen));
    committed(&mut store, &Transaction::new().clear(key("a")));
    assert!(store.rows.is_empty());
}

#[test]
fn a_key_is_changed_by_a_put_a_removal_and_an_append_and_by_nothing_else() {
    let mut store = store(10);
    committed(&mut store, &put("a", "1").put(key("b"), key("1")));
    let seen = store.version();
    assert!(store.changed_since(b"a", Version(0)) && !store.changed_since(b"a", seen));
    committed(&mut store, &put("c", "1").clear(key("absent")));
    assert!(!store.changed_since(b"a", seen) && !store.changed_since(b"absent", Version(0)));
    let change = Transaction::new().put(key("a"), key("1")).clear(key("b")).append(key("q"), key("1"));
    committed(&mut store, &change);
    assert!([b"a", b"b", b"q"].into_iter().all(|key| store.changed_since(key, seen)));
}

#[test]
fn whether_an_absent_key_changed_before_the_window_is_answered_with_yes() {
    let mut store = store(1);
    for _ in 0..3 {
        committed(&mut store, &put("a", "1"));
    }
    assert!(store.changed_since(b"absent", Version(1)));
    assert!(!store.changed_since(b"absent", Version(2)));
}

#[test]
fn what_is_too_large_changes_nothing() {
    let mut store = store(10);
    let before = store.clone();
    let value = TooLarge { what: Piece::Value, size: 21, limit: 20 };
    assert_eq!(store.apply(&put("a", &"v".repeat(21))), CommitOutcome::TooLarge(value));
    let appended = TooLarge { what: Piece::Key, size: 41, limit: 40 };
    let append = Transaction::new().append(vec![0; 29], key(""));
    assert_eq!(store.apply(&append), CommitOutcome::TooLarge(appended));
    let many = (0..21).fold(Transaction::new(), |all, i| all.put(vec![i], vec![0; 9]));
    let total = TooLarge { what: Piece::Transaction, size: 210, limit: 200 };
    assert_eq!(store.apply(&many), CommitOutcome::TooLarge(total));
    assert_eq!(store, before);
}

#[test]
fn what_is_too_old_to_be_read_is_not_remembered() {
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 3);
    for n in 0..10 {
        store.apply(&Transaction::new().put(b"k".to_vec(), vec![n]));
    }
    let versions: Vec<u64> = store.written.iter().map(|(version, _)| version.0).collect();
    assert_eq!((store.oldest(), versions), (Version(7), vec![8, 9, 10]));
    assert_eq!(store.rows.values().map(Vec::len).sum::<usize>(), 4, "of each version that can be read");
}

#[test]
fn what_one_commit_appends_is_numbered_by_its_version_and_from_zero() {
    let mut store = store(10);
    committed(&mut store, &put("a", "1"));
    let appends = Transaction::new().append(key("q"), key("x")).append(key("q"), key("y"));
    assert_eq!(committed(&mut store, &appends), Version(2));
    let stamps = [[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]];
    let entries = store.read(&[Read::Range { range: appended(b"q"), limit: 10 }], None).unwrap();
    let expected = [(stamps[0], "x"), (stamps[1], "y")];
    assert_eq!(
        entries.entries(0),
        expected.map(|(stamp, value)| ([b"q".as_slice(), &stamp].concat(), key(value)))
    );
    assert_eq!(store.get(b"q"), Some(stamps[1].as_slice()));
}
