//! A copy of the workspace with all edits in it, each behind a switch.
//!
//! One build serves them all: `CALLSIGN_EDIT=17` in the environment of a process switches edit 17 on in it, and in its children.
//! With `CALLSIGN_EDITS_REACHED=FOLDER` a process makes a file in that folder for each edit whose place it comes to.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{edits::Edit, layers::Layer};

/// The variable that switches an edit on.
pub(crate) const SWITCH: &str = "CALLSIGN_EDIT";

/// The variable with the folder that says which edits were come to.
pub(crate) const REACHED: &str = "CALLSIGN_EDITS_REACHED";

/// A file, and bytes of it.
type FileRange = (PathBuf, Range<usize>);

/// An edit that was drawn.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// Whose it is.
    pub(crate) layer: Layer,
    /// In which file, below the root.
    pub(crate) file: PathBuf,
    /// Which it is.
    pub(crate) edit: Edit,
}

impl std::fmt::Display for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.edit.line, self.edit.what)
    }
}

/// The copy.
pub(crate) struct Tree {
    /// Where it comes from.
    source: PathBuf,
    /// Where it is.
    pub(crate) root: PathBuf,
    /// The package whose unit tests judge, and its features; all, if there is none.
    only: Option<(String, String)>,
}

impl Tree {
    /// Copies what git knows of, and what it would take.
    pub(crate) fn copy(source: &Path, root: &Path, only: Option<(String, String)>) -> Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(source)
            .output()?;
        let names = String::from_utf8(listed.stdout).context("a file has a name that is no text")?;
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (source.join(name), root.join(name));
            // Deleted, and not committed yet.
            if from.is_file() {
                write_if_new(&to, &std::fs::read(&from)?)?;
                std::fs::set_permissions(&to, std::fs::metadata(&from)?.permissions())?;
            }
        }
        Ok(Self { source: source.to_owned(), root: root.to_owned(), only })
    }

    /// Writes all edits into the copy. Returns where each of them is, by its number.
    fn weave(&self, edits: &BTreeMap<u32, Drawn>) -> Result<BTreeMap<u32, FileRange>> {
        let mut places = BTreeMap::new();
        let mut crates = BTreeSet::new();
        let mut files: BTreeMap<&Path, Vec<(u32, &Edit)>> = BTreeMap::new();
        for (number, drawn) in edits {
            files.entry(&drawn.file).or_default().push((*number, &drawn.edit));
        }
        for (file, mut edits) in files {
            let source = std::fs::read_to_string(self.source.join(file))?;
            edits.sort_by_key(|(_, edit)| edit.range.start);
            let (mut woven, mut done) = (String::with_capacity(source.len() * 2), 0);
            for (number, edit) in edits {
                woven.push_str(&source[done..edit.range.start]);
                let begin = woven.len();
                let on = format!("crate::edited::is_on({number})");
                woven.push_str(&edit.woven(&source[edit.range.clone()], &on));
                places.insert(number, (file.to_owned(), begin..woven.len()));
                done = edit.range.end;
            }
            woven.push_str(&source[done..]);
            let root = file.iter().take_while(|part| *part != "src").collect::<PathBuf>();
            crates.insert(root.join("src/lib.rs"));
            write_if_new(&self.root.join(file), woven.as_bytes())?;
        }
        let numbers = edits.keys().last().map_or(0, |number| number + 1);
        for library in crates {
            // It may have edits itself.
            let is_woven = edits.values().any(|drawn| drawn.file == library);
            let of = if is_woven { &self.root } else { &self.source };
            let mut text = std::fs::read_to_string(of.join(&library))?;
            text.push_str(&switch(numbers));
            write_if_new(&self.root.join(library), text.as_bytes())?;
        }
        Ok(places)
    }

    /// Puts the files of these edits back as they are without.
    fn restore(&self, edits: impl Iterator<Item = PathBuf>) -> Result<()> {
        for file in edits {
            write_if_new(&self.root.join(&file), &std::fs::read(self.source.join(&file))?)?;
        }
        Ok(())
    }

    /// Writes the edits into the copy, and leaves out those that do not compile. Returns the others.
    pub(crate) fn settle(&self, mut edits: BTreeMap<u32, Drawn>) -> Result<BTreeMap<u32, Drawn>> {
        loop {
            let places = self.weave(&edits)?;
            let mut check = vec!["check", "--keep-going"];
            check.extend(self.judging());
            let (is_fine, messages) = self.cargo(&check)?;
            let errors: Vec<_> = messages.iter().filter_map(error).collect();
            if errors.is_empty() {
                ensure!(is_fine, "the copy is not compiled, and cargo says of no place why");
                return Ok(edits);
            }
            let mut wrong = BTreeSet::new();
            for (spans, text) in &errors {
                let met = |number: &u32| {
                    let (file, range) = &places[number];
                    spans.iter().any(|(of, at)| of == file && at.start < range.end && range.start < at.end)
                };
                let direct: Vec<u32> = places.keys().copied().filter(met).collect();
                // The compiler may blame what follows: then the last edit before it is the one, or else the first behind it.
                let nearest = spans.first().and_then(|(of, at)| {
                    let of_file = || places.iter().filter(|(_, (file, _))| file == of);
                    let before = of_file().filter(|(_, (_, range))| range.start <= at.start);
                    let before = before.max_by_key(|(_, (_, range))| range.start);
                    before
                        .or_else(|| of_file().min_by_key(|(_, (_, range))| range.start))
                        .map(|(number, _)| *number)
                });
                wrong.extend(direct.iter().copied().chain(nearest.filter(|_| direct.is_empty())));
                if wrong.is_empty() {
                    bail!("the copy does not compile, and no edit is where it says so: {text}");
                }
            }
            let dropped = wrong.iter().filter_map(|number| edits.remove(number));
            self.restore(dropped.map(|drawn| drawn.file).collect::<BTreeSet<_>>().into_iter())?;
            eprintln!("{} edits do not compile", wrong.len());
        }
    }

    /// What judges, in the words of cargo.
    pub(crate) fn judging(&self) -> Vec<&str> {
        match &self.only {
            Some((package, features)) => vec!["--package", package, "--lib", "--features", features],
            None => vec!["--workspace", "--lib", "--bins", "--tests"],
        }
    }

    /// Whether all judge that there are.
    pub(crate) fn has_all_judges(&self) -> bool {
        self.only.is_none()
    }

    /// What a build of the copy is told, and a test that asks for one.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 5] {
        [
            ("CARGO_TARGET_DIR", self.root.join("target")),
            // Edits leave things unused, and that is no error here.
            ("RUSTFLAGS", "--cap-lints=allow".into()),
            // The simulator is of use only if it is fast.
            ("CARGO_PROFILE_DEV_OPT_LEVEL", "1".into()),
            ("CARGO_PROFILE_TEST_OPT_LEVEL", "1".into()),
            // It is built: no test needs to look whether it is.
            ("CALLSIGN_BIN", self.root.join("target/debug/callsign")),
        ]
    }

    /// Runs cargo in the copy. Returns whether it succeeded, and what it says to programs.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Result<(bool, Vec<Value>)> {
        let output = Command::new("cargo")
            .args(arguments)
            .args(["--message-format=json", "--quiet"])
            .current_dir(&self.root)
            .envs(self.environment())
            .stderr(Stdio::inherit())
            .output()?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((output.status.success(), messages))
    }
}

/// An error of the compiler: where, and what.
fn error(message: &Value) -> Option<(Vec<FileRange>, String)> {
    let message = &message["message"];
    if message["level"] != "error" || message["spans"].as_array()?.is_empty() {
        return None;
    }
    let mut spans: Vec<&Value> = message["spans"].as_array()?.iter().collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let at = |span: &&Value| {
        let byte = |name: &str| usize::try_from(span[name].as_u64()?).ok();
        let range = byte("byte_start")?..byte("byte_end")?.max(byte("byte_start")? + 1);
        Some((PathBuf::from(span["file_name"].as_str()?), range))
    };
    let text = message["rendered"].as_str().unwrap_or_default().to_owned();
    Some((spans.iter().filter_map(at).collect(), text))
}

fn switch(numbers: u32) -> String {
    format!(
        r#"
#[doc(hidden)]
pub mod edited {{
    use std::sync::{{OnceLock, atomic::{{AtomicBool, Ordering}}}};

    static ON: OnceLock<Option<u32>> = OnceLock::new();
    static REACHED: [AtomicBool; {numbers}] = [const {{ AtomicBool::new(false) }}; {numbers}];

    pub fn is_on(edit: u32) -> bool {{
        if !REACHED[edit as usize].swap(true, Ordering::Relaxed)
            && let Some(folder) = std::env::var_os("{REACHED}")
        {{
            let _ = std::fs::File::create(std::path::Path::new(&folder).join(edit.to_string()));
        }}
        *ON.get_or_init(|| std::env::var("{SWITCH}").ok()?.parse().ok()) == Some(edit)
    }}
}}
"#
    )
}

/// What does not change is not compiled again.
fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
