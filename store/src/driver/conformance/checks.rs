//! A commit happens only if its checks hold.

use super::{Bed, committed, number, put, read, value, won};
use crate::{Read, Transaction};

pub(super) async fn a_check_compares_values_and_tells_absent_from_empty(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    let claim = |expected| put(&bed.key("claimed"), number(1)).check(key.clone(), expected);
    assert!(won(&store, claim(None)).await);
    assert!(!won(&store, claim(Some(vec![]))).await);
    committed(&store, put(&key, vec![])).await;
    assert!(won(&store, claim(Some(vec![]))).await);
    assert!(!won(&store, claim(None)).await);
    committed(&store, put(&key, number(12))).await;
    assert!(won(&store, claim(Some(number(12)))).await);
    for other in [number(1), number(123), vec![]] {
        assert!(!won(&store, claim(Some(other))).await);
    }
    committed(&store, Transaction::new().clear(key.clone())).await;
    assert!(won(&store, claim(None)).await);
}

pub(super) async fn a_check_that_fails_undoes_everything(bed: Bed) {
    let (store, key, log) = (bed.connect(), bed.key("k"), bed.key("log/"));
    committed(&store, put(&key, number(1))).await;
    let before = read(&store, vec![]).await.version;
    let all = put(&key, number(2)).append(log.clone(), number(1)).clear(bed.key("k"));
    assert!(!won(&store, all.check(key.clone(), Some(number(1))).check(bed.key("x"), Some(number(1)))).await);
    assert_eq!((value(&store, &key).await, value(&store, &log).await), (Some(number(1)), None));
    assert!(won(&store, put(&bed.key("x"), number(1)).check(key.clone(), Some(number(1)))).await);
    assert!(read(&store, vec![]).await.version > before);
}

pub(super) async fn a_transaction_that_only_checks_is_answered_like_any_other(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    committed(&store, put(&key, number(1))).await;
    assert!(won(&store, Transaction::new().check(key.clone(), Some(number(1)))).await);
    assert!(!won(&store, Transaction::new().check(key.clone(), Some(number(2)))).await);
    assert!(won(&store, Transaction::new()).await);
}

pub(super) async fn a_fence_passes_while_the_key_is_unwritten_since(bed: Bed) {
    let (store, key, absent) = (bed.connect(), bed.key("k"), bed.key("absent"));
    let by_commit = committed(&store, put(&key, number(1))).await;
    committed(&store, put(&bed.key("other"), number(1))).await;
    let seen = read(&store, vec![Read::Key(key.clone()), Read::Key(absent.clone())]).await;
    for at in [by_commit, seen.version] {
        let fenced = put(&bed.key("other"), number(2)).fence(key.clone(), Some(number(1)), at);
        assert!(won(&store, fenced).await);
    }
    assert!(won(&store, put(&bed.key("other"), number(3)).fence(absent, None, seen.version)).await);
}

pub(super) async fn a_fence_is_refused_after_a_write(bed: Bed) {
    let (mine, theirs, key, absent) = (bed.connect(), bed.connect(), bed.key("k"), bed.key("absent"));
    let seen = committed(&mine, put(&key, number(1))).await;
    let fenced = |at| put(&bed.key("other"), number(1)).fence(key.clone(), Some(number(1)), at);
    committed(&theirs, put(&key, number(2)).put(absent.clone(), number(1))).await;
    assert!(!won(&mine, fenced(seen)).await);
    assert!(!won(&mine, put(&bed.key("other"), number(1)).fence(absent, None, seen)).await);
    committed(&theirs, Transaction::new().clear(key.clone())).await;
    assert!(!won(&mine, fenced(seen)).await);
    assert_eq!(value(&mine, &bed.key("other")).await, None);
}
