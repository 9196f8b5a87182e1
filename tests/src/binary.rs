//! Where the command is.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Names a `callsign` to test, in place of the one of this build.
const BINARY: &str = "CALLSIGN_BIN";

/// The command `callsign`: what `CALLSIGN_BIN` names, else the one beside the test executable. Built at the first
/// call, so that the tests never run against an older one.
pub fn callsign() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| std::env::var_os(BINARY).map_or_else(build, PathBuf::from))
}

/// The command beside a program of this workspace, or the one that `CALLSIGN_BIN` names. Nothing is built.
pub(crate) fn callsign_beside(program: &Path) -> Option<PathBuf> {
    let beside = || program.with_file_name("callsign");
    let binary = std::env::var_os(BINARY).map_or_else(beside, PathBuf::from);
    binary.is_file().then_some(binary)
}

fn build() -> PathBuf {
    // TARGET/PROFILE/deps/all-0123
    let test = std::env::current_exe().expect("a running test has a file");
    let directory = test.parent().and_then(Path::parent).expect("cargo puts tests two levels deep");
    let binary = directory.join("callsign");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = directory.parent().expect("a profile has a directory of its own");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Cargo lets one at a time build, and does nothing where nothing has changed. Examples, too: with them the features
    // are those of the tests, and what `./test` has built is not built anew.
    let mut command = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        // What the test runner says of this package is not said of those that are built: some would be built anew for it.
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    let built = command
        .args(["build", "--quiet", "--workspace", "--bins", "--examples", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be run");
    assert!(built.success(), "callsign-cli does not build");
    assert!(binary.is_file(), "cargo has built no {}", binary.display());
    binary
}
