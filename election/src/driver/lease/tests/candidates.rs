//! Candidates: they register, are heard, are listed, are evicted, leave.

use std::sync::Arc;

use callsign_store::{Clock, CommitOutcome, ids::Incarnation, keys::ClusterKeys};
use futures::future::join_all;

use super::{
    beds::{LEASE, Stores, cluster},
    counting::Counting,
    people::{MS, Place, id, refused, registration, surely},
};
use crate::{
    core::{
        lease::operation::{Input, Operation, Step},
        state::{Command, Effect},
    },
    driver::{
        conformance::{attempt, denied, granted},
        lease::{ElectionError, LeaseOptions, Memory},
    },
    oracle::{Oracle, Refusal},
};

pub(super) async fn e1_whoever_is_not_registered_is_told_and_writes_nothing(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.stranger("a").await;
    let before = place.rows().await;
    assert_eq!(a.lose().await.why, Refusal::Unregistered);
    assert_eq!(place.rows().await, before);
    let mut registration = registration("a", 1);
    registration.incarnation = a.context.incarnation;
    surely(async || place.admin.register(&registration).await).await;
    a.win().await;
}

pub(super) async fn e2_stamps_grow_in_the_order_of_registration(stores: Stores) {
    let place = Place::new(&stores).await;
    let first = surely(async || place.admin.register(&registration("z", 1)).await).await;
    let names: Vec<_> = (0..10).map(|n| format!("m{n}")).collect();
    let together = join_all(names.iter().map(async |name| {
        let registration = registration(name, 1);
        surely(async || place.admin.register(&registration).await).await
    }));
    let mut together = together.await;
    let last = surely(async || place.admin.register(&registration("a", 1)).await).await;
    together.sort_unstable();
    together.dedup();
    assert_eq!(together.len(), 10, "each has its own");
    assert!(together.iter().all(|stamp| first < *stamp && *stamp < last));
    let listed = place.names().await;
    assert_eq!((listed.first(), listed.last()), (Some(&"z".to_owned()), Some(&"a".to_owned())));
}

pub(super) async fn e3_a_heartbeat_keeps_the_stamp_and_may_change_the_priority(stores: Stores) {
    let place = Place::new(&stores).await;
    let a = registration("a", 5);
    let stamp = surely(async || place.admin.register(&a).await).await;
    let seen = surely(async || place.admin.list().await).await[0].clone();
    surely(async || place.admin.register(&registration("b", 1)).await).await;
    surely(async || place.admin.heartbeat(&a.member, a.incarnation, None).await).await;
    let heard = surely(async || place.admin.list().await).await[0].clone();
    assert_eq!((heard.priority, heard.seniority), (5, stamp));
    assert!(heard.last_seen > seen.last_seen, "it was seen later");
    surely(async || place.admin.heartbeat(&a.member, a.incarnation, Some(9)).await).await;
    let heard = surely(async || place.admin.list().await).await[0].clone();
    assert_eq!((heard.member, heard.priority, heard.seniority), (a.member.clone(), 9, stamp));

    let unknown = refused(async || place.admin.heartbeat(&id("c"), Incarnation(1), None).await).await;
    assert_eq!(unknown, ElectionError::NotFound);
    let other = refused(async || place.admin.heartbeat(&a.member, Incarnation(1), None).await).await;
    assert_eq!(other, ElectionError::DuplicateIdentity);
}

pub(super) async fn e4_whoever_was_evicted_and_registers_again_is_junior_to_all(stores: Stores) {
    let place = Place::new(&stores).await;
    let (a, b) = (registration("a", 1), registration("b", 1));
    let first = surely(async || place.admin.register(&a).await).await;
    assert_eq!(surely(async || place.admin.register(&a).await).await, first, "the same incarnation again");
    let second = surely(async || place.admin.register(&b).await).await;
    assert_eq!(surely(async || place.admin.evict().await).await, 0);
    stores.pass(LEASE);
    surely(async || place.admin.heartbeat(&b.member, b.incarnation, None).await).await;
    assert_eq!(surely(async || place.admin.evict().await).await, 1);
    let again = surely(async || place.admin.register(&a).await).await;
    assert!(again > second);
    assert_eq!(place.names().await, ["b", "a"]);
    // And so is another incarnation, evicted or not.
    let b2 = registration("b", 1);
    assert!(surely(async || place.admin.register(&b2).await).await > again);
    assert_eq!(place.names().await, ["a", "b"]);
}

pub(super) async fn e5_the_living_are_listed_by_seniority_and_nothing_is_written(stores: Stores) {
    let place = Place::new(&stores).await;
    let names = ["e", "d", "c", "b", "a"];
    let all: Vec<_> = names.iter().map(|name| registration(name, 1)).collect();
    for one in &all {
        surely(async || place.admin.register(one).await).await;
    }
    assert_eq!(place.names().await, names, "nobody is known to be silent");
    stores.pass(LEASE - MS);
    assert_eq!(place.names().await, names);
    for living in [&all[4], &all[0], &all[2]] {
        surely(async || place.admin.heartbeat(&living.member, living.incarnation, None).await).await;
    }
    stores.pass(MS);
    let before = place.rows().await;
    assert_eq!(place.names().await, ["e", "c", "a"]);
    assert_eq!(place.rows().await, before, "reads only");
    // Another observer has not seen them being silent.
    let list = surely(async || stores.admin(&place.bed.election).list().await).await;
    assert_eq!(list.len(), 5);
}

pub(super) async fn e6_the_silent_are_evicted_and_counted_and_one_that_is_heard_meanwhile_stays(
    stores: Stores,
) {
    let place = Place::new(&stores).await;
    let all: Vec<_> = ["a", "b", "c"].iter().map(|name| registration(name, 1)).collect();
    for one in &all {
        surely(async || place.admin.register(one).await).await;
    }
    place.names().await;
    stores.pass(LEASE);
    surely(async || place.admin.heartbeat(&all[1].member, all[1].incarnation, None).await).await;
    assert_eq!(surely(async || place.admin.evict().await).await, 2);
    assert_eq!(place.names().await, ["b"], "exactly those rows are gone");
    assert_eq!(surely(async || place.admin.evict().await).await, 0);

    // By hand, step by step: it is heard between the decision and the commit.
    let (store, clock) = (stores.store(), stores.clock());
    let keys = ClusterKeys::new(&cluster()).election(&place.bed.election);
    let mut memory = Memory::default();
    for round in 0..2 {
        let evict = Operation::new(&keys, vec![Command::Evict { most: 10 }]);
        let outcome = by_hand(&store, &clock, &mut memory, evict, async |_| {
            if round == 1 {
                let (member, incarnation) = (&all[1].member, all[1].incarnation);
                surely(async || place.admin.heartbeat(member, incarnation, None).await).await;
            }
        })
        .await;
        assert_eq!(outcome, [Effect::Nothing], "round {round}");
        stores.pass(LEASE);
    }
    assert_eq!(place.names().await, ["b"]);
}

/// Carries out an operation, and does something before each of its commits.
async fn by_hand(
    store: &callsign_store::SharedStore,
    clock: &Clock,
    memory: &mut Memory,
    mut operation: Operation,
    before_commit: impl AsyncFn(usize),
) -> Vec<Effect> {
    let mut step = operation.begin(clock.now(), memory);
    let mut commits = 0;
    loop {
        let input = match step {
            Step::Read(reads) => Input::Read(store.read(reads).await),
            Step::Commit(transaction) => {
                before_commit(commits).await;
                commits += 1;
                let outcome = store.commit(transaction).await;
                assert!(commits > 1 || outcome == CommitOutcome::Conflict, "{outcome:?}");
                Input::Commit(outcome)
            }
            Step::Done(outcome) => return outcome.unwrap().effects.remove(0),
        };
        step = operation.step(clock.now(), memory, input, &mut Vec::new());
    }
}

pub(super) async fn e7_a_leader_that_unregisters_ends_its_term_in_the_same_transaction(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    b.lose().await;
    let counting = Counting::new(stores.store());
    let admin = super::super::Election::new(
        Arc::new(counting.clone()),
        &cluster(),
        &place.bed.election,
        stores.clock(),
    );
    counting.take();
    assert!(surely(async || admin.unregister(&id("a"), a.context.incarnation).await).await);
    assert_eq!(counting.take(), (3, 2, 1), "the row and the seat, at once");
    assert_eq!(surely(async || place.admin.leader().await).await, None);
    let next = b.win().await;
    assert!(next.fence.ballot > held.fence.ballot);
    denied(a.refresh(&held).await);
    assert_eq!(place.names().await, ["b"]);
}

pub(super) async fn f3_down_and_resign_of_the_unknown_change_nothing(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let held = a.win().await;
    let before = place.rows().await;
    for (member, incarnation) in [("nobody", a.context.incarnation), ("a", Incarnation(1))] {
        assert!(!surely(async || place.admin.down(&id(member), incarnation).await).await);
        assert!(!surely(async || place.admin.unregister(&id(member), incarnation).await).await);
    }
    assert_eq!(place.rows().await, before);
    granted(a.refresh(&held).await);
}

pub(super) async fn f5_another_member_that_dies_disturbs_nobody(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let followers = [place.player("b").await, place.player("c").await, place.player("d").await];
    let [b, c, _] = &followers;
    let held = a.win().await;
    let seat = place.bed.stored().await;
    place.names().await;
    assert!(surely(async || place.admin.down(&id("b"), b.context.incarnation).await).await);
    assert!(surely(async || place.admin.unregister(&id("c"), c.context.incarnation).await).await);
    stores.pass(LEASE / 2);
    // The leader is heard, and this observer sees that it refreshed since.
    place.names().await;
    let held =
        granted(a.oracle.run_cycle(attempt()).await.unwrap_or_else(|fault| panic!("{fault}, {held:?}")));
    let refreshed = place.bed.stored().await;
    assert_ne!(refreshed, seat);
    stores.pass(LEASE / 2);
    assert_eq!(surely(async || place.admin.evict().await).await, 1, "d was silent");
    assert_eq!(place.bed.stored().await, refreshed, "the leader's record is as it was");
    let leader = surely(async || place.admin.leader().await).await;
    assert_eq!(leader, Some(held.term.clone()));
    assert_eq!(granted(a.refresh(&held).await).term, held.term);
}

pub(super) async fn d16_a_cycle_is_a_heartbeat_and_a_claim_or_refresh_in_one_transaction(stores: Stores) {
    let place = Place::new(&stores).await;
    let counting = Counting::new(stores.store());
    let oracle = super::super::LeaseOracle::new(
        Arc::new(counting.clone()),
        &cluster(),
        LeaseOptions { ..stores.options() },
    );
    let mut a = place.bed.join(oracle, "a").await;
    let mut b = place.player("b").await;
    let beat = async || surely(async || place.admin.list().await).await[0].last_seen;
    let mut last = (beat().await, None);
    for round in 0..3 {
        counting.take();
        let grant = granted(a.oracle.run_cycle(attempt()).await.unwrap());
        assert_eq!(counting.take(), (3, 2, 1), "round {round}: the row and the seat, in one transaction");
        let heard = beat().await;
        assert!(heard > last.0, "it was heard");
        assert!(last.1.is_none_or(|before| grant.fence.ballot > before), "and refreshed");
        last = (heard, Some(grant.fence.ballot));
        // Who follows is heard as well.
        let before = surely(async || place.admin.list().await).await[1].last_seen;
        denied(b.oracle.run_cycle(attempt()).await.unwrap());
        assert!(surely(async || place.admin.list().await).await[1].last_seen > before);
    }
}

pub(super) async fn d10_whatever_the_number_of_candidates_leading_costs_the_same(stores: Stores) {
    let place = Place::new(&stores).await;
    let counting = Counting::new(stores.store());
    let oracle = super::super::LeaseOracle::new(Arc::new(counting.clone()), &cluster(), stores.options());
    let mut a = place.bed.join(oracle, "a").await;
    crowd(&stores, &place, 10_000).await;
    let admin = super::super::Election::new(
        Arc::new(counting.clone()),
        &cluster(),
        &place.bed.election,
        stores.clock(),
    );
    let cheap = |what: &str| {
        let (reads, writes, _) = counting.take();
        assert!(reads <= 3 && writes <= 2, "{what}: {reads} keys read, {writes} written");
        assert!(reads > 0, "{what}");
    };
    assert_eq!(surely(async || admin.leader().await).await, None);
    counting.take();
    let mut held = a.win().await;
    cheap("claim");
    // So long that a heartbeat is due.
    stores.pass(LEASE / 2);
    held = granted(a.refresh(&held).await);
    cheap("refresh");
    assert!(surely(async || admin.leader().await).await.is_some());
    cheap("leader");
    let mut b = place.player("b").await;
    counting.take();
    b.lose().await;
    assert!(a.abdicate(&held).await);
    cheap("resign");
}

/// Registers many at once, by their rows.
async fn crowd(stores: &Stores, place: &Place<'_>, many: usize) {
    use callsign_store::{
        Transaction,
        ids::{Beat, Seniority},
        record::Record,
    };

    use crate::{AuthorityTime, core::state::Row};
    let keys = ClusterKeys::new(&cluster()).election(&place.bed.election);
    let store = stores.store();
    for chunk in 0..many / 100 {
        let mut transaction = Transaction::new();
        // As many as every store takes.
        for n in 0..100 {
            let row = Row {
                incarnation: Incarnation(1),
                priority: 1,
                seniority: Seniority(1_000_000),
                tags: std::collections::BTreeSet::new(),
                timeout: LEASE,
                beat: Beat(1),
                seen: AuthorityTime(0),
            };
            transaction = transaction.put(keys.candidate(&id(&format!("x{chunk}-{n}"))), row.to_value());
        }
        loop {
            match store.commit(transaction.clone()).await {
                CommitOutcome::Committed(_) => break,
                CommitOutcome::TooLarge(broken) => panic!("{broken}"),
                _ => {}
            }
        }
    }
}

pub(super) async fn e5_e6_more_candidates_than_one_read_shows(stores: Stores) {
    let place = Place::new(&stores).await;
    crowd(&stores, &place, 2_000).await;
    let a = registration("a", 1);
    surely(async || place.admin.register(&a).await).await;
    assert_eq!(place.names().await.len(), 2_001);
    stores.pass(LEASE);
    surely(async || place.admin.heartbeat(&a.member, a.incarnation, None).await).await;
    assert_eq!(surely(async || place.admin.evict().await).await, 2_000);
    assert_eq!(place.names().await, ["a"]);
}

pub(super) async fn e1_e4_a_member_that_was_evicted_registers_again_by_itself(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, b) = (place.player("a").await, place.player("b").await);
    place.names().await;
    stores.pass(LEASE);
    assert_eq!(surely(async || place.admin.evict().await).await, 2);
    a.win().await;
    assert_eq!(place.names().await, ["a"]);
    let mut b = b;
    assert_eq!(b.lose().await.why, Refusal::Held);
    assert_eq!(place.names().await, ["a", "b"]);
    let rivals = b.oracle.rivals().await.unwrap();
    assert!(rivals, "a could take the seat");
}

pub(super) async fn e7_whoever_leaves_takes_its_row_and_its_term_along_and_nobody_elses(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    let before = place.rows().await.len();
    assert!(leave(&mut a, Some(&held)).await, "the term was there");
    assert_eq!(place.names().await, ["b"]);
    assert_eq!(place.rows().await.len(), before - 1, "its row is gone, and the seat is vacant");
    assert!(!leave(&mut a, Some(&held)).await, "it is gone already");
    let next = b.win().await;
    // A follower leaves; another incarnation of it has the row by now.
    let mut former = place.player("c").await;
    former.lose().await;
    let _later = place.player("c").await;
    assert!(!leave(&mut former, None).await);
    assert_eq!(place.names().await, ["b", "c"]);
    b.keep(&next).await;
    // Whoever does not register by itself does not remove what others registered.
    let mut d = place.stranger("d").await;
    let me = crate::Candidate { incarnation: d.context.incarnation, ..registration("d", 1) };
    surely(async || place.admin.register(&me).await).await;
    assert!(!leave(&mut d, None).await);
    assert_eq!(place.names().await, ["b", "c", "d"]);
    // It registers again, if it is asked to claim again.
    a.lose().await;
    assert_eq!(place.names().await, ["b", "c", "d", "a"]);
}

pub(super) async fn e6_a_holder_sweeps_whoever_it_saw_silent_for_long_and_nobody_else(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let mut c = place.player("c").await;
    assert_eq!(tidy(&mut b).await, None, "who does not lead has nothing to tidy");
    a.win().await;
    let long = crate::state::SWEPT_AFTER * LEASE;
    assert_eq!(tidy(&mut a).await, Some(long), "a first look");
    stores.pass(long - MS);
    let held = granted(a.claim().await);
    assert_eq!(tidy(&mut a).await, Some(long), "a new term looks anew");
    assert_eq!(place.names().await, ["a", "b", "c"]);
    let mut last = held;
    for _ in 0..20 {
        stores.pass(LEASE / 2);
        last = a.keep(&last).await;
        c.lose().await;
    }
    assert_eq!(tidy(&mut a).await, Some(long));
    assert_eq!(place.rows().await.iter().filter(|(key, _)| is_row(key)).count(), 2, "that of `b` is gone");
    a.keep(&last).await;
    // It comes back, behind all others.
    b.lose().await;
    assert_eq!(place.names().await, ["a", "c", "b"]);
}

fn is_row(key: &[u8]) -> bool {
    String::from_utf8_lossy(key).contains("/candidate/")
}

async fn leave(
    player: &mut crate::driver::conformance::Player<crate::LeaseOracle>,
    held: Option<&crate::Grant<crate::Fence>>,
) -> bool {
    loop {
        // Busy with others is not broken.
        if let Ok(was) = player.oracle.leave(held).await {
            return was;
        }
    }
}

async fn tidy(
    player: &mut crate::driver::conformance::Player<crate::LeaseOracle>,
) -> Option<std::time::Duration> {
    loop {
        if let Ok(again) = player.oracle.tidy().await {
            return again;
        }
    }
}
