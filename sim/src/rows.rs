//! The requirements of elections, and the tests that show them.
//!
//! Callsign learned from five systems what an election must do: a row each, `A1` to `J18`. A test shows a row if the
//! name of its function begins with it: `d5_...`, or `f5_f12_...` for two. Here they are brought together.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

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

/// A function that shows a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// The file, from the workspace.
    pub file: PathBuf,
    /// Its name.
    pub function: String,
}

/// Which functions below a directory show which row. Also of rows that there are not: those are mistakes.
pub fn shown(workspace: &Path) -> io::Result<BTreeMap<String, Vec<Shown>>> {
    let mut found = BTreeMap::<String, Vec<Shown>>::new();
    let mut open = vec![workspace.to_owned()];
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(place)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(workspace).unwrap_or(&path).to_owned();
                for (row, function) in named(&fs::read_to_string(&path)?) {
                    found.entry(row).or_default().push(Shown { file: file.clone(), function });
                }
            }
        }
    }
    for shown in found.values_mut() {
        shown.sort();
    }
    Ok(found)
}

/// The rows that functions of a source text are named after.
fn named(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = line
            .strip_prefix("pub ")
            .or(line.strip_prefix("pub(super) "))
            .or(line.strip_prefix("pub(crate) "))
            .unwrap_or(line);
        let Some(rest) = line.strip_prefix("async fn ").or(line.strip_prefix("fn ")) else { continue };
        let function: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        // Only what comes before the words: `f5_f12_an_entry_...`.
        for part in function.split('_').map_while(row_id) {
            found.push((part, function.clone()));
        }
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
    fn rows_are_read_from_the_names_of_functions() {
        let text = "    fn f5_f12_two_rows() {}\n async fn d10_one<B: Backend>(b: B) {\n// fn c1_no\nfn a_word() {}\nfn k1_no() {}";
        let ids: Vec<_> = named(text).into_iter().map(|(row, _)| row).collect();
        assert_eq!(ids, ["F5", "F12", "D10"]);
    }

    #[test]
    fn no_row_is_there_twice_and_every_system_has_its_own() {
        let ids: std::collections::BTreeSet<_> = rows().iter().map(|row| row.id).collect();
        assert_eq!((ids.len(), rows().len()), (134, 134));
        let of = |system| rows().iter().filter(|row| row.systems.contains(system)).count();
        assert_eq!(SYSTEMS.map(|(letter, _)| of(letter)), [49, 44, 43, 45, 25]);
    }
}
