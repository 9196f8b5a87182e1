//! What becomes of a program that has ended by itself.

use std::{collections::VecDeque, time::Duration};

use callsign_store::time::Time;

/// How often it is started again where it is.
pub(crate) const MOST_RESTARTS: usize = 3;
/// Within this time. One that ran for longer starts with a clean slate.
pub(crate) const RESTARTS_WITHIN: Duration = Duration::from_secs(30);
/// How long it waits at least before it is started in the next term, after it has failed [`MOST_RESTARTS`] times in one. Shorter: one
/// that is alone, and whose program cannot run, does little else than to be elected.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long at most. The campaign gives a role 30 s to get going.
const LONGEST_RESTART_PAUSE: Duration = Duration::from_secs(16);

/// What to do when the program ends by itself, whatever its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnExit {
    /// Start it again, up to 3 times in 30 s; then let another node have it.
    Restart,
    /// Let another node have it at once.
    Release,
    /// Give the lease back, and exit with the program's exit status.
    Stop,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Start it again: for the how-manieth time within [`RESTARTS_WITHIN`].
    Restart(usize),
    /// Give up the term.
    Release,
    /// End altogether.
    Stop,
}

/// Counts the restarts of one node, over all its terms.
#[derive(Clone, Debug)]
pub(crate) struct Restarts {
    on_exit: OnExit,
    made: VecDeque<Time>,
    pause: Duration,
}

impl Restarts {
    /// None was made yet.
    pub(crate) fn new(on_exit: OnExit) -> Self {
        Self { on_exit, made: VecDeque::new(), pause: Duration::ZERO }
    }

    /// The program has ended by itself, after it ran for `ran`.
    pub(crate) fn ended(&mut self, now: Time, ran: Duration) -> Next {
        self.made.retain(|at| now.since(*at) < RESTARTS_WITHIN);
        if ran >= RESTARTS_WITHIN {
            self.pause = Duration::ZERO;
        }
        match self.on_exit {
            OnExit::Stop => Next::Stop,
            OnExit::Restart if self.made.len() < MOST_RESTARTS => {
                self.made.push_back(now);
                Next::Restart(self.made.len())
            }
            OnExit::Restart | OnExit::Release => {
                self.made.clear();
                self.pause = (self.pause * 2).clamp(RESTART_PAUSE, LONGEST_RESTART_PAUSE);
                Next::Release
            }
        }
    }

    /// How long to wait before the first start of a term.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEFLY: Duration = Duration::from_millis(5);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    #[test]
    fn a_program_is_started_again_three_times_in_thirty_seconds_and_then_another_node_has_it() {
        let mut restarts = Restarts::new(OnExit::Restart);
        for (second, count) in [(0, 1), (10, 2), (29, 3)] {
            assert_eq!(restarts.ended(at(second), BRIEFLY), Next::Restart(count));
        }
        assert_eq!(restarts.ended(at(29), BRIEFLY), Next::Release);
    }

    #[test]
    fn after_another_node_may_have_had_it_all_restarts_are_there_again() {
        let mut restarts = Restarts::new(OnExit::Restart);
        for next in [
            Next::Restart(1),
            Next::Restart(2),
            Next::Restart(3),
            Next::Release,
            Next::Restart(1),
            Next::Restart(2),
        ] {
            assert_eq!(restarts.ended(at(1), BRIEFLY), next);
        }
    }

    #[test]
    fn a_restart_counts_for_thirty_seconds() {
        let mut restarts = Restarts::new(OnExit::Restart);
        for second in [0, 10, 20, 30, 40, 50, 60] {
            assert!(matches!(restarts.ended(at(second), BRIEFLY), Next::Restart(_)), "{second}");
        }
    }

    #[test]
    fn the_next_terms_begin_later_and_later_until_the_program_ran_for_a_while() {
        let mut restarts = Restarts::new(OnExit::Release);
        assert_eq!(restarts.pause(), Duration::ZERO);
        for seconds in [1, 2, 4, 8, 16, 16] {
            assert_eq!(restarts.ended(at(0), BRIEFLY), Next::Release);
            assert_eq!(restarts.pause(), Duration::from_secs(seconds));
        }
        assert_eq!(restarts.ended(at(100), RESTARTS_WITHIN), Next::Release);
        assert_eq!(restarts.pause(), RESTART_PAUSE);
    }

    #[test]
    fn who_asked_to_stop_with_the_program_stops_at_once() {
        assert_eq!(Restarts::new(OnExit::Stop).ended(at(0), BRIEFLY), Next::Stop);
    }
}
