//! Bytes that readers must survive: what fuzzing has found worth keeping.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::files::Golden;

fn directory(target: &str) -> PathBuf {
    // Beside this crate.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// Gives every file of a target's corpus to its reader, and says how many there were.
///
/// # Panics
/// If the reader does, or if the target has no corpus.
pub fn corpus(target: &str, reader: impl Fn(&[u8])) -> usize {
    let directory = directory(target);
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        // So that a panic says by which file.
        println!("{}", path.display());
        reader(&fs::read(path).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", directory.display());
    count
}

/// With `CALLSIGN_GOLDEN=add`: adds bytes that are as they should be to a target's corpus, for fuzzing to begin with.
pub fn seed(target: &str, name: &str, bytes: &[u8]) {
    if std::env::var_os("CALLSIGN_GOLDEN").is_some_and(|mode| mode == "add") {
        let directory = directory(target);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name.replace(['/', ' '], "-")), bytes).unwrap();
    }
}

/// As [`seed`], with all records of a store, each as a piece: a byte that says what it is, two bytes of length, the record. And
/// with many of them in one file. `numbers` says what a record is, by its name; in the file of many it may be more than one thing.
pub fn seed_pieces(golden: &Golden, target: &str, whole: &str, numbers: impl Fn(&str) -> Vec<u8>) {
    let piece = |number: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("a record of a test is short");
        [&[number][..], &length.to_be_bytes(), bytes].concat()
    };
    let mut many = Vec::new();
    for (name, bytes) in golden.written() {
        let Some(kind) = name.strip_prefix("record/") else { continue };
        let numbers = numbers(kind);
        let Some(first) = numbers.first() else { continue };
        seed(target, name, &piece(*first, bytes));
        if many.len() < 900 {
            many.extend(numbers.iter().flat_map(|number| piece(*number, bytes)));
        }
    }
    seed(target, whole, &many);
}
