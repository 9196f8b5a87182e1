//! Which files of a crate import each other: a core and its parts only, which are `x.rs` and files below its folder
//! `x/`. Parts do not without their core, either.

mod imports;

use std::collections::{BTreeMap, BTreeSet};

use self::imports::{Crate, Graph};
use crate::documented::workspace;

const CRATES: [&str; 8] = ["store", "elector", "election", "transport", "registry", "cli", "sim", "tests"];

/// Circles that are left: the crate, the modules that have all files of the circle, and why.
const LEFT: [(&str, &[&str], &str); 5] = [
    (
        "registry",
        &["core/host/calls", "core/host/duties", "core/host/queued", "core/host/starts", "core/host/takes"],
        "these are methods of `Host`, and each kind of call is queued, owed and answered in a way of its own",
    ),
    (
        "registry",
        &[
            "driver/actor",
            "driver/node",
            "driver/receive",
            "driver/registration",
            "driver/registry",
            "driver/start",
            "driver/take",
        ],
        "what callers share has the functions of those who wait, and their handles have what callers share",
    ),
    ("sim", &["oracle", "world"], "the oracle looks at the world that asks it after each step"),
    ("sim", &["elections/judge", "elections/world"], "as the oracle and the world"),
    (
        "sim",
        &["nodes/audit", "nodes/nemesis", "nodes/office", "nodes/plan", "nodes/world"],
        "as the oracle and the world; and a plan says which kinds of trouble its world has",
    ),
];

/// What is reached from a file.
fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        for to in graph.get(at).into_iter().flatten() {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

/// Groups of files, each of which imports all others of its group in the end.
fn groups(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let from: BTreeMap<_, _> = graph.keys().map(|at| (at, reached(graph, at))).collect();
    let group = |at: &String| -> BTreeSet<String> {
        from[at].iter().filter(|to| from.get(to).is_some_and(|back| back.contains(at))).cloned().collect()
    };
    graph.keys().map(group).filter(|group| group.len() > 1).collect()
}

fn is_within(file: &str, module: &str) -> bool {
    file.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The groups that are no core and its parts, and those of parts without their core. The root of a crate is no core.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut found = Vec::new();
    for group in groups(graph) {
        let has_all = |core: &str| !core.is_empty() && group.iter().all(|file| is_within(file, core));
        let core = group.first().filter(|core| has_all(core));
        let Some(core) = core.cloned() else {
            found.push(group);
            continue;
        };
        let is_part = |file: &&String| group.contains(*file) && **file != core;
        let imports = |part: &String| -> (String, BTreeSet<String>) {
            (part.clone(), graph[part].iter().filter(is_part).cloned().collect())
        };
        let parts: Graph = group.iter().filter(is_part).map(imports).collect();
        found.extend(circles(&parts));
    }
    found
}

#[test]
fn files_import_each_other_only_as_a_core_and_its_parts() {
    let (mut found, mut seen, mut files) = (Vec::new(), BTreeSet::new(), 0);
    for name in CRATES {
        let (mut source, folder) = (Crate::default(), workspace().join(name).join("src"));
        source.read(&folder, &folder);
        let graph = source.graph();
        files += graph.len();
        for circle in circles(&graph) {
            let has = |modules: &[&str]| {
                circle.iter().all(|file| modules.iter().any(|module| is_within(file, module)))
            };
            match LEFT.iter().position(|(of, modules, _)| *of == name && has(modules)) {
                Some(left) => {
                    seen.insert(left);
                }
                None => found.push(format!("{name}: {circle:?}")),
            }
        }
    }
    assert!(files > 500, "{files} files were read");
    let found = found.join("\n");
    assert!(found.is_empty(), "move what they share into one of them, or a file of its own:\n{found}");
    let gone: Vec<_> = (0..LEFT.len()).filter(|left| !seen.contains(left)).map(|left| LEFT[left]).collect();
    assert!(gone.is_empty(), "no circles any more: take them off `LEFT`: {gone:?}");
}

/// The circles of a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut source = Crate::default();
    for (path, text) in files {
        source.add(path, text);
    }
    circles(&source.graph()).into_iter().map(|circle| circle.into_iter().collect()).collect()
}

#[test]
fn a_circle_is_found_through_what_modules_pass_on_and_a_core_with_parts_is_none() {
    let root = ("lib.rs", "mod a;\nmod b;\npub use a::A;\n");
    let a = ("a.rs", "use crate::b::{self, B as Other};\npub struct A(Other);\n");
    let b = ("b.rs", "// crate::A\npub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n");
    assert!(circles_of(&[root, a, b]).is_empty());
    assert_eq!(circles_of(&[root, a, ("b.rs", "pub struct B(Box<crate::A>);\n")]), [["a", "b"]]);
    assert_eq!(circles_of(&[root, a, ("b.rs", "use super::a;\npub struct B(Box<a::A>);\n")]), [["a", "b"]]);

    let core = ("x.rs", "mod p;\nmod q;\nuse self::{\n    p::P,\n    q::Q,\n};\npub struct X(P, Q);\n");
    let part = ("x/q.rs", "pub struct Q(super::X);\n");
    assert!(circles_of(&[core, ("x/p.rs", "use super::X;\npub struct P(X);\n"), part]).is_empty());
    // Parts that need each other are a circle, also if one knows the other by the core.
    let p = ("x/p.rs", "use super::{X, q::Q};\npub struct P(X, Q);\n");
    let q = ("x/q.rs", "use super::P;\npub struct Q(P);\n");
    assert_eq!(circles_of(&[core, p, q]), [["x/p", "x/q"]]);
}
