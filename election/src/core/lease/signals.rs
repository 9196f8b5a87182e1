//! What the records of an election tell a member that did not ask.
//!
//! A refresh tells nobody anything. A signal only brings the next attempt forward, so a lost one costs a poll.

use callsign_store::ids::Epoch;

use super::operation::Outcome;
use crate::{core::state::Who, oracle::Signal};

/// What a member saw last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watcher {
    me: Who,
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    epoch: Option<Epoch>,
    is_mine: bool,
    enabled: bool,
    request: Option<Epoch>,
}

impl Watcher {
    /// One that has seen nothing.
    pub fn new(me: Who) -> Self {
        Self { me, seen: None }
    }

    /// Says what is new.
    pub fn look(&mut self, outcome: &Outcome) -> Vec<Signal> {
        let seat = outcome.state.seat.as_ref();
        let control = outcome.state.control.as_ref();
        let now = Seen {
            epoch: seat.map(|seat| seat.epoch),
            is_mine: seat.is_some_and(|seat| seat.is_held_by(&self.me.member, self.me.incarnation)),
            enabled: control.is_some_and(|control| control.enabled),
            request: control.and_then(|control| control.request),
        };
        let before = self.seen.replace(now);
        let mut signals = Vec::new();
        // A request is of one epoch, and is heard once.
        let asked = now.is_mine && now.request.is_some() && now.request == now.epoch;
        if asked && before.is_none_or(|before| before.request != now.request || before.epoch != now.epoch) {
            signals.push(Signal::ResignRequested { epoch: now.request });
        }
        let Some(before) = before else { return signals };
        if before.epoch != now.epoch {
            if let Some(epoch) = before.epoch.filter(|_| before.is_mine) {
                signals.push(Signal::Revoked { epoch });
            }
            if !now.is_mine {
                signals.push(Signal::Wakeup);
            }
        }
        if before.enabled != now.enabled && !signals.contains(&Signal::Wakeup) {
            signals.push(Signal::Wakeup);
        }
        signals
    }
}
