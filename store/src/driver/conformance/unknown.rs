//! An outcome that nobody heard is settled by what the transaction checks and writes.

use futures::poll;

use super::{Bed, commit, committed, number, put, soon, value, won};
use crate::{CommitOutcome, Transaction, driver::memory::Fate};

/// Whoever gave up a commit asks again with the same checks, and gets it once.
pub(super) async fn a_dropped_commit_happens_once_or_not_at_all(bed: Bed) {
    let (store, key, log) = (bed.connect(), bed.key("k"), bed.key("log/"));
    committed(&store, put(&key, number(0))).await;
    for round in 0..20 {
        let step = put(&key, number(round + 1)).check(key.clone(), Some(number(round)));
        let step = step.append(log.clone(), number(round));
        let mut given_up = store.commit(step.clone());
        let _ = poll!(&mut given_up);
        drop(given_up);
        // A conflict can only be the given up one, which was first.
        won(&store, step).await;
        assert_eq!(value(&store, &key).await, Some(number(round + 1)));
    }
    let range = crate::appended(&log);
    let entries = store.read(vec![crate::Read::Range { range, limit: 100 }]);
    let entries = soon("the answer of a read", entries).await.map(|read| read.entries(0).len());
    assert_eq!(entries, Ok(20));
}

/// Commits `key = 1`, if it is absent, on a connection that loses the answer, and drops that connection.
async fn lose_the_answer(bed: &Bed, fate: Fate) -> bool {
    let Some(faulty) = &bed.subject.faulty else { return false };
    let (store, key) = (faulty.connect(fate), bed.key("k"));
    let lost = put(&key, number(1)).check(key.clone(), None);
    assert_eq!(commit(&store, lost).await, CommitOutcome::Unknown);
    true
}

pub(super) async fn an_unknown_commit_may_have_been_applied(bed: Bed) {
    if lose_the_answer(&bed, Fate::Applied).await {
        assert_eq!(value(&bed.connect(), &bed.key("k")).await, Some(number(1)));
    }
}

pub(super) async fn an_unknown_commit_may_never_be_applied(bed: Bed) {
    if lose_the_answer(&bed, Fate::NotApplied).await {
        land(&bed);
        assert_eq!(value(&bed.connect(), &bed.key("k")).await, None);
    }
}

pub(super) async fn an_unknown_commit_may_land_later_when_its_author_is_gone(bed: Bed) {
    if lose_the_answer(&bed, Fate::LandsLater).await {
        assert_eq!(value(&bed.connect(), &bed.key("k")).await, None, "absence proves nothing");
        land(&bed);
        assert_eq!(value(&bed.connect(), &bed.key("k")).await, Some(number(1)));
    }
}

pub(super) async fn a_late_landing_is_checked_when_it_lands(bed: Bed) {
    if lose_the_answer(&bed, Fate::LandsLater).await {
        let (store, key) = (bed.connect(), bed.key("k"));
        assert!(won(&store, Transaction::new().check(key.clone(), None).put(key.clone(), number(2))).await);
        land(&bed);
        assert_eq!(value(&store, &key).await, Some(number(2)));
    }
}

fn land(bed: &Bed) {
    if let Some(faulty) = &bed.subject.faulty {
        faulty.land();
    }
}
