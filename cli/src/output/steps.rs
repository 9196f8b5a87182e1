//! How far a command has come that takes a while and says what it does, step by step. On a terminal there is a bar below what it says, with the
//! time that is left. Elsewhere there are the lines alone.

use std::{
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use callsign_store::lock::lock;

use super::written::write_line;
use crate::{colour::Colours, progress::Progress};

/// The bar that is on the terminal. There is one, as there is one terminal.
static SHOWN: Mutex<Option<Progress>> = Mutex::new(None);

/// The steps of a command. When it is dropped, nothing is left of the bar.
pub(crate) struct Steps {
    total: u64,
    begun: AtomicU64,
}

impl Steps {
    /// None of them has begun.
    pub(crate) fn of(what: &str, total: u64) -> Self {
        Self::with(Progress::of_steps(what, total), total)
    }

    fn with(progress: Progress, total: u64) -> Self {
        *lock(&SHOWN) = Some(progress);
        Self { total, begun: AtomicU64::new(0) }
    }

    /// The next step begins, and this says what it is.
    pub(crate) fn begin(&self, line: impl fmt::Display) {
        tell(Colours::of_stderr().heading(line));
        self.begin_another();
    }

    /// The next step begins, which is one more of the kind that was said last.
    pub(crate) fn begin_another(&self) {
        let done = self.begun.fetch_add(1, Relaxed);
        if let Some(progress) = &*lock(&SHOWN) {
            progress.show(done);
        }
    }

    /// All steps are done.
    pub(crate) fn finish(self) {
        debug_assert_eq!(self.begun.load(Relaxed), self.total, "so many steps were announced");
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        *lock(&SHOWN) = None;
    }
}

/// Prints a line about what goes on, on standard error, above the bar if there is one. A line that cannot be written is dropped.
pub(crate) fn tell(line: impl fmt::Display) {
    match &*lock(&SHOWN) {
        Some(progress) => progress.print(|| write_line(line)),
        None => write_line(line),
    }
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;

    #[test]
    fn the_bar_says_how_many_steps_are_done_and_is_gone_in_the_end() {
        let terminal = InMemoryTerm::new(10, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let steps = Steps::with(Progress::of_steps_to(target, "demo", 3), 3);
        let shown = || terminal.contents();
        steps.begin_another();
        assert!(shown().starts_with("demo ") && shown().contains(" 0/3 steps, "), "{}", shown());
        steps.begin_another();
        steps.begin_another();
        assert!(shown().contains(" 2/3 steps, ") && shown().ends_with(" left"), "{}", shown());
        steps.finish();
        assert_eq!(shown(), "");
        assert!(lock(&SHOWN).is_none());
    }
}
