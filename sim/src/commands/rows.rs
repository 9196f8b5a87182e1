//! `callsign-sim rows`: what elections must do, and which tests show it.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, bail};
use callsign_sim::rows::{SYSTEMS, ShowingTest, listed_by_cargo, listed_by_nextest, rows, shown};

/// Prints the requirements of elections and the tests that show them. The test runner is asked for its list, which builds
/// the tests if they are not built yet.
#[derive(clap::Args, Debug)]
pub(crate) struct Rows {
    /// The workspace whose tests are listed.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    workspace: PathBuf,
    /// Only the summary by system.
    #[arg(long)]
    summary: bool,
}

/// What `./test` builds, so that nothing is built anew to be listed.
const BUILT: &[&str] = &["--lib", "--bins", "--tests"];

impl Rows {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let shown = shown(self.listed()?);
        if !self.summary {
            say!("| row | what | systems | tests |\n|---|---|---|---|");
            for row in rows() {
                let tests = shown.get(row.id).into_iter().flatten();
                let tests: Vec<_> = tests.map(|test| format!("{} {}", test.binary, test.test)).collect();
                say!("| {} | {} | {} | {} |", row.id, row.what, row.systems, tests.join("<br>"));
            }
            say!("");
        }
        say!("| system | rows | shown |\n|---|---|---|");
        let counted = |name: &str, is_meant: &dyn Fn(&str) -> bool| {
            let meant: Vec<_> = rows().iter().filter(|row| is_meant(row.systems)).collect();
            let done = meant.iter().filter(|row| shown.contains_key(row.id)).count();
            say!("| {name} | {} | {done} |", meant.len());
        };
        for (letter, name) in SYSTEMS {
            counted(name, &|systems| systems.contains(letter));
        }
        counted("none of them", &str::is_empty);
        counted("all rows", &|_| true);

        let missing: Vec<_> = rows().iter().map(|row| row.id).filter(|id| !shown.contains_key(*id)).collect();
        let unknown: Vec<_> =
            shown.keys().filter(|id| !rows().iter().any(|row| row.id == *id)).map(String::as_str).collect();
        match (missing.as_slice(), unknown.as_slice()) {
            ([], []) => Ok(()),
            (missing, []) => bail!("no test shows {}", missing.join(", ")),
            (_, unknown) => bail!("there is no row {}", unknown.join(", ")),
        }
    }
    /// The tests that `cargo nextest` runs, or `cargo test` where nextest is not installed.
    fn listed(&self) -> anyhow::Result<Vec<ShowingTest>> {
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(arguments).current_dir(&self.workspace).stderr(std::process::Stdio::inherit());
            let output = cargo.output().context("cargo does not start")?;
            anyhow::ensure!(output.status.success(), "cargo {} failed", arguments.join(" "));
            String::from_utf8(output.stdout).context("cargo printed something that is no text")
        };
        let is_there = |output: std::process::Output| output.status.success();
        let nextest = Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(is_there);
        if nextest {
            let list = ["nextest", "list", "--locked", "--workspace"];
            let json = cargo(&[&list[..], BUILT, &["--message-format", "json"]].concat())?;
            return Ok(listed_by_nextest(&json)?);
        }
        let all = ["test", "--locked", "--quiet", "--workspace"];
        Ok(listed_by_cargo(&cargo(&[&all[..], BUILT, &["--", "--list", "--format", "terse"]].concat())?))
    }
}
