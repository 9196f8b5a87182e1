//! What README and the pages of `docs/` tell people to type, and what `./test` says at its end.

use std::{path::Path, process::Command};

use callsign_golden::documented;
use serde_json::Value;

/// Pages for who judges or changes Callsign. Their sentences may be longer.
const NOT_FOR_USERS: [&str; 8] = [
    "benchmarks.md",
    "decisions.md",
    "figures.md",
    "glossary.md",
    "maintaining.md",
    "mutants.md",
    "proof.md",
    "status.md",
];

pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The values of an option, in each of its spellings.
fn values<'a>(words: &'a [String], spellings: &'a [&str]) -> impl Iterator<Item = &'a String> {
    let pairs = words.windows(2).filter(|pair| spellings.contains(&pair[0].as_str()));
    pairs.map(|pair| &pair[1])
}

/// The sentences of a page: of its paragraphs, list items and cells, without code.
fn sentences(page: &str) -> Vec<String> {
    let (mut blocks, mut block, mut is_code) = (Vec::new(), String::new(), false);
    for line in page.lines() {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        let numbered = text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let begins = is_fence || text.is_empty() || text.starts_with(['#', '|', '-', '*']) || numbered;
        if begins {
            blocks.push(std::mem::take(&mut block));
        }
        if text.starts_with('|') {
            blocks.extend(text.split('|').map(str::to_owned));
            continue;
        }
        let is_indented = line.starts_with("    ") && block.trim().is_empty();
        if !(is_code || is_fence || is_indented || text.starts_with('#')) {
            block = format!("{block} {text}");
        }
    }
    blocks.push(block);
    let mut sentences = Vec::new();
    for block in blocks {
        let mut sentence: Vec<&str> = Vec::new();
        for word in block.split_whitespace() {
            sentence.push(word);
            let is_number = word.trim_end_matches('.').parse::<u32>().is_ok() && sentence.len() == 1;
            if !is_number && word.trim_end_matches([')', '*', '"', '`']).ends_with(['.', '!', '?']) {
                sentences.push(std::mem::take(&mut sentence).join(" "));
            }
        }
        sentences.push(sentence.join(" "));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[test]
fn no_sentence_for_users_has_more_than_30_words() {
    let page = "# A\n\nOne two. Three\nfour (five).\n\n```\nno code\n```\n- six\n  seven\n1. eight\n\n    no code\n\n| nine | ten! |\n";
    let found = ["One two.", "Three four (five).", "- six seven", "1. eight", "nine", "ten!"];
    assert_eq!(sentences(page), found);

    let mut pages = crate::book::contents();
    pages.retain(|page| !NOT_FOR_USERS.contains(&page.as_str()));
    let mut pages: Vec<_> = pages.iter().map(|page| workspace().join("docs").join(page)).collect();
    assert!(pages.len() > 30, "{pages:?}");
    // The contents have the book's own first page; this one is met before the book.
    pages.push(workspace().join("README.md"));
    let mut seen = 0;
    for page in pages {
        for sentence in sentences(&std::fs::read_to_string(&page).unwrap()) {
            seen += 1;
            let words =
                sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            assert!(words <= 30, "{}: {words} words: {sentence}", page.display());
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn what_is_read_first_is_short() {
    for (page, most) in [("README.md", 8_000), ("ARCHITECTURE.md", 12_000)] {
        let bytes = std::fs::read(workspace().join(page)).unwrap().len();
        assert!(bytes <= most, "{page} has {bytes} bytes, and {most} are the most");
    }
}

#[test]
fn every_documented_cargo_command_names_packages_programs_and_features_that_there_are() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = ["metadata", "--format-version", "1", "--locked", "--no-deps"];
    let output = Command::new(cargo).args(metadata).current_dir(workspace()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let is_named = |of: &Value, name: &str| of["name"].as_str() == Some(name);
    let has_target = |kind: &str, name: &str| {
        let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
        targets.into_iter().any(|target| is_named(target, name) && target["kind"][0].as_str() == Some(kind))
    };
    // `FEATURE`, or `PACKAGE/FEATURE`.
    let has_feature = |named: &str| {
        let (package, feature) = named.split_once('/').map_or((None, named), |(of, name)| (Some(of), name));
        let mut those = packages.iter().filter(|of| package.is_none_or(|package| is_named(of, package)));
        those.any(|package| package["features"].get(feature).is_some())
    };

    let mut seen = 0;
    for command in documented(workspace()) {
        if command.words[0] != "cargo" || command.words[1] == "install" {
            continue;
        }
        let before: Vec<_> = command.words.iter().take_while(|word| *word != "--").cloned().collect();
        let at = format!("{}: {}", command.place, command.text());
        for package in values(&before, &["-p", "--package"]) {
            assert!(packages.iter().any(|of| is_named(of, package)), "there is no package {package}: {at}");
        }
        for (option, kind) in [("--bin", "bin"), ("--example", "example"), ("--test", "test")] {
            for target in values(&before, &[option]) {
                assert!(has_target(kind, target), "there is no {kind} {target}: {at}");
            }
        }
        for feature in values(&before, &["--features"]).flat_map(|features| features.split(',')) {
            assert!(has_feature(feature), "there is no feature {feature}: {at}");
        }
        seen += 1;
    }
    assert!(seen >= 10, "README and docs tell of more commands than {seen}");
}

#[test]
fn a_long_command_says_how_ci_shortens_it() {
    for command in documented(workspace()) {
        if command.remark.contains("(long") {
            assert!(command.shortened().is_some(), "{}: {}", command.place, command.remark);
        }
    }
}

#[test]
fn the_test_command_ends_with_what_was_skipped_and_why() {
    let directory = tempfile::tempdir().unwrap();
    let said = |text: &str| {
        let file = directory.path().join("junit.xml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(workspace().join("test")).arg("--skipped").arg(file).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let two = "<system-out>\nskipped: no initdb\n</system-out>\n<system-out>skipped: no initdb\nskipped: not root\n";
    let all = said(two);
    assert!(all.contains("2 no initdb\n") && all.contains("1 not root\n"), "{all}");
    assert_eq!(said("<system-out>all went well</system-out>").trim(), "No test was skipped.");
}
