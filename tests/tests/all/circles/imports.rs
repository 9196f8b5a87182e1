//! What the files of a crate import of each other. A text is read here, and no Rust: `use`, and paths that begin with a
//! module or an import. What only tests have does not count. What a module passes on counts to the file that has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// From each file, named by its module, to those that it imports.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;
type Names = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct Source {
    /// What it imports, and under which name. `*`: all that is there.
    uses: Vec<(Names, String)>,
    items: BTreeSet<String>,
    macros: BTreeSet<String>,
    /// The other paths in it.
    paths: Vec<Names>,
}

/// What is read of a crate.
#[derive(Default)]
pub(super) struct Crate {
    files: BTreeMap<String, Source>,
    /// Those of files, and those that they are in.
    modules: BTreeSet<String>,
}

fn child(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}/{name}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A text without comments, and without what only tests have.
fn shipped(text: &str) -> Names {
    let (mut lines, mut skipped) = (Vec::new(), None);
    for line in text.lines() {
        let line = line.split_once(" //").map_or(line, |(code, _)| code).trim_end();
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        match skipped {
            None if code == "#[cfg(test)]" => skipped = Some(indent),
            None => lines.push(line.to_owned()),
            Some(at) if at == indent && code.ends_with([';', '}', ',']) && !code.starts_with("#[") => {
                skipped = None;
            }
            Some(_) => {}
        }
    }
    lines
}

fn without_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else { return code };
    let of = rest.strip_prefix('(').and_then(|of| of.split_once(')'));
    of.map_or(rest, |(_, rest)| rest).strip_prefix(' ').unwrap_or(code)
}

fn segments(path: &str) -> Names {
    path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Each import of a tree.
fn expand(tree: &str, before: &[String], uses: &mut Vec<(Names, String)>) {
    if tree.is_empty() {
        return;
    }
    let Some((head, within)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
        let mut path = [before, &segments(path)].concat();
        path.pop_if(|last| *last == "self");
        let Some(last) = path.last().cloned() else { return };
        uses.push((path, name.map_or(last, |name| name.trim().to_owned())));
        return;
    };
    let (before, mut depth, mut from) = ([before, &segments(head)].concat(), 0, 0);
    for (at, character) in within.char_indices() {
        let ends = matches!(character, ',' | '}') && depth == 0;
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if ends {
            expand(within[from..at].trim(), &before, uses);
            from = at + 1;
        }
    }
}

/// What a line at the begin of a file's lines defines, and whether that is a macro.
fn item(line: &str) -> Option<(String, bool)> {
    const KINDS: [&str; 10] =
        ["struct", "enum", "fn", "trait", "type", "const", "static", "union", "macro_rules!", "mod"];
    let words: Vec<_> = without_visibility(line).split(' ').collect();
    let named = words.windows(2).find(|pair| KINDS.contains(&pair[0]) && !KINDS.contains(&pair[1]))?;
    let name = named[1].split(|character: char| !is_of_name(character)).next()?;
    Some((name.to_owned(), named[0] == "macro_rules!"))
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

impl Source {
    fn of(text: &str) -> Self {
        let (mut source, mut lines) = (Self::default(), shipped(text).into_iter());
        while let Some(line) = lines.next() {
            let code = line.trim_start();
            if let Some(tree) = without_visibility(code).strip_prefix("use ") {
                let mut tree = tree.to_owned();
                while !tree.ends_with(';') {
                    tree.push_str(lines.next().unwrap().trim());
                }
                // What a module within the file passes on is not the file's.
                let is_of_the_file = !(line.starts_with(' ') && code.starts_with("pub"));
                if is_of_the_file {
                    expand(tree.trim_end_matches(';'), &[], &mut source.uses);
                }
                continue;
            }
            if let Some((name, is_macro)) = item(&line).filter(|_| !line.starts_with(' ')) {
                source.macros.extend(is_macro.then(|| name.clone()));
                source.items.insert(name);
            }
            let is_of_path = |character: char| is_of_name(character) || matches!(character, ':' | '$');
            for path in line.split(|character: char| !is_of_path(character)) {
                let names = segments(path.trim_end_matches(':'));
                if path.starts_with(is_of_name) && names.len() > 1 {
                    source.paths.push(names);
                }
            }
        }
        source
    }
}

impl Crate {
    /// `path`: below `src`.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        let is_of_tests =
            path.split('/').any(|part| ["tests", "tests.rs"].contains(&part)) || path.ends_with("_tests.rs");
        let is_other = path.starts_with("bin/") || path == "main.rs";
        let Some(module) = path.strip_suffix(".rs").filter(|_| !is_of_tests && !is_other) else { return };
        let module = if module == "lib" { "" } else { module };
        let mut above = module;
        while self.modules.insert(above.to_owned()) {
            above = parent(above);
        }
        self.files.insert(module.to_owned(), Source::of(text));
    }

    /// All files below a folder of `source`.
    pub(super) fn read(&mut self, source: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read(source, &path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                self.add(path.strip_prefix(source).unwrap().to_str().unwrap(), &text);
            }
        }
    }

    /// The module that defines what a path in a module names, and whether it names the module itself. `None`: it is of
    /// another crate.
    fn find(&self, at: &str, path: &[String], depth: usize) -> Option<(String, bool)> {
        let (mut here, mut path) = (at.to_owned(), path);
        let first = path.first().filter(|_| depth < 20)?;
        let is_imported = || self.files[at].uses.iter().any(|(_, name)| name == first);
        if first == "crate" {
            (here, path) = (String::new(), &path[1..]);
        } else if !["self", "super"].contains(&first.as_str()) {
            (is_imported() || self.modules.contains(&child(at, first))).then_some(())?;
        }
        while let Some(first) = path.first().filter(|first| ["self", "super"].contains(&first.as_str())) {
            here = if first == "super" { parent(&here).to_owned() } else { here };
            path = &path[1..];
        }
        for (nth, name) in path.iter().enumerate() {
            if self.modules.contains(&child(&here, name)) {
                here = child(&here, name);
                continue;
            }
            let exports = |(_, file): &(&String, &Source)| here.is_empty() && file.macros.contains(name);
            if let Some((of, _)) = self.files.iter().find(exports) {
                return Some((of.clone(), false));
            }
            let Some(file) = self.files.get(&here).filter(|_| name != "*") else {
                return Some((here, false));
            };
            let is_defined = file.items.contains(name) && nth + 1 == path.len();
            let import = file.uses.iter().find(|(_, of)| of == name).filter(|_| !is_defined);
            match import.map(|(to, _)| self.find(&here, to, depth + 1)) {
                Some(Some((module, true))) => here = module,
                Some(Some(found)) => return Some(found),
                // Another crate's, and passed on here. What the root passes on is as good as the other crate's.
                Some(None) => return (!here.is_empty()).then_some((here, false)),
                None => {
                    let globs = file.uses.iter().filter(|(_, of)| of == "*" && !file.items.contains(name));
                    let mut found = globs.filter_map(|(to, _)| {
                        let to = [&to[..to.len() - 1], std::slice::from_ref(name)].concat();
                        self.find(&here, &to, depth + 1)
                    });
                    let defines = |of: &str| self.files.get(of).is_some_and(|file| file.items.contains(name));
                    let found = found.find(|(module, is_module)| !is_module && defines(module));
                    return found.or(Some((here, false)));
                }
            }
        }
        Some((here, true))
    }

    /// Which file imports what of which others. An import of a module alone is none: what is named by it is.
    pub(super) fn graph(&self) -> Graph {
        let edges = |(at, file): (&String, &Source)| {
            let paths = file.uses.iter().map(|(path, _)| path).chain(&file.paths);
            let found = paths.filter_map(|path| self.find(at, path, 0));
            let items = found.filter(|(to, is_module)| !is_module && to != at && self.files.contains_key(to));
            let imported: BTreeSet<String> = items.map(|(to, _)| to).collect();
            (at.clone(), imported)
        };
        self.files.iter().map(edges).collect()
    }
}
