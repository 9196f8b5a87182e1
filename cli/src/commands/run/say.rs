//! What the command says on standard error, in its own words. Nobody waits for whoever reads it.

use std::fmt;

use crate::output::LossyLines;

/// Says things. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Say {
    singleton: String,
    lines: LossyLines,
}

impl Say {
    /// Says them for this singleton.
    pub(crate) fn new(singleton: &str, lines: LossyLines) -> Self {
        Self { singleton: singleton.to_owned(), lines }
    }

    /// Says a line.
    pub(crate) fn line(&self, text: impl fmt::Display) {
        self.lines.say(&format!("callsign run {}: {text}\n", self.singleton));
    }
}
