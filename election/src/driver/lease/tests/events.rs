//! What is told of an election, to people and metrics.

use std::collections::BTreeMap;

use callsign_store::{ids::Incarnation, memory::Fate, testing::log::Listening};

use super::{
    beds::{LEASE, Stores},
    people::{Place, id, preempting, registration, surely},
};
use crate::{
    ElectionConfig, LeaseOptions, LeaseOracle,
    core::state::Disable,
    driver::conformance::{denied, granted},
    oracle::Refusal,
    tests::stores::Faulty,
};

/// What was said of elections themselves, not of campaigns: name and member.
fn said(log: &Listening) -> Vec<(String, String)> {
    let of = |fields: &BTreeMap<String, String>, name: &str| {
        fields.get(name).map_or("", |value| value.trim_matches('"')).to_owned()
    };
    let all = log.all().iter().map(|fields| (of(fields, "event"), of(fields, "member"))).collect::<Vec<_>>();
    all.into_iter().filter(|(event, _)| event.starts_with("election.")).collect()
}

pub(super) async fn h10_each_event_is_told_once_in_order_with_its_fields(stores: Stores) {
    let stores = stores.with(ElectionConfig { policy: preempting(), ..ElectionConfig::default() });
    let log = Listening::to("callsign::election");
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.ranked("a", 1).await, place.ranked("b", 2).await);
    a.win().await;
    let held = b.win().await;
    assert_eq!(a.lose().await.why, Refusal::Held);
    let held = b.keep(&held).await;
    place
        .config(&ElectionConfig { policy: preempting(), lease: 2 * LEASE, ..ElectionConfig::default() })
        .await;
    for _ in 0..2 {
        let asked = surely(async || place.admin.request_resign(None).await).await;
        assert_eq!(asked, Some(held.term.epoch), "asked twice, told once");
    }
    assert!(b.abdicate(&held).await);
    for _ in 0..2 {
        surely(async || place.admin.disable(Disable::Drain).await).await;
    }
    assert_eq!(a.lose().await.why, Refusal::Disabled);
    surely(async || place.admin.enable().await).await;
    let incarnation = b.context.incarnation;
    let another = Incarnation(incarnation.0.wrapping_add(1));
    assert!(!surely(async || place.admin.down(&id("b"), another).await).await);
    assert!(surely(async || place.admin.down(&id("b"), incarnation).await).await);
    a.win().await;
    assert!(surely(async || place.admin.unregister(&id("a"), a.context.incarnation).await).await);
    for name in ["c", "d"] {
        let silent = registration(name, 1);
        surely(async || place.admin.register(&silent).await).await;
    }
    place.names().await;
    stores.pass(100 * LEASE);
    assert_eq!(surely(async || place.admin.evict().await).await, 2);

    let told = said(&log);
    let told: Vec<_> = told.iter().map(|(event, member)| (event.as_str(), member.as_str())).collect();
    assert_eq!(
        told,
        [
            ("election.initialised", ""),
            ("election.joined", "a"),
            ("election.joined", "b"),
            ("election.elected", "a"),
            ("election.preempted", "a"),
            ("election.elected", "b"),
            ("election.refused", "a"),
            ("election.config_changed", ""),
            ("election.resign_requested", "b"),
            ("election.vacated", "b"),
            ("election.disabled", ""),
            ("election.refused", "a"),
            ("election.enabled", ""),
            ("election.down_stale", "b"),
            ("election.down_applied", "b"),
            ("election.elected", "a"),
            ("election.vacated", "a"),
            ("election.left", "a"),
            ("election.joined", "c"),
            ("election.joined", "d"),
            ("election.evicted", ""),
        ]
    );
    let all = log.all();
    for fields in &all {
        assert_eq!(fields["election"], format!("{:?}", place.bed.election.as_str()));
        for field in ["epoch", "ballot", "message"] {
            assert!(fields.contains_key(field), "{field} in {fields:?}");
        }
        assert_eq!(fields.contains_key("member"), fields.contains_key("incarnation"), "{fields:?}");
    }
    let of = |at: usize, field: &str| all[at].get(field).map_or("", String::as_str);
    assert_eq!(of(3, "leader"), "\"a\"");
    assert_eq!(of(5, "epoch"), held.term.epoch.to_string());
    assert_eq!(of(5, "ballot"), held.term.epoch.to_string(), "the first of its term");
    assert_eq!(of(9, "leader"), "", "nobody any more");
    for (at, part) in [
        (4, "since b comes before it"),
        (6, "a was refused: "),
        (11, "a was refused: the election is disabled"),
        (20, "c, d said nothing for too long"),
    ] {
        assert!(of(at, "message").contains(part), "{part} in {}", of(at, "message"));
    }
}

pub(super) async fn h10_what_a_commit_of_unknown_outcome_won_is_told_when_it_is_found(stores: Stores) {
    let log = Listening::to("callsign::election");
    let place = Place::new(&stores).await;
    let line = Faulty::over(&stores.store());
    let options = LeaseOptions { register: false, ..stores.options() };
    let oracle = LeaseOracle::new(line.shared(), &super::beds::cluster(), options);
    let mut a = place.bed.join(oracle, "a").await;
    let me = crate::Candidate { incarnation: a.context.incarnation, ..registration("a", 1) };
    surely(async || place.admin.register(&me).await).await;
    line.lose(Fate::Applied);
    let held = a.win().await;
    granted(a.refresh(&held).await);
    let mut b = place.player("b").await;
    denied(b.claim().await);
    let told = said(&log);
    let elected: Vec<_> = told.iter().filter(|(event, _)| event == "election.elected").collect();
    assert_eq!(elected.len(), 1, "{told:?}");
}

#[tokio::test]
async fn h10_a_term_whose_lease_is_over_has_ended_and_is_not_preempted_by_whoever_follows() {
    let stores = Stores::memory().unwrap();
    let log = Listening::to("callsign::election");
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    a.win().await;
    b.lose().await;
    stores.pass(LEASE);
    b.win().await;
    let told = said(&log);
    let told: Vec<_> = told.iter().map(|(event, member)| (event.as_str(), member.as_str())).collect();
    assert!(told.ends_with(&[("election.vacated", "a"), ("election.elected", "b")]), "{told:?}");
}
