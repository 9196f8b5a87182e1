//! `docs/errors.md` has every error that a user can meet, with an example of what it says.

mod samples;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Errors of cores, adapters and tools, which reach nobody as a value.
const NOT_MET: &[&str] = &[
    "Abort",          // what a role says, and no caller gets
    "BadMessage",     // a message of a peer: it is logged
    "CorruptBatch",   // a record of the log: it is logged
    "Dropped",        // an entry of the membership queue: it is logged
    "HeaderFault",    // a frame of a peer: it ends the link
    "NodeFailure",    // what is inside of each `Failed`
    "NotSpawned",     // what is inside of `AcquireError::NotStarted`
    "NotKept",        // a version of the store in memory
    "OutOfBounds",    // what is inside of `ConfigureError::OutOfBounds`
    "PoolFailed",     // a replica of a pool of leases
    "RecordingError", // what `callsign-sim check-recordings` says
    "Unclear",        // what a follower says to a task
];

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The text of an `#[error("...")]`; `None` if it is its source's.
fn text_of(attribute: &str) -> Option<String> {
    let (_, rest) = attribute.split_once('"')?;
    let (mut text, mut characters) = (String::new(), rest.chars());
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                // The line goes on.
                '\n' => characters = characters.as_str().trim_start().chars(),
                escaped => text.push(escaped),
            },
            character => text.push(character),
        }
    }
}

/// What an error says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    /// Its text. `None`: that of another error, which it passes on.
    format: Option<String>,
    /// Whether it has a source, which is said behind it.
    has_source: bool,
}

/// All errors in a source, by the names that the page has for them.
fn errors(source: &str) -> BTreeMap<String, Said> {
    let mut found = BTreeMap::<_, Said>::new();
    let mut last = String::new();
    let (mut is_error, mut of, mut attribute) = (false, None::<String>, String::new());
    let mut in_attribute = false;
    for line in source.lines() {
        let text = line.trim_start();
        if text.starts_with("#[error(") {
            attribute.clear();
            in_attribute = true;
        }
        if in_attribute {
            attribute.push_str(text);
            attribute.push('\n');
            in_attribute = !text.ends_with(")]");
            continue;
        }
        if line.starts_with("#[derive(") {
            is_error = line.contains("thiserror::Error");
        } else if line.contains("thiserror::Error") {
            is_error = true;
        }
        let declared = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
        if let Some(declared) = declared {
            let name: String = declared.chars().take_while(|c| c.is_alphanumeric()).collect();
            if is_error && line.starts_with("pub struct ") {
                found.insert(name, Said { format: text_of(&attribute), has_source: false });
            } else {
                of = is_error.then_some(name);
            }
            is_error = false;
        } else if line == "}" {
            of = None;
        } else if let Some(of) = &of
            && line.starts_with("    ")
            && text.len() + 4 == line.len()
            && text.starts_with(char::is_uppercase)
        {
            let variant: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
            last = format!("{of}::{variant}");
            found.insert(last.clone(), Said { format: text_of(&attribute), has_source: false });
            attribute.clear();
        }
        let names_source = ["#[source]", "#[from]"].iter().any(|what| text.contains(what));
        if of.is_some()
            && (names_source || text.starts_with("source: "))
            && let Some(said) = found.get_mut(&last)
        {
            said.has_source = said.format.is_some();
        }
    }
    found
}

/// Whether a text is what an error says, whatever stands for its arguments and for what its source says.
fn is_example(example: &str, format: &str, has_source: bool) -> bool {
    if !has_source {
        return is_formatted(example, format);
    }
    let ends = example.match_indices(": ").map(|(at, _)| &example[..at]);
    ends.into_iter().any(|before| is_formatted(before, format))
}

/// Whether a text is what a format gives, whatever stands for its arguments.
fn is_formatted(example: &str, format: &str) -> bool {
    let mut rest = example;
    let mut pieces = Vec::new();
    let mut left = format;
    while let Some((before, behind)) = left.split_once('{') {
        pieces.push(before);
        left = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    if pieces.is_empty() {
        return example == left;
    }
    let Some(behind) = rest.strip_prefix(pieces[0]) else { return false };
    rest = behind;
    for piece in &pieces[1..] {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(left)
}

#[test]
fn an_example_is_what_its_format_gives() {
    assert!(is_formatted("a b c", "a b c") && !is_formatted("a b", "a b c"));
    assert!(
        is_formatted("x has 5s left", "{name:?} has {left:?} left")
            && is_formatted("at 4, after 5s", "at {}, after {waited:?}")
    );
    assert!(
        !is_formatted("x had 5s left", "{name} has {left:?} left")
            && !is_formatted("x has 5s", "{name} has {left} left")
    );
    assert!(is_example("a b: c", "a b", true) && is_example("a: b: c", "a: b", true));
    assert!(!is_example("a b", "a b", true) && !is_example("a b: c", "a b", false));
    let source = "#[derive(Debug, thiserror::Error)]\n#[non_exhaustive]\npub enum E {\n    /// A.\n    #[error(\"a \\\"b\\\" \\\n     c\")]\n    A,\n    #[error(transparent)]\n    B(#[from] F),\n    #[error(\"c\")]\n    C(#[source] F),\n    #[error(\"d\")]\n    D {\n        source: F,\n    },\n}\n\n#[derive(Debug)]\npub enum G {\n    A,\n}\n";
    let said = |format: Option<&str>, has_source| Said { format: format.map(str::to_owned), has_source };
    let expected = [
        ("E::A", said(Some("a \"b\" c"), false)),
        ("E::B", said(None, false)),
        ("E::C", said(Some("c"), true)),
        ("E::D", said(Some("d"), true)),
    ];
    assert_eq!(errors(source), expected.map(|(name, said)| (name.to_owned(), said)).into());
}

#[test]
fn the_page_of_errors_has_every_error_with_an_example() {
    let examples = examples();
    let mut seen = 0;
    for (place, found) in all_errors() {
        for (name, Said { format, has_source }) in found {
            seen += 1;
            let given = examples.get(&name).unwrap_or_else(|| panic!("{place}: {name} is not on the page"));
            let Some(format) = format else { continue };
            assert!(
                given.iter().any(|example| is_example(example, &format, has_source)),
                "{place}: {name} says {format:?} (and its source: {has_source}), not {given:?}"
            );
        }
    }
    assert!(seen > 250, "{seen}");
    let rows: usize = examples.values().map(BTreeSet::len).sum();
    assert!(rows <= seen, "the page has {rows} rows for {seen} errors");
}

/// The examples on the page, by the names of the errors.
fn examples() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(workspace().join("docs/errors.md")).unwrap();
    let mut examples: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let line = line.replace("\\|", "\u{1}");
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let name = cells[1].trim_matches('`').to_owned();
        assert!(!cells[3].is_empty(), "{name} has no meaning");
        examples.entry(name).or_default().insert(cells[2].clone());
    }
    examples
}

/// All errors that a user can meet, by the files that have them.
fn all_errors() -> Vec<(String, BTreeMap<String, Said>)> {
    let mut files = Vec::new();
    for package in ["store", "elector", "election", "transport", "registry"] {
        sources(&workspace().join(package).join("src"), &mut files);
    }
    let read = |file: &PathBuf| {
        let mut found = errors(&fs::read_to_string(file).unwrap());
        found.retain(|name, _| !NOT_MET.contains(&name.split("::").next().unwrap()));
        (file.display().to_string(), found)
    };
    files.iter().map(read).collect()
}
