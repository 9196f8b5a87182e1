//! Which checks have a forged case.

use callsign_sim::oracle::Check;

/// The checks that no forged case is made for: where they are seen to fire instead.
const ELSEWHERE: &[(Check, &str)] = &[
    (Check::NobodyWaits, "judged at the end of a run: planted defects"),
    (Check::Quiescent, "judged at the end of a run: planted defects"),
    (Check::EveryName, "judged at the end of a run: planted defects"),
    (Check::InTime, "planted defects of duties: look-cut-short"),
    (Check::ExplainTrue, "planted defects of features: explains-nothing-swept"),
    (Check::Linearizable, "linear/tests.rs"),
    (Check::HistoryTooLong, "nothing is wrong then"),
    (Check::LockClears, "only counted"),
    (Check::BeatRace, "only counted; TrustIsOpen fires"),
    (Check::DeadLeader, "planted defects of members"),
    (Check::FoundDead, "planted defects of duties: leader-rests-too"),
    (Check::ViewTrue, "planted defects of duties: delta-without-leavers"),
    (Check::Configured, "planted defects of members: settings-forget-the-rest"),
    (Check::RankedFirst, "planted defects of members: rank-ignored"),
    (Check::NewerLink, "planted defects of links"),
    (Check::GrantTrusted, "planted defects of the registry"),
    (Check::CountTrue, "planted defects of the registry: gone-names-counted"),
    (Check::AskedAgain, "planted defects of the composition: retry-lost"),
    (Check::StartOver, "planted defects of features: start-outlives-lapse"),
    (Check::StartAwaited, "planted defects of features: start-awaited-for-ever"),
    (Check::MoveWhole, "planted defects of moves: data-of-a-taker-not-kept"),
    (Check::DrainedMoved, "planted defects of moves: drained-before-names-moved"),
    (Check::LeavesForGood, "planted defects of losses: raised-while-leaving"),
    (Check::WentBack, "only counted"),
    (Check::RaisedForALoss, "planted defects of losses: raises-a-day-late"),
    (Check::WaitedOut, "planted defects of losses: no-wait-at-the-join"),
    (Check::WatchTrue, "planted defects of features: watch-passes-what-is-swept"),
    (Check::WatchPresent, "planted defects of features: watch-walks-ahead"),
    (Check::WatchLast, "planted defects of features: watch-forgets-what-was-missed"),
    (Check::WatchFirst, "planted defects of features: watch-after-the-answer"),
    (Check::OneLimit, "planted defects of features: two-places-in-a-batch"),
    (Check::LimitTold, "planted defects of features: own-limit-refused"),
    (Check::AtMostLimit, "planted defects of features: everybody-holds"),
    (Check::PlaceServed, "planted defects of features: freed-place-not-seen"),
    (Check::GroupOrder, "planted defects of features: snapshot-without-request"),
    (Check::LinksTrue, "planted defects of members: says-links-of-its-view"),
    (Check::ReferenceNotAgain, "planted defects of references: end-not-remembered"),
    (Check::ReferenceEndsOnce, "planted defects of references: ends-again-with-its-link"),
    (Check::ReferenceEnds, "planted defects of references: references-outlive-link"),
    (Check::EndsMonitored, "unit tests of references/side.rs"),
    (Check::ReferencesBounded, "planted defects of references: watches-without-bound, in bulk"),
    (Check::NoneOverDownLinks, "planted defects of references: link-down-unheard"),
    (Check::ReferenceRefused, "only counted"),
    (Check::LagTrue, "planted defects of members: says-position-of-its-view, keeps-first-position"),
    (Check::CountedOn, "not yet: where it is broken the cluster does not serve again, which is seen first"),
];

#[test]
fn every_check_has_a_forged_case_or_is_seen_to_fire_elsewhere() {
    let cases = [
        include_str!("../fires.rs"),
        include_str!("certificates.rs"),
        include_str!("duties.rs"),
        include_str!("log.rs"),
        include_str!("offers.rs"),
        include_str!("referring.rs"),
    ];
    for check in Check::ALL.iter().filter(|check| !check.name().starts_with("(met)")) {
        let word = format!("Check::{check:?}");
        let is_it = |at: usize, text: &str| !text[at + word.len()..].starts_with(char::is_alphanumeric);
        let is_in = |text: &str| text.match_indices(&word).any(|(at, _)| is_it(at, text));
        let is_forged = cases.into_iter().any(is_in);
        let is_elsewhere = ELSEWHERE.iter().any(|(other, _)| other == check);
        assert!(is_forged != is_elsewhere, "{word}: forged: {is_forged}, elsewhere: {is_elsewhere}");
    }
}
