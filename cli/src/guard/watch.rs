//! The guard as a process, and the step between it and the program.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use callsign_store::{clock::Clock, time::Time};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitStatus, getpid, getppid, kill_process, kill_process_group,
        set_parent_process_death_signal, setsid, waitid,
    },
    thread::set_name,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};

use super::{
    control::{LineBuffer, Word, line, time},
    core::{Effect, Ended, Guard, GuardReport, Input, Why},
    processes::{self, Reaped},
};
use crate::{
    duration,
    output::{LossyLines, tell},
};

/// The command that a guard stands behind: its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Owner {
    /// `callsign run`.
    Run,
    /// `callsign hold`.
    Hold,
}

/// As it is typed.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Hold => "hold",
        })
    }
}

/// Arguments of the hidden `callsign guard`. Its standard input is the node's socket.
#[derive(clap::Args)]
pub(crate) struct GuardArgs {
    /// The command that has started the guard.
    #[arg(long)]
    of: Owner,
    /// How long the program has from the request to end until it is killed.
    #[arg(long, value_parser = duration::parse)]
    grace: Duration,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Arguments of the hidden `callsign guarded-start`.
#[derive(clap::Args)]
pub(crate) struct StartArgs {
    /// The guard's process id.
    #[arg(long)]
    guard: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program, which the kernel kills when the guard ends.
pub(crate) fn start(args: &StartArgs) -> Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask to end with the guard")?;
    // The guard may have ended before that.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != args.guard) {
        bail!("the guard has ended");
    }
    let Some((program, arguments)) = args.command.split_first() else { bail!("no program") };
    let error = Command::new(program).args(arguments).exec();
    tell(format_args!("callsign: cannot run {}: {error}", program.display()));
    // As shells say it.
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }))
}

/// Runs the guard until nobody is left of the program.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode> {
    // Before anything else that takes time: a stopped guard goes on when its node is gone, to see that it is.
    set_parent_process_death_signal(Some(Signal::CONT)).context("cannot ask to be told of the node's end")?;
    set_name(c"callsign-guard").context("cannot take a name")?;
    // A new process never leads a group, so that cannot be refused.
    setsid().context("cannot leave the node's session")?;
    processes::adopt_orphans().context("cannot adopt orphans")?;
    let mut driver = Driver::new(args)?;
    while !driver.is_over {
        driver.wait()?;
        driver.look()?;
    }
    driver.say_why();
    Ok(ExitCode::SUCCESS)
}

struct Driver<'a> {
    guard: Guard,
    of: Owner,
    command: &'a [OsString],
    clock: Clock,
    timer: OwnedFd,
    /// Written to by signal handlers.
    signals: UnixStream,
    node: UnixStream,
    words: LineBuffer,
    is_open: bool,
    /// Until it is reaped its number, which is that of its group, is nobody else's.
    program: Option<Pid>,
    has_started: bool,
    is_over: bool,
}

impl<'a> Driver<'a> {
    fn new(args: &'a GuardArgs) -> Result<Self> {
        let node = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        node.set_nonblocking(true)
            .with_context(|| format!("standard input is no socket: `callsign {}` starts guards", args.of))?;
        let (signals, handlers) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        // Only the node ends the guard. Handlers, and not "ignored", which the program would inherit.
        for signal in [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE]
        {
            signal_hook::low_level::pipe::register(signal, handlers.try_clone()?)?;
        }
        Ok(Self {
            guard: Guard::new(args.grace),
            of: args.of,
            command: &args.command,
            clock: Clock::boot(),
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?,
            signals,
            node,
            words: LineBuffer::default(),
            is_open: true,
            program: None,
            has_started: false,
            is_over: false,
        })
    }

    /// Waits until there is something to look at.
    fn wait(&self) -> Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = match self.guard.wake_at() {
            // Later than the last tick, and so never 0, which would be no timer.
            Some(Time(at)) => Timespec::try_from(at)?,
            None => zero,
        };
        let at = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
        let mut fds =
            vec![PollFd::new(&self.timer, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        if self.is_open {
            fds.push(PollFd::new(&self.node, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes everything in: what the node has said first, so that words that waited count, and the time last.
    fn look(&mut self) -> Result<()> {
        while matches!(self.signals.read(&mut [0; 64]), Ok(1..)) {}
        let mut inputs = self.received();
        // Before the start there is nobody either.
        if self.has_started {
            self.reap(&mut inputs)?;
        }
        inputs.push_back(Input::Tick);
        while let Some(input) = inputs.pop_front() {
            for effect in self.guard.step(self.clock.now(), input) {
                self.carry_out(effect, &mut inputs)?;
            }
        }
        Ok(())
    }

    fn received(&mut self) -> VecDeque<Input> {
        let mut inputs = VecDeque::new();
        let mut bytes = [0; 4096];
        while self.is_open {
            match self.node.read(&mut bytes) {
                Ok(read @ 1..) => self.words.push(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.is_open = false,
            }
        }
        while let Some(word) = self.words.next() {
            match word {
                Ok(Word::TrustedUntil(at)) => inputs.push_back(Input::Trust(time(at))),
                Ok(Word::StopKillAt(at)) => inputs.push_back(Input::Stop(time(at))),
                Ok(Word::HandOn(signal)) => inputs.push_back(Input::HandOn(signal)),
                // No node says that: whoever does is not listened to any longer.
                Err(_) => self.is_open = false,
            }
        }
        if !self.is_open {
            inputs.push_back(Input::Closed);
        }
        inputs
    }

    fn reap(&mut self, inputs: &mut VecDeque<Input>) -> Result<()> {
        if let Some(program) = self.program {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if waitid(WaitId::Pid(program), look)?.is_some() {
                // While the group's number is still its own: what it has left behind, in one stroke.
                let _ = kill_process_group(program, Signal::KILL);
            }
        }
        loop {
            match processes::reap()? {
                Reaped::Child(pid, status) if self.program == Some(pid) => {
                    self.program = None;
                    inputs.push_back(Input::Ended(ended(status)));
                }
                Reaped::Child(..) => {}
                Reaped::NoneEnded => return Ok(()),
                Reaped::Childless => {
                    inputs.push_back(Input::Gone);
                    return Ok(());
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, inputs: &mut VecDeque<Input>) -> Result<()> {
        match effect {
            Effect::Start => match self.start() {
                Ok(pid) => {
                    (self.program, self.has_started) = (Some(pid), true);
                    self.report(GuardReport::Started(pid.as_raw_nonzero().get()));
                }
                Err(error) => {
                    self.report(GuardReport::NotStarted(error.raw_os_error().unwrap_or(0)));
                    inputs.push_back(Input::Gone);
                }
            },
            Effect::Terminate => {
                if let Some(program) = self.program {
                    // One that is stopped hears nothing before it goes on. A process that has ended needs no signal.
                    let _ = kill_process_group(program, Signal::TERM);
                    let _ = kill_process_group(program, Signal::CONT);
                }
            }
            Effect::HandOn(signal) => {
                if let (Some(program), Some(signal)) = (self.program, Signal::from_named_raw(signal)) {
                    // Who has ended needs no signal.
                    let _ = kill_process(program, signal);
                }
            }
            Effect::Kill => {
                // The group in one stroke, whatever it is forking; then whoever has left it.
                if let Some(program) = self.program {
                    let _ = kill_process_group(program, Signal::KILL);
                }
                // Of each that ends then a signal tells.
                processes::kill_descendants()?;
            }
            Effect::Report(report) => self.report(report),
            Effect::Exit => self.is_over = true,
        }
        Ok(())
    }

    fn start(&self) -> io::Result<Pid> {
        let child = Command::new("/proc/self/exe")
            .arg0("callsign")
            .args(["guarded-start", "--guard", &getpid().as_raw_nonzero().to_string(), "--"])
            .args(self.command)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::from(ErrorKind::InvalidData))
    }

    /// Never blocks: a node that is stopped does not listen, and what is not heard is not missed.
    fn report(&mut self, report: GuardReport) {
        let _ = self.node.write_all(&line(&report));
    }

    /// Only now: whoever reads standard error may be stopped, too.
    fn say_why(&self) {
        let Some(said) = self.guard.why().and_then(|why| in_words(self.of, why)) else { return };
        // Nor does anybody wait for who does not read.
        if let Ok((lines, _writing)) = LossyLines::to(io::stderr()) {
            lines.say(&said);
        }
    }
}

/// Why a program was ended, as the guard of this command says it. `None`: the command knows.
fn in_words(of: Owner, why: Why) -> Option<String> {
    let why = match (why, of) {
        (Why::Asked, _) => return None,
        (Why::NodeGone, _) => "is gone, so its program was killed",
        (Why::TrustEnded, Owner::Run) => "did not say in time that it still leads, so its program was ended",
        (Why::TrustEnded, Owner::Hold) => {
            "did not say in time that it still holds the name, so its program was ended"
        }
    };
    Some(format!("callsign guard: `callsign {of}` {why}\n"))
}

fn ended(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Ended::Exit(status),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_guard_speaks_of_the_command_that_has_started_it() {
        let said = |of, why| in_words(of, why).unwrap();
        for (of, command, does) in [(Owner::Run, "run", "leads"), (Owner::Hold, "hold", "holds the name")] {
            let why = format!("did not say in time that it still {does}, so its program was ended");
            assert_eq!(said(of, Why::TrustEnded), format!("callsign guard: `callsign {command}` {why}\n"));
        }
        let gone = "callsign guard: `callsign hold` is gone, so its program was killed\n";
        assert_eq!(said(Owner::Hold, Why::NodeGone), gone);
        for of in [Owner::Run, Owner::Hold] {
            assert_eq!(in_words(of, Why::Asked), None, "the node knows why");
            assert_eq!(Owner::from_str(&of.to_string(), false), Ok(of), "it is read as it is said");
        }
    }
}
