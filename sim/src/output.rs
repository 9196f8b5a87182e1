//! What the command says, on standard output and on standard error. Nothing here panics.
//!
//! A reader that is gone (`callsign-sim run | head -1`) has read what it wanted: the rest is dropped, and the exit status says
//! what was found, as ever. What cannot be written for another reason, on a full disk say, makes it a failure at the end.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

/// Why a line was lost that somebody wanted to read, the first time.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line on standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}

/// Prints a line about what goes on, on standard error.
macro_rules! tell {
    ($($words:tt)*) => { $crate::output::aside(format_args!($($words)*)) };
}

pub(crate) fn line(words: fmt::Arguments<'_>) {
    if let Err(error) = write_line(io::stdout().lock(), words) {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

pub(crate) fn aside(words: fmt::Arguments<'_>) {
    let _ = write_line(io::stderr().lock(), words); // there is nowhere to say it
}

/// The exit status of a command that came to a good end.
pub(crate) fn status() -> ExitCode {
    match &*LOST.lock().unwrap_or_else(PoisonError::into_inner) {
        None => ExitCode::SUCCESS,
        Some(error) => {
            aside(format_args!("callsign-sim: what was found could not be printed: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn write_line(mut stream: impl Write, words: fmt::Arguments<'_>) -> io::Result<()> {
    match stream.write_all(format!("{words}\n").as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
