//! `callsign-docs`: runs what README and the pages of `docs/` tell people to type, and looks at the exit status.
//!
//! Run it in the workspace, after `cargo build --workspace`. How a command is run stands in its remark: see
//! [`callsign_golden::documented`].

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use callsign_golden::{Documented, documented};
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};

/// Runs the commands of README and docs, and fails if one of them does.
#[derive(Parser)]
struct Cli {
    /// The long ones as they stand, too; without it each is run with the options that its remark gives for CI.
    #[arg(long)]
    long: bool,
    /// Only commands with this text in them.
    #[arg(long)]
    only: Option<String>,
}

/// A command without a remark is one of at most 20 s, once it is built. A busy machine gets more time.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// A long one that was shortened. The longest takes two to three minutes of two cores; this notices one that hangs.
const SHORTENED: Duration = Duration::from_secs(600);

/// A long one as it stands.
const LONG_COMMAND_LIMIT: Duration = Duration::from_secs(3 * 3600);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("callsign-docs cannot make a folder for the files of the commands: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    let (mut ran, mut left) = (0, Vec::new());
    for command in documented(".".as_ref()) {
        if command.is_form() || cli.only.as_ref().is_some_and(|only| !command.text().contains(only)) {
            continue;
        }
        if let Some(what) = command.needs() {
            left.push(format!("{}: {} (it needs {what})", command.place, command.text()));
            continue;
        }
        let (command, limit) = match command.shortened() {
            Some(_) if cli.long => (command, LONG_COMMAND_LIMIT),
            Some(short) => (short, SHORTENED),
            None => (command, COMMAND_LIMIT),
        };
        ran += 1;
        let begin = Instant::now();
        let (place, text) = (command.place.clone(), command.text());
        let said = match run(&command.with_files_in(folder.path()), limit) {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{:6.1} s  {place}: {text}: {said}", begin.elapsed().as_secs_f64());
    }
    for line in left {
        println!("not run  {line}");
    }
    println!("{ran} commands of README and docs ran, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(command: &Documented, limit: Duration) -> Result<()> {
    build(command)?;
    let output = tempfile::NamedTempFile::new()?;
    let [first, rest @ ..] = command.words.as_slice() else { anyhow::bail!("there is no command") };
    let program = if first == "cargo" { "cargo".to_owned() } else { format!("target/debug/{first}") };
    let mut process = Command::new(program);
    process.args(rest).envs(command.environment.clone()).stdin(Stdio::null());
    process.stderr(File::create(output.path())?);
    // A node runs until it is told to leave.
    let is_node = first == "callsign" && rest.first().is_some_and(|word| word == "node");
    let status = if is_node {
        let mut child = process.stdout(Stdio::piped()).spawn().context("it does not start")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
        kill_process(pid, Signal::TERM)?;
        wait(&mut child, limit)?
    } else {
        let both = File::options().append(true).open(output.path())?;
        wait(&mut process.stdout(both).spawn().context("it does not start")?, limit)?
    };
    if !status.success() {
        let said = std::fs::read_to_string(output.path())?;
        let last: Vec<_> = said.lines().rev().take(20).collect();
        anyhow::bail!("{status}\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}

/// Builds what `cargo` is to run, so that the time is the command's own.
fn build(command: &Documented) -> Result<()> {
    let before: Vec<_> = command.words.iter().take_while(|word| *word != "--").collect();
    let mut words: Vec<&str> = before.into_iter().map(String::as_str).collect();
    match words.as_mut_slice() {
        ["cargo", run, ..] if *run == "run" => *run = "build",
        ["cargo", "test", ..] => words.push("--no-run"),
        _ => return Ok(()),
    }
    let built = Command::new(words[0]).args(&words[1..]).arg("--quiet").stdin(Stdio::null()).output()?;
    anyhow::ensure!(
        built.status.success(),
        "it cannot be built:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(())
}

fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("it has not ended within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
