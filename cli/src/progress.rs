//! How far something has come that takes a while: a bar with the time that is left on a terminal, and a line now and then elsewhere.
//!
//! The simulator and chaos have this file, too.
#![allow(clippy::disallowed_methods)] // the wall clock, for people
#![allow(dead_code)] // each of them uses a part

use std::{
    io::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How often the bar says anew how much time is left.
const TICK: Duration = Duration::from_secs(1);

/// What the bar shows: of what is many in a second, and of what takes seconds. Tests try them.
const BAR: &str = "{prefix} {wide_bar:.green} {pos}/{len} {msg}, {per_sec}, {eta} left";
const BAR_OF_STEPS: &str = "{prefix} {wide_bar:.green} {pos}/{len} {msg}, {elapsed} so far, {eta} left";

/// See the [module](self). It writes to standard error, and the bar is gone when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    what: String,
    unit: &'static str,
    begin: Instant,
    /// The second of the last line.
    told: AtomicU64,
}

impl Progress {
    /// Nothing of this is done yet. `unit` is what is counted, in the plural.
    pub fn new(what: &str, unit: &'static str, total: u64) -> Self {
        Self::to(ProgressDrawTarget::stderr(), BAR, what, unit, total).ticking()
    }

    /// The same of steps that take seconds.
    pub fn of_steps(what: &str, total: u64) -> Self {
        Self::of_steps_to(ProgressDrawTarget::stderr(), what, total).ticking()
    }

    pub(crate) fn of_steps_to(target: ProgressDrawTarget, what: &str, total: u64) -> Self {
        Self::to(target, BAR_OF_STEPS, what, "steps", total)
    }

    fn ticking(self) -> Self {
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(TICK);
        }
        self
    }

    fn to(target: ProgressDrawTarget, bar: &str, what: &str, unit: &'static str, total: u64) -> Self {
        let style = ProgressStyle::with_template(bar).expect("a constant that a test has tried");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
        bar.set_prefix(what.to_owned());
        bar.set_message(unit);
        Self { bar, what: what.to_owned(), unit, begin: Instant::now(), told: AtomicU64::new(0) }
    }

    /// So much is done, and whoever calls says lines of its own elsewhere.
    pub fn show(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// So much is done.
    pub fn at(&self, done: u64) {
        self.show(done);
        if self.bar.is_hidden()
            && let Some(line) = self.line(done, self.begin.elapsed())
        {
            let _ = writeln!(std::io::stderr(), "{line}"); // there is nowhere to say it
        }
    }

    /// Lets somebody print, above the bar if there is one.
    pub fn print(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// What is to be said after so long, if it is time to say something.
    #[allow(clippy::cast_precision_loss)] // for people
    fn line(&self, done: u64, elapsed: Duration) -> Option<String> {
        let (second, last) = (elapsed.as_secs(), self.told.load(Relaxed));
        let is_due = second >= last + LINE_INTERVAL.as_secs();
        // One of several threads says it.
        if !is_due || self.told.compare_exchange(last, second, Relaxed, Relaxed).is_err() {
            return None;
        }
        let rate = done as f64 / elapsed.as_secs_f64();
        Some(format!("{}: {done} {}, {rate:.0}/s", self.what, self.unit))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn a_terminal_shows_a_bar_that_is_gone_in_the_end() {
        let terminal = InMemoryTerm::new(10, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let progress = Progress::to(target, BAR, "standard", "seeds", 200);
        progress.at(50);
        progress.bar.tick();
        let shown = terminal.contents();
        assert!(shown.starts_with("standard ") && shown.contains(" 50/200 seeds, "), "{shown}");
        assert!(shown.contains(" left"), "{shown}");
        progress.print(|| assert_eq!(terminal.contents(), "", "what is printed meanwhile has its own place"));
        drop(progress);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn elsewhere_there_is_a_line_every_five_seconds() {
        let progress = Progress::to(ProgressDrawTarget::hidden(), BAR, "standard", "seeds", 200);
        let line = |done, seconds| progress.line(done, Duration::from_secs(seconds));
        assert_eq!(line(10, 4), None);
        assert_eq!(line(20, 5).as_deref(), Some("standard: 20 seeds, 4/s"));
        assert_eq!(line(30, 9), None);
        assert_eq!(line(60, 12).as_deref(), Some("standard: 60 seeds, 5/s"));
    }
}
