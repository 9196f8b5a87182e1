//! The book: each page of `docs/` is in its contents, every link leads somewhere, and code in Rust is compiled. It holds with or without mdBook.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::documented::workspace;

/// Pages at the root, which are no part of the book.
const BESIDE: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// The pages that the contents name, in order.
pub(crate) fn contents() -> Vec<String> {
    let summary = fs::read_to_string(workspace().join("docs/SUMMARY.md")).unwrap();
    links(&summary)
}

fn is_page(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}

fn pages_of(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter(|name| is_page(name)).collect()
}

/// The lines of a page that are no code, without what is code in them.
fn text(page: &str) -> Vec<String> {
    let mut is_code = false;
    let is_text = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    };
    let lines: Vec<_> = page.lines().filter(is_text).collect();
    lines.into_iter().map(|line| line.split('`').step_by(2).collect()).collect()
}

/// Where the links of a page lead.
fn links(page: &str) -> Vec<String> {
    let lines = text(page);
    let all = lines.iter().flat_map(|line| line.split("](").skip(1));
    all.map(|rest| rest.split(')').next().unwrap().to_owned()).collect()
}

/// What a heading can be linked by. GitHub and mdBook make the same of ours.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut is_code, mut seen) = (false, BTreeMap::<String, usize>::new());
    let mut all = BTreeSet::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let count = seen.entry(anchor.clone()).or_default();
        all.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    all
}

/// What is wrong with a link of a page, if anything.
fn fault(from: &Path, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (page, anchor) = link.split_once('#').map_or((link, None), |(page, anchor)| (page, Some(anchor)));
    let folder = from.parent().unwrap();
    let to = if page.is_empty() { from.to_owned() } else { folder.join(page) };
    let Ok(found) = fs::canonicalize(&to) else { return Some("there is no such file".into()) };
    // mdBook makes no page of the contents.
    let docs = fs::canonicalize(workspace().join("docs")).unwrap();
    let is_of_the_book = |path: &Path| path.starts_with(&docs) && !path.ends_with("SUMMARY.md");
    if is_of_the_book(&fs::canonicalize(from).unwrap()) && !is_of_the_book(&found) {
        return Some("it leads out of the book".into());
    }
    let anchor = anchor?;
    let has = anchors(&fs::read_to_string(&found).unwrap()).contains(anchor);
    (!has).then(|| "there is no such heading".into())
}

#[test]
fn links_and_anchors_are_found() {
    let page = "# A `b` c\n[x](y.md#z), `[no](no)`\n[`N`](#n)\n```\n# no\n[no](no)\n```\n    [no](no)\n## D: e\n## D: e\n";
    assert_eq!(links(page), ["y.md#z", "#n"]);
    assert_eq!(anchors(page), ["a-b-c", "d-e", "d-e-1"].map(str::to_owned).into());
    let from = workspace().join("docs/names.md");
    assert_eq!(fault(&from, "#select"), None);
    assert_eq!(fault(&from, "groups.md#groups"), None);
    assert_eq!(fault(&from, "groups.md#no").unwrap(), "there is no such heading");
    assert_eq!(fault(&from, "no.md").unwrap(), "there is no such file");
    assert_eq!(fault(&from, "../README.md").unwrap(), "it leads out of the book");
    assert_eq!(fault(&from, "SUMMARY.md").unwrap(), "it leads out of the book");
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let docs = workspace().join("docs");
    let mut pages: Vec<PathBuf> = pages_of(&docs).into_iter().map(|page| docs.join(page)).collect();
    pages.extend(BESIDE.map(|page| workspace().join(page)));
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            seen += 1;
            if let Some(why) = fault(&page, &link) {
                wrong.push(format!("{}: {link}: {why}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "{seen}");
}

#[test]
fn the_contents_have_each_page_once_in_the_form_that_mdbook_reads() {
    let contents = contents();
    let mut named: BTreeSet<_> = contents.iter().cloned().collect();
    assert_eq!(named.len(), contents.len(), "a page is there twice");
    named.insert("SUMMARY.md".into());
    assert_eq!(named, pages_of(&workspace().join("docs")));
    for line in fs::read_to_string(workspace().join("docs/SUMMARY.md")).unwrap().lines() {
        let is_link = |text: &str| text.starts_with('[') && text.ends_with(".md)");
        let reads = line.is_empty() || line.starts_with("# ") || is_link(line.trim_start_matches("- "));
        assert!(reads, "mdBook does not read this line of the contents: {line}");
    }
}

/// `registry/src/guide.rs` has doc tests of pages.
#[test]
fn code_in_rust_is_compiled_on_every_page() {
    let guide = fs::read_to_string(workspace().join("registry/src/guide.rs")).unwrap();
    let mut with_code = BTreeSet::new();
    for page in pages_of(&workspace().join("docs")) {
        let text = fs::read_to_string(workspace().join("docs").join(&page)).unwrap();
        for language in text.lines().filter_map(|line| line.trim_start().strip_prefix("```rust")) {
            assert!(["", ",no_run"].contains(&language), "{page}: rust{language} is not compiled");
            with_code.insert(page.clone());
        }
    }
    let included = guide.split("/docs/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    let included: BTreeSet<_> = included.filter(|page| is_page(page)).collect();
    assert_eq!(included, with_code);
    assert!(with_code.len() >= 10, "{with_code:?}");
}

/// Lines of code without those that are blank, and without how far they are indented.
fn code(lines: &str) -> Vec<&str> {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// What a page shows of code in Rust: parts between lines that are hidden.
fn shown(page: &str) -> Vec<String> {
    let (mut parts, mut is_code) = (vec![String::new()], false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = line.starts_with("```rust");
        } else if is_code && line != "#" && !line.starts_with("# ") {
            parts.last_mut().unwrap().extend([line, "\n"]);
            continue;
        }
        parts.push(String::new());
    }
    parts.retain(|part| !code(part).is_empty());
    parts
}

/// mdBook could include it from there, but doc tests could not, and neither could who reads the page elsewhere.
#[test]
fn a_page_of_an_example_shows_code_of_that_example_which_is_short() {
    let text = "a\n```rust\n# b\nc\n\n  d\n#\n#[e]\n```\n```sh\nf\n```\n";
    assert_eq!(shown(text), ["c\n\n  d\n", "#[e]\n"]);

    for name in ["chat", "jobs"] {
        let read = |path: String| fs::read_to_string(workspace().join(path)).unwrap();
        let example = read(format!("registry/examples/{name}.rs"));
        assert!(example.lines().count() < 200, "the example {name} has 200 lines or more");
        let parts = shown(&read(format!("docs/example-{name}.md")));
        assert!(parts.len() >= 2, "the page of {name} shows no code");
        let all = code(&example);
        for part in parts {
            let lines = code(&part);
            assert!(
                all.windows(lines.len()).any(|of| of == lines),
                "this is not in the example {name}:\n{part}"
            );
        }
    }
}

#[test]
fn every_metric_of_an_alert_is_counted() {
    let page = |name| fs::read_to_string(workspace().join("docs").join(name)).unwrap();
    let (alerts, metrics) = (page("alerts.md"), page("metrics.md"));
    let named = alerts.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let named: BTreeSet<_> = named.filter(|word| word.starts_with("callsign_")).collect();
    assert!(named.len() > 8, "{named:?}");
    for metric in named {
        // The name of a histogram's count.
        let counted = metric.strip_suffix("_count").unwrap_or(metric);
        assert!(metrics.contains(&format!("| `{counted}` |")), "{metric} is not in docs/metrics.md");
    }
    let rules = alerts.split("- alert: ").skip(1).map(|rest| rest.lines().next().unwrap());
    for rule in rules {
        assert!(alerts.contains(&format!("| `{rule}` |")), "{rule} says nowhere what it means");
    }
}
