//! The table: what each script is expected to cost. Of each script, a line with its name, and then a line for each thing that is counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::counts::Tally;

/// What each script costs, by its name.
pub(crate) type Costs = BTreeMap<String, Tally>;

/// How far allocations may be from what the table says, in a thousandth: a table of hashes with seeds of the process grows a little
/// sooner or later, and so does another version of the compiler's library. All else has to be exact.
const TOLERANCE: u64 = 20;

/// How the table begins.
const HEAD: &str = "\
# What fixed scripts cost a cluster of three nodes, of which `a` leads: `sim/tests/counts/scripts.rs` has them.
# All is exact, but allocations: they may differ by 2 %. What a script does not do at all has no line.
# CALLSIGN_COUNTS=renew cargo test -p callsign-sim --test counts
";

/// The table as it is in its file.
pub(crate) fn written(costs: &Costs) -> String {
    let mut text = HEAD.to_owned();
    for (script, tally) in costs {
        write!(text, "\n{script}\n").unwrap();
        for (what, count) in tally.iter().filter(|(_, count)| **count > 0) {
            writeln!(text, "{count:>12}  {what}").unwrap();
        }
    }
    text
}

/// Reads what [`written`] writes.
pub(crate) fn read(text: &str) -> Costs {
    let mut costs = Costs::new();
    let mut script = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix(' ') {
            let (count, what) =
                line.trim().split_once("  ").unwrap_or_else(|| panic!("{line:?} has no count"));
            let count = count.parse().unwrap_or_else(|_| panic!("{count:?} is no count, of {what}"));
            costs.get_mut(&script).expect("a script comes first").insert(what.to_owned(), count);
        } else {
            line.clone_into(&mut script);
            let before = costs.insert(script.clone(), Tally::new());
            assert!(before.is_none(), "{script:?} is there twice");
        }
    }
    costs
}

/// What is found to be otherwise than expected, as a table: none, if nothing is.
pub(crate) fn differences(expected: &Costs, found: &Costs) -> Option<String> {
    let scripts: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let mut text = String::new();
    for script in scripts {
        let none = Tally::new();
        let (expected, found) = (expected.get(script).unwrap_or(&none), found.get(script).unwrap_or(&none));
        let whats: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        let mut lines = String::new();
        for what in whats {
            let of = |tally: &Tally| tally.get(what).copied().unwrap_or(0);
            let (expected, found) = (of(expected), of(found));
            if !is_alike(what, expected, found) {
                writeln!(lines, "{expected:>12}{found:>12}  {what}").unwrap();
            }
        }
        if !lines.is_empty() {
            write!(text, "\n{script}\n{:>12}{:>12}\n{lines}", "expected", "found").unwrap();
        }
    }
    let how = "Is that meant? `CALLSIGN_COUNTS=renew cargo test -p callsign-sim --test counts` writes the table anew.";
    (!text.is_empty()).then(|| format!("sim/tests/counts/table.txt says otherwise:\n{text}\n{how}"))
}

fn is_alike(what: &str, expected: u64, found: u64) -> bool {
    let tolerance = if what.starts_with("allocations") { expected * TOLERANCE / 1000 } else { 0 };
    found.abs_diff(expected) <= tolerance
}

fn costs(script: &str, tally: &[(&str, u64)]) -> Costs {
    let tally = tally.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
    Costs::from([(script.to_owned(), tally)])
}

#[test]
fn what_is_written_is_read_but_for_what_is_not_done() {
    let mut all =
        costs("one", &[("store: reads by a", 12), ("messages: requests", 0), ("allocations", 1_234_567)]);
    all.extend(costs("two, later", &[("links: writes", 1)]));
    let text = written(&all);
    assert!(text.starts_with(HEAD) && text.contains("\n          12  store: reads by a\n"), "{text}");
    all.get_mut("one").unwrap().remove("messages: requests");
    assert_eq!(read(&text), all);
}

#[test]
fn one_more_or_one_less_of_anything_differs_and_is_shown_beside_what_was_expected() {
    let expected = costs("it", &[("store: reads by b", 100), ("links: writes", 5)]);
    assert_eq!(differences(&expected, &expected), None);
    for (found, line) in [
        (
            costs("it", &[("store: reads by b", 101), ("links: writes", 5)]),
            "         100         101  store: reads by b",
        ),
        (
            costs("it", &[("store: reads by b", 99), ("links: writes", 5)]),
            "         100          99  store: reads by b",
        ),
        (costs("it", &[("store: reads by b", 100)]), "           5           0  links: writes"),
        (
            costs("it", &[("store: reads by b", 100), ("links: writes", 5), ("messages: take", 1)]),
            "           0           1  messages: take",
        ),
    ] {
        let said = differences(&expected, &found).unwrap();
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("   ")).collect();
        assert_eq!(lines, ["    expected       found", line]);
        assert!(said.contains("\nit\n") && said.contains("CALLSIGN_COUNTS=renew"), "{said}");
    }
}

#[test]
fn a_script_that_the_table_has_not_differs_and_so_does_one_that_is_gone() {
    let (some, none) = (costs("it", &[("links: writes", 5)]), Costs::new());
    assert!(differences(&some, &none).unwrap().contains("           5           0  links: writes"));
    assert!(differences(&none, &some).unwrap().contains("           0           5  links: writes"));
}

#[test]
fn allocations_may_be_two_percent_more_or_less() {
    let of = |count| costs("it", &[("allocations", count), ("allocations: bytes", 50 * count)]);
    for (found, is_alike) in [(9_799, false), (9_800, true), (10_200, true), (10_201, false)] {
        assert_eq!(differences(&of(10_000), &of(found)).is_none(), is_alike, "{found}");
    }
}
