//! What is read is what was written, in order.

use super::{Bed, committed, number, put, read, value};
use crate::{Key, Read, SharedStore, Transaction};

async fn names(store: &SharedStore, bed: &Bed, from: &str, to: &str, limit: usize) -> Vec<String> {
    let range = bed.key(from)..bed.key(to);
    let result = read(store, vec![Read::Range { range, limit }]).await;
    let name = |key: &Key| String::from_utf8_lossy(&key[bed.prefix.len()..]).into_owned();
    result.entries(0).iter().map(|(key, _)| name(key)).collect()
}

async fn fill(store: &SharedStore, bed: &Bed, names: &[&str]) {
    let fill = names.iter().fold(Transaction::new(), |all, name| all.put(bed.key(name), number(1)));
    committed(store, fill).await;
}

pub(super) async fn an_absent_key_has_no_entry_and_an_empty_value_has_one(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    assert_eq!(value(&store, &key).await, None);
    committed(&store, put(&key, vec![])).await;
    assert_eq!(value(&store, &key).await, Some(vec![]));
}

pub(super) async fn answers_come_in_the_order_of_the_reads(bed: Bed) {
    let store = bed.connect();
    fill(&store, &bed, &["a", "b"]).await;
    let range = Read::Range { range: bed.key("a")..bed.key("c"), limit: 10 };
    let reads = vec![Read::Key(bed.key("b")), Read::Key(bed.key("x")), range, Read::Key(bed.key("a"))];
    let result = read(&store, reads).await;
    let lengths: Vec<_> = result.answers.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 0, 2, 1]);
    assert_eq!((&result.answers[0][0].0, &result.answers[3][0].0), (&bed.key("b"), &bed.key("a")));
}

pub(super) async fn a_range_comes_in_the_order_of_its_keys_without_its_end(bed: Bed) {
    let store = bed.connect();
    let keys: Vec<Key> = [&[][..], &[0], &[0, 0], &[0, 1], &[1], &[0x7f], &[0x80], &[0xff], &[0xff, 0]]
        .into_iter()
        .map(|bytes| bed.key([b"k", bytes].concat()))
        .collect();
    for key in keys.iter().rev() {
        committed(&store, put(key, key.clone())).await;
    }
    let whole = Read::Range { range: bed.key("k")..bed.key("l"), limit: 100 };
    let part = Read::Range { range: keys[2].clone()..keys[7].clone(), limit: 100 };
    let result = read(&store, vec![whole, part]).await;
    let pairs = |keys: &[Key]| keys.iter().map(|key| (key.clone(), key.clone())).collect::<Vec<_>>();
    assert_eq!(result.answers, [pairs(&keys), pairs(&keys[2..7])]);
}

pub(super) async fn a_range_is_cut_at_its_limit_and_can_be_read_on_behind_the_last(bed: Bed) {
    let store = bed.connect();
    fill(&store, &bed, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(names(&store, &bed, "a", "z", 2).await, ["a", "b"]);
    assert_eq!(names(&store, &bed, "b\0", "z", 2).await, ["c", "d"]);
    assert_eq!(names(&store, &bed, "d\0", "z", 2).await, ["e"]);
    assert!(names(&store, &bed, "a", "z", 0).await.is_empty());
}

pub(super) async fn a_range_that_ends_before_it_starts_is_empty(bed: Bed) {
    let store = bed.connect();
    fill(&store, &bed, &["a", "b"]).await;
    assert!(names(&store, &bed, "b", "a", 10).await.is_empty());
    committed(&store, Transaction::new().clear_range(bed.key("b")..bed.key("a"))).await;
    assert_eq!(names(&store, &bed, "a", "z", 10).await, ["a", "b"]);
}

pub(super) async fn cleared_keys_are_gone_and_their_neighbours_are_not(bed: Bed) {
    let store = bed.connect();
    fill(&store, &bed, &["a", "b", "b\0", "c", "d", "e"]).await;
    committed(&store, Transaction::new().clear(bed.key("b")).clear(bed.key("absent"))).await;
    assert_eq!(names(&store, &bed, "a", "z", 10).await, ["a", "b\0", "c", "d", "e"]);
    committed(&store, Transaction::new().clear_range(bed.key("c")..bed.key("e"))).await;
    assert_eq!(names(&store, &bed, "a", "z", 10).await, ["a", "b\0", "e"]);
}

pub(super) async fn writes_of_one_transaction_are_applied_in_order(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("a"));
    let all =
        put(&key, number(1)).clear(key.clone()).put(key.clone(), number(2)).put(bed.key("b"), number(1));
    committed(&store, all.clear_range(bed.key("b")..bed.key("c"))).await;
    assert_eq!((value(&store, &key).await, value(&store, &bed.key("b")).await), (Some(number(2)), None));
}
