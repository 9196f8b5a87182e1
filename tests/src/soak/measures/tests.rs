use super::*;

const RUN: Duration = Duration::from_secs(60);
const ALL: [What; 10] = [
    What::Anonymous,
    What::Resident,
    What::Files,
    What::Threads,
    What::StoreBytes,
    What::Rows,
    What::LogRows,
    What::Leftovers,
    What::P50,
    What::P999,
];

fn node() -> Of {
    Of::Node("a".to_owned())
}

/// A value each second, which begins with one and ends with another.
fn measured(of: &Of, what: What, first: f64, last: f64) -> Measures {
    let mut measures = Measures::default();
    for second in 0..=60_u32 {
        let value = first + (last - first) * f64::from(second) / 60.0;
        measures.add(of.clone(), what, Duration::from_secs(second.into()), value);
    }
    measures
}

fn breaches(measures: &Measures, is_long: bool) -> Vec<String> {
    measures.judge(RUN, is_long).iter().filter_map(Row::breach).collect()
}

#[test]
fn what_doubles_from_much_is_a_breach_of_each_kind() {
    for what in ALL {
        let much = measured(&node(), what, 1e9, 1e10);
        assert_eq!(breaches(&much, true).len(), 1, "{what}");
        assert_eq!(breaches(&measured(&node(), what, 1e9, 1e9), true), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn times_count_in_long_runs_only() {
    for what in ALL {
        let grows = measured(&Of::Registrations, what, 10.0, 1e12);
        let is_time = matches!(what, What::P50 | What::P999);
        assert_eq!(breaches(&grows, false).is_empty(), is_time, "{what}");
        assert_eq!(breaches(&grows, true).len(), 1, "{what}");
    }
}

#[test]
fn a_mebibyte_a_second_is_noticed_within_a_minute() {
    let leaks = measured(&node(), What::Anonymous, 60.0 * MIB, 120.0 * MIB);
    let said = breaches(&leaks, false);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("grew: node a: memory of its own: from 8"), "{said:?}");
    assert!(said[0].contains(" MiB, ") && said[0].ends_with(" MiB at most"), "{said:?}");
}

#[test]
fn nothing_may_be_left_of_nodes() {
    assert_eq!(breaches(&measured(&Of::Store, What::Leftovers, 0.0, 0.0), false), Vec::<String>::new());
    assert_eq!(breaches(&measured(&Of::Store, What::Leftovers, 0.0, 2.0), false).len(), 1);
}

#[test]
fn of_young_nodes_there_may_be_few_and_of_others_not() {
    for (of, well) in [(Of::Young, true), (node(), false), (Of::Store, false)] {
        let mut measures = Measures::default();
        measures.add(of.clone(), What::Anonymous, Duration::from_secs(20), MIB);
        assert_eq!(breaches(&measures, true).is_empty(), well, "{of}");
    }
    assert_eq!(breaches(&measured(&Of::Young, What::Files, 10.0, 100.0), false).len(), 1);
}

#[test]
fn the_last_value_of_each_is_known() {
    let mut measures = measured(&node(), What::Files, 1.0, 61.0);
    measures.add(node(), What::Threads, Duration::ZERO, 7.0);
    assert_eq!(measures.last(&node(), What::Files), Some(61.0));
    assert_eq!(measures.last(&node(), What::Threads), Some(7.0));
    assert_eq!(measures.last(&Of::Young, What::Files), None);
}

#[test]
fn a_ratio_is_of_something() {
    let ratio = |first, last| measured(&node(), What::Files, first, last).judge(RUN, true)[0].ratio();
    assert_eq!(ratio(10.0, 10.0), Some(1.0));
    assert!(ratio(10.0, 20.0).is_some_and(|ratio| ratio > 1.0));
    assert_eq!(ratio(0.0, 0.0), None);
}

#[test]
fn values_have_their_units() {
    assert_eq!(What::Anonymous.shown(1.5 * MIB), "1.5 MiB");
    assert_eq!(What::Files.shown(12.0), "12");
    assert_eq!(What::P999.shown(12.345), "12.3 ms");
}
