//! A program that runs while this process may have it run, under a guard ([`crate::guard`]) that ends it when that is over,
//! whatever became of this process.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use tokio::sync::{broadcast, watch};

use crate::guard::{self, Ended};

mod mandate;
mod restarts;
mod say;
mod shift;
mod signals;

pub(crate) use mandate::{Allowed, Mandate};
pub(crate) use restarts::{OnExit, Restarts};
pub(crate) use say::Say;
pub(crate) use shift::{Outcome, Shift};
pub(crate) use signals::{Ends, hand_on};

/// How much of the stop budget is for the program to die in, after it was killed. At most a quarter of it.
const DYING: Duration = Duration::from_millis(500);
/// How long one look waits for processes that were killed.
const LOOK: Duration = Duration::from_millis(500);

/// How a program is run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) command: Vec<OsString>,
    /// How long the program has from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    pub(crate) say: Say,
    /// Whether the program is not to be waited for any longer.
    pub(crate) hurry: watch::Receiver<bool>,
    /// Signals for the program.
    pub(crate) handed_on: broadcast::Sender<i32>,
}

/// How long the program has from SIGTERM to SIGKILL, of the time that it has to stop.
pub(crate) fn grace(stop_budget: Duration) -> Duration {
    stop_budget.saturating_sub(DYING.min(stop_budget / 4))
}

/// Whether there is such a program, as `exec` looks for it.
pub(crate) fn can_be_run(program: &OsStr) -> bool {
    let is_program =
        |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if program.as_bytes().contains(&b'/') {
        return is_program(program.as_ref());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !program.is_empty() && std::env::split_paths(&path).any(|directory| is_program(&directory.join(program)))
}

/// The host's name and some random digits: another one at each start, so that nobody is taken for somebody else.
pub(crate) fn own_name() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let host: String =
        host.chars().filter(|c| c.is_ascii_alphanumeric() || ".-_".contains(*c)).take(80).collect();
    format!("{}-{:08x}", if host.is_empty() { "node" } else { &host }, rand::random::<u32>())
}

/// The exit status for a program's end, as shells say it.
pub(crate) fn status_of(ended: Ended) -> ExitCode {
    let status = match ended {
        Ended::Exit(status) => status,
        Ended::Signal(signal) => 128 + signal,
    };
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Makes sure that no process of the program is there; an error says why that is not known.
pub(crate) async fn nobody_is_left() -> Result<(), String> {
    let alone = tokio::task::spawn_blocking(|| guard::own_no_orphans(Duration::ZERO, LOOK)).await;
    let unknown = |error: &dyn std::fmt::Display| {
        format!("it is not known whether a process of the program is still there: {error}")
    };
    match alone {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err("a process of the program is still there".to_owned()),
        Ok(Err(error)) => Err(unknown(&error)),
        Err(error) => Err(unknown(&error)),
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::MemberId;

    use super::*;

    #[test]
    fn own_names_are_good_names_and_differ() {
        let (one, other) = (own_name(), own_name());
        assert_ne!(one, other);
        MemberId::new(one).unwrap();
    }

    #[test]
    fn programs_are_found_as_exec_finds_them() {
        assert!(can_be_run("sh".as_ref()));
        assert!(can_be_run("/bin/sh".as_ref()));
        for wrong in ["", "/no/such", "no-such-program", "/etc/passwd", "/bin"] {
            assert!(!can_be_run(wrong.as_ref()), "{wrong}");
        }
    }

    #[test]
    fn the_program_is_killed_before_its_time_to_stop_is_over() {
        let ms = Duration::from_millis;
        assert_eq!(grace(ms(2000)), ms(1500));
        assert_eq!(grace(ms(200)), ms(150));
        assert_eq!(grace(ms(0)), ms(0));
    }
}
