//! Commits of unknown outcome that come one after the other, told to the log without flooding it.

use std::fmt::Display;

use crate::core::transaction::CommitOutcome;

/// How many commits in a row had an outcome that nobody knows. A store that is away, or a disk that is full, makes all of
/// them fail.
#[derive(Debug, Default)]
pub(super) struct Failures(u64);

impl Failures {
    /// The outcome of one more is unknown, for this reason. The log has the 1st, the 2nd, the 4th, the 8th and so on.
    pub(super) fn note(&mut self, error: &dyn Display) {
        self.0 = self.0.saturating_add(1);
        if self.0.is_power_of_two() {
            crate::logged!(warn, %error, failed = self.0, "the outcome of a commit is unknown");
        }
    }

    /// A commit had an outcome that is known. One that the store could not even try ends no row.
    pub(super) fn answered(&mut self, outcome: &CommitOutcome) {
        if matches!(outcome, CommitOutcome::Unavailable(_)) {
            return;
        }
        let failed = std::mem::take(&mut self.0);
        if failed > 1 && matches!(outcome, CommitOutcome::Committed(_)) {
            crate::logged!(info, failed, "commits succeed again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Version, testing::log::Listening};

    #[test]
    fn a_long_row_of_failures_takes_few_lines_and_its_end_is_said() {
        let log = Listening::to("callsign_store");
        let mut failures = Failures::default();
        let said = |many: usize| -> Vec<_> {
            log.all()
                .into_iter()
                .skip(many)
                .map(|line| (line["message"].clone(), line["failed"].clone()))
                .collect()
        };
        for _ in 0..1000 {
            failures.note(&"it is away");
            failures.answered(&CommitOutcome::Unavailable("not reached".to_owned()));
        }
        let lines = said(0);
        assert_eq!(lines.len(), 10, "{lines:?}");
        assert!(
            lines.iter().all(|(message, _)| message == "the outcome of a commit is unknown"),
            "{lines:?}"
        );
        assert_eq!(lines[9].1, "512");
        failures.answered(&CommitOutcome::Committed(Version(1)));
        assert_eq!(said(10), [("commits succeed again".to_owned(), "1000".to_owned())]);
        // The next row is another one. A single failure is not made more of.
        failures.note(&"it is away");
        failures.answered(&CommitOutcome::Committed(Version(2)));
        assert_eq!(said(11).len(), 1);
    }
}
