//! One link's deadlines: when to speak, when to give up, how to say goodbye.
//!
//! Takes as given: a clock that does not go back, and somebody who sends `Wake` at [`Link::next_wake`]. Not given: that
//! `Wake` comes in time, that a silent peer is dead.
//!
//! Promises: a peer from which nothing comes for the silence limit, while this side listened, ends the link; so does a handshake
//! beyond its deadline; a link that is leaving ends at the latest at its deadline. `End` comes exactly once.

use std::time::Duration;

use crate::{core::frame::Farewell, error::DownReason, tuning::LinkTiming};

/// What can happen to a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The handshake is done.
    Established,
    /// Bytes came from the peer.
    Received,
    /// This side stopped reading, because a reader of its messages is slow.
    Paused,
    /// It reads again.
    Resumed,
    /// The peer's last frame.
    Farewell(Farewell),
    /// The connection is at its end, or broke.
    Closed,
    /// The peer sent what it must not.
    Violation(String),
    /// This node leaves: say goodbye after what is queued.
    Leave,
    /// The table ended this link; say why, and no more.
    Dismiss(Farewell, DownReason),
    /// `next_wake` is reached.
    Wake,
}

/// What the driver is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Queue a ping.
    Ping,
    /// Send what is queued, then this; nothing is queued any more.
    SayLast(Farewell),
    /// Drop what is queued, try to send this.
    SayOnly(Farewell),
    /// The link is down, for this reason.
    End(DownReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// In the handshake, until then. -> Up, Ended
    Opening {
        until: Duration,
    },
    /// -> Leaving, Ended
    Up,
    /// Goodbye is on its way, until the peer closes or then. -> Ended
    Leaving {
        until: Duration,
    },
    Ended,
}

/// One connection, from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    timing: LinkTiming,
    state: State,
    /// When something was last received from the peer, or this side last could not read.
    last_received: Duration,
    is_paused: bool,
    next_ping: Duration,
    /// What `next_wake` said last time something happened: a much later `Wake` means that this side slept.
    expected_wake: Duration,
}

impl Link {
    pub fn new(now: Duration, timing: LinkTiming) -> Self {
        let until = now + timing.handshake;
        Self {
            timing,
            state: State::Opening { until },
            last_received: now,
            is_paused: false,
            next_ping: now,
            expected_wake: until,
        }
    }

    /// When to send `Wake`, unless something else happens before. One too many does no harm.
    pub fn next_wake(&self) -> Option<Duration> {
        match self.state {
            State::Opening { until } | State::Leaving { until } => Some(until),
            State::Up if self.is_paused => Some(self.next_ping),
            State::Up => Some(self.next_ping.min(self.last_received + self.timing.silence)),
            State::Ended => None,
        }
    }

    /// Takes one input and appends what to do about it.
    pub fn step(&mut self, now: Duration, input: Input, effects: &mut Vec<Effect>) {
        if self.state == State::Ended {
            return;
        }
        match input {
            Input::Established => {
                self.state = State::Up;
                self.last_received = now;
                self.next_ping = now + self.timing.ping;
            }
            Input::Received => self.last_received = now,
            Input::Paused => self.is_paused = true,
            Input::Resumed => {
                // What came meanwhile is still to be read: the count starts again.
                self.is_paused = false;
                self.last_received = now;
            }
            Input::Farewell(why) => self.on_farewell(why, effects),
            Input::Closed => {
                let left = matches!(self.state, State::Leaving { .. });
                self.end(if left { DownReason::Left } else { DownReason::Closed }, effects);
            }
            Input::Violation(what) => {
                effects.push(Effect::SayOnly(Farewell::Broken));
                self.end(DownReason::Protocol(what), effects);
            }
            Input::Leave => self.on_leave(now, effects),
            Input::Dismiss(why, reason) => {
                effects.push(Effect::SayOnly(why));
                self.end(reason, effects);
            }
            Input::Wake => self.on_wake(now, effects),
        }
        self.expected_wake = self.next_wake().unwrap_or(now);
    }

    fn on_farewell(&mut self, why: Farewell, effects: &mut Vec<Effect>) {
        let reason = match (why, self.state) {
            (_, State::Leaving { .. }) => DownReason::Left,
            (Farewell::Leaving, _) => DownReason::Goodbye,
            (Farewell::Evicted, _) => DownReason::Evicted,
            (Farewell::Replaced, _) => DownReason::Replaced,
            (Farewell::Forgotten, _) => DownReason::Forgotten,
            (Farewell::Broken, _) => DownReason::Closed,
        };
        self.end(reason, effects);
    }

    fn on_leave(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match self.state {
            State::Opening { .. } => self.end(DownReason::Left, effects),
            State::Up => {
                effects.push(Effect::SayLast(Farewell::Leaving));
                self.state = State::Leaving { until: now + self.timing.leave };
            }
            State::Leaving { .. } | State::Ended => {}
        }
    }

    fn on_wake(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match self.state {
            State::Opening { until } if now >= until => self.end(DownReason::Silent, effects),
            State::Leaving { until } if now >= until => self.end(DownReason::Left, effects),
            State::Up => {
                // A node that was itself stopped cannot tell who was silent: what the peer said meanwhile waits in
                // the socket. The count starts again.
                if now > self.expected_wake + self.timing.silence / 2 {
                    self.last_received = now;
                }
                if !self.is_paused && now >= self.last_received + self.timing.silence {
                    effects.push(Effect::SayOnly(Farewell::Broken));
                    self.end(DownReason::Silent, effects);
                } else if now >= self.next_ping {
                    effects.push(Effect::Ping);
                    self.next_ping = now + self.timing.ping;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, reason: DownReason, effects: &mut Vec<Effect>) {
        self.state = State::Ended;
        effects.push(Effect::End(reason));
    }
}

#[cfg(test)]
mod tests;
