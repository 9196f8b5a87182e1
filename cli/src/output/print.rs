//! Answers on standard output and messages on standard error, of commands that end. Nothing here panics.
//!
//! A reader that is gone (`callsign ls | head -1`) is a quiet end. An answer that cannot be written for another reason, on a
//! full disk say, is said on standard error; what was done stays done.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::{tell, written::print_to};
use crate::reply::Verdict;

/// What a command did before it printed its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It changed something, so the exit status says what came of that, whether or not the answer could be printed.
    Changes,
    /// It only asked. A caller that does not get the answer does not know it.
    Asks,
}

/// Prints an answer, and returns the exit status of the command: `status`, unless only the answer mattered and it was lost.
pub(crate) fn answer(text: &str, work: Work, status: u8) -> ExitCode {
    let printed = print_to(io::stdout().lock(), text);
    if let Err(error) = &printed {
        tell(format_args!("callsign: the answer could not be printed: {error}"));
    }
    exit_status(printed.is_ok(), work, status).into()
}

fn exit_status(is_printed: bool, work: Work, status: u8) -> u8 {
    match work {
        Work::Asks if !is_printed && status == 0 => Verdict::Unknown.exit_status(),
        _ => status,
    }
}

/// Prints a line of many, on standard output. False: nobody reads it.
pub(crate) fn line(text: &str) -> bool {
    let mut stream = io::stdout().lock();
    stream.write_all(format!("{text}\n").as_bytes()).and_then(|()| stream.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// Fails in this way.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
        assert!(print_to(Broken(ErrorKind::BrokenPipe), "x").is_ok());
        assert!(print_to(Broken(ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn a_lost_answer_leaves_the_status_of_what_was_done_and_is_unknown_to_who_only_asked() {
        assert_eq!(exit_status(false, Work::Changes, 0), 0);
        assert_eq!(exit_status(false, Work::Asks, 0), 3);
        assert_eq!(exit_status(false, Work::Asks, 1), 1, "that it was refused says the status");
        assert_eq!(exit_status(true, Work::Asks, 0), 0);
    }
}
