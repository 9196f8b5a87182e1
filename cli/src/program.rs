//! A program that runs while this process may have it run, under a guard ([`crate::guard`]) that ends it when that is over,
//! whatever became of this process.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use tokio::sync::{broadcast, watch};

use crate::{
    guard::{self, Ended, Owner},
    usage::Usage,
};

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

const NOT_FOUND: &str = "is not found";
const FORBIDDEN: &str = "may not be executed";

/// How a program is run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The command that has it run.
    pub(crate) of: Owner,
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

/// Looks for a program as `exec` does. The error says why it cannot be run.
pub(crate) fn can_be_run(program: &OsStr) -> Result<(), Usage> {
    if program.is_empty() {
        return Err(Usage("the program has no name".to_owned()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    looked_for(program, &path).map_err(|why| Usage(format!("{} {why}", program.display())))
}

/// Looks at the file of that name; of a bare name, at each file of that name in the directories of `path`.
fn looked_for(program: &OsStr, path: &OsStr) -> Result<(), &'static str> {
    if program.as_bytes().contains(&b'/') {
        return looked_at(program.as_ref());
    }
    let places = std::env::split_paths(path).map(|directory| directory.join(program));
    let looked: Vec<_> = places.filter(|place| place.exists()).map(|place| looked_at(&place)).collect();
    looked.iter().find(|looked| looked.is_ok()).or(looked.first()).copied().unwrap_or(Err(NOT_FOUND))
}

fn looked_at(file: &Path) -> Result<(), &'static str> {
    match file.metadata() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(FORBIDDEN),
        Err(_) => Err(NOT_FOUND),
        Ok(metadata) if metadata.is_dir() => Err("is a directory"),
        Ok(metadata) => {
            let is_program =
                metadata.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
            if is_program { Ok(()) } else { Err(FORBIDDEN) }
        }
    }
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
    fn an_own_name_begins_with_that_of_the_host() {
        let host = rustix::system::uname();
        let plain = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        let name = own_name();
        let (begins, digits) = name.rsplit_once('-').unwrap();
        assert_eq!(plain(begins), plain(&host.nodename().to_string_lossy()));
        assert_eq!(digits.len(), 8, "{name}");
    }

    #[test]
    fn programs_are_found_as_exec_finds_them() {
        assert_eq!(can_be_run("sh".as_ref()), Ok(()));
        assert_eq!(can_be_run("/bin/sh".as_ref()), Ok(()));
        for (wrong, why) in [
            ("", "the program has no name"),
            ("/no/such", "/no/such is not found"),
            ("/etc/passwd/x", "/etc/passwd/x is not found"),
            ("no-such-program", "no-such-program is not found"),
            ("/etc/passwd", "/etc/passwd may not be executed"),
            ("/bin", "/bin is a directory"),
        ] {
            assert_eq!(can_be_run(wrong.as_ref()), Err(Usage(why.to_owned())));
        }
    }

    #[test]
    fn of_several_files_of_a_name_one_that_can_be_run_counts_and_otherwise_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::create_dir(&text).unwrap();
        std::fs::write(text.join("sh"), "no program").unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir_all(below.join("sh")).unwrap();
        let nowhere = directory.path().join("nowhere");
        let look =
            |directories: &[&Path]| looked_for("sh".as_ref(), &std::env::join_paths(directories).unwrap());
        assert_eq!(look(&[&nowhere, &text, &below, Path::new("/bin")]), Ok(()));
        assert_eq!(look(&[&nowhere, &text, &below]), Err("may not be executed"));
        assert_eq!(look(&[&below, &text]), Err("is a directory"));
        assert_eq!(look(&[&nowhere]), Err("is not found"));
    }

    #[test]
    fn the_program_is_killed_before_its_time_to_stop_is_over() {
        let ms = Duration::from_millis;
        assert_eq!(grace(ms(2000)), ms(1500));
        assert_eq!(grace(ms(200)), ms(150));
        assert_eq!(grace(ms(0)), ms(0));
    }
}
