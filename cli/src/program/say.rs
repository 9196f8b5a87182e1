//! What the command says on standard error, in its own words. Nobody waits for whoever reads it.

use std::fmt;

use crate::output::LossyLines;

/// Says things. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Say {
    who: String,
    lines: LossyLines,
}

impl Say {
    /// Says them in the name of this command: `callsign run reports`.
    pub(crate) fn new(who: String, lines: LossyLines) -> Self {
        Self { who, lines }
    }

    /// Says a line.
    pub(crate) fn line(&self, text: impl fmt::Display) {
        self.lines.say(&format!("{}: {text}\n", self.who));
    }
}
