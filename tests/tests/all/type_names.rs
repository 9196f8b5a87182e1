//! In a crate, a type name means one thing. Only `Input`, `Effect` and `Event` may repeat, because each core has its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::documented::workspace;

const CRATES: [&str; 8] = ["store", "elector", "election", "transport", "registry", "cli", "sim", "tests"];

/// What may repeat, and in which crate. Empty: in all.
const MAY_REPEAT: [(&str, &str); 4] = [("", "Input"), ("", "Effect"), ("", "Event"), ("cli", "Args")];

/// The type that a line begins to define. An associated type is none: it is indented, as a field is.
fn defined(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(public) if public.starts_with('(') => public.split_once(')')?.1.trim_start(),
        Some(public) if public.starts_with(' ') => public.trim_start(),
        _ => code,
    };
    let (kind, rest) = code.split_once(' ')?;
    let is_alias = kind == "type" && line.len() == line.trim_start().len();
    if !is_alias && !["struct", "enum", "union", "trait"].contains(&kind) {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    rest.get(..end).filter(|name| name.starts_with(char::is_uppercase))
}

/// The names that the files below a folder define, and where. Files of tests count not, and neither does what stands in for a
/// feature that is absent. A file that defines a name twice does it for two features, or for two tests.
fn names(folder: &Path, names: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["tests", "absent"].contains(&name) {
                self::names(&path, names);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            for defined in fs::read_to_string(&path).unwrap().lines().filter_map(defined) {
                names.entry(defined.to_owned()).or_default().insert(path.display().to_string());
            }
        }
    }
}

#[test]
fn a_type_name_means_one_thing_in_its_crate() {
    let (mut repeated, mut count) = (Vec::new(), 0);
    for crate_name in CRATES {
        let mut of_crate = BTreeMap::new();
        names(&workspace().join(crate_name).join("src"), &mut of_crate);
        count += of_crate.len();
        let may_repeat =
            |name: &str| MAY_REPEAT.iter().any(|(of, may)| *may == name && [crate_name, ""].contains(of));
        for (name, files) in of_crate {
            if files.len() > 1 && !may_repeat(&name) {
                repeated.push(format!("{name} of {crate_name}: {files:?}"));
            }
        }
    }
    assert!(count > 1500, "{count} names were found");
    assert!(repeated.is_empty(), "say what each of them is of:\n{}", repeated.join("\n"));
}

#[test]
fn definitions_are_told_from_other_lines() {
    for (line, name) in [
        ("struct Waiting {", "Waiting"),
        ("    pub(super) enum Stage<T> {", "Stage"),
        ("pub(in crate::core) trait Table: Sized {", "Table"),
        ("pub type At = (Position, u64);", "At"),
        ("pub struct Unit;", "Unit"),
    ] {
        assert_eq!(defined(line), Some(name));
    }
    for line in [
        "    type Error = Never;",
        "// struct Waiting",
        "use x::struct_of;",
        "let type_of = 1;",
        "public struct X",
        "",
    ] {
        assert_eq!(defined(line), None, "{line:?}");
    }
}
