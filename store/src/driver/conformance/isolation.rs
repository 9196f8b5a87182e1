//! Transactions behave as if they came one after the other.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use futures::future::join_all;
use tokio::sync::Barrier;

use super::{Bed, committed, number, put, read, soon, value, won};
use crate::{Key, Read, SharedStore, Transaction};

pub(super) async fn what_was_answered_committed_is_seen_on_every_connection(bed: Bed) {
    let (a, b, key) = (bed.connect(), bed.connect(), bed.key("k"));
    for round in 0..20 {
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let version = committed(writer, put(&key, number(round))).await;
        let seen = read(reader, vec![Read::Key(key.clone())]).await;
        assert_eq!(seen.value(0), Some(&number(round)));
        assert!(seen.version >= version);
    }
}

pub(super) async fn of_many_that_claim_an_absent_key_one_gets_it(bed: Bed) {
    const CLAIMANTS: usize = 8;
    let barrier = Arc::new(Barrier::new(CLAIMANTS));
    let claims = (0..CLAIMANTS as u64).map(|me| {
        let (store, key, barrier) = (bed.connect(), bed.key("k"), barrier.clone());
        tokio::spawn(async move {
            barrier.wait().await;
            won(&store, put(&key, number(me)).check(key.clone(), None)).await
        })
    });
    let won: Vec<bool> = join_all(claims).await.into_iter().map(joined).collect();
    let winner = won.iter().position(|won| *won).expect("nobody got it");
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    assert_eq!(value(&bed.connect(), &bed.key("k")).await, Some(number(winner as u64)));
}

/// Each of two reads both keys and writes the other one: one after the other, the second would see the first.
pub(super) async fn write_skew_is_refused(bed: Bed) {
    for round in 0..20 {
        let keys = [bed.key(format!("{round}/x")), bed.key(format!("{round}/y"))];
        let barrier = Arc::new(Barrier::new(2));
        let both = keys.clone().map(|mine| {
            let (store, keys, barrier) = (bed.connect(), keys.clone(), barrier.clone());
            tokio::spawn(async move {
                let seen = read(&store, keys.clone().map(Read::Key).into()).await;
                assert!(seen.answers.iter().all(Vec::is_empty));
                barrier.wait().await;
                let [x, y] = keys;
                won(&store, put(&mine, number(1)).check(x, None).check(y, None)).await
            })
        });
        let won = join_all(both).await.into_iter().map(joined).filter(|won| *won).count();
        assert_eq!(won, 1, "in round {round}");
    }
}

pub(super) async fn no_contended_increment_is_lost_or_done_twice(bed: Bed) {
    const TASKS: usize = 8;
    const INCREMENTS: usize = 25;
    let barrier = Arc::new(Barrier::new(TASKS));
    let tasks = (0..TASKS).map(|_| {
        let (store, key, barrier) = (bed.connect(), bed.key("k"), barrier.clone());
        tokio::spawn(async move {
            barrier.wait().await;
            for _ in 0..INCREMENTS {
                increment(&store, std::slice::from_ref(&key)).await;
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(joined);
    let total = number((TASKS * INCREMENTS) as u64);
    assert_eq!(value(&bed.connect(), &bed.key("k")).await, Some(total));
}

/// Each reads, adds one, and writes if nobody was there in between. Afterwards the count is that of the commits; and a
/// version from before all of them, which may be too old for the store by now, makes nothing pass that is wrong.
pub(super) async fn two_clients_that_fight_for_one_key_lose_nothing_and_an_old_version_does_no_harm(
    bed: Bed,
) {
    const INCREMENTS: u64 = 200;
    let (store, still) = (bed.connect(), bed.key("still"));
    let before = committed(&store, put(&still, number(1))).await;
    let end = bed.subject.fight.map(|time| Instant::now() + time);
    let clients = [bed.connect(), bed.connect()].map(|store| {
        let key = bed.key("k");
        tokio::spawn(async move {
            let mut done = 0;
            while end.map_or(done < INCREMENTS, |end| Instant::now() < end) {
                increment(&store, std::slice::from_ref(&key)).await;
                done += 1;
            }
            done
        })
    });
    let counts: Vec<u64> = join_all(clients).await.into_iter().map(joined).collect();
    println!("  increments: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "one of them never came through: {counts:?}");
    assert_eq!(value(&store, &bed.key("k")).await, Some(number(counts.iter().sum())));

    // Too old to tell is a conflict at worst, and whoever reads again gets on.
    let fenced = |at| put(&bed.key("after"), number(1)).fence(still.clone(), Some(number(1)), at);
    println!("  a fence from before the fight holds: {}", won(&store, fenced(before)).await);
    let now = read(&store, vec![Read::Key(still.clone())]).await.version;
    assert!(won(&store, fenced(now)).await, "nobody has written to it");
    let watch = store.watch(bed.key("k"), before);
    assert_eq!(soon("the end of a watch", watch).await, Ok(()));
    committed(&store, put(&still, number(2))).await;
    for at in [before, now] {
        assert!(!won(&store, fenced(at)).await, "it was written to");
    }
}

pub(super) async fn a_read_sees_one_version_while_writers_run(bed: Bed) {
    let keys = [bed.key("x"), bed.key("y")];
    let done = Arc::new(AtomicBool::new(false));
    let readers = [bed.connect(), bed.connect()].map(|store| {
        let (keys, done) = (keys.clone(), done.clone());
        tokio::spawn(async move {
            let mut seen = BTreeMap::new();
            let mut last = None;
            while !done.load(Ordering::SeqCst) {
                let result = read(&store, keys.clone().map(Read::Key).into()).await;
                assert_eq!(result.value(0), result.value(1), "two keys that are always written together");
                assert!(last <= Some(result.version), "a later read at an earlier version");
                last = Some(result.version);
                seen.insert(result.version, as_number(result.value(0)));
                // A store that answers at once would leave the writers of this runtime no turn.
                tokio::task::yield_now().await;
            }
            seen
        })
    });
    let writers = [bed.connect(), bed.connect(), bed.connect()].map(|store| {
        let keys = keys.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                increment(&store, &keys).await;
            }
        })
    });
    join_all(writers).await.into_iter().for_each(joined);
    done.store(true, Ordering::SeqCst);
    let mut seen = BTreeMap::new();
    for (version, number) in join_all(readers).await.into_iter().flat_map(joined) {
        assert_eq!(*seen.entry(version).or_insert(number), number, "two reads at one version");
    }
    assert!(seen.values().is_sorted(), "the count went back");
    assert_eq!(value(&bed.connect(), &keys[0]).await, Some(number(60)));
}

/// Adds one to all the keys, which have the same number, in one transaction.
async fn increment(store: &SharedStore, keys: &[Key]) {
    loop {
        let result = read(store, vec![Read::Key(keys[0].clone())]).await;
        // Lets the others in between read and commit, also where a store answers at once.
        tokio::task::yield_now().await;
        let new = number(as_number(result.value(0)) + 1);
        let all = keys.iter().fold(Transaction::new(), |all, key| all.put(key.clone(), new.clone()));
        if won(store, all.check(keys[0].clone(), result.value(0).cloned())).await {
            return;
        }
    }
}

fn as_number(value: Option<&Vec<u8>>) -> u64 {
    value.map_or(0, |value| String::from_utf8_lossy(value).parse().expect("only numbers are written"))
}

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    result.expect("a task of the check panicked")
}
