//! The node's end of a guard.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as BlockingStream, process::CommandExt},
    },
    process::{Command, Stdio},
    time::Duration,
};

use callsign_store::time::Time;
use tokio::{io::AsyncReadExt, net::UnixStream};

use super::{
    control::{LineBuffer, Word, line, nanos},
    core::GuardReport,
    processes,
    watch::Owner,
};
use crate::service;

/// Holds a guard. When it is dropped the guard kills the program and ends.
#[derive(Debug)]
pub(crate) struct GuardHandle {
    /// Written to directly: tokio knows only after a while that a new socket can be.
    words: BlockingStream,
    guard: UnixStream,
    reports: LineBuffer,
}

impl GuardHandle {
    /// Starts a guard of this command for this program, with these variables in its environment. The program is started
    /// with the first word of trust, and killed `grace` after it was asked to end. Call it inside a runtime.
    pub(crate) fn take(
        of: Owner,
        command: &[OsString],
        grace: Duration,
        environment: impl IntoIterator<Item = (&'static str, String)>,
    ) -> io::Result<Self> {
        // Should the guard be killed, those that it guarded are this process's to kill.
        processes::adopt_orphans()?;
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut guard = Command::new("/proc/self/exe");
        for own in service::OWN_ENVIRONMENT {
            guard.env_remove(own);
        }
        guard
            .arg0("callsign")
            .args(["guard", "--of", &of.to_string(), "--grace", &format!("{}ms", grace.as_millis()), "--"])
            .args(command)
            .envs(environment)
            // It is about this process's own parent.
            .env_remove(crate::child::PARENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        Ok(Self {
            words: ours.try_clone()?,
            guard: UnixStream::from_std(ours)?,
            reports: LineBuffer::default(),
        })
    }

    /// Lets the program run until then, by the boot-time clock.
    pub(crate) fn trust(&self, until: Time) {
        self.say(Word::TrustedUntil(nanos(until)));
    }

    /// Asks the program to end, and has it killed at that time.
    pub(crate) fn stop(&self, kill_at: Time) {
        self.say(Word::StopKillAt(nanos(kill_at)));
    }

    /// Has the program get a signal.
    pub(crate) fn hand_on(&self, signal: i32) {
        self.say(Word::HandOn(signal));
    }

    /// Does not wait. A guard that does not take words is stopped or gone, and then the deadline that it knows is right.
    fn say(&self, word: Word) {
        if let Err(error) = (&self.words).write_all(&line(&word)) {
            tracing::debug!(%error, "the guard does not listen");
        }
    }

    /// What the guard reports next. `None`: it is gone. May be dropped and called again.
    pub(crate) async fn report(&mut self) -> Option<GuardReport> {
        loop {
            if let Some(report) = self.reports.next() {
                return report.ok();
            }
            let mut bytes = [0; 512];
            match self.guard.read(&mut bytes).await {
                Ok(read @ 1..) => self.reports.push(&bytes[..read]),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}
