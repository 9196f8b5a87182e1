//! A network namespace, and a shell that holds it.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// What says that a script is over, with its status behind it.
const OVER: &str = "=== over ";

/// A namespace that is there as long as this is. The shell ends with its input, so also when this process is killed.
#[derive(Debug)]
pub(super) struct Held {
    shell: Child,
    /// Both are there until it is dropped.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Held {
    /// A new one, without any device but loopback.
    pub(super) fn new() -> io::Result<Self> {
        let mut shell = Command::new("unshare")
            .args(["--net", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (input, output) = (shell.stdin.take(), shell.stdout.take());
        let output = BufReader::new(output.ok_or(io::ErrorKind::BrokenPipe)?);
        let mut held = Self { shell, input, output };
        held.run("ip link set lo up")?;
        Ok(held)
    }

    /// The process that holds it.
    pub(super) fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// Runs a script in it, up to its first command that fails, and returns what it says.
    pub(super) fn run(&mut self, script: &str) -> io::Result<String> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let written = write!(input, "(set -e\n{script}\n) </dev/null 2>&1; printf '\\n{OVER}%s\\n' $?\n");
        // Who has ended says why below.
        let _ = written.and_then(|()| input.flush());
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                if let Some(mut errors) = self.shell.stderr.take() {
                    let _ = errors.read_to_string(&mut said);
                }
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, said.trim().to_owned()));
            }
            match line.strip_prefix(OVER).map(str::trim) {
                Some("0") => return Ok(said),
                Some(_) => return Err(io::Error::other(said.trim().to_owned())),
                None => said.push_str(&line),
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.shell.wait(); // it ends with its input
    }
}
