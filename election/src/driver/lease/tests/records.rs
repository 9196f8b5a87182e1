//! What is stored: read strictly, counted without end, never taken for absent.

use std::time::Duration;

use callsign_store::{
    CommitOutcome, Key, Read, Transaction,
    ids::{Ballot, ElectionName, Epoch, MAX_COUNT, MAX_NAME, MemberId, Seniority, Tag},
    keys::{ClusterKeys, ElectionKeys},
    record::{CorruptRecord, Record},
};

use super::{
    beds::{LEASE, Stores, cluster},
    people::{MS, PATIENT, Place, id, refused, registration, surely},
};
use crate::{
    ElectionConfig, Policy,
    core::{
        config::{Invalid, MAX_DURATION},
        state::{Control, Count, Seat},
    },
    driver::{
        conformance::{attempt, denied, granted},
        lease::ElectionError,
    },
    oracle::{Fault, Oracle, Refusal},
};

fn keys(place: &Place<'_>) -> ElectionKeys {
    ClusterKeys::new(&cluster()).election(&place.bed.election)
}

async fn commit(stores: &Stores, transaction: Transaction) {
    while !matches!(stores.store().commit(transaction.clone()).await, CommitOutcome::Committed(_)) {}
}

async fn put(stores: &Stores, key: Key, value: &[u8]) {
    commit(stores, Transaction::new().put(key, value.to_vec())).await;
}

async fn get<T: Record>(stores: &Stores, key: Key) -> T {
    loop {
        if let Ok(read) = stores.store().read(vec![Read::Key(key.clone())]).await {
            return T::from_value(read.value(0).unwrap()).unwrap();
        }
    }
}

pub(super) async fn a8_elected_at_is_the_stores_time(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let version = async || stores.store().read(Vec::new()).await.unwrap().version.0;
    let before = version().await;
    let held = a.win().await;
    let after = version().await;
    let at = held.term.elected_at.0;
    // Whatever the member's clock shows, which is days from anybody's.
    assert!((before..=after).contains(&at), "{before} <= {at} <= {after}");
    stores.pass(LEASE / 2);
    assert_eq!(granted(a.refresh(&held).await).term.elected_at.0, at);
}

pub(super) async fn a10_a_record_that_cannot_be_read_is_an_error_and_never_a_vacant_seat(stores: Stores) {
    let good = Place::new(&stores).await;
    let mut a = good.player("a").await;
    a.win().await;
    let held_seat: Seat = get(&stores, keys(&good).seat()).await;
    let mut above = held_seat.clone();
    above.epoch = Epoch(above.ballot.0 + 1);
    let whole = held_seat.to_value();
    let mut another = whole.clone();
    another[0] = 2;
    let bad: [(&str, Vec<u8>); 6] = [
        ("empty", Vec::new()),
        ("of another schema", another),
        ("cut", whole[..whole.len() - 1].to_vec()),
        ("too long", [whole.as_slice(), &[0]].concat()),
        ("nonsense", vec![1, 0xc1]),
        ("an epoch above its ballot", above.to_value()),
    ];
    for which in ["seat", "control", "candidate", "count"] {
        for (how, value) in &bad {
            let place = Place::new(&stores).await;
            let mut a = place.player("a").await;
            let mut b = place.player("b").await;
            let held = a.win().await;
            b.lose().await;
            // Long over, if anybody could tell.
            stores.pass(LEASE * 2);
            let key = match which {
                "seat" => keys(&place).seat(),
                "control" => keys(&place).control(),
                "candidate" => keys(&place).candidate(&id("b")),
                _ => keys(&place).count(),
            };
            put(&stores, key, value).await;
            let before = place.rows().await;
            let corrupt = |error: &ElectionError| match error {
                ElectionError::Corrupt { what, why } => {
                    *what == which
                        && (*how != "of another schema" || *why == CorruptRecord::Schema { found: 2 })
                }
                _ => false,
            };
            if which == "count" {
                let error = refused(async || place.admin.register(&registration("c", 1)).await).await;
                assert!(corrupt(&error), "{which} {how}: {error}");
                assert_eq!(place.rows().await, before);
                continue;
            }
            let claim = b.oracle.claim(attempt()).await;
            assert!(matches!(&claim, Err(Fault::Fatal(_))), "{which} {how}: {claim:?}");
            let list = refused(async || place.admin.list().await).await;
            assert!(corrupt(&list), "{which} {how}: {list}");
            let evict = refused(async || place.admin.evict().await).await;
            assert!(corrupt(&evict), "{which} {how}: {evict}");
            let register = refused(async || place.admin.register(&registration("b", 1)).await);
            assert!(corrupt(&register.await), "{which} {how}");
            if which != "candidate" {
                for asked in [
                    a.oracle.refresh(attempt(), &held).await.map(drop),
                    a.oracle.abdicate(&held).await.map(drop),
                ] {
                    assert!(matches!(&asked, Err(Fault::Fatal(_))), "{which} {how}: {asked:?}");
                }
                assert!(corrupt(&refused(async || place.admin.leader().await).await), "{which} {how}");
                assert!(corrupt(&refused(async || place.admin.leader_raw().await).await), "{which} {how}");
                let initialise = refused(async || place.admin.initialise(&stores.config).await).await;
                assert!(corrupt(&initialise), "{which} {how}");
                let verify = refused(async || place.admin.verify(&held.fence).await).await;
                assert!(corrupt(&verify), "{which} {how}");
            }
            assert_eq!(place.rows().await, before, "{which} {how}: nothing was written");
        }
    }
}

pub(super) async fn a11_what_cannot_work_is_refused_before_anything_is_written(stores: Stores) {
    for name in [String::new(), "x".repeat(MAX_NAME + 1), "a/b".to_owned()] {
        assert!(
            MemberId::new(&name).is_err() && ElectionName::new(&name).is_err() && Tag::new(&name).is_err()
        );
    }
    let place = Place::empty(&stores);
    let zero = ElectionConfig { lease: Duration::ZERO, ..ElectionConfig::default() };
    let long = ElectionConfig { lease: MAX_DURATION + MS, ..ElectionConfig::default() };
    let silent = ElectionConfig { candidate_timeout: Duration::from_nanos(1), ..ElectionConfig::default() };
    for wrong in [&zero, &long, &silent] {
        let refusal = refused(async || place.admin.initialise(wrong).await).await;
        assert!(matches!(refusal, ElectionError::Invalid(_)), "{refusal}");
    }
    assert!(zero.validate().unwrap_err().to_string().contains("0ns"), "with the number");
    assert!(place.rows().await.is_empty());
    surely(async || place.admin.initialise(&stores.config).await).await;
    let before = place.rows().await;
    let refusal = refused(async || place.admin.configure(&zero).await).await;
    assert!(matches!(refusal, ElectionError::Invalid(Invalid::TooShort { value: Duration::ZERO, .. })));
    let mut tagged = registration("a", 1);
    tagged.tags = (0..17).map(|n| Tag::new(format!("t{n}")).unwrap()).collect();
    let refusal = refused(async || place.admin.register(&tagged).await).await;
    assert!(matches!(refusal, ElectionError::Invalid(Invalid::TooMany { count: 17, .. })), "{refusal}");
    assert_eq!(place.rows().await, before);
}

pub(super) async fn a11_a_counter_at_its_end_is_an_error_and_writes_nothing(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let held = a.win().await;
    let seat: Seat = get(&stores, keys(&place).seat()).await;
    let last = Seat { ballot: Ballot(MAX_COUNT), ..seat };
    put(&stores, keys(&place).seat(), &last.to_value()).await;
    // So that there is something else that it would write.
    stores.pass(LEASE / 2);
    let before = place.rows().await;
    for asked in [
        a.oracle.claim(attempt()).await.map(drop),
        a.oracle.refresh(attempt(), &held).await.map(drop),
        a.oracle.run_cycle(attempt()).await.map(drop),
        a.oracle.abdicate(&held).await.map(drop),
    ] {
        assert!(matches!(&asked, Err(Fault::Fatal(why)) if why.contains("counter")), "{asked:?}");
    }
    let leave = refused(async || place.admin.unregister(&id("a"), a.context.incarnation).await).await;
    assert_eq!(leave, ElectionError::Exhausted);
    put(&stores, keys(&place).count(), &Count(Seniority(MAX_COUNT)).to_value()).await;
    let join = refused(async || place.admin.register(&registration("b", 1)).await).await;
    assert_eq!(join, ElectionError::Exhausted);
    let mut now = place.rows().await;
    now.retain(|(key, _)| *key != keys(&place).count());
    let mut before = before;
    before.retain(|(key, _)| *key != keys(&place).count());
    assert_eq!(now, before);
}

pub(super) async fn h9_a_lost_seat_goes_to_nobody_for_a_lease_and_its_ballots_are_not_given_out_again(
    stores: Stores,
) {
    let config = ElectionConfig { candidate_timeout: PATIENT, ..stores.config.clone() };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let mut held = a.win().await;
    for _ in 0..5 {
        held = granted(a.refresh(&held).await);
    }
    b.lose().await;
    stores.pass(LEASE / 2);
    commit(&stores, Transaction::new().clear(keys(&place).seat())).await;
    // Whoever comes now does not know whether somebody leads.
    let denial = b.lose().await;
    assert_eq!((denial.why, denial.leader, denial.retry_in), (Refusal::TooEarly, None, Some(LEASE)));
    // The leader is told when it asks.
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver);
    assert_eq!(a.lose().await.why, Refusal::TooEarly);
    assert!(!a.abdicate(&held).await);
    stores.pass(LEASE - MS);
    assert_eq!(b.lose().await.retry_in, Some(MS));
    stores.pass(MS);
    let next = b.win().await;
    // At a sink, at most one of them writes.
    assert!(next.fence.epoch > held.fence.epoch && next.fence.ballot > held.fence.ballot);
    let after = granted(b.refresh(&next).await);
    assert_eq!(after.fence.ballot.0, next.fence.ballot.0 + 1);
    // Lost once more, at once: what was promised ahead was promised anew.
    commit(&stores, Transaction::new().clear(keys(&place).seat())).await;
    a.lose().await;
    stores.pass(LEASE);
    let third = a.win().await;
    assert!(third.fence.ballot > after.fence.ballot);
    // What is promised ahead lasts longer than any count so far.
    let control: Control = get(&stores, keys(&place).control()).await;
    assert!(control.reserved >= third.fence.ballot);
}

/// Whoever had it believes in the lease that was granted.
pub(super) async fn h9_h2_a_lost_seat_is_waited_for_as_long_as_was_configured_when_it_was_lost(
    stores: Stores,
) {
    let config = ElectionConfig { candidate_timeout: PATIENT, ..stores.config.clone() };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    commit(&stores, Transaction::new().clear(keys(&place).seat())).await;
    b.lose().await;
    stores.pass(LEASE / 2);
    place.config(&ElectionConfig { lease: LEASE / 10, ..stores.config.clone() }).await;
    let denial = b.lose().await;
    assert_eq!((denial.why, denial.retry_in), (Refusal::TooEarly, Some(LEASE)));
    stores.pass(LEASE - MS);
    assert_eq!(b.lose().await.retry_in, Some(MS));
    stores.pass(MS);
    assert!(b.win().await.fence.ballot > held.fence.ballot);
}

/// H9, the other record: without it nothing is done, and initialised anew it goes on counting.
pub(super) async fn h9_h1_a_lost_configuration_is_initialised_anew_and_the_ballots_go_on(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let held = a.win().await;
    commit(&stores, Transaction::new().clear(keys(&place).control())).await;
    let fault = a.oracle.refresh(attempt(), &held).await;
    assert!(matches!(&fault, Err(Fault::Transient { maybe_committed: false, .. })), "{fault:?}");
    assert_eq!(refused(async || place.admin.leader().await).await, ElectionError::NotInitialized);
    let config = ElectionConfig { policy: Policy::preempting(), ..stores.config.clone() };
    surely(async || place.admin.initialise(&config).await).await;
    let kept = granted(a.refresh(&held).await);
    assert_eq!((kept.term, kept.fence.ballot.0), (held.term, held.fence.ballot.0 + 1));
}

/// A7, as far as an election has it; the sink is another's.
pub(super) async fn a7_a_term_that_came_back_is_not_the_former_one(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let first = a.win().await;
    let seat: Seat = get(&stores, keys(&place).seat()).await;
    // In flight: a commit that is fenced by what a's seat looked like.
    let in_flight = Transaction::new()
        .check(keys(&place).seat(), Some(seat.to_value()))
        .put(b"rows/a7".to_vec(), vec![1]);
    assert!(a.abdicate(&first).await);
    let between = b.win().await;
    assert!(b.abdicate(&between).await);
    let again = a.win().await;
    assert_eq!(again.term.leader, first.term.leader);
    loop {
        match stores.store().commit(in_flight.clone()).await {
            CommitOutcome::Conflict => break,
            CommitOutcome::Unavailable(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(again.fence.epoch > first.fence.epoch, "a sink that compares epochs refuses it as well");
    assert_eq!(denied(a.refresh(&first).await).why, Refusal::TermOver);
}

/// H1, and H5: also where many come at once.
pub(super) async fn h1_the_first_configuration_stands_and_before_it_there_is_nothing(stores: Stores) {
    let place = Place::empty(&stores);
    let nothing = ElectionError::NotInitialized;
    assert_eq!(refused(async || place.admin.config().await).await, nothing);
    assert_eq!(refused(async || place.admin.list().await).await, nothing);
    assert_eq!(refused(async || place.admin.evict().await).await, nothing);
    assert_eq!(refused(async || place.admin.enable().await).await, nothing);
    assert_eq!(refused(async || place.admin.register(&registration("a", 1)).await).await, nothing);
    assert_eq!(refused(async || place.admin.request_resign(None).await).await, nothing);
    let unprepared = crate::LeaseOptions { config: None, ..stores.options() };
    let mut early = place.with("early", unprepared).await;
    let claim = early.oracle.claim(attempt()).await;
    assert!(matches!(claim, Err(Fault::Transient { maybe_committed: false, .. })), "{claim:?}");
    assert!(place.rows().await.is_empty());

    let first = ElectionConfig { lease: LEASE * 2, ..stores.config.clone() };
    let made = surely(async || place.admin.initialise(&first).await).await;
    assert!(made.config == first && !made.differs);
    let before = place.rows().await;
    let second = surely(async || place.admin.initialise(&stores.config).await).await;
    assert!(second.config == first && second.differs, "the first stands, and the second is told");
    assert_eq!(place.rows().await, before);
    // Now it may take part.
    early.win().await;
}

pub(super) async fn h5_ten_members_start_at_once_on_an_empty_store(stores: Stores) {
    let place = Place::empty(&stores);
    let names: Vec<_> = (0..10).map(|n| format!("m{n}")).collect();
    let members = futures::future::join_all(names.iter().map(|name| place.player(name))).await;
    assert_eq!(members.len(), 10);
    let mut listed = place.names().await;
    listed.sort_unstable();
    assert_eq!(listed, names);
    let control = place.rows().await.into_iter().filter(|(key, _)| *key == keys(&place).control()).count();
    assert_eq!(control, 1, "one schema");
}

/// E17.
pub(super) async fn e17_the_durable_policy_decides_and_the_mismatch_is_reported(stores: Stores) {
    let place = Place::empty(&stores);
    let sticky = stores.config.clone();
    let preempting = ElectionConfig { policy: Policy::preempting(), ..sticky.clone() };
    let options = |config: &ElectionConfig, priority| crate::LeaseOptions {
        config: Some(config.clone()),
        priority,
        ..stores.options()
    };
    let mut a = place.with("a", options(&sticky, 1)).await;
    let mut b = place.with("b", options(&preempting, 9)).await;
    assert_eq!(a.oracle.mismatch(), None);
    let mismatch = b.oracle.mismatch().unwrap();
    assert_eq!((&mismatch.ours, &mismatch.durable), (&preempting, &sticky));
    a.win().await;
    assert_eq!(b.lose().await.why, Refusal::Held, "the durable one decides");
}
