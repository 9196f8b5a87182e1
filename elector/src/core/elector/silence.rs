//! Whether the leader is silent, as one member sees it.
//!
//! Only the member's own clock counts, and only what it saw in the current epoch.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::{
    Time,
    ids::{Epoch, NodeName},
};

use crate::core::elector::timing::ElectorTiming;

/// What a member may say of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Voice {
    /// There was contact lately, or it is too early to say.
    Fine,
    /// It is silent.
    Silent {
        /// Whether there was contact before, in this epoch.
        had_contact: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Silence {
    limit: Duration,
    /// How long one may take with whom there never was contact: it may have a handoff to run first.
    first: Duration,
    /// A gap between two steps longer than this is a stall of our own.
    stall: Duration,
    epoch: Epoch,
    since: Time,
    last_contact: Option<Time>,
    /// Contact in an epoch that the store has not shown us yet.
    ahead: Option<(Epoch, Time)>,
    down: BTreeSet<NodeName>,
    last_step: Time,
}

/// How long a leader may take that was never heard, by the time that a lock may be held. Any times can be set.
pub(super) fn first(lock: Duration, silence: Duration) -> Duration {
    lock.saturating_add(silence.saturating_mul(2))
}

impl Silence {
    pub(super) fn of(timing: &ElectorTiming) -> Self {
        let limit = timing.silence;
        Self {
            limit,
            first: first(timing.lock, limit),
            stall: timing.poll.saturating_mul(2),
            epoch: Epoch(0),
            since: Time::ZERO,
            last_contact: None,
            ahead: None,
            down: BTreeSet::new(),
            last_step: Time::ZERO,
        }
    }

    /// From now on the leader may be silent for so long, and a lock be held.
    pub(super) fn limit(&mut self, limit: Duration, lock: Duration) {
        (self.limit, self.first) = (limit, first(lock, limit));
    }

    /// Takes note that time passed.
    pub(super) fn pass(&mut self, now: Time) {
        // Whoever was suspended, or starved, had contact with nobody. That is not the leader's silence.
        if now.since(self.last_step) > self.stall {
            self.since = now;
            self.last_contact = self.last_contact.map(|_| now);
        }
        self.last_step = self.last_step.max(now);
    }

    /// Takes in the epoch that the store shows.
    pub(super) fn observe(&mut self, now: Time, epoch: Epoch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.since = now;
            self.last_contact = self.ahead.take().filter(|(ahead, _)| *ahead == epoch).map(|(_, at)| at);
        }
    }

    /// Takes note of a message of a leader. Says whether it is of an epoch that the store has not shown yet.
    pub(super) fn contact(&mut self, now: Time, epoch: Epoch) -> bool {
        if epoch == self.epoch {
            self.last_contact = Some(now);
        } else if epoch > self.epoch {
            self.ahead = Some((epoch, now));
        }
        epoch > self.epoch
    }

    /// Whether a message of the leader in this epoch only says that it goes on as before: it was heard in it, is not silent
    /// now, and would not become so until then.
    pub(super) fn goes_on(&self, now: Time, epoch: Epoch, leader: &NodeName, until: Time) -> bool {
        epoch == self.epoch
            && self.last_contact.is_some()
            && self.voice(now, leader) == Voice::Fine
            && self.due() > until
    }

    pub(super) fn link(&mut self, node: NodeName, up: bool) {
        if up {
            self.down.remove(&node);
        } else {
            self.down.insert(node);
        }
    }

    /// The nodes whose links closed and were not opened again.
    pub(super) fn unlinked(&self) -> &BTreeSet<NodeName> {
        &self.down
    }

    /// What may be said of the leader now.
    pub(super) fn voice(&self, now: Time, leader: &NodeName) -> Voice {
        let silent = match self.last_contact {
            Some(at) => now.since(at) >= self.limit || self.down.contains(leader),
            None => now.since(self.since) >= self.first,
        };
        if silent { Voice::Silent { had_contact: self.last_contact.is_some() } } else { Voice::Fine }
    }

    /// Whether there is no use in waiting for the leader's elector.
    pub(super) fn is_out(&self, now: Time, leader: &NodeName) -> bool {
        self.down.contains(leader) || self.voice(now, leader) != Voice::Fine
    }

    /// When the leader becomes silent, if there is no contact.
    pub(super) fn due(&self) -> Time {
        self.last_contact.map_or(self.since + self.first, |at| at + self.limit)
    }
}
