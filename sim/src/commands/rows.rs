//! `callsign-sim rows`: what elections must do, and which tests show it.

use std::path::PathBuf;

use anyhow::bail;
use callsign_sim::rows::{SYSTEMS, rows, shown};

/// Prints the requirements of elections and the tests that show them, by the names of their functions.
#[derive(clap::Args, Debug)]
pub(crate) struct Rows {
    /// The workspace whose tests are looked at.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    workspace: PathBuf,
    /// Only the summary by system.
    #[arg(long)]
    summary: bool,
}

impl Rows {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let shown = shown(&self.workspace)?;
        if !self.summary {
            println!("| row | what | systems | tests |\n|---|---|---|---|");
            for row in rows() {
                let tests = shown.get(row.id).into_iter().flatten();
                let tests: Vec<_> =
                    tests.map(|test| format!("{}: {}", test.file.display(), test.function)).collect();
                println!("| {} | {} | {} | {} |", row.id, row.what, row.systems, tests.join("<br>"));
            }
            println!();
        }
        println!("| system | rows | shown |\n|---|---|---|");
        let counted = |name: &str, is_meant: &dyn Fn(&str) -> bool| {
            let meant: Vec<_> = rows().iter().filter(|row| is_meant(row.systems)).collect();
            let done = meant.iter().filter(|row| shown.contains_key(row.id)).count();
            println!("| {name} | {} | {done} |", meant.len());
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
}
