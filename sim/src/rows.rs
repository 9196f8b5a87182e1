//! The requirements of elections, and the tests that show them.
//!
//! Callsign learned from five systems what an election must do: a row each, `A1` to `J18`. A test shows a row if the
//! name of its function begins with it: `d5_...`, or `f5_f12_...` for two. The tests are those that the test runner lists, so
//! that a function which is no test shows nothing.

use std::collections::BTreeMap;

mod table;

/// One requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// `D5`.
    pub id: &'static str,
    /// In a few words.
    pub what: &'static str,
    /// Letters of the systems that have it, or claim it: see [`SYSTEMS`].
    pub systems: &'static str,
}

/// The systems that Callsign learned from.
pub const SYSTEMS: [(char, &str); 5] = [
    ('D', "dgen's registry elector"),
    ('F', "foundationdb-rs' leader election"),
    ('R', "River's leadership"),
    ('C', "Crown"),
    ('T', "Ditto's election pattern"),
];

/// All requirements.
pub fn rows() -> &'static [Row] {
    table::ROWS
}

/// A test that shows a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShowingTest {
    /// The test binary, as the test runner names it. Empty where the runner does not say it.
    pub binary: String,
    /// The test, with the modules that it is in.
    pub test: String,
}

/// The test runner's list cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("this is not what `cargo nextest list --message-format json` prints: {0}")]
pub struct NotAList(#[from] serde_json::Error);

/// What `cargo nextest list --message-format json` printed: every test that runs unless it is asked not to.
pub fn listed_by_nextest(json: &str) -> Result<Vec<ShowingTest>, NotAList> {
    #[derive(serde::Deserialize)]
    struct List {
        #[serde(rename = "rust-suites")]
        suites: BTreeMap<String, Suite>,
    }
    #[derive(serde::Deserialize)]
    struct Suite {
        testcases: BTreeMap<String, Case>,
    }
    #[derive(serde::Deserialize)]
    struct Case {
        ignored: bool,
    }
    let list: List = serde_json::from_str(json)?;
    let mut tests = Vec::new();
    for (binary, suite) in list.suites {
        let run = suite.testcases.into_iter().filter(|(_, case)| !case.ignored);
        tests.extend(run.map(|(test, _)| ShowingTest { binary: binary.clone(), test }));
    }
    Ok(tests)
}

/// What `cargo test -- --list --format terse` printed. Ignored tests are in it, too.
pub fn listed_by_cargo(text: &str) -> Vec<ShowingTest> {
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.map(|test| ShowingTest { binary: String::new(), test: test.to_owned() }).collect()
}

/// Which of these tests show which row. A row that does not exist is a mistake in the name of a test.
pub fn shown(tests: Vec<ShowingTest>) -> BTreeMap<String, Vec<ShowingTest>> {
    let mut found = BTreeMap::<String, Vec<ShowingTest>>::new();
    for test in tests {
        let function = test.test.rsplit("::").next().unwrap_or_default();
        // Only what comes before the words: `f5_f12_an_entry_...`.
        let ids: Vec<_> = function.split('_').map_while(row_id).collect();
        for id in ids {
            found.entry(id).or_default().push(test.clone());
        }
    }
    for shown in found.values_mut() {
        shown.sort();
    }
    found
}

fn row_id(part: &str) -> Option<String> {
    let (letter, number) = (part.chars().next()?, part.get(1..)?);
    let is_row =
        ('a'..='j').contains(&letter) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_row.then(|| part.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_the_names_of_tests_that_run() {
        let case =
            |ignored| serde_json::json!({ "ignored": ignored, "filter-match": { "status": "matches" } });
        let json = serde_json::json!({
            "test-count": 5,
            "rust-suites": {
                "callsign::all": {
                    "package-name": "callsign",
                    "testcases": {
                        "deep::f5_f12_two_rows": case(false),
                        "d10_one": case(false),
                        "e1_not_run": case(true),
                        "inv1_an_invariant": case(false),
                        "c1::a_module_that_is_named_like_a_row": case(false),
                    },
                },
            },
        });
        let tests = listed_by_nextest(&json.to_string()).unwrap();
        assert_eq!(shown(tests).into_keys().collect::<Vec<_>>(), ["D10", "F12", "F5"]);
        assert!(listed_by_nextest("warning: something else").is_err());

        // The function `e1_...` is there, and it is no test: the runner does not list it.
        let terse =
            "deep::f5_f12_two_rows: test\nd10_one: test\na benchmark: benchmark\n\n3 tests, 0 benchmarks\n";
        assert_eq!(shown(listed_by_cargo(terse)).into_keys().collect::<Vec<_>>(), ["D10", "F12", "F5"]);
    }

    #[test]
    fn no_row_is_there_twice_and_every_system_has_its_own() {
        let ids: std::collections::BTreeSet<_> = rows().iter().map(|row| row.id).collect();
        assert_eq!((ids.len(), rows().len()), (134, 134));
        let of = |system| rows().iter().filter(|row| row.systems.contains(system)).count();
        assert_eq!(SYSTEMS.map(|(letter, _)| of(letter)), [49, 44, 43, 45, 25]);
    }
}
