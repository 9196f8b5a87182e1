//! A transaction of ours as one of etcd's.
//!
//! etcd applies the operations of a transaction together, and refuses one that puts a key twice, or that puts a key and
//! removes it. So writes, which happen in their order, become what they come to: keys that are put, each once, and ranges
//! that are removed, none of which has such a key in it.

use std::{collections::BTreeMap, ops::Range};

use prost::Message;

use super::{
    LIMITS, MOST_REQUEST,
    address::EtcdAddress,
    space::Space,
    wire::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, Request, TxnRequest},
};
use crate::core::transaction::{Key, Piece, STAMP_LENGTH, TooLarge, Transaction, Value, Write};

/// A transaction that can be sent.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: TxnRequest,
    /// The place that entries get, if the transaction appends.
    pub(super) place: Option<u64>,
}

/// Whether it needs a place in the order of all appends.
pub(super) fn appends(transaction: &Transaction) -> bool {
    transaction.writes.iter().any(|write| matches!(write, Write::Append { .. }))
}

/// The request for a transaction, or which limit it breaks. `taken` is the place that the last append of all took, where
/// one is needed; `None`: no place was taken yet.
pub(super) fn plan(
    address: &EtcdAddress,
    identity: &[u8],
    transaction: &Transaction,
    taken: Option<u64>,
) -> Result<Plan, TooLarge> {
    if let Some(broken) = LIMITS.broken_by(transaction) {
        return Err(broken);
    }
    let space = &address.space;
    let place = appends(transaction).then(|| taken.map_or(1, |taken| taken + 1));
    let mut compare = vec![Compare::is(space.layout(), Some(identity))];
    let mut failure = vec![only(space.layout())];
    let mut success = Vec::new();
    if let Some(place) = place {
        let expected = taken.map(u64::to_be_bytes);
        compare.push(Compare::is(space.place(), expected.as_ref().map(<[u8; 8]>::as_slice)));
        failure.push(only(space.place()));
        success.push(put(space.place(), place.to_be_bytes().to_vec()));
    }
    compare.extend(
        transaction.checks.iter().map(|check| Compare::is(space.key(&check.key), check.expected.as_deref())),
    );
    let (puts, clears) = outcome(&transaction.writes, place.unwrap_or_default());
    success.extend(puts.into_iter().map(|(key, value)| put(space.key(&key), value)));
    success.extend(clears.iter().map(|range| clear(space, range)));
    let (success, failure) = (
        success.into_iter().map(Into::into).collect::<Vec<_>>(),
        failure.into_iter().map(Into::into).collect(),
    );

    let operations = compare.len().max(success.len());
    if operations > address.operations {
        return Err(TooLarge { what: Piece::Operations, size: operations, limit: address.operations });
    }
    let request = TxnRequest { compare, success, failure };
    let size = request.encoded_len();
    if size > MOST_REQUEST {
        return Err(TooLarge { what: Piece::Transaction, size, limit: MOST_REQUEST });
    }
    Ok(Plan { request, place })
}

fn only(key: Key) -> Request {
    Request::Range(RangeRequest { key, ..RangeRequest::default() })
}

fn put(key: Key, value: Value) -> Request {
    Request::Put(PutRequest { key, value })
}

fn clear(space: &Space, range: &Range<Key>) -> Request {
    let key = space.key(&range.start);
    let is_one = range.end.strip_prefix(range.start.as_slice()) == Some(&[0]);
    let range_end = if is_one { Vec::new() } else { space.key(&range.end) };
    Request::Delete(DeleteRangeRequest { key, range_end })
}

/// The bytes that an append adds to its prefix: its transaction's place in the order of all appends, then its own within the
/// transaction.
fn stamp(place: u64, nth: u32) -> [u8; STAMP_LENGTH] {
    let mut stamp = [0; STAMP_LENGTH];
    stamp[..8].copy_from_slice(&place.to_be_bytes());
    stamp[8..].copy_from_slice(&nth.to_be_bytes());
    stamp
}

/// What writes come to: what is put, and which ranges are removed beside that. `place` is that of what is appended.
fn outcome(writes: &[Write], place: u64) -> (BTreeMap<Key, Value>, Vec<Range<Key>>) {
    let (mut puts, mut clears) = (BTreeMap::<Key, Value>::new(), Vec::<Range<Key>>::new());
    let mut appended = 0;
    for write in writes {
        let range = match write {
            Write::Put { key, value } => {
                puts.insert(key.clone(), value.clone());
                continue;
            }
            Write::Append { prefix, value } => {
                let stamp = stamp(place, appended);
                appended += 1;
                puts.insert([prefix.as_slice(), &stamp].concat(), value.clone());
                puts.insert(prefix.clone(), stamp.to_vec());
                continue;
            }
            Write::Clear(key) => key.clone()..behind(key),
            Write::ClearRange(range) if range.start < range.end => range.clone(),
            Write::ClearRange(_) => continue,
        };
        let gone: Vec<Key> = puts.range(range.clone()).map(|(key, _)| key.clone()).collect();
        for key in gone {
            puts.remove(&key);
        }
        clears.push(range);
    }
    let clears = without(&puts, together(clears));
    (puts, clears)
}

/// The key right behind this one.
fn behind(key: &[u8]) -> Key {
    [key, &[0]].concat()
}

/// Ranges that overlap become one.
fn together(mut ranges: Vec<Range<Key>>) -> Vec<Range<Key>> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut merged: Vec<Range<Key>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = range.end.max(std::mem::take(&mut last.end)),
            _ => merged.push(range),
        }
    }
    merged
}

/// Ranges cut around each key that is put.
fn without(puts: &BTreeMap<Key, Value>, ranges: Vec<Range<Key>>) -> Vec<Range<Key>> {
    let mut cut = Vec::new();
    for range in ranges {
        let mut start = range.start.clone();
        for (key, _) in puts.range(range.clone()) {
            if start < *key {
                cut.push(start..key.clone());
            }
            start = behind(key);
        }
        if start < range.end {
            cut.push(start..range.end);
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::{super::MOST_OPERATIONS, *};
    use crate::core::transaction::Version;

    const IDENTITY: &[u8] = b"1 00";

    fn address() -> EtcdAddress {
        EtcdAddress::parse("etcd://h/p").unwrap()
    }

    fn space() -> Space {
        address().space
    }

    fn planned(transaction: &Transaction, taken: Option<u64>) -> TxnRequest {
        plan(&address(), IDENTITY, transaction, taken).unwrap().request
    }

    fn key(name: &str) -> Key {
        name.into()
    }

    /// What a request does, in words.
    fn done(request: &TxnRequest) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace('\0', "0");
        let say = |operation: &Request| match operation {
            Request::Put(put) => format!("{}={}", text(&put.key), text(&put.value)),
            Request::Delete(gone) if gone.range_end.is_empty() => format!("-{}", text(&gone.key)),
            Request::Delete(gone) => format!("-{}..{}", text(&gone.key), text(&gone.range_end)),
            Request::Range(_) => panic!("a write reads"),
        };
        request.success.iter().map(|operation| say(operation.request.as_ref().unwrap())).collect()
    }

    #[test]
    fn writes_that_undo_each_other_come_to_what_is_left_of_them() {
        let put = |all: Transaction, name: &str, value: &str| all.put(key(name), value.into());
        let new = Transaction::new;
        for (transaction, expected) in [
            (put(put(new(), "a", "1"), "a", "2"), vec!["p/a=2"]),
            (put(new(), "a", "1").clear(key("a")), vec!["-p/a"]),
            (put(new().clear(key("a")), "a", "1"), vec!["p/a=1"]),
            (put(put(new(), "b", "1"), "d", "1").clear_range(key("a")..key("c")), vec!["p/d=1", "-p/a..p/c"]),
            (put(new().clear_range(key("a")..key("e")), "c", "1"), vec!["p/c=1", "-p/a..p/c", "-p/c0..p/e"]),
            (put(new().clear_range(key("a")..key("c")), "a", "1"), vec!["p/a=1", "-p/a0..p/c"]),
            (put(new().clear_range(key("a")..key("c")), "c", "1"), vec!["p/c=1", "-p/a..p/c"]),
            (
                new().clear_range(key("b")..key("d")).clear_range(key("a")..key("c")).clear(key("x")),
                vec!["-p/a..p/d", "-p/x"],
            ),
            (new().clear_range(key("a")..key("e")).clear_range(key("b")..key("c")), vec!["-p/a..p/e"]),
            (new().clear_range(key("b")..key("a")), vec![]),
        ] {
            assert_eq!(done(&planned(&transaction, None)), expected, "{transaction:?}");
        }
    }

    #[test]
    fn an_append_takes_the_place_behind_the_last_one_and_checks_that_nobody_has_it() {
        let twice = Transaction::new().append(key("q"), b"v".to_vec()).append(key("q"), b"w".to_vec());
        for (taken, place) in [(None, 1_u64), (Some(7), 8)] {
            let planned = plan(&address(), IDENTITY, &twice, taken).unwrap();
            assert_eq!(planned.place, Some(place));
            let expected = taken.map(u64::to_be_bytes);
            let compared = Compare::is(space().place(), expected.as_ref().map(<[u8; 8]>::as_slice));
            assert_eq!(planned.request.compare[1], compared);
            let puts: Vec<_> = planned
                .request
                .success
                .iter()
                .map(|operation| match &operation.request {
                    Some(Request::Put(put)) => (put.key.clone(), put.value.clone()),
                    other => panic!("{other:?}"),
                })
                .collect();
            let (first, second) = (stamp(place, 0), stamp(place, 1));
            let entry = |stamp: [u8; 12]| [b"p/q".as_slice(), &stamp].concat();
            assert_eq!(
                puts,
                [
                    (space().place(), place.to_be_bytes().to_vec()),
                    (b"p/q".to_vec(), second.to_vec()),
                    (entry(first), b"v".to_vec()),
                    (entry(second), b"w".to_vec()),
                ]
            );
        }
    }

    #[test]
    fn every_transaction_checks_which_store_it_is_and_reads_what_tells_a_conflict_from_that() {
        let request = planned(&Transaction::new().fence(key("k"), Some(b"v".to_vec()), Version(3)), None);
        let is = |key: Key, value: &[u8]| Compare::is(key, Some(value));
        assert_eq!(request.compare, [is(space().layout(), IDENTITY), is(b"p/k".to_vec(), b"v")]);
        assert_eq!(request.success, []);
        let read = Request::Range(RangeRequest { key: space().layout(), ..RangeRequest::default() });
        // Also what makes etcd ask the others before it answers: a transaction without operations is answered at once.
        assert_eq!(request.failure, [read.into()]);
    }

    #[test]
    fn a_transaction_may_have_as_many_checks_as_the_store_says_also_if_it_appends() {
        for url in ["etcd://h/p", "etcd://h/p?operations=300"] {
            let address = EtcdAddress::parse(url).unwrap();
            let most = address.limits().checks.unwrap();
            let append = Transaction::new().append(key("q"), vec![]);
            let all = (0..most).fold(append, |all, n| all.check(key(&n.to_string()), None));
            assert!(plan(&address, IDENTITY, &all, None).is_ok(), "{most}");
            let more = plan(&address, IDENTITY, &all.check(key("more"), None), None).unwrap_err();
            assert_eq!(more.what, Piece::Operations);
        }
    }

    #[test]
    fn what_etcd_would_refuse_is_refused_before_it_is_sent() {
        let puts =
            |count: usize| (0..count).fold(Transaction::new(), |all, n| all.put(key(&n.to_string()), vec![]));
        let checks =
            |count: usize| (0..count).fold(Transaction::new(), |all, n| all.check(key(&n.to_string()), None));
        let refusal = |transaction: &Transaction| plan(&address(), IDENTITY, transaction, None).unwrap_err();
        assert!(plan(&address(), IDENTITY, &puts(MOST_OPERATIONS), None).is_ok());
        let many = TooLarge { what: Piece::Operations, size: 129, limit: 128 };
        assert_eq!(refusal(&puts(MOST_OPERATIONS + 1)), many);
        assert_eq!(refusal(&checks(MOST_OPERATIONS)), many, "which store it is, is a comparison too");
        let raised = EtcdAddress::parse("etcd://h/p?operations=129").unwrap();
        assert!(plan(&raised, IDENTITY, &puts(129), None).is_ok(), "the servers take as many");
        assert_eq!(many.to_string(), "a transaction of 129 operations, the store takes 128");

        // What is expected travels, and is not counted by what all stores count.
        let value = vec![0; LIMITS.value];
        let heavy =
            (0..16).fold(Transaction::new(), |all, n| all.check(key(&n.to_string()), Some(value.clone())));
        let broken = refusal(&heavy);
        assert_eq!((broken.what, broken.limit), (Piece::Transaction, MOST_REQUEST));
        assert!(broken.size > 1_600_000);
        // To the byte: the last value is made as large as there is room.
        let filled = |last: usize| {
            let heavy = (0..15)
                .fold(Transaction::new(), |all, n| all.check(key(&n.to_string()), Some(value.clone())));
            heavy.check(key("last"), Some(vec![0; last]))
        };
        let room = MOST_REQUEST - planned(&filled(50_000), None).encoded_len();
        assert_eq!(planned(&filled(50_000 + room), None).encoded_len(), MOST_REQUEST);
        assert_eq!(refusal(&filled(50_001 + room)).size, MOST_REQUEST + 1);
    }
}
