//! What the guard decides: a plain value that is told what happened, and says what to do.
//!
//! It takes as given that the driver reads what the node has said *before* it says what time it is: after a pause of
//! the guard, words of trust that wait in the pipe count. It promises that the program is asked to end when trust ends,
//! and that everything of it is killed when `grace` is over after that, or at once when the node is gone.

use std::time::Duration;

use callsign_store::time::Time;
use serde::{Deserialize, Serialize};

/// How soon who is left is killed again: processes that were made meanwhile. Longer: they run longer.
const KILL_AGAIN: Duration = Duration::from_millis(10);
/// How seldom, at last, who cannot be killed now is killed again.
const SELDOM: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The node says that the program may run until then.
    Trust(Time),
    /// The node asks for the end of the program, which is killed at that time if it is still there.
    Stop(Time),
    /// The node has got a signal that is meant for the program.
    HandOn(i32),
    /// The node is gone, or will say nothing more.
    Closed,
    /// The program has ended. Others that it started may be there.
    Ended(Ended),
    /// Nobody is left: neither the program nor anybody that it started.
    Gone,
    /// Nothing but that time has passed.
    Tick,
}

/// What to do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start the program.
    Start,
    /// Ask it to end: the whole group.
    Terminate,
    /// Send this signal to the program itself, not to its group: whom it started knows nothing of it.
    HandOn(i32),
    /// Kill everybody.
    Kill,
    /// Tell the node.
    Report(GuardReport),
    /// End the guard.
    Exit,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// What the node is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardReport {
    /// The program runs, under this process id.
    Started(i32),
    /// The program could not be started: the operating system's error.
    NotStarted(i32),
    /// It was asked to end.
    Ending(Why),
    /// It has ended.
    Ended(Ended),
    /// Nobody is left of it.
    Gone,
}

/// Why the program was asked to end, or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// The node wanted it.
    Asked,
    /// The node has not said in time that it is trusted for longer.
    TrustEnded,
    /// The node is gone.
    NodeGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No word of trust came yet, so nothing was started. Left by `Trust`, `Stop`, `Closed`.
    Waiting,
    /// The program runs. Left when the clock shows `until`, and by `Stop`, `Closed`, `Ended`.
    Running { until: Time },
    /// It was asked to end. Left when the clock shows `kill_at`, and by `Closed`, `Ended`.
    Ending { kill_at: Time },
    /// Everybody was killed, and will be again. Left by `Gone`.
    Killing { again: Time, after: Duration },
    /// Nobody is left.
    Over,
}

impl Phase {
    fn has_started(self) -> bool {
        !matches!(self, Self::Waiting | Self::Over)
    }
}

/// The guard of one run of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    /// From the request to end until everybody is killed.
    grace: Duration,
    phase: Phase,
    why: Option<Why>,
}

impl Guard {
    /// A guard that waits for a word of trust. A program that does not end within `grace` is killed.
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, phase: Phase::Waiting, why: None }
    }

    /// When to say [`Input::Tick`] next. `None`: nothing depends on the time.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        match self.phase {
            Phase::Waiting | Phase::Over => None,
            Phase::Running { until: at }
            | Phase::Ending { kill_at: at }
            | Phase::Killing { again: at, .. } => Some(at),
        }
    }

    /// Why the program was ended, if it was not its own doing.
    pub(crate) fn why(&self) -> Option<Why> {
        self.why
    }

    /// Takes one input, and says what to do.
    pub(crate) fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match (self.phase, input) {
            // Trust that is over already starts nothing.
            (Phase::Waiting, Input::Trust(until)) if until > now => {
                self.phase = Phase::Running { until };
                effects.push(Effect::Start);
            }
            (Phase::Waiting, Input::Stop(_) | Input::Closed) => {
                effects.push(Effect::Report(GuardReport::Gone));
                self.exit(&mut effects);
            }
            // Later words reach further; one that does not takes nothing back.
            (Phase::Running { until: before }, Input::Trust(until)) => {
                self.phase = Phase::Running { until: until.max(before) };
            }
            (Phase::Running { .. }, Input::Stop(kill_at)) => {
                self.terminate(now, kill_at, Why::Asked, &mut effects);
            }
            (Phase::Running { until }, Input::Tick) if now >= until => {
                self.terminate(now, until + self.grace, Why::TrustEnded, &mut effects);
            }
            (Phase::Ending { kill_at: before }, Input::Stop(kill_at)) => {
                self.phase = Phase::Ending { kill_at: kill_at.min(before) };
            }
            (Phase::Ending { kill_at }, Input::Tick) if now >= kill_at => self.kill(now, &mut effects),
            (Phase::Running { .. } | Phase::Ending { .. }, Input::Closed) => {
                self.why = self.why.or(Some(Why::NodeGone));
                self.kill(now, &mut effects);
            }
            (Phase::Killing { again, .. }, Input::Tick) if now >= again => self.kill(now, &mut effects),
            (Phase::Running { .. } | Phase::Ending { .. }, Input::HandOn(signal)) => {
                effects.push(Effect::HandOn(signal));
            }
            (phase, Input::Ended(how)) if phase.has_started() => {
                effects.push(Effect::Report(GuardReport::Ended(how)));
                self.kill(now, &mut effects);
            }
            (phase, Input::Gone) if phase.has_started() => {
                effects.push(Effect::Report(GuardReport::Gone));
                self.exit(&mut effects);
            }
            _ => {}
        }
        effects
    }

    fn terminate(&mut self, now: Time, kill_at: Time, why: Why, effects: &mut Vec<Effect>) {
        self.why = Some(why);
        effects.push(Effect::Report(GuardReport::Ending(why)));
        if now >= kill_at {
            return self.kill(now, effects);
        }
        self.phase = Phase::Ending { kill_at };
        effects.push(Effect::Terminate);
    }

    fn kill(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let after = match self.phase {
            Phase::Killing { after, .. } => (after * 2).min(SELDOM),
            _ => KILL_AGAIN,
        };
        self.phase = Phase::Killing { again: now + after, after };
        effects.push(Effect::Kill);
    }

    fn exit(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Over;
        effects.push(Effect::Exit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(1500);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn guard() -> Guard {
        Guard::new(GRACE)
    }

    /// One whose program runs, trusted until 10 s.
    fn running() -> Guard {
        let mut guard = guard();
        assert_eq!(guard.step(at(0), Input::Trust(at(10_000))), [Effect::Start]);
        guard
    }

    fn ending(why: Why) -> Effect {
        Effect::Report(GuardReport::Ending(why))
    }

    #[test]
    fn nothing_is_started_before_a_word_of_trust() {
        let mut guard = guard();
        assert_eq!(guard.step(at(0), Input::Tick), []);
        assert_eq!(guard.wake_at(), None);
        assert_eq!(guard.step(at(1000), Input::Trust(at(1000))), [], "it is over already");
        assert_eq!(guard.step(at(1000), Input::Trust(at(1001))), [Effect::Start]);
    }

    #[test]
    fn that_nobody_is_there_before_the_start_ends_nothing() {
        let mut guard = guard();
        assert_eq!(guard.step(at(0), Input::Gone), []);
        assert_eq!(guard.step(at(1), Input::Trust(at(10))), [Effect::Start]);
    }

    #[test]
    fn a_node_that_is_gone_before_it_gave_trust_has_nothing_started() {
        for input in [Input::Closed, Input::Stop(at(5))] {
            let mut guard = guard();
            assert_eq!(guard.step(at(0), input), [Effect::Report(GuardReport::Gone), Effect::Exit]);
            assert_eq!(guard.step(at(1), Input::Trust(at(9000))), []);
        }
    }

    #[test]
    fn the_program_is_asked_to_end_when_trust_ends_and_killed_when_its_grace_is_over() {
        let mut guard = running();
        assert_eq!(guard.wake_at(), Some(at(10_000)));
        assert_eq!(guard.step(at(9_999), Input::Tick), []);
        assert_eq!(guard.step(at(10_003), Input::Tick), [ending(Why::TrustEnded), Effect::Terminate]);
        // Counted from when trust ended, however late that was noticed.
        assert_eq!(guard.wake_at(), Some(at(11_500)));
        assert_eq!(guard.step(at(11_499), Input::Tick), []);
        assert_eq!(guard.step(at(11_500), Input::Tick), [Effect::Kill]);
        assert_eq!(guard.why(), Some(Why::TrustEnded));
    }

    #[test]
    fn trust_is_extended_and_never_taken_back() {
        let mut guard = running();
        assert_eq!(guard.step(at(5_000), Input::Trust(at(15_000))), []);
        assert_eq!(guard.step(at(5_001), Input::Trust(at(12_000))), []);
        assert_eq!(guard.step(at(14_999), Input::Tick), []);
        assert_eq!(guard.step(at(15_000), Input::Tick), [ending(Why::TrustEnded), Effect::Terminate]);
    }

    #[test]
    fn after_a_pause_of_the_guard_trust_that_was_given_meanwhile_counts() {
        let mut guard = running();
        assert_eq!(guard.step(at(12_000), Input::Trust(at(15_000))), []);
        assert_eq!(guard.step(at(12_000), Input::Tick), []);
    }

    #[test]
    fn once_asked_to_end_it_is_too_late_for_trust() {
        let mut guard = running();
        guard.step(at(10_000), Input::Tick);
        assert_eq!(guard.step(at(10_001), Input::Trust(at(20_000))), []);
        assert_eq!(guard.step(at(11_500), Input::Tick), [Effect::Kill]);
    }

    #[test]
    fn after_a_pause_beyond_the_grace_it_is_killed_at_once() {
        let mut guard = running();
        assert_eq!(guard.step(at(60_000), Input::Tick), [ending(Why::TrustEnded), Effect::Kill]);
    }

    #[test]
    fn the_node_asks_for_the_end_and_says_when_to_kill() {
        let mut guard = running();
        assert_eq!(guard.step(at(100), Input::Stop(at(700))), [ending(Why::Asked), Effect::Terminate]);
        assert_eq!(guard.step(at(699), Input::Tick), []);
        assert_eq!(guard.step(at(700), Input::Tick), [Effect::Kill]);
    }

    #[test]
    fn a_program_whose_time_to_end_is_over_when_it_is_asked_to_is_killed_at_once() {
        let mut guard = running();
        assert_eq!(guard.step(at(700), Input::Stop(at(700))), [ending(Why::Asked), Effect::Kill]);
        assert_eq!(guard.wake_at(), Some(at(710)));
        assert_eq!(guard.step(at(701), Input::Closed), [], "it is being killed");
        assert_eq!(guard.why(), Some(Why::Asked));
    }

    #[test]
    fn who_cannot_be_killed_for_long_is_killed_once_a_second() {
        let mut guard = running();
        guard.step(at(100), Input::Closed);
        for _ in 0..20 {
            let now = guard.wake_at().unwrap();
            assert_eq!(guard.step(now, Input::Tick), [Effect::Kill]);
        }
        let now = guard.wake_at().unwrap();
        guard.step(now, Input::Tick);
        assert_eq!(guard.wake_at(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn a_signal_is_handed_on_while_there_is_a_program_to_hear_it() {
        let mut guard = guard();
        assert_eq!(guard.step(at(0), Input::HandOn(1)), []);
        let mut running = running();
        assert_eq!(running.step(at(50), Input::HandOn(1)), [Effect::HandOn(1)]);
        running.step(at(100), Input::Stop(at(700)));
        assert_eq!(running.step(at(150), Input::HandOn(10)), [Effect::HandOn(10)]);
        running.step(at(700), Input::Tick);
        assert_eq!(running.step(at(701), Input::HandOn(1)), []);
    }

    #[test]
    fn a_second_request_only_brings_the_kill_forward() {
        let mut guard = running();
        guard.step(at(100), Input::Stop(at(700)));
        assert_eq!(guard.step(at(200), Input::Stop(at(900))), []);
        assert_eq!(guard.wake_at(), Some(at(700)));
        assert_eq!(guard.step(at(200), Input::Stop(at(300))), []);
        assert_eq!(guard.wake_at(), Some(at(300)));
    }

    #[test]
    fn a_node_that_is_gone_takes_the_program_with_it_at_once() {
        let mut running = running();
        let mut ending = running.clone();
        ending.step(at(100), Input::Stop(at(700)));
        assert_eq!(running.step(at(200), Input::Closed), [Effect::Kill]);
        assert_eq!(running.why(), Some(Why::NodeGone));
        assert_eq!(ending.step(at(200), Input::Closed), [Effect::Kill]);
        assert_eq!(ending.why(), Some(Why::Asked));
    }

    #[test]
    fn who_is_left_is_killed_until_nobody_is() {
        let mut guard = running();
        guard.step(at(100), Input::Closed);
        assert_eq!(guard.step(at(105), Input::Tick), []);
        assert_eq!(guard.step(at(110), Input::Tick), [Effect::Kill]);
        assert_eq!(guard.wake_at(), Some(at(130)), "less and less often");
        let ended = Ended::Signal(9);
        let expected = [Effect::Report(GuardReport::Ended(ended)), Effect::Kill];
        assert_eq!(guard.step(at(111), Input::Ended(ended)), expected);
        assert_eq!(guard.step(at(112), Input::Gone), [Effect::Report(GuardReport::Gone), Effect::Exit]);
        assert_eq!(guard.wake_at(), None);
        assert_eq!(guard.step(at(113), Input::Tick), []);
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed_before_the_guard_ends() {
        let mut guard = running();
        let ended = Ended::Exit(0);
        let expected = [Effect::Report(GuardReport::Ended(ended)), Effect::Kill];
        assert_eq!(guard.step(at(50), Input::Ended(ended)), expected);
        assert_eq!(guard.why(), None, "its own doing");
        assert_eq!(guard.step(at(51), Input::Gone), [Effect::Report(GuardReport::Gone), Effect::Exit]);
    }
}
