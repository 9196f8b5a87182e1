use super::*;

const RULE: Rule = Rule { factor: 1.1, beside: 8.0, least: 3 };
const RUN: Duration = Duration::from_secs(120);

/// A value each second of a run of two minutes: warm from 30 s on, thirds of 30 s.
fn judged(value: impl Fn(u64) -> f64) -> Judged {
    let values: Vec<_> = (0..=120).map(|at| (Duration::from_secs(at), value(at))).collect();
    RULE.judge(&values, RUN)
}

fn at(at: u64) -> f64 {
    f64::from(u32::try_from(at).unwrap())
}

#[test]
fn what_is_flat_is_flat() {
    let flat = judged(|_| 100.0);
    let expected =
        Judged { first: Some(100.0), last: Some(100.0), allowed: Some(118.0), finding: Finding::Flat };
    assert_eq!(Judged { allowed: flat.allowed.map(f64::round), ..flat }, expected);
    assert_eq!(judged(|_| 0.0).finding, Finding::Flat, "of nothing comes nothing");
}

#[test]
fn what_grows_all_the_time_is_noticed() {
    // From the middle of the first third to that of the last one there are 60 s.
    assert_eq!(judged(|second| 100.0 + at(second)).finding, Finding::Grew);
    assert_eq!(judged(|second| 100.0 + at(second) * 0.2).finding, Finding::Flat, "12 in 60 s are allowed");
    assert_eq!(judged(at).finding, Finding::Grew, "from nothing, too");
}

#[test]
fn the_medians_are_those_of_the_thirds_behind_the_quarter() {
    let growing = judged(at);
    assert_eq!((growing.first, growing.last), (Some(44.0), Some(105.0)));
    let least = Rule { least: 30, ..RULE };
    let values: Vec<_> = (0..=120).map(|second| (Duration::from_secs(second), at(second))).collect();
    assert_eq!(least.judge(&values, RUN).finding, Finding::Grew, "30 s to 59 s, and 90 s to 120 s");
    assert_eq!(Rule { least: 31, ..RULE }.judge(&values, RUN).finding, Finding::TooFew);
}

#[test]
fn what_is_exactly_allowed_is_allowed() {
    let rule = Rule { factor: 2.0, beside: 5.0, least: 1 };
    let of = |last| {
        let values = [(Duration::from_secs(40), 10.0), (Duration::from_secs(110), last)];
        rule.judge(&values, RUN)
    };
    assert_eq!(of(25.0).finding, Finding::Flat);
    assert_eq!(of(25.0).allowed, Some(25.0));
    assert_eq!(of(25.5).finding, Finding::Grew);
}

#[test]
fn a_saw_is_flat_whatever_its_teeth() {
    for tooth in [2, 7, 20] {
        assert_eq!(judged(|second| 100.0 + at(second % tooth) * 10.0).finding, Finding::Flat, "{tooth}");
    }
}

#[test]
fn one_spike_is_no_growth_and_hides_none() {
    for spike in [45, 75, 105] {
        assert_eq!(judged(|second| if second == spike { 1e9 } else { 100.0 }).finding, Finding::Flat);
    }
    assert_eq!(judged(|second| if second == 45 { 1e9 } else { 100.0 + at(second) }).finding, Finding::Grew);
}

#[test]
fn a_step_that_stays_is_growth_and_one_within_the_first_quarter_is_none() {
    assert_eq!(judged(|second| if second < 70 { 100.0 } else { 150.0 }).finding, Finding::Grew);
    assert_eq!(judged(|second| if second < 29 { 100.0 } else { 150.0 }).finding, Finding::Flat);
    assert_eq!(
        judged(|second| if second < 70 { 150.0 } else { 100.0 }).finding,
        Finding::Flat,
        "less is well"
    );
}

#[test]
fn too_few_values_tell_nothing() {
    assert_eq!(RULE.judge(&[], RUN).finding, Finding::TooFew);
    let late: Vec<_> = (100..=120).map(|second| (Duration::from_secs(second), 1e9)).collect();
    let judged = RULE.judge(&late, RUN);
    assert_eq!((judged.finding, judged.first, judged.last), (Finding::TooFew, None, Some(1e9)));
    assert_eq!(judged.allowed, None);
}

#[test]
fn the_value_in_the_middle() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0]), Some(3.0));
    assert_eq!(median(vec![4.0, 1.0]), Some(1.0));
    assert_eq!(median(vec![9.0, 1.0, 4.0]), Some(4.0));
    assert_eq!(median(vec![9.0, 1.0, 4.0, 2.0]), Some(2.0));
}

#[test]
fn quantiles_are_values_that_were_there() {
    let sorted: Vec<u32> = (1..=1000).collect();
    assert_eq!(quantile(&sorted, 500_000), Some(500));
    assert_eq!(quantile(&sorted, 990_000), Some(990));
    assert_eq!(quantile(&sorted, 999_000), Some(999));
    assert_eq!(quantile(&sorted, 999_500), Some(1000));
    assert_eq!(quantile(&sorted, 1_000_000), Some(1000));
    assert_eq!(quantile(&[7], 999_000), Some(7));
    assert_eq!(quantile(&[7], 0), Some(7));
    assert_eq!(quantile(&[], 500_000), None);
}
