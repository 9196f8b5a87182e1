//! What would be published, and what is promised of it. That it can be packaged is a step of CI.

use std::{fs, process::Command};

use serde_json::Value;

use crate::documented::workspace;

/// What users get. The rest of the workspace is for Callsign's own tests.
const FOR_USERS: [&str; 7] = [
    "callsign",
    "callsign-cli",
    "callsign-election",
    "callsign-elector",
    "callsign-macros",
    "callsign-store",
    "callsign-transport",
];

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = ["metadata", "--format-version", "1", "--locked", "--no-deps"];
    let output = Command::new(cargo).args(metadata).current_dir(workspace()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

#[test]
fn what_users_get_says_what_it_is_and_needs_nothing_that_they_do_not_get() {
    let mut seen = 0;
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        if !FOR_USERS.contains(&name) {
            assert_eq!(
                package["publish"],
                Value::Array(Vec::new()),
                "{name} is for tests, and would be published"
            );
            continue;
        }
        seen += 1;
        assert!(package["publish"].is_null(), "{name} would not be published");
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{name}");
        for text in ["description", "readme"] {
            assert!(package[text].is_string(), "{name} has no {text}");
        }
        // What crates.io takes.
        assert!((1..=5).contains(&count(&package["keywords"])), "{name} has {}", package["keywords"]);
        assert!((1..=5).contains(&count(&package["categories"])), "{name} has {}", package["categories"]);
        let folder = std::path::Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = fs::read_to_string(folder.join(licence)).unwrap();
            assert_eq!(text, fs::read_to_string(workspace().join(licence)).unwrap(), "{name}: {licence}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let of = dependency["name"].as_str().unwrap();
            // Without a version it is left out of what is published, which is right for what only tests need.
            if dependency["path"].is_string() && dependency["req"] == "*" {
                assert_eq!(
                    (dependency["kind"].as_str(), FOR_USERS.contains(&of)),
                    (Some("dev"), false),
                    "{name}: {of}"
                );
            }
        }
    }
    assert_eq!(seen, FOR_USERS.len());
}

/// The promise is what was tried. With another toolchain, raise `rust-version` of the workspace, and say so in the CHANGELOG.
#[test]
fn the_rust_version_that_is_promised_is_the_one_that_tests() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let used = said.split(' ').nth(1).unwrap();
    for package in packages() {
        let promised = package["rust_version"].as_str().unwrap();
        assert!(
            used.starts_with(&format!("{promised}.")),
            "{}: {promised}, and this is {used}",
            package["name"]
        );
    }
}

#[test]
fn the_changelog_has_the_form_of_keep_a_changelog() {
    let text = fs::read_to_string(workspace().join("CHANGELOG.md")).unwrap();
    let kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    let versions: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(versions[0], "[Unreleased]");
    for version in &versions[1..] {
        let (number, day) = version.split_once(" - ").unwrap();
        let is_day = day.len() == 10 && day.split('-').all(|part| part.parse::<u32>().is_ok());
        assert!(number.starts_with(|c: char| c == '[' || c.is_ascii_digit()) && is_day, "{version}");
    }
    for part in text.split("\n## ").skip(1) {
        let found: Vec<_> = part.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let in_order: Vec<_> = kinds.into_iter().filter(|kind| found.contains(kind)).collect();
        assert_eq!(found, in_order, "parts of a version are these, in this order, each once");
    }
}
