//! `callsign-docs`: runs what README and the pages of `docs/` tell people to type, and looks at the exit status.
//!
//! Run it in the workspace, after `cargo build --workspace`. How a command is run stands in its remark: see
//! [`callsign_golden::documented`].

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use callsign_golden::{Documented, documented};
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};

/// Runs the commands of README and docs, and fails if one of them does.
#[derive(Parser)]
struct DocsCli {
    /// The long ones as they stand, too; without it each is run with the options that its remark gives for CI.
    #[arg(long)]
    long: bool,
    /// Only commands with this text in them, or in the page and line where they are.
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
    let cli = DocsCli::parse();
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("callsign-docs cannot make a folder for the files of the commands: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    let (mut ran, mut left, mut going_on) = (0, Vec::new(), GoingOn::default());
    for command in documented(".".as_ref()) {
        if command.is_form()
            || cli
                .only
                .as_ref()
                .is_some_and(|only| !format!("{}: {}", command.place, command.text()).contains(only))
        {
            continue;
        }
        if let Some(what) = command.needs() {
            left.push(format!("{}: {} (it needs {what})", command.place, command.text()));
            continue;
        }
        failed += going_on.end_unless(&command.block);
        let (command, limit) = match command.shortened() {
            Some(_) if cli.long => (command, LONG_COMMAND_LIMIT),
            Some(short) => (short, SHORTENED),
            None => (command, COMMAND_LIMIT),
        };
        ran += 1;
        let begin = Instant::now();
        let (place, text) = (command.place.clone(), command.text());
        let said = match run(&command.with_files_in(folder.path()), limit, &mut going_on) {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{:6.1} s  {place}: {text}: {said}", begin.elapsed().as_secs_f64());
    }
    failed += going_on.end_unless("");
    for line in left {
        println!("not run  {line}");
    }
    println!("{ran} commands of README and docs ran, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Commands that run while the others of their block do.
#[derive(Default)]
struct GoingOn {
    block: String,
    running: Vec<Running>,
}

/// A command that has printed its first line.
struct Running {
    child: Child,
    place: String,
    /// What it prints from then on: it may mind if nobody reads.
    _output: BufReader<ChildStdout>,
}

impl GoingOn {
    /// Ends them if another block begins: the last one first. How many did not end well.
    fn end_unless(&mut self, block: &str) -> usize {
        if self.block == block {
            return 0;
        }
        block.clone_into(&mut self.block);
        let mut failed = 0;
        while let Some(Running { mut child, place, .. }) = self.running.pop() {
            if let Err(error) = ask_to_end(&mut child, COMMAND_LIMIT) {
                failed += 1;
                println!("{place}: FAILED: {error:#}");
            }
        }
        failed
    }
}

/// Ends a command as people do, who do so by a signal.
fn ask_to_end(child: &mut Child, limit: Duration) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
    kill_process(pid, Signal::TERM)?;
    let status = wait(child, limit)?;
    anyhow::ensure!(
        status.success() || status.signal() == Some(Signal::TERM.as_raw()),
        "it ended with {status}"
    );
    Ok(())
}

fn run(command: &Documented, limit: Duration, going_on: &mut GoingOn) -> Result<()> {
    build(command)?;
    let [first, rest @ ..] = command.words.as_slice() else { anyhow::bail!("there is no command") };
    let program = if first == "cargo" { "cargo".to_owned() } else { format!("target/debug/{first}") };
    let process = || {
        let mut process = Command::new(&program);
        process.args(rest).envs(command.environment.clone()).stdin(Stdio::null());
        process
    };
    let begin = Instant::now();
    loop {
        let errors = tempfile::NamedTempFile::new()?;
        let mut process = process();
        process.stderr(File::create(errors.path())?);
        // A node runs until it is told to leave.
        let is_node = first == "callsign" && rest.first().is_some_and(|word| word == "node");
        let ended = if is_node || command.goes_on() {
            let mut child = process.stdout(Stdio::piped()).spawn().context("it does not start")?;
            let mut output = BufReader::new(child.stdout.take().context("no output")?);
            let mut line = String::new();
            output.read_line(&mut line)?;
            if command.goes_on() && !line.is_empty() {
                going_on.running.push(Running { child, place: command.place.clone(), _output: output });
                return Ok(());
            }
            if line.is_empty() { wait(&mut child, limit)? } else { return ask_to_end(&mut child, limit) }
        } else {
            let both = File::options().append(true).open(errors.path())?;
            wait(&mut process.stdout(both).spawn().context("it does not start")?, limit)?
        };
        if ended.success() && !command.goes_on() {
            return Ok(());
        }
        // A node that has just started does not know yet: whoever reads the page takes longer to type.
        let is_early = ended.code() == Some(3) && !going_on.running.is_empty();
        if is_early && begin.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let said = std::fs::read_to_string(errors.path())?;
        let last: Vec<_> = said.lines().rev().take(20).collect();
        anyhow::bail!("{ended}\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
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
