//! Defects that are planted in the cores, one at a time, to show that the simulator finds them.
//!
//! A defect is a `planted!` at the place in a core at which somebody might get it wrong. Only the feature `planted`
//! compiles them in.

mod table;

pub use self::table::{FOUND_TOO, MASKED, MUTANTS};

/// The scenario in which a defect is looked for, unless it needs another one.
pub const STANDARD: &str = "standard";

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// What it is planted by.
    pub name: &'static str,
    /// The source files that it is in, separated by `, `, from the root of the workspace.
    pub file: &'static str,
    /// What a careless engineer would do.
    pub what: &'static str,
    /// Where it comes from.
    pub hazard: &'static str,
    /// The scenario that finds it, or the pinned trace that does, as `traces/NAME`.
    pub scenario: &'static str,
    /// How many seeds it may take.
    pub within: u64,
}

/// A planted defect that no check can see: another rule of the protocol makes up for it. Nobody looks for it; it is listed
/// so that whoever takes that other rule away knows what it was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// What it is planted by.
    pub name: &'static str,
    /// The source files that it is in.
    pub file: &'static str,
    /// What a careless engineer would do.
    pub what: &'static str,
    /// What makes up for it.
    pub by: &'static str,
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
    };

    use super::{FOUND_TOO, MASKED, MUTANTS, Mutant};

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// The planted names, each with the files that it is in.
    fn planted() -> BTreeMap<String, BTreeSet<String>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        for part in ["store", "elector", "election", "transport", "registry"] {
            sources(&root.join(part).join("src"), &mut files);
        }
        let mut planted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // All but the macro itself.
        for path in files.into_iter().filter(|path| !path.ends_with("store/src/planted.rs")) {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            for rest in text.split("planted!(").skip(1) {
                let name = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
                let (name, _) = name.unwrap_or_else(|| panic!("{file}: planted! without a name"));
                planted.entry(name.to_owned()).or_default().insert(file.clone());
            }
        }
        planted
    }

    #[test]
    fn the_table_has_what_is_planted_where_it_is_planted() {
        let listed: BTreeMap<String, BTreeSet<String>> = MUTANTS
            .iter()
            .map(|mutant| (mutant.name, mutant.file))
            .chain(MASKED.iter().map(|masked| (masked.name, masked.file)))
            .map(|(name, file)| (name.to_owned(), file.split(", ").map(str::to_owned).collect()))
            .collect();
        assert_eq!(listed, planted());
    }

    #[test]
    fn names_are_told_apart() {
        let names: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), MUTANTS.len(), "a name is listed twice");
        let kebab = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(names.iter().all(|name| kebab(name)), "a name is not in kebab case");
    }

    #[test]
    fn what_is_found_elsewhere_too_is_in_the_table() {
        for (name, scenario, _) in FOUND_TOO {
            let is_it = |mutant: &&Mutant| mutant.name == *name && mutant.scenario != *scenario;
            assert!(MUTANTS.iter().any(|mutant| is_it(&mutant)), "{name}");
        }
    }

    #[test]
    fn rows_say_what_they_have_to() {
        for mutant in MUTANTS.iter() {
            assert!(mutant.what.ends_with('.') && !mutant.hazard.is_empty(), "{}", mutant.name);
            assert!(mutant.within > 0 && !mutant.scenario.is_empty(), "{}", mutant.name);
        }
    }
}
