//! What is too large is refused whole, and never taken later.

use super::{Bed, commit, committed, number, put, read, value};
use crate::{CommitOutcome, Piece, STAMP_LENGTH, SharedStore, TooLarge, Transaction};

/// Sees a transaction refused for its size, with `witness` and the version untouched by it.
async fn refused(store: &SharedStore, bed: &Bed, transaction: Transaction, expected: TooLarge) {
    let witness = bed.key("witness");
    let version = read(store, vec![]).await.version;
    let outcome = commit(store, transaction.put(witness.clone(), number(1))).await;
    assert_eq!(outcome, CommitOutcome::TooLarge(expected));
    assert_eq!(value(store, &witness).await, None);
    assert_eq!(store.limits().broken_by(&Transaction::new()), None);
    assert!(read(store, vec![]).await.version >= version);
}

fn padded(mut key: Vec<u8>, length: usize) -> Vec<u8> {
    key.resize(length, b'x');
    key
}

pub(super) async fn a_value_at_the_limit_is_taken_and_a_longer_one_is_refused(bed: Bed) {
    let (store, key) = (bed.connect(), bed.key("k"));
    let limit = store.limits().value;
    let longest = vec![7; limit];
    committed(&store, put(&key, longest.clone())).await;
    let too_large = TooLarge { what: Piece::Value, size: limit + 1, limit };
    refused(&store, &bed, put(&key, vec![8; limit + 1]), too_large).await;
    assert_eq!(value(&store, &key).await, Some(longest));
    refused(&store, &bed, Transaction::new().append(key, vec![8; limit + 1]), too_large).await;
}

pub(super) async fn a_key_at_the_limit_is_taken_and_a_longer_one_is_refused(bed: Bed) {
    let store = bed.connect();
    let limit = store.limits().key;
    let longest = padded(bed.key("k"), limit);
    committed(&store, put(&longest, number(1)).check(longest.clone(), None)).await;
    assert_eq!(value(&store, &longest).await, Some(number(1)));
    let (longer, too_large) =
        (padded(bed.key("k"), limit + 1), TooLarge { what: Piece::Key, size: limit + 1, limit });
    refused(&store, &bed, put(&longer, number(1)), too_large).await;
    refused(&store, &bed, Transaction::new().clear(longer.clone()), too_large).await;
    refused(&store, &bed, Transaction::new().clear_range(bed.key("a")..longer.clone()), too_large).await;
    refused(&store, &bed, Transaction::new().check(longer, None), too_large).await;
}

pub(super) async fn an_appended_key_counts_with_its_stamp(bed: Bed) {
    let store = bed.connect();
    let limit = store.limits().key;
    let longest = padded(bed.key("k"), limit - STAMP_LENGTH);
    committed(&store, Transaction::new().append(longest.clone(), number(1))).await;
    let append = Transaction::new().append(padded(longest, limit - STAMP_LENGTH + 1), number(1));
    refused(&store, &bed, append, TooLarge { what: Piece::Key, size: limit + 1, limit }).await;
}

pub(super) async fn a_transaction_above_the_limit_changes_nothing(bed: Bed) {
    let store = bed.connect();
    let limits = store.limits();
    let key = |n: usize| bed.key(format!("{n:06}"));
    let each = key(0).len() + limits.value;
    // The witness that `refused` adds is what makes it too large.
    let witness = bed.key("witness").len() + number(1).len();
    let whole = limits.transaction / each;
    let all = (0..whole).fold(Transaction::new(), |all, n| all.put(key(n), vec![7; limits.value]));
    let rest = limits.transaction - whole * each;
    let all = if rest > key(0).len() { all.put(key(whole), vec![7; rest - key(0).len()]) } else { all };
    let size =
        limits.broken_by(&all.clone().put(bed.key("witness"), number(1))).map_or(0, |broken| broken.size);
    assert!(size > limits.transaction && size <= limits.transaction + witness);
    let too_large = TooLarge { what: Piece::Transaction, size, limit: limits.transaction };
    refused(&store, &bed, all.clone(), too_large).await;
    assert_eq!(value(&store, &key(0)).await, None);
    committed(&store, all).await;
    assert!(value(&store, &key(whole - 1)).await.is_some());
    committed(&store, Transaction::new().clear_range(bed.key("0")..bed.key("9"))).await;
}
