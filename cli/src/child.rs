//! Child processes that do not outlive their parent.

use std::{
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

/// Tells a child whose child it is.
pub(crate) const PARENT: &str = "CALLSIGN_PARENT";

/// In a child that [`OwnedChild::spawn`] started: has the kernel kill it when its parent ends, however that ends.
pub(crate) fn die_with_parent() -> Result<()> {
    let Ok(parent) = std::env::var(PARENT) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask to end with the parent")?;
    // The parent may have ended before that.
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
    if is_there { Ok(()) } else { bail!("the process that started this one has ended") }
}

/// A child process, killed when it is dropped.
///
/// The kernel counts the *thread* that started a child as its parent: start children from a thread that stays.
pub(crate) struct OwnedChild {
    child: Child,
    ended: Option<ExitStatus>,
}

impl OwnedChild {
    /// Starts this program again, with other arguments.
    pub(crate) fn spawn(set_up: impl FnOnce(&mut Command)) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(&program);
        command.env(PARENT, std::process::id().to_string()).stdin(Stdio::null());
        // It is told everything by its arguments.
        command.env_remove("CALLSIGN_CONFIG");
        set_up(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, ended: None })
    }

    /// Its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills it, as a crash would, and returns the moment just before.
    pub(crate) fn crash(&mut self) -> Result<Instant> {
        let at = Instant::now();
        self.child.kill().context("cannot kill a child")?;
        self.ended = Some(self.child.wait()?);
        Ok(at)
    }

    /// Asks it to end in good order.
    pub(crate) fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.context("a child has no process id")?, signal)?)
    }

    /// Waits until it has ended. `None`: it has not, in time.
    pub(crate) fn wait(&mut self, wait: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + wait;
        while self.ended.is_none() {
            self.ended = self.child.try_wait()?;
            if Instant::now() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self.ended)
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // It may have ended by itself, which is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::{OsStr, OsString},
        os::unix::process::ExitStatusExt,
        path::PathBuf,
        sync::mpsc,
    };

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A child that is there for so many seconds, if it is let.
    fn sleeps(seconds: &str) -> OwnedChild {
        let set_up = |command: &mut Command| {
            *command = Command::new("sleep");
            command.arg(seconds);
        };
        OwnedChild::spawn(set_up).unwrap()
    }

    #[test]
    fn a_child_is_waited_for_and_not_for_longer_than_was_said() {
        let mut child = sleeps("0.05");
        let ended = child.wait(LONG).unwrap().unwrap();
        assert!(ended.success(), "{ended}");
        assert_eq!(child.wait(Duration::ZERO).unwrap(), Some(ended), "it is not forgotten");

        let mut child = sleeps("30");
        assert_eq!(child.wait(Duration::ZERO).unwrap(), None);
        child.terminate().unwrap();
        assert_eq!(child.wait(LONG).unwrap().unwrap().signal(), Some(Signal::TERM.as_raw()));
        let mut child = sleeps("30");
        child.crash().unwrap();
        assert_eq!(child.wait(Duration::ZERO).unwrap().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_child_that_was_killed_is_gone_when_that_is_said() {
        let mut child = sleeps("60");
        let process = PathBuf::from(format!("/proc/{}", child.child().id()));
        assert!(process.exists());
        child.crash().unwrap();
        assert!(!process.exists(), "its name, its address and its locks are free");
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let mut child = sleeps("60");
        let process = PathBuf::from(format!("/proc/{}", child.child().id()));
        assert!(process.exists());
        let (dropped, is_dropped) = mpsc::channel();
        std::thread::spawn(move || {
            drop(child);
            dropped.send(())
        });
        assert_eq!(is_dropped.recv_timeout(LONG), Ok(()));
        assert!(!process.exists());
    }

    #[test]
    fn a_child_is_told_whose_it_is_and_reads_no_file_of_options() {
        let mut told = Vec::new();
        OwnedChild::spawn(|command| {
            let variables = command.get_envs();
            told.extend(variables.map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned))));
            *command = Command::new("true");
        })
        .unwrap();
        let own = std::process::id().to_string();
        let expected: [(OsString, Option<OsString>); 2] =
            [("CALLSIGN_CONFIG".into(), None), (PARENT.into(), Some(own.into()))];
        assert_eq!(told, expected);
    }
}
