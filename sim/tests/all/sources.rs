//! What must hold of the sources, so that a seed means the same run tomorrow.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files of Rust below a folder.
fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The sources of all crates.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        let sources = entry.unwrap().path().join("src");
        if sources.is_dir() {
            files(&sources, &mut found);
        }
    }
    assert!(found.len() > 100, "the sources of all crates are more than {} files", found.len());
    found
}

#[test]
fn every_select_tries_its_branches_in_the_order_in_which_they_stand() {
    let (mut seen, mut random) = (0, Vec::new());
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (at, rest) in
            text.match_indices(concat!("select", "! {")).map(|(at, word)| (at, &text[at + word.len()..]))
        {
            seen += 1;
            if !rest.trim_start().starts_with("biased;") {
                random.push(format!("{}:{}", path.display(), text[..at].lines().count()));
            }
        }
    }
    assert!(seen >= 30, "only {seen} were found");
    assert!(random.is_empty(), "these draw which branch comes first: {random:#?}");
}

#[test]
fn whole_nodes_are_known_by_their_public_face_only() {
    let mut found = Vec::new();
    files(&root().join("sim/src/nodes"), &mut found);
    found.push(root().join("sim/src/nodes.rs"));
    assert!(found.len() >= 8);
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for word in ["Effect", "Input", "cores::", "::core::"] {
            assert!(
                !text.contains(word),
                "{} has {word:?}: it must not know what a core asks for",
                path.display()
            );
        }
    }
}
