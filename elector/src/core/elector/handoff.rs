//! The lock as a work item: who runs the handoff of an epoch, and until when.
//!
//! The lock says that membership events wait; the term, committed with it, is what fences the old leader. So a lock that
//! is given up costs nothing but that events are applied while the leader still catches up.

use callsign_store::{
    Time,
    ids::{Epoch, NodeName, Nonce},
};

use crate::core::record::Lock;

/// How often a leader tries its handoff before it resigns.
const HANDOFF_ATTEMPTS: u32 = 3;

/// What became of a handoff that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Open,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    epoch: Epoch,
    /// The own lock that it was asked under.
    nonce: Option<Nonce>,
    at: Time,
    answer: Answer,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Handoff {
    seen: Option<(Lock, Time)>,
    asked: Option<Asked>,
    failures: u32,
    /// The nonce of the lock that this elector took from an owner that did not move.
    taken: Option<Nonce>,
}

impl Handoff {
    /// Takes in the lock that the store shows.
    pub(super) fn observe(&mut self, now: Time, lock: Option<&Lock>) {
        match (lock, &self.seen) {
            (Some(lock), Some((seen, _))) if lock == seen => {}
            (lock, _) => self.seen = lock.map(|lock| (lock.clone(), now)),
        }
    }

    /// Since when the lock has not changed.
    pub(super) fn unmoved_since(&self) -> Option<Time> {
        self.seen.as_ref().map(|(_, since)| *since)
    }

    /// Whether to ask the leader now to run its handoff; remembers that it was asked.
    pub(super) fn ask(&mut self, now: Time, node: &NodeName, epoch: Epoch, leads: bool) -> bool {
        let own_lock = self.seen.as_ref().map(|(lock, _)| lock);
        let nonce = own_lock.filter(|l| l.owner == *node && l.epoch == epoch).map(|lock| lock.nonce);
        if !leads && nonce.is_none() {
            return false;
        }
        let former = self.asked.filter(|asked| asked.epoch == epoch);
        match former {
            Some(Asked { answer: Answer::Done, .. }) => return false,
            Some(Asked { answer: Answer::Open, nonce: former, .. }) if nonce.is_none() || nonce == former => {
                return false;
            }
            Some(Asked { answer: Answer::Failed, .. }) if !leads || self.failures >= HANDOFF_ATTEMPTS => {
                return false;
            }
            Some(_) => {}
            None => self.failures = 0,
        }
        self.asked = Some(Asked { epoch, nonce, at: now, answer: Answer::Open });
        true
    }

    /// Takes in an answer. One of another epoch than was asked for does nothing.
    pub(super) fn answered(&mut self, epoch: Epoch, answer: Answer) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.epoch == epoch)
            && asked.answer == Answer::Open
        {
            asked.answer = answer;
            self.failures += u32::from(answer == Answer::Failed);
        }
    }

    /// What became of the handoff of an epoch, and when it was asked for.
    pub(super) fn answer(&self, epoch: Epoch) -> Option<(Answer, Time)> {
        self.asked.filter(|asked| asked.epoch == epoch).map(|asked| (asked.answer, asked.at))
    }

    /// Whether a leader's own handoff failed as often as it may.
    pub(super) fn has_failed(&self, epoch: Epoch) -> bool {
        self.failures >= HANDOFF_ATTEMPTS && matches!(self.answer(epoch), Some((Answer::Failed, _)))
    }

    pub(super) fn take(&mut self, nonce: Nonce) {
        self.taken = Some(nonce);
    }

    pub(super) fn is_taken(&self, nonce: Nonce) -> bool {
        self.taken == Some(nonce)
    }
}
