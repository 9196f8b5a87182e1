//! Who may come in to be asked who he is: limits on accepted sockets that have not authenticated.
//!
//! A source is an IPv4 address, or 64 bits of an IPv6 address. It is *familiar* if a peer has authenticated from there, or is
//! to be dialled there; everybody else is a stranger. Strangers share what is not reserved, and have a rate of their own, so
//! whatever they do, nodes from familiar sources come in. Who sits beside a familiar source's nodes, on the same machine or
//! behind the same NAT, can make them wait; not the others, not for ever, and no link that is up.
//!
//! Where there is no room the newcomer gets in, and whoever waits longest goes: a handshake takes milliseconds, what waits
//! for long is none. First that of the same source, so that one source is its own loss.
//!
//! Takes as given: `leaves` for every socket that was let in. Memory is bounded by the limits.

use std::{
    collections::{BTreeSet, VecDeque},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use crate::{
    core::{bucket::Bucket, peer::LinkId},
    error::Refused,
    tuning::LinkLimits,
};

/// How many sources are remembered from which peers have authenticated: those of so many nodes.
const FAMILIAR: usize = 1024;

/// As many times the handshakes of a second may come at once.
const BURST: u64 = 2;

/// What becomes of a socket that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may shake hands. If there was no room, this one goes in its place.
    Enter { instead_of: Option<LinkId> },
    /// It is closed at once.
    Refused(Refused),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    link: LinkId,
    source: IpAddr,
    is_familiar: bool,
}

/// The admission of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Admission {
    limits: LinkLimits,
    /// Oldest first.
    waiting: VecDeque<Waiting>,
    strangers: Bucket,
    familiars: Bucket,
    /// Where peers are to be dialled.
    peers: BTreeSet<IpAddr>,
    /// From where peers have authenticated, the latest last.
    met: VecDeque<IpAddr>,
}

impl Admission {
    pub(crate) fn new(now: Duration, limits: LinkLimits) -> Self {
        let rate = u64::from(limits.handshakes_per_second);
        let bucket = Bucket::new(now, rate, rate * BURST);
        Self {
            limits,
            waiting: VecDeque::new(),
            strangers: bucket.clone(),
            familiars: bucket,
            peers: BTreeSet::new(),
            met: VecDeque::new(),
        }
    }

    /// Peers are to be dialled at these addresses. Replaces the former.
    pub(crate) fn expect(&mut self, peers: impl IntoIterator<Item = IpAddr>) {
        self.peers = peers.into_iter().map(source).collect();
    }

    /// A socket was accepted.
    pub(crate) fn admit(&mut self, now: Duration, link: LinkId, from: IpAddr) -> Verdict {
        let source = source(from);
        let is_familiar = self.peers.contains(&source) || self.met.contains(&source);
        let bucket = if is_familiar { &mut self.familiars } else { &mut self.strangers };
        if !bucket.take(now) {
            return Verdict::Refused(Refused::TooFast);
        }
        let instead_of = self.who_gives_way(source, is_familiar);
        if let Some(link) = instead_of {
            self.leaves(link);
        }
        self.waiting.push_back(Waiting { link, source, is_familiar });
        Verdict::Enter { instead_of }
    }

    fn who_gives_way(&self, source: IpAddr, is_familiar: bool) -> Option<LinkId> {
        let LinkLimits { unauthenticated, unauthenticated_per_address, reserved, .. } = self.limits;
        let oldest = |fits: &dyn Fn(&Waiting) -> bool| {
            self.waiting.iter().find(|waiting| fits(waiting)).map(|waiting| waiting.link)
        };
        let count =
            |fits: &dyn Fn(&Waiting) -> bool| self.waiting.iter().filter(|waiting| fits(waiting)).count();
        let same = |waiting: &Waiting| waiting.source == source;
        if count(&same) >= unauthenticated_per_address {
            return oldest(&same);
        }
        if !is_familiar && count(&|waiting| !waiting.is_familiar) >= unauthenticated.saturating_sub(reserved)
        {
            return oldest(&|waiting| !waiting.is_familiar);
        }
        // Strangers have no more than their share, so the familiar have all of theirs.
        if self.waiting.len() >= unauthenticated { oldest(&|waiting| waiting.is_familiar) } else { None }
    }

    /// A handshake is over, for good or ill.
    pub(crate) fn leaves(&mut self, link: LinkId) {
        self.waiting.retain(|waiting| waiting.link != link);
    }

    /// A peer has authenticated from there.
    pub(crate) fn met(&mut self, from: IpAddr) {
        let source = source(from);
        self.met.retain(|met| *met != source);
        self.met.push_back(source);
        if self.met.len() > FAMILIAR {
            self.met.pop_front();
        }
    }

    /// Sockets in their handshakes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// What counts as one address: of IPv6, what one customer has.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests;
