//! Who is chosen: ranks, preemption, hand-over, tenure, what a candidate must have.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::ids::Tag;
use futures::{FutureExt, StreamExt};

use super::{
    beds::{LEASE, Stores},
    people::{MS, Place, id, preempting, surely},
};
use crate::{
    ElectionConfig, LeaseOptions, Policy,
    core::policy::Replace,
    driver::conformance::{denied, granted},
    oracle::{Oracle, Reaction, Refusal, Signal},
};

fn by(stores: Stores, policy: Policy) -> Stores {
    let config = ElectionConfig { policy, ..stores.config.clone() };
    stores.with(config)
}

pub(super) async fn e8_the_best_by_priority_then_seniority_then_id_is_elected(stores: Stores) {
    let stores = by(stores, Policy::ranked());
    let place = Place::new(&stores).await;
    let mut low = place.ranked("a-low", 1).await;
    let mut junior = place.ranked("junior", 5).await;
    let mut top = place.ranked("top", 9).await;
    let mut last = place.ranked("last", 5).await;
    for other in [&mut low, &mut junior, &mut last] {
        assert_eq!(other.lose().await.why, Refusal::Outranked, "of a vacant seat");
    }
    let held = top.win().await;
    assert_eq!(junior.lose().await.why, Refusal::Held);
    // Gone in good order: the next by seniority, although it is not the first to ask.
    surely(async || place.admin.unregister(&id("top"), top.context.incarnation).await).await;
    denied(top.refresh(&held).await);
    assert_eq!(last.lose().await.why, Refusal::Outranked);
    assert_eq!(low.lose().await.why, Refusal::Outranked);
    let held = junior.win().await;
    // One of better rank that comes later replaces it.
    let mut better = place.ranked("better", 6).await;
    let next = better.win().await;
    assert!(next.term.epoch > held.term.epoch);
    assert_eq!(denied(junior.refresh(&held).await).why, Refusal::TermOver);
    assert_eq!(junior.lose().await.why, Refusal::Held);
}

pub(super) async fn e9_priority_0_is_never_elected_and_a_leader_that_takes_it_is_followed_at_once(
    stores: Stores,
) {
    for policy in [Policy::ranked(), Policy::sticky()] {
        let stores = by_ref(&stores, policy);
        let place = Place::new(&stores).await;
        let mut out = place.ranked("out", 0).await;
        assert_eq!(out.lose().await.why, Refusal::Ineligible);
        let (mut a, mut b) = (place.ranked("a", 5).await, place.ranked("b", 4).await);
        let held = a.win().await;
        b.lose().await;
        // From outside, by a heartbeat: the next to ask leads, long before the lease is over.
        let incarnation = a.context.incarnation;
        surely(async || place.admin.heartbeat(&id("a"), incarnation, Some(0)).await).await;
        assert_eq!(denied(a.refresh(&held).await).why, Refusal::Ineligible);
        let next = b.win().await;
        assert!(next.term.epoch > held.term.epoch);
        assert_eq!(a.lose().await.why, Refusal::Ineligible);
        // By itself: it is told to stop, gives back, and another follows.
        assert_eq!(a.oracle.handle_info(5).await, Reaction::Poll);
        let lost = a.claim().await;
        let (mut leads, held, mut other) = match lost {
            crate::Verdict::Granted(grant) => (a, grant, b),
            crate::Verdict::Denied(_) => (b, next, a),
        };
        leads.oracle.handle_info(0).await;
        assert_eq!(denied(leads.refresh(&held).await).why, Refusal::Ineligible);
        leads.abdicate(&held).await;
        other.win().await;
    }
}

fn by_ref(stores: &Stores, policy: Policy) -> Stores {
    stores.also(ElectionConfig { policy, ..stores.config.clone() })
}

pub(super) async fn e10_when_the_top_falls_silent_the_next_leads_after_expiry_and_one_recheck(
    stores: Stores,
) {
    let timeout = LEASE * 2;
    let config =
        ElectionConfig { policy: Policy::ranked(), candidate_timeout: timeout, ..stores.config.clone() };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut top, mut second) = (place.ranked("top", 9).await, place.ranked("second", 5).await);
    let mut third = place.ranked("third", 1).await;
    top.win().await;
    // From now on it is silent. Everybody looks every second.
    let (recheck, mut waited) = (Duration::from_secs(1), Duration::ZERO);
    let next = loop {
        let denial = third.lose().await;
        assert!(matches!(denial.why, Refusal::Held | Refusal::Outranked), "{denial:?}");
        match second.claim().await {
            crate::Verdict::Granted(next) => break next,
            crate::Verdict::Denied(denial) if waited < LEASE => {
                assert_eq!(denial.why, Refusal::Held);
            }
            crate::Verdict::Denied(denial) => assert_eq!(denial.why, Refusal::Outranked),
        }
        stores.pass(recheck);
        waited += recheck;
    };
    assert!((timeout..=timeout + recheck).contains(&waited), "{waited:?}");
    assert_eq!(next.term.leader, id("second"));
}

pub(super) async fn e11_a_higher_priority_replaces_the_leader_and_the_leader_hears_of_it(stores: Stores) {
    let stores = by(stores, preempting());
    let place = Place::new(&stores).await;
    let (mut low, mut listener) = place.listening("low", 5).await;
    let mut high = place.ranked("high", 9).await;
    let held = low.win().await;
    assert_eq!(place.signals_of(&mut listener).await, [], "its own win is no news");
    let next = high.win().await;
    assert!(next.term.epoch > held.term.epoch && next.fence.ballot > held.fence.ballot);
    let revoked = Signal::Revoked { epoch: held.term.epoch };
    assert_eq!(place.signals_of(&mut listener).await, [revoked, Signal::Wakeup]);
    assert_eq!(denied(low.refresh(&held).await).leader, Some(next.term.clone()));
    // Off: it waits.
    assert!(high.abdicate(&next).await);
    place.config(&ElectionConfig { policy: Policy::sticky(), ..stores.config.clone() }).await;
    low.win().await;
    assert_eq!(high.lose().await.why, Refusal::Held);
}

pub(super) async fn e12_equals_never_replace_each_other(stores: Stores) {
    let stores = by(stores, preempting());
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.ranked("b", 5).await, place.ranked("a", 5).await);
    let mut lower = place.ranked("0", 4).await;
    let held = a.win().await;
    let before = place.bed.stored().await;
    assert_eq!(b.lose().await.why, Refusal::Held);
    assert_eq!(lower.lose().await.why, Refusal::Held);
    assert_eq!(place.bed.stored().await, before);
    granted(a.refresh(&held).await);
}

pub(super) async fn e13_a_leader_is_asked_first_and_replaced_after_the_grace(stores: Stores) {
    let grace = Duration::from_secs(3);
    let policy = Policy { replace: Replace::HandOver { grace }, ..preempting() };
    let stores = by(stores, policy);
    let place = Place::new(&stores).await;
    let (mut low, mut listener) = place.listening("low", 5).await;
    let mut high = place.ranked("high", 9).await;
    let held = low.win().await;
    assert_eq!(place.signals_of(&mut listener).await, []);
    assert_eq!(high.lose().await.why, Refusal::Held);
    let asked = Signal::ResignRequested { epoch: Some(held.term.epoch) };
    assert_eq!(place.signals_of(&mut listener).await, [asked], "it is asked");
    // Until the grace is over it leads.
    stores.pass(grace - MS);
    let held = granted(low.refresh(&held).await);
    assert_eq!(high.lose().await.why, Refusal::Held);
    stores.pass(MS);
    let next = high.win().await;
    assert!(next.term.epoch > held.term.epoch);
    // One that goes when it is asked is followed at once.
    assert!(high.abdicate(&next).await);
    let held = low.win().await;
    assert_eq!(high.lose().await.why, Refusal::Held);
    assert!(low.abdicate(&held).await);
    high.win().await;
}

pub(super) async fn e16_a_top_candidate_that_dies_again_and_again_does_not_move_the_seat(stores: Stores) {
    let tenure = Duration::from_secs(60);
    let policy = Policy { min_tenure: tenure, ..Policy::ranked() };
    let config = ElectionConfig {
        policy,
        lease: Duration::from_secs(2),
        candidate_timeout: Duration::from_secs(2),
        ..stores.config.clone()
    };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let mut steady = place.ranked("steady", 1).await;
    let mut held = steady.win().await;
    let (mut changes, mut passed) = (0_u32, Duration::ZERO);
    // It lives 3 s, tries every second, and comes back as another incarnation.
    while passed < tenure * 4 {
        let mut top = place.ranked("top", 9).await;
        for _ in 0..3 {
            stores.pass(Duration::from_secs(1));
            passed += Duration::from_secs(1);
            if let crate::Verdict::Granted(_) = top.claim().await {
                changes += 1;
            }
            match steady.oracle.run_cycle(crate::driver::conformance::attempt()).await.unwrap() {
                crate::Verdict::Granted(grant) => {
                    changes += u32::from(grant.term.epoch != held.term.epoch);
                    held = grant;
                }
                crate::Verdict::Denied(_) => {}
            }
        }
    }
    assert!(changes <= 4, "{changes} changes in 4 times the least tenure");
    // One that stays gets the seat, once both have their time.
    let mut top = place.ranked("top", 9).await;
    let mut waited = Duration::ZERO;
    while !matches!(top.claim().await, crate::Verdict::Granted(_)) {
        stores.pass(Duration::from_secs(1));
        waited += Duration::from_secs(1);
        held = granted(steady.refresh(&held).await);
    }
    assert!((tenure..tenure + Duration::from_secs(2)).contains(&waited), "{waited:?}");
}

pub(super) async fn e18_who_lacks_what_is_required_takes_part_and_is_never_elected(stores: Stores) {
    let storage = Tag::new("storage").unwrap();
    for policy in [Policy::sticky(), Policy::ranked()] {
        let stores = by_ref(&stores, Policy { requires: Some(storage.clone()), ..policy });
        let place = Place::new(&stores).await;
        let mut without = place.ranked("a-without", 9).await;
        let tags = BTreeSet::from([storage.clone(), Tag::new("other").unwrap()]);
        let mut with = place.with("with", LeaseOptions { tags, priority: 1, ..stores.options() }).await;
        assert_eq!(without.lose().await.why, Refusal::Ineligible);
        let held = with.win().await;
        assert_eq!(place.names().await, ["a-without", "with"], "it is a candidate like any other");
        assert_eq!(without.lose().await.leader, Some(held.term.clone()), "and sees who leads");
        assert!(with.abdicate(&held).await);
        assert_eq!(without.lose().await.why, Refusal::Ineligible);
        stores.pass(LEASE * 2);
        assert_eq!(without.lose().await.why, Refusal::Ineligible);
    }
}

pub(super) async fn h2_h3_a_disabled_election_takes_nothing_and_drains_or_stops_its_leader(stores: Stores) {
    use super::people::{refused, registration};
    use crate::{Disable, driver::lease::ElectionError};
    for how in [Disable::Drain, Disable::Stop] {
        let place = Place::new(&stores).await;
        let mut a = place.player("a").await;
        let (mut b, mut listener) = place.listening("b", 1).await;
        assert_eq!(surely(async || place.admin.leader().await).await, None);
        let held = a.win().await;
        surely(async || place.admin.disable(how).await).await;
        // Join, heartbeat, claim.
        let disabled = ElectionError::Disabled;
        assert_eq!(refused(async || place.admin.register(&registration("c", 1)).await).await, disabled);
        let incarnation = b.context.incarnation;
        let beat = refused(async || place.admin.heartbeat(&id("b"), incarnation, None).await).await;
        assert_eq!(beat, disabled);
        assert_eq!(b.lose().await.why, Refusal::Disabled);
        let late = place.player("late").await;
        match how {
            // It stays until it has stopped its work, and is not refreshed.
            Disable::Drain => {
                let leader = surely(async || place.admin.leader().await).await;
                assert_eq!(leader, Some(held.term.clone()));
                assert_eq!(denied(a.refresh(&held).await).why, Refusal::Disabled);
                assert!(a.abdicate(&held).await);
            }
            Disable::Stop => {
                assert_eq!(surely(async || place.admin.leader_raw().await).await, None);
                let why = denied(a.refresh(&held).await).why;
                assert!(matches!(why, Refusal::TermOver | Refusal::Disabled), "{why:?}");
                assert!(!a.abdicate(&held).await);
            }
        }
        stores.pass(LEASE * 3);
        assert_eq!(b.lose().await.why, Refusal::Disabled, "Inv10: no grants");
        place.signals_of(&mut listener).await;
        surely(async || place.admin.enable().await).await;
        assert_eq!(place.signals_of(&mut listener).await, [Signal::Wakeup]);
        let next = b.win().await;
        assert!(next.fence.ballot > held.fence.ballot);
        let mut late = late;
        assert_eq!(late.lose().await.why, Refusal::Held, "it registers when it may");
    }
}

pub(super) async fn h4_two_elections_share_no_key(stores: Stores) {
    let (one, other) = (Place::new(&stores).await, Place::new(&stores).await);
    let (mut a, mut listener) = one.listening("same", 1).await;
    let mut b = other.player("same").await;
    let held = a.win().await;
    assert_eq!(one.signals_of(&mut listener).await, []);
    let before = one.rows().await;
    let theirs = b.win().await;
    let theirs = granted(b.refresh(&theirs).await);
    surely(async || other.admin.request_resign(None).await).await;
    other.config(&ElectionConfig { lease: LEASE * 7, ..stores.config.clone() }).await;
    surely(async || other.admin.unregister(&id("same"), b.context.incarnation).await).await;
    denied(b.refresh(&theirs).await);
    surely(async || other.admin.disable(crate::Disable::Stop).await).await;
    assert_eq!(one.rows().await, before);
    assert_eq!(one.signals_of(&mut listener).await, [], "no event");
    let prefix = |place: &Place<'_>| format!("/election/{}/", place.bed.election);
    for (key, _) in before {
        assert!(String::from_utf8(key).unwrap().contains(&prefix(&one)));
    }
    granted(a.refresh(&held).await);
}

/// D12 and D13, as far as the authority has them.
pub(super) async fn d12_d13_a_request_to_resign_is_of_one_epoch_and_heard_once(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut of_a) = place.listening("a", 1).await;
    let (_b, mut of_b) = place.listening("b", 1).await;
    assert_eq!(surely(async || place.admin.request_resign(None).await).await, None, "nobody leads");
    let held = a.win().await;
    assert_eq!(
        (place.signals_of(&mut of_a).await, place.signals_of(&mut of_b).await),
        (vec![], vec![Signal::Wakeup])
    );
    let other = Some(held.term.epoch.next());
    assert_eq!(surely(async || place.admin.request_resign(other).await).await, None, "of another epoch");
    for _ in 0..5 {
        let asked = surely(async || place.admin.request_resign(None).await).await;
        assert_eq!(asked, Some(held.term.epoch));
    }
    assert_eq!(
        place.signals_of(&mut of_a).await,
        [Signal::ResignRequested { epoch: Some(held.term.epoch) }],
        "five are one"
    );
    assert_eq!(place.signals_of(&mut of_b).await, [], "who does not lead is not asked");
    // It dies with the term.
    assert!(a.abdicate(&held).await);
    let again = a.win().await;
    let signals = place.signals_of(&mut of_a).await;
    assert!(!signals.iter().any(|s| matches!(s, Signal::ResignRequested { .. })), "{signals:?}");
    granted(a.refresh(&again).await);
}

/// The same without a watch: with the next refresh.
pub(super) async fn d12_h6_a_request_is_heard_with_the_next_refresh_if_nothing_is_watched(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.with("a", LeaseOptions { watch: false, ..stores.options() }).await;
    let held = a.win().await;
    let mut signals = a.oracle.signals();
    surely(async || place.admin.request_resign(Some(held.term.epoch)).await).await;
    assert_eq!(signals.next().now_or_never(), None, "nobody looks");
    granted(a.refresh(&held).await);
    let asked = Signal::ResignRequested { epoch: Some(held.term.epoch) };
    assert_eq!(signals.next().now_or_never(), Some(Some(asked)));
}

/// I1, as far as the authority has it; F11.
pub(super) async fn i1_f11_followers_are_woken_by_a_resignation_and_not_by_a_refresh(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let (mut b, mut listener) = place.listening("b", 1).await;
    let held = a.win().await;
    assert_eq!(place.signals_of(&mut listener).await, [Signal::Wakeup]);
    let kept = granted(a.refresh(&held).await);
    assert_eq!(place.signals_of(&mut listener).await, [], "nothing that matters");
    assert!(a.abdicate(&kept).await);
    assert_eq!(place.signals_of(&mut listener).await, [Signal::Wakeup]);
    let next = b.win().await;
    assert_eq!(place.signals_of(&mut listener).await, [], "one's own win is no news");
    assert!(b.abdicate(&next).await);
    let signals = place.signals_of(&mut listener).await;
    assert!(signals.contains(&Signal::Revoked { epoch: next.term.epoch }), "{signals:?}");
}
