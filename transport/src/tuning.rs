//! The deadlines, intervals and sizes of links.

use std::time::Duration;

/// Deadlines and intervals of links. None of them may be longer than a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LinkTiming {
    /// Within this a connection must be made and authenticated; over a `NodeServer`, its session be ready, too.
    /// Smaller: slow networks never link up. Larger: an idle stranger is kept longer.
    pub handshake: Duration,
    /// How often each side says that it lives, where it says nothing else. Smaller: more packets. Larger than a third of `silence`:
    /// one lost packet ends a link.
    pub ping: Duration,
    /// A peer from which nothing came for this long is given up. Smaller: a busy machine loses links. Larger: the dead are
    /// noticed later.
    pub silence: Duration,
    /// The first wait before dialling again. Smaller: a refusing address is hammered.
    pub redial_min: Duration,
    /// The longest wait before dialling again. Larger: a healed network is noticed later.
    pub redial_max: Duration,
    /// How long `leave` may take to send what is queued and say goodbye.
    pub leave: Duration,
}

impl Default for LinkTiming {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(3),
            ping: Duration::from_millis(1500),
            silence: Duration::from_secs(5),
            redial_min: Duration::from_millis(50),
            redial_max: Duration::from_secs(2),
            leave: Duration::from_secs(2),
        }
    }
}

impl LinkTiming {
    /// These, with some changed: `LinkTiming::default().with(|timing| timing.leave = Duration::from_secs(1))`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// How much memory links may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LinkLimits {
    /// The largest message with its channel and framing, in bytes. All nodes of a cluster should have the same: a
    /// link ends when it brings a larger one.
    pub frame: usize,
    /// Bytes that may wait in a link's control lane.
    pub control_queue: usize,
    /// Bytes that may wait in a link's bulk lane.
    pub bulk_queue: usize,
    /// Bulk bytes that may be under way, sent and not read by the peer. This much may be ahead of a control
    /// message; this much per round trip is the most the bulk lane carries.
    pub bulk_window: usize,
    /// Bytes that may wait for one reader of [`crate::LinkEvents`]; each message counts its length and 1 KiB more.
    /// When they do, the links that bring more are not read from.
    pub inbox: usize,
    /// Accepted sockets that may be in their handshakes. One more, and one that waits longest is closed. Smaller: nodes that
    /// start all at once dial again. Larger: more memory for strangers, at most some 100 KiB each with certificates, 8 KiB
    /// without.
    pub unauthenticated: usize,
    /// How many of them may be of one address (of IPv6: of one network of 64 bits). Smaller: nodes of one machine, or behind
    /// one NAT, that start all at once dial again. Larger: one stranger may have more of the room.
    pub unauthenticated_per_address: usize,
    /// How many of them are kept for familiar addresses: those at which peers are dialled, and from which peers have
    /// authenticated. Smaller: strangers can make a node wait that comes back. Larger: new nodes wait for each other.
    pub reserved: usize,
    /// Handshakes that may begin in a second, for strangers and for familiar addresses each; twice as many at once. What
    /// comes faster is closed unread. Smaller: many nodes that start at once dial again. Larger: strangers may cost more
    /// processor time; each handshake is a key exchange, with certificates some signatures too.
    pub handshakes_per_second: u32,
    /// Bytes a second that are read from one peer, and as many at once. What comes faster waits in the network; nobody is
    /// declared dead for it. Smaller: snapshots and large batches take longer. Larger: one peer may cost more of this
    /// node's time.
    pub received_per_second: usize,
    /// Links that may be up. Those that this node dials always find room. Smaller than the cluster: nodes refuse each other.
    /// Larger: more memory for a peer that comes under ever new names, which a secret allows and certificates do not.
    pub links: usize,
    /// Bytes of calls to this node's actors that one peer may have open; each counts its length and 1 KiB more. One more,
    /// and it fails at once. Smaller: callers of slow actors are refused. Larger: more memory for them.
    pub open_calls: usize,
    /// References to actors of one peer that this node may hold, and actors of this node of whose end one peer may be told. One
    /// more is refused ([`ResolveError::TooMany`](crate::ResolveError::TooMany)). Smaller: lookups of many remote names fail.
    /// Larger: more memory, for each some 100 bytes where the actor is and some kilobytes where the reference is.
    pub references: usize,
}

impl LinkLimits {
    /// What is meant where nothing is said.
    pub const DEFAULT: Self = Self {
        frame: 4 << 20,
        control_queue: 16 << 20,
        bulk_queue: 8 << 20,
        bulk_window: 512 << 10,
        inbox: 8 << 20,
        unauthenticated: 128,
        unauthenticated_per_address: 32,
        reserved: 64,
        handshakes_per_second: 100,
        received_per_second: 256 << 20,
        links: 1024,
        open_calls: 64 << 20,
        references: 1 << 18,
    };

    /// These, with some changed: `LinkLimits::default().with(|limits| limits.links = 300)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_told_nothing_wait_and_ping_as_is_documented() {
        let milliseconds = Duration::from_millis;
        let expected = LinkTiming {
            handshake: milliseconds(3000),
            ping: milliseconds(1500),
            silence: milliseconds(5000),
            redial_min: milliseconds(50),
            redial_max: milliseconds(2000),
            leave: milliseconds(2000),
        };
        assert_eq!(LinkTiming::default(), expected);
        let changed = expected.with(|timing| timing.leave = milliseconds(1));
        assert_eq!(changed, LinkTiming { leave: milliseconds(1), ..expected });
    }
}
