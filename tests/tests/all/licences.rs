//! Every dependency may be shipped with a program that is MIT OR Apache-2.0.

use std::process::Command;

/// Licences that ask for no more than a notice.
const ALLOWED: [&str; 12] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "CC0-1.0",
    "Unlicense",
    "Unicode-3.0",
    "BSL-1.0",
];

/// Whether one of the alternatives of a licence expression asks for allowed licences only. Understands what crates
/// write: `OR` or `/` between alternatives, `AND` within one, parentheses around a part.
fn is_allowed(expression: &str) -> bool {
    let conjunction_is_allowed = |part: &str| {
        let licences = part.split(" AND ").map(|l| l.trim_matches(['(', ')', ' ']));
        licences.into_iter().all(|licence| ALLOWED.contains(&licence))
    };
    if let Some((left, right)) = expression.split_once(") AND ") {
        return is_allowed(left.trim_start_matches('(')) && is_allowed(right);
    }
    expression.replace('/', " OR ").split(" OR ").any(conjunction_is_allowed)
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages are a list");
    assert!(packages.len() > 50, "the dependencies were found");
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(is_allowed))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not allowed, or not stated:\n{}", refused.join("\n"));
}

#[test]
fn a_licence_that_is_not_allowed_is_refused() {
    assert!(is_allowed("MIT OR GPL-3.0-only"));
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("GPL-3.0-only"));
    assert!(!is_allowed("MIT AND GPL-3.0-only"));
}
