//! A fence holds up to the last moment.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{Bed, commit, committed, number, read, value};
use crate::{CommitOutcome, Key, Read, SharedStore, Transaction, Version, appended};

/// What a leader writes and is fenced with.
#[derive(Clone)]
struct Seat {
    term: Key,
    end: Key,
    log: Key,
}

/// A leader appends, each time fenced at its own former commit, one that changed `end` and only checked `term`. Another
/// takes the seat. Nothing of the leader's comes behind that, also where both commit at once; and the leader hears
/// "conflict" only then.
pub(super) async fn nothing_is_appended_behind_the_change_that_it_is_fenced_from(bed: Bed) {
    const ROUNDS: u64 = 60;
    let stores = [bed.connect(), bed.connect()];
    for round in 0..ROUNDS {
        let seat = Seat {
            term: bed.key(format!("{round}/term")),
            end: bed.key(format!("{round}/end")),
            log: bed.key(format!("{round}/log/")),
        };
        let opening = Transaction::new().put(seat.term.clone(), number(1)).put(seat.end.clone(), number(0));
        committed(&stores[0], opening).await;
        let opened = read(&stores[1], vec![]).await.version;
        let appended_so_far = Arc::new(AtomicU64::new(0));
        let leader = tokio::spawn(lead(stores[0].clone(), seat.clone(), opened, appended_so_far.clone()));
        // In one round while the first is under way, in others in the middle of many.
        while appended_so_far.load(Ordering::SeqCst) < round % 6 {
            tokio::task::yield_now().await;
        }
        let takes =
            Transaction::new().put(seat.term.clone(), number(2)).append(seat.log.clone(), b"taken".to_vec());
        committed(&stores[1], takes.fence(seat.term.clone(), Some(number(1)), opened)).await;
        let told = leader.await.expect("a task of the check panicked");
        let range = appended(&seat.log);
        let log = read(&stores[1], vec![Read::Range { range, limit: 10_000 }]).await;
        let log: Vec<_> = log.entries(0).iter().map(|(_, entry)| entry.clone()).collect();
        let expected: Vec<_> = (0..told).map(number).chain([b"taken".to_vec()]).collect();
        assert_eq!(log, expected, "in round {round}");
    }
}

/// Appends until it is told that it must not; says how often it was told that it did.
async fn lead(store: SharedStore, seat: Seat, mut at: Version, appended_so_far: Arc<AtomicU64>) -> u64 {
    let mut done = 0;
    loop {
        let next =
            Transaction::new().append(seat.log.clone(), number(done)).put(seat.end.clone(), number(done + 1));
        let fenced = next.fence(seat.term.clone(), Some(number(1)), at).fence(
            seat.end.clone(),
            Some(number(done)),
            at,
        );
        match commit(&store, fenced).await {
            CommitOutcome::Committed(version) => at = version,
            CommitOutcome::Conflict => {
                assert_eq!(value(&store, &seat.term).await, Some(number(2)), "nobody took the seat");
                return done;
            }
            other => panic!("neither committed nor a conflict: {other:?}"),
        }
        done += 1;
        appended_so_far.store(done, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
}
