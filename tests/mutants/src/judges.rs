//! Who judges an edit: every test, and the simulator; and of these, those that come to its place.

use std::{
    collections::{BTreeSet, VecDeque},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::tree::{REACHED, SWITCH, Tree};

/// A test without any edit that takes longer is stuck.
const STUCK: Duration = Duration::from_secs(300);

/// One test, or a run of the simulator.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    name: String,
    environment: Vec<(&'static str, PathBuf)>,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
}

/// A judge that passed without any edit.
#[derive(Clone, Debug)]
pub(crate) struct Sworn {
    judge: Judge,
    /// How long it took.
    took: Duration,
    /// The edits whose places it came to.
    reached: BTreeSet<u32>,
}

/// What became of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This judge failed with it, twice.
    Killed(String),
    /// None did. So many came to its place, and so many of them were asked before the time was up.
    Survived { reached: usize, asked: usize },
}

/// Builds everything that judges.
pub(crate) fn all(tree: &Tree) -> Result<Vec<Judge>> {
    if tree.has_all_judges() {
        let (is_built, _) = tree.cargo(&["build", "--workspace", "--bins", "--examples"])?;
        ensure!(is_built, "the copy was not built");
    }
    let mut tests = vec!["test", "--no-run"];
    tests.extend(tree.judging());
    let (are_built, artifacts) = tree.cargo(&tests)?;
    ensure!(are_built, "the tests of the copy were not built");
    let mut judges = Vec::new();
    for artifact in artifacts {
        let Some(program) = artifact["executable"].as_str().filter(|_| artifact["profile"]["test"] == true)
        else {
            continue;
        };
        let manifest = Path::new(artifact["manifest_path"].as_str().context("cargo names no manifest")?);
        let folder = manifest.parent().context("a manifest lies in a folder")?;
        let of = artifact["target"]["name"].as_str().unwrap_or_default();
        let listed =
            Command::new(program).args(["--list", "--format", "terse"]).current_dir(folder).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            judges.push(Judge {
                name: format!("{of}::{test}"),
                environment: tree.environment().to_vec(),
                program: program.into(),
                arguments: ["--exact", test].map(str::to_owned).to_vec(),
                folder: folder.to_owned(),
            });
        }
    }
    if !tree.has_all_judges() {
        return Ok(judges);
    }
    let simulator = tree.root.join("target/debug/callsign-sim");
    let runs = [
        "run --scenario all --seeds 40",
        "run --scenario elections-all --seeds 40",
        "rows --summary",
        "nodes --seeds 24",
    ];
    judges.extend(runs.map(|run| Judge {
        name: format!("callsign-sim {run}"),
        environment: Vec::new(),
        program: simulator.clone(),
        arguments: run.split(' ').map(str::to_owned).collect(),
        folder: tree.root.clone(),
    }));
    Ok(judges)
}

/// Asks every judge without an edit. Those that fail then are named, and do not judge.
pub(crate) fn swear_in(judges: Vec<Judge>, jobs: usize, folder: &Path) -> Vec<Sworn> {
    let (waiting, sworn) = (Mutex::new(VecDeque::from(judges)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (waiting, sworn) = (&waiting, &sworn);
            scope.spawn(move || {
                while let Some(judge) = pop(waiting) {
                    let seen = folder.join(job.to_string());
                    let _ = std::fs::remove_dir_all(&seen);
                    let begun = Instant::now();
                    let made = std::fs::create_dir_all(&seen);
                    let is_innocent = made.is_ok()
                        && ask(&judge, &[(REACHED, &seen.to_string_lossy())], STUCK, &AtomicBool::new(false))
                            == Some(true);
                    if is_innocent {
                        let numbers = std::fs::read_dir(&seen).into_iter().flatten().flatten();
                        let reached =
                            numbers.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
                        push(sworn, Sworn { judge, took: begun.elapsed(), reached });
                    } else {
                        println!("does not judge, it fails without any edit: {}", judge.name);
                    }
                }
            });
        }
    });
    let mut sworn = sworn.into_inner().unwrap_or_default();
    sworn.sort_by_key(|sworn| sworn.took);
    sworn
}

/// Asks those that come to the edit's place, the quick ones first, until one fails, or `patience` is over.
pub(crate) fn judge(edit: u32, sworn: &[Sworn], jobs: usize, patience: Duration) -> Fate {
    let reached: Vec<&Sworn> = sworn.iter().filter(|sworn| sworn.reached.contains(&edit)).collect();
    let (waiting, killer) = (Mutex::new(VecDeque::from(reached.clone())), Mutex::new(None));
    let (begun, is_over, asked) = (Instant::now(), AtomicBool::new(false), Mutex::new(0));
    let number = edit.to_string();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) && begun.elapsed() < patience {
                    let Some(sworn) = pop(&waiting) else { return };
                    let limit = sworn.took * 5 + Duration::from_secs(30);
                    let fails = || ask(&sworn.judge, &[(SWITCH, &number)], limit, &is_over) == Some(false);
                    // Twice: one that fails by chance has noticed nothing.
                    if fails() && fails() {
                        is_over.store(true, Ordering::SeqCst);
                        if let Ok(mut killer) = killer.lock() {
                            killer.get_or_insert_with(|| sworn.judge.name.clone());
                        }
                    }
                    if let Ok(mut asked) = asked.lock() {
                        *asked += 1;
                    }
                }
            });
        }
    });
    match killer.into_inner().unwrap_or_default() {
        Some(by) => Fate::Killed(by),
        None => Fate::Survived { reached: reached.len(), asked: asked.into_inner().unwrap_or_default() },
    }
}

/// Whether it passes. `None`: nobody wants to know any more. One that takes too long has failed.
fn ask(judge: &Judge, with: &[(&str, &str)], limit: Duration, is_over: &AtomicBool) -> Option<bool> {
    let mut command = Command::new(&judge.program);
    command.args(&judge.arguments).current_dir(&judge.folder);
    command.envs(judge.environment.iter().cloned()).envs(with.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let Ok(mut child) = command.spawn() else { return Some(false) };
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if begun.elapsed() < limit && !is_over.load(Ordering::SeqCst) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => break None,
        }
    };
    if status.is_none() {
        // With all that it has started.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        if is_over.load(Ordering::SeqCst) {
            return None;
        }
    }
    Some(status.is_some_and(passes))
}

fn passes(status: ExitStatus) -> bool {
    status.success() && status.signal().is_none()
}

fn pop<T>(from: &Mutex<VecDeque<T>>) -> Option<T> {
    from.lock().ok()?.pop_front()
}

fn push<T>(to: &Mutex<Vec<T>>, what: T) {
    if let Ok(mut to) = to.lock() {
        to.push(what);
    }
}
