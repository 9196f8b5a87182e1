use std::{pin::pin, task::Poll};

use futures::{future::BoxFuture, poll};
use tokio::time::timeout;

use super::*;

fn put(value: &str) -> Transaction {
    Transaction::new().put(b"k".to_vec(), value.as_bytes().to_vec())
}

fn value(store: &MemoryStore) -> Option<String> {
    store.data().get(b"k").map(|value| String::from_utf8_lossy(value).into_owned())
}

fn node() -> NodeName {
    NodeName::new("a").unwrap()
}

fn is_unavailable(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Unavailable(_))
}

fn watch(store: &MemoryStore, since: u64) -> BoxFuture<'static, Result<(), StoreError>> {
    store.watch(b"k".to_vec(), Version(since))
}

#[tokio::test]
async fn an_injected_conflict_changes_nothing_and_the_next_commit_is_as_usual() {
    let store = MemoryStore::new();
    store.inject(Fault::Conflict);
    store.inject(Fault::Conflict);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Conflict);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Conflict);
    assert_eq!(value(&store), None);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
}

#[tokio::test]
async fn a_fault_of_one_connection_does_not_meet_another_and_one_for_any_does() {
    let store = MemoryStore::new();
    let (a, b) = (store.connect("a"), store.connect("b"));
    a.inject(Fault::Conflict);
    assert_eq!(b.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
    assert_eq!(store.connect("a").commit(put("2")).await, CommitOutcome::Conflict);
    store.inject_into_any(Fault::Unavailable);
    assert!(is_unavailable(&b.commit(put("2")).await));
    assert_eq!(store.faults_left(), 0);
}

#[tokio::test]
async fn an_unknown_outcome_hides_what_happened() {
    let store = MemoryStore::new();
    let fates = [(Fate::Applied, Some("1")), (Fate::NotApplied, Some("1")), (Fate::LandsLater, Some("1"))];
    for ((fate, after), new) in fates.into_iter().zip(["1", "2", "3"]) {
        store.inject(Fault::Unknown(fate));
        assert_eq!(store.commit(put(new)).await, CommitOutcome::Unknown);
        assert_eq!(value(&store).as_deref(), after, "{fate:?}");
    }
    assert_eq!(store.land(), [CommitOutcome::Committed(Version(2))]);
    assert_eq!(value(&store).as_deref(), Some("3"));
}

#[tokio::test]
async fn an_abandoned_transaction_lands_after_its_author_is_gone_and_is_checked_only_then() {
    let store = MemoryStore::new();
    let author = store.connect("author");
    for new in ["1", "2"] {
        author.inject(Fault::Unknown(Fate::LandsLater));
        assert_eq!(author.commit(put(new).check(b"k".to_vec(), None)).await, CommitOutcome::Unknown);
    }
    drop(author);
    assert_eq!(store.abandoned(), 2);
    assert_eq!(store.land_next(), Some(CommitOutcome::Committed(Version(1))));
    assert_eq!(store.land(), [CommitOutcome::Conflict]);
    assert_eq!(value(&store).as_deref(), Some("1"));
}

#[tokio::test]
async fn a_commit_whose_future_is_dropped_on_the_way_is_abandoned() {
    let store = MemoryStore::new();
    let hold = store.hold_commits();
    let mut commit = store.commit(put("1"));
    assert!(poll!(&mut commit).is_pending());
    drop(commit);
    drop(hold);
    assert_eq!((value(&store), store.abandoned()), (None, 1));
    store.land();
    assert_eq!(value(&store).as_deref(), Some("1"));
}

#[tokio::test]
async fn an_outage_of_one_connection_leaves_the_others() {
    let store = MemoryStore::new();
    let (a, b) = (store.connect("a"), store.connect("b"));
    a.outage();
    assert!(is_unavailable(&a.commit(put("1")).await));
    assert!(a.read(vec![]).await.is_err() && watch(&a, 0).await.is_err());
    assert!(a.guard_life(&node(), Incarnation(1)).is_err());
    assert_eq!(b.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
    a.heal();
    assert_eq!(a.read(vec![]).await.unwrap().version, Version(1));
}

#[tokio::test]
async fn an_outage_between_commit_and_answer_makes_the_outcome_unknown() {
    let store = MemoryStore::new();
    let hold = store.hold_answers();
    let commit = tokio::spawn(store.commit(put("1")));
    hold.reached(1).await;
    assert_eq!(value(&store).as_deref(), Some("1"));
    store.outage_for_all();
    drop(hold);
    assert_eq!(commit.await.unwrap(), CommitOutcome::Unknown);
    store.heal_all();
}

#[tokio::test]
async fn held_commits_are_applied_when_they_are_let_through_one_by_one() {
    let store = MemoryStore::new();
    let hold = store.hold_commits();
    let checked = || put("1").check(b"k".to_vec(), None);
    let commits = [tokio::spawn(store.commit(checked())), tokio::spawn(store.commit(checked()))];
    hold.reached(2).await;
    assert_eq!(value(&store), None);
    hold.let_one_pass();
    while value(&store).is_none() {
        tokio::task::yield_now().await;
    }
    hold.reached(1).await;
    drop(hold);
    let outcomes = futures::future::join_all(commits).await;
    let committed = |outcome: &CommitOutcome| *outcome == CommitOutcome::Committed(Version(1));
    assert_eq!(outcomes.iter().filter(|outcome| committed(outcome.as_ref().unwrap())).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn latency_follows_the_paused_clock() {
    let store = MemoryStore::new();
    store.set_latency(Duration::from_secs(3600));
    let start = tokio::time::Instant::now();
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
    assert_eq!(start.elapsed(), Duration::from_secs(3600));
}

#[test]
fn it_works_outside_of_tokio() {
    let store = MemoryStore::new();
    let watch = watch(&store, 0);
    futures::executor::block_on(async {
        assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
        watch.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_lost_watch_never_ends_and_a_new_one_does() {
    let store = MemoryStore::new();
    let mut lost = watch(&store, 0);
    assert!(poll!(&mut lost).is_pending());
    store.lose_watches();
    store.commit(put("1")).await;
    assert!(timeout(Duration::from_secs(3600), lost).await.is_err());
    watch(&store, 0).await.unwrap();
}

#[tokio::test]
async fn a_watch_may_be_made_to_end_without_cause() {
    let store = MemoryStore::new();
    let mut spurious = watch(&store, 0);
    assert!(poll!(&mut spurious).is_pending());
    store.end_watches_without_cause();
    spurious.await.unwrap();
}

#[tokio::test]
async fn a_watch_of_a_cut_connection_ends_when_it_is_healed() {
    let store = MemoryStore::new();
    let cut = store.connect("cut");
    let mut waiting = watch(&cut, 0);
    assert!(poll!(&mut waiting).is_pending());
    cut.outage();
    store.commit(put("1")).await;
    assert!(poll!(&mut waiting).is_pending());
    cut.heal();
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_watch_nobody_waits_for_is_forgotten() {
    let store = MemoryStore::new();
    let mut dropped = store.watch(b"other".to_vec(), Version(0));
    assert!(poll!(&mut dropped).is_pending());
    drop(dropped);
    store.commit(put("1")).await;
    assert!(store.state().watches.is_empty());
}

#[tokio::test]
async fn a_life_is_proven_dead_once_its_guard_is_dropped() {
    let store = MemoryStore::new();
    let proof = |incarnation| store.proof_of_death(&node(), Incarnation(incarnation));
    let guard = store.connect("a").guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    assert_eq!(proof(1).await, Proof::None);
    drop(guard);
    assert_eq!(proof(1).await, Proof::Dead);
    assert_eq!(proof(2).await, Proof::None, "nobody ever guarded it");
    let _again = store.connect("a").guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    assert_eq!(proof(1).await, Proof::None, "it is guarded again");
}

#[tokio::test]
async fn a_store_that_proves_no_deaths_guards_no_lives() {
    let store = MemoryStore::new();
    drop(store.guard_life(&node(), Incarnation(1)).unwrap());
    store.stop_proving_deaths();
    assert!(store.guard_life(&node(), Incarnation(2)).unwrap().is_none());
    assert_eq!(store.proof_of_death(&node(), Incarnation(1)).await, Proof::None);
    store.prove_deaths();
    assert_eq!(store.proof_of_death(&node(), Incarnation(1)).await, Proof::Dead);
}

#[tokio::test]
async fn faults_are_met_in_the_order_of_their_injection_and_those_of_the_connection_come_first() {
    let store = MemoryStore::new();
    store.inject_into_any(Fault::Unknown(Fate::NotApplied));
    store.inject_into_any(Fault::Conflict);
    store.inject(Fault::Conflict);
    store.inject(Fault::Unavailable);
    assert_eq!(store.faults_left(), 4);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Conflict);
    assert!(is_unavailable(&store.commit(put("1")).await));
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Unknown);
    assert_eq!(store.faults_left(), 1);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Conflict);
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
}

#[tokio::test]
async fn an_outage_for_all_meets_also_those_who_come_later_and_ends_for_all_at_once() {
    let store = MemoryStore::new();
    let (a, b) = (store.connect("a"), store.connect("b"));
    let mut waiting = watch(&b, 0);
    assert!(poll!(&mut waiting).is_pending());
    b.inject(Fault::Unknown(Fate::LandsLater));
    assert_eq!(b.commit(put("1")).await, CommitOutcome::Unknown);
    store.outage_for_all();
    a.outage();
    a.heal();
    assert!(a.read(vec![]).await.is_err(), "only its own outage is over");
    assert!(is_unavailable(&store.connect("later").commit(put("2")).await));
    a.outage();
    assert_eq!(store.land(), [CommitOutcome::Committed(Version(1))]);
    assert!(poll!(&mut waiting).is_pending());
    store.heal_all();
    assert_eq!(poll!(&mut waiting), Poll::Ready(Ok(())));
    for healed in [a, b] {
        assert_eq!(healed.read(vec![]).await.unwrap().version, Version(1));
    }
}

#[tokio::test]
async fn commits_that_were_dropped_on_the_way_land_in_their_order_or_are_forgotten() {
    let store = MemoryStore::new();
    let hold = store.hold_commits();
    let mut commits = ["1", "2"].map(|new| store.commit(put(new)));
    for commit in &mut commits {
        assert!(poll!(commit).is_pending());
    }
    for commit in commits {
        drop(commit);
    }
    drop(hold);
    assert_eq!(store.land_next(), Some(CommitOutcome::Committed(Version(1))));
    assert_eq!((value(&store).as_deref(), store.abandoned()), (Some("1"), 1));
    store.forget_abandoned();
    assert_eq!((store.abandoned(), store.land()), (0, vec![]));
    assert_eq!(value(&store).as_deref(), Some("1"));
}

#[tokio::test]
async fn watches_of_other_connections_are_neither_lost_nor_ended_without_cause() {
    let store = MemoryStore::new();
    let (a, b) = (store.connect("a"), store.connect("b"));
    let mut waiting = watch(&b, 0);
    assert!(poll!(&mut waiting).is_pending());
    a.lose_watches();
    a.end_watches_without_cause();
    assert!(poll!(&mut waiting).is_pending());
    store.commit(put("1")).await;
    assert_eq!(poll!(&mut waiting), Poll::Ready(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_read_takes_its_time_and_is_refused_if_the_outage_begins_on_its_way() {
    let store = MemoryStore::new();
    store.set_latency(Duration::from_secs(2));
    let start = tokio::time::Instant::now();
    assert_eq!(store.read(vec![]).await.unwrap().version, Version(0));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    let mut reading = store.read(vec![]);
    assert!(poll!(&mut reading).is_pending());
    store.outage();
    assert!(reading.await.is_err());
    assert!(poll!(store.read(vec![])).is_ready(), "who is cut off already is told at once");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_cut_off_before_it_arrives_changes_nothing_and_says_so() {
    let store = MemoryStore::new();
    store.set_latency(Duration::from_secs(2));
    let mut commit = store.commit(put("1"));
    assert!(poll!(&mut commit).is_pending());
    store.outage();
    let start = tokio::time::Instant::now();
    assert!(is_unavailable(&commit.await));
    assert_eq!((value(&store), start.elapsed()), (None, Duration::from_secs(1)));
    assert!(poll!(store.commit(put("1"))).is_ready(), "who is cut off already is told at once");
}

#[tokio::test]
async fn a_hold_counts_each_that_waits_once_and_its_passes_end_with_it() {
    let store = MemoryStore::new();
    let hold = store.hold_commits();
    let mut first = store.commit(put("1"));
    assert!(poll!(&mut first).is_pending());
    assert!(poll!(pin!(hold.reached(1))).is_ready() && poll!(pin!(hold.reached(2))).is_pending());
    drop(first);
    assert!(poll!(pin!(hold.reached(1))).is_pending(), "it waits no more");
    hold.let_one_pass();
    drop(hold);
    let _hold = store.hold_commits();
    assert!(poll!(store.commit(put("2"))).is_pending(), "that pass was for what the other hold held");
}

#[tokio::test]
async fn a_store_that_is_put_back_has_lost_what_was_committed_since() {
    let store = MemoryStore::new();
    store.commit(put("1")).await;
    let backup = store.data();
    store.commit(put("2")).await;
    store.put_back(backup);
    assert_eq!(value(&store).as_deref(), Some("1"));
    assert_eq!(store.commit(put("3")).await, CommitOutcome::Committed(Version(2)));
}

#[tokio::test]
async fn who_is_cut_off_has_no_proof_of_a_death() {
    let store = MemoryStore::new();
    drop(store.guard_life(&node(), Incarnation(1)).unwrap());
    let observer = store.connect("observer");
    observer.outage();
    assert_eq!(observer.proof_of_death(&node(), Incarnation(1)).await, Proof::None);
    observer.heal();
    assert_eq!(observer.proof_of_death(&node(), Incarnation(1)).await, Proof::Dead);
    assert!(store.guards_at_once());
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_sent() {
    let store = MemoryStore::new();
    store.inject(Fault::Unknown(Fate::LandsLater));
    let limit = store.limits().value;
    let too_large = || Transaction::new().put(b"k".to_vec(), vec![0; limit + 1]);
    assert!(matches!(store.commit(too_large()).await, CommitOutcome::TooLarge(_)));
    assert_eq!((store.faults_left(), store.abandoned()), (1, 0));
    store.outage();
    assert!(matches!(store.commit(too_large()).await, CommitOutcome::TooLarge(_)), "also in an outage");
}
