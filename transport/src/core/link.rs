//! One link's deadlines: when to speak, when to give up, how to say goodbye.
//!
//! Takes as given: a clock that does not go back, and somebody who sends `Wake` at [`Link::next_wake`]. Not given: that
//! `Wake` comes in time, that a silent peer is dead.
//!
//! Promises: a peer from which nothing comes for the silence limit, while this side listened, ends the link; so does a handshake
//! beyond its deadline; a link that is leaving ends at the latest at its deadline. `End` comes exactly once.

use std::time::Duration;

use crate::{core::frame::Farewell, error::DownReason, tuning::LinkTiming};

/// At how many times in an interval a node pings its peers, so that it wakes that often and not once for each of them. Fewer: the
/// first ping of a link comes earlier. More: a node of many links wakes more often.
const PING_TIMES: u32 = 2;

/// What can happen to a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The handshake is done.
    Established,
    /// Bytes came from the peer.
    Received,
    /// Bytes went out to the peer.
    Sent,
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
enum LinkState {
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
    state: LinkState,
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
            state: LinkState::Opening { until },
            last_received: now,
            is_paused: false,
            next_ping: now,
            expected_wake: until,
        }
    }

    /// When to send `Wake`, unless something else happens before. One too many does no harm.
    pub fn next_wake(&self) -> Option<Duration> {
        match self.state {
            LinkState::Opening { until } | LinkState::Leaving { until } => Some(until),
            LinkState::Up if self.is_paused => Some(self.next_ping),
            LinkState::Up => Some(self.next_ping.min(self.last_received + self.timing.silence)),
            LinkState::Ended => None,
        }
    }

    /// Takes one input and appends what to do about it.
    pub fn step(&mut self, now: Duration, input: Input, effects: &mut Vec<Effect>) {
        if self.state == LinkState::Ended {
            return;
        }
        match input {
            Input::Established => {
                self.state = LinkState::Up;
                self.last_received = now;
                self.next_ping = self.ping_after(now);
            }
            Input::Received => self.last_received = now,
            Input::Sent => {
                self.forgive_if_stopped(now);
                // The peer hears that this side lives by whatever is sent.
                self.next_ping = self.next_ping.max(self.ping_after(now));
            }
            Input::Paused => self.is_paused = true,
            Input::Resumed => {
                // What came meanwhile is still to be read: the count starts again.
                self.is_paused = false;
                self.last_received = now;
            }
            Input::Farewell(why) => self.on_farewell(why, effects),
            Input::Closed => {
                let left = matches!(self.state, LinkState::Leaving { .. });
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
            (_, LinkState::Leaving { .. }) => DownReason::Left,
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
            LinkState::Opening { .. } => self.end(DownReason::Left, effects),
            LinkState::Up => {
                effects.push(Effect::SayLast(Farewell::Leaving));
                self.state = LinkState::Leaving { until: now + self.timing.leave };
            }
            LinkState::Leaving { .. } | LinkState::Ended => {}
        }
    }

    fn on_wake(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match self.state {
            LinkState::Opening { until } if now >= until => self.end(DownReason::Silent, effects),
            LinkState::Leaving { until } if now >= until => self.end(DownReason::Left, effects),
            LinkState::Up => {
                self.forgive_if_stopped(now);
                if !self.is_paused && now >= self.last_received + self.timing.silence {
                    effects.push(Effect::SayOnly(Farewell::Broken));
                    self.end(DownReason::Silent, effects);
                } else if now >= self.next_ping {
                    effects.push(Effect::Ping);
                    self.next_ping = self.ping_after(now);
                }
            }
            _ => {}
        }
    }

    /// A node that was itself stopped cannot tell who was silent: what the peer said meanwhile waits in the socket. The count
    /// starts again.
    fn forgive_if_stopped(&mut self, now: Duration) {
        if now > self.expected_wake + self.timing.silence / 2 {
            self.last_received = now;
        }
    }

    /// When to ping a peer that hears something now, and nothing else until then: after an interval at the latest, at one of the
    /// times at which this node pings.
    fn ping_after(&self, now: Duration) -> Duration {
        let at = now + self.timing.ping;
        let step = (self.timing.ping / PING_TIMES).as_nanos();
        let beyond = at.as_nanos().checked_rem(step).unwrap_or(0);
        at.saturating_sub(Duration::from_nanos(u64::try_from(beyond).unwrap_or(0)))
    }

    fn end(&mut self, reason: DownReason, effects: &mut Vec<Effect>) {
        self.state = LinkState::Ended;
        effects.push(Effect::End(reason));
    }
}

#[cfg(test)]
mod tests;
