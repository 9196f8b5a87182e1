//! Versions and appended keys sort by commit.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use futures::future::join_all;
use tokio::sync::Barrier;

use super::{Bed, committed, number, put, read, value};
use crate::{Key, Read, STAMP_LENGTH, SharedStore, Transaction, Value, appended};

async fn entries(store: &SharedStore, prefix: &Key) -> Vec<(Key, Value)> {
    let read = read(store, vec![Read::Range { range: appended(prefix), limit: 10_000 }]).await;
    read.entries(0).to_vec()
}

pub(super) async fn versions_grow_with_commits(bed: Bed) {
    let connections = [bed.connect(), bed.connect()];
    let mut last = read(&connections[0], vec![]).await.version;
    for round in 0..20_u8 {
        let (writer, reader) =
            (&connections[usize::from(round % 2)], &connections[usize::from(round / 2 % 2)]);
        let version = committed(writer, put(&bed.key("k"), number(round.into()))).await;
        assert!(version > last);
        last = version;
        assert!(read(reader, vec![]).await.version >= last);
    }
}

pub(super) async fn an_append_adds_its_stamp_to_the_prefix_and_sets_the_prefix_to_it(bed: Bed) {
    let (store, prefix) = (bed.connect(), bed.key("queue/"));
    let mut known = Vec::new();
    for round in 1..=3 {
        committed(&store, Transaction::new().append(prefix.clone(), number(round))).await;
        let now = entries(&store, &prefix).await;
        let (key, entry) = now.last().cloned().expect("one was appended");
        assert_eq!(entry, number(round));
        let stamp = key.strip_prefix(prefix.as_slice()).expect("it is below the prefix").to_vec();
        assert_eq!((stamp.len(), stamp[0] == 0xff), (STAMP_LENGTH, false));
        assert_eq!(value(&store, &prefix).await, Some(stamp));
        assert_eq!(now[..now.len() - 1], known, "earlier entries stay as they are");
        known = now;
    }
}

pub(super) async fn entries_of_one_transaction_keep_their_order(bed: Bed) {
    let (store, prefix) = (bed.connect(), bed.key("queue/"));
    for batch in [0..5, 5..10] {
        let all = batch.fold(Transaction::new(), |all, n| all.append(prefix.clone(), number(n)));
        committed(&store, all).await;
    }
    let values: Vec<_> = entries(&store, &prefix).await.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, (0..10).map(number).collect::<Vec<_>>());
}

/// An entry sorts behind all that were answered before it was sent, whoever wrote them.
pub(super) async fn entries_of_many_writers_sort_by_their_commits(bed: Bed) {
    const AUTHORS: usize = 8;
    const ENTRIES: usize = 15;
    let prefix = bed.key("queue/");
    let barrier = Arc::new(Barrier::new(AUTHORS));
    let answered: Arc<Mutex<Vec<Value>>> = Arc::default();
    let authors = (0..AUTHORS).map(|author| {
        let (store, prefix, barrier, answered) =
            (bed.connect(), prefix.clone(), barrier.clone(), answered.clone());
        tokio::spawn(async move {
            let lock = || answered.lock().unwrap_or_else(PoisonError::into_inner);
            let mut mine = Vec::new();
            barrier.wait().await;
            for n in 0..ENTRIES {
                let entry = format!("{author}:{n}").into_bytes();
                let before = lock().len();
                committed(&store, Transaction::new().append(prefix.clone(), entry.clone())).await;
                lock().push(entry.clone());
                mine.push((entry, before));
            }
            mine
        })
    });
    let sent: Vec<(Value, usize)> = join_all(authors)
        .await
        .into_iter()
        .flat_map(|author| author.expect("a task of the check panicked"))
        .collect();
    let order: Vec<Value> =
        entries(&bed.connect(), &prefix).await.into_iter().map(|(_, value)| value).collect();
    assert_eq!(order.len(), AUTHORS * ENTRIES, "each entry once");
    let place = |entry: &Value| order.iter().position(|there| there == entry).expect("each entry is there");
    let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
    for (entry, before) in &sent {
        assert!(answered[..*before].iter().all(|earlier| place(earlier) < place(entry)));
    }
}

/// Versions become visible in their order: nobody reads at version 8 without what version 7 wrote.
pub(super) async fn at_a_version_all_is_visible_that_was_committed_up_to_it_and_nothing_else(bed: Bed) {
    const WRITERS: usize = 8;
    const ENTRIES: usize = 25;
    let prefix = bed.key("queue/");
    let barrier = Arc::new(Barrier::new(WRITERS + 2));
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, prefix, barrier) = (bed.connect(), prefix.clone(), barrier.clone());
            tokio::spawn(async move {
                let mut mine = Vec::new();
                barrier.wait().await;
                for n in 0..ENTRIES {
                    let entry = format!("{writer}:{n}").into_bytes();
                    let append = Transaction::new().append(prefix.clone(), entry.clone());
                    mine.push((committed(&store, append).await, entry));
                    // Where a store answers at once, the readers would have no turn.
                    tokio::task::yield_now().await;
                }
                mine
            })
        })
        .collect();
    let readers = [bed.connect(), bed.connect()].map(|store| {
        let (prefix, barrier, done) = (prefix.clone(), barrier.clone(), done.clone());
        tokio::spawn(async move {
            let mut seen = Vec::new();
            barrier.wait().await;
            while !done.load(Ordering::SeqCst) {
                let range = appended(&prefix);
                let result = read(&store, vec![Read::Range { range, limit: 10_000 }]).await;
                let values: Vec<_> = result.entries(0).iter().map(|(_, value)| value.clone()).collect();
                seen.push((result.version, values));
                tokio::task::yield_now().await;
            }
            seen
        })
    });
    let mut commits: Vec<_> = join_all(writers)
        .await
        .into_iter()
        .flat_map(|writer| writer.expect("a task of the check panicked"))
        .collect();
    done.store(true, Ordering::SeqCst);
    commits.sort();
    assert!(commits.is_sorted_by(|(a, _), (b, _)| a < b), "two commits at one version");
    for (version, values) in
        join_all(readers).await.into_iter().flat_map(|reader| reader.expect("a task of the check panicked"))
    {
        let until = commits.partition_point(|(committed, _)| *committed <= version);
        let expected: Vec<_> = commits[..until].iter().map(|(_, entry)| entry.clone()).collect();
        assert_eq!(values, expected, "at {version:?}");
    }
}
