//! A text on its way out of the process.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
};

/// Writes a line to standard error. A line that cannot be written is dropped.
pub(super) fn write_line(line: impl fmt::Display) {
    let _ = print_to(io::stderr().lock(), &format!("{line}\n"));
}

/// Writes a text. A reader that is gone has read what it wanted.
pub(super) fn print_to(mut stream: impl Write, text: &str) -> io::Result<()> {
    let written = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
