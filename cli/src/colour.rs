//! A little colour for people, on a terminal only. `NO_COLOR` turns it off, and `CLICOLOR_FORCE` turns it on where there is no terminal.
//!
//! The simulator and chaos have this file, too.
#![allow(dead_code)] // each of them uses a part

use std::{fmt, io};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Whether a stream gets colours. What is painted without them is the bare text.
#[derive(Clone, Copy, Debug)]
pub struct Colours {
    are_on: bool,
}

impl Colours {
    /// Those of standard output.
    pub fn of_stdout() -> Self {
        Self::by(AutoStream::choice(&io::stdout()))
    }

    /// Those of standard error.
    pub fn of_stderr() -> Self {
        Self::by(AutoStream::choice(&io::stderr()))
    }

    /// None.
    pub fn off() -> Self {
        Self::by(ColorChoice::Never)
    }

    /// All of them, whatever they are written to.
    pub fn on() -> Self {
        Self::by(ColorChoice::Always)
    }

    fn by(choice: ColorChoice) -> Self {
        Self { are_on: choice != ColorChoice::Never }
    }

    /// What is as it should be.
    pub fn good<T>(self, text: T) -> Painted<T> {
        self.paint(text, Style::new().fg_color(Some(AnsiColor::Green.into())))
    }

    /// What must not be.
    pub fn bad<T>(self, text: T) -> Painted<T> {
        self.paint(text, Style::new().bold().fg_color(Some(AnsiColor::Red.into())))
    }

    /// What is good if nothing is wrong, and bad otherwise.
    pub fn verdict<T>(self, is_good: bool, text: T) -> Painted<T> {
        if is_good { self.good(text) } else { self.bad(text) }
    }

    /// What may make the rest worthless.
    pub fn warning<T>(self, text: T) -> Painted<T> {
        self.paint(text, Style::new().fg_color(Some(AnsiColor::Yellow.into())))
    }

    /// What stands above the rest.
    pub fn heading<T>(self, text: T) -> Painted<T> {
        self.paint(text, Style::new().bold())
    }

    /// Details.
    pub fn faint<T>(self, text: T) -> Painted<T> {
        self.paint(text, Style::new().dimmed())
    }

    fn paint<T>(self, text: T, style: Style) -> Painted<T> {
        Painted { text, style: if self.are_on { style } else { Style::new() } }
    }
}

/// A text with its colour.
#[derive(Clone, Copy, Debug)]
pub struct Painted<T> {
    text: T,
    style: Style,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.style.render())?;
        // A width is that of the text alone.
        self.text.fmt(f)?;
        write!(f, "{}", self.style.render_reset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_painted_where_colours_are_on_and_bare_elsewhere() {
        let (on, off) = (Colours::on(), Colours::off());
        assert_eq!(on.good("ok").to_string(), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(on.verdict(false, "FAIL").to_string(), "\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m");
        for painted in [off.good("ok"), off.bad("ok"), off.warning("ok"), off.heading("ok"), off.faint("ok")]
        {
            assert_eq!(painted.to_string(), "ok");
        }
    }

    #[test]
    fn a_column_is_as_wide_as_without_colours() {
        let (on, off) = (Colours::on(), Colours::off());
        assert_eq!(format!("{:>5}|", off.faint(42)), "   42|");
        assert_eq!(format!("{:>5}|", on.faint(42)), "\u{1b}[2m   42\u{1b}[0m|");
    }

    #[test]
    fn what_is_no_terminal_gets_none() {
        // Those of tests are captured, but the streams themselves may be a terminal.
        let file = tempfile::tempfile().unwrap();
        assert_eq!(AutoStream::choice(&file), ColorChoice::Never);
    }
}
