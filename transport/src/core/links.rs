//! All links of an endpoint: which one to a node counts, and whom to dial when.
//!
//! Takes as given: an input for every connection's fate. Not given: that incarnations are ordered. They are drawn at
//! random, so *newer* means: authenticated later, and not one that was already seen to be over.
//!
//! Promises: at most one link per node is up; one `Down` per `Up`, before the next `Up` of the node; an incarnation
//! that gave way to another never comes back, however often it dials, unless the authority that knows better says so
//! (`Input::Confirm`). Of two nodes only the one with the greater name dials.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use callsign_store::{planted, random::SplitMix64};

use crate::{
    core::{
        frame::Farewell,
        peer::{LinkId, PeerId},
    },
    error::{DownReason, Refused},
    tuning::LinkTiming,
};

/// How many former incarnations of one node are remembered: the last of so many restarts.
const REMEMBERED: usize = 16;

/// How many nodes are remembered that are neither linked nor to be dialled.
const NODES: usize = 1024;

/// What can happen to the links of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// These are the nodes to be linked to. Replaces the former.
    Peers(Vec<(Arc<str>, String)>),
    /// A handshake succeeded. `via` is the address, if this side dialled.
    Authenticated { link: LinkId, peer: PeerId, via: Option<String> },
    /// A connection to this peer is authenticated, and cannot be used before the one that it follows is closed.
    #[cfg_attr(not(feature = "node-server"), allow(dead_code))] // nobody else needs it
    MakeWay(PeerId),
    /// A dial, or the handshake after it, failed.
    DialFailed { node: Arc<str> },
    /// A connection is over, established or not.
    Ended { link: LinkId, reason: DownReason },
    /// End the link to a node and forget all of it.
    Forget(Arc<str>),
    /// End all links: they are to be made again.
    Renew,
    /// Who knows for sure says that this is the node's present incarnation.
    Confirm(PeerId),
    /// This node leaves: dial and admit nobody any more.
    Leave,
    /// `next_wake` is reached.
    Wake,
}

/// What the driver is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Connect there, looking for that node.
    Dial { node: Arc<str>, address: String },
    /// Close the connection that was just authenticated.
    Refuse { link: LinkId, why: Refused },
    /// The link is up.
    Up { link: LinkId, peer: PeerId },
    /// The link is down: nothing that it still brings counts.
    Down { link: LinkId, peer: PeerId, reason: DownReason },
    /// Close the connection of a link that is down.
    Dismiss { link: LinkId, farewell: Farewell, reason: DownReason },
}

/// A node to be linked to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    address: String,
    /// Failures in a row.
    failures: u32,
    not_before: Duration,
    dialling: bool,
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    current: Option<LinkId>,
    /// The address over which the present link was dialled, also while the node is not wanted. Another one is tried at once.
    via: Option<String>,
    /// The incarnation that was linked last, whether or not it still is.
    last: Option<u64>,
    /// Those that gave way to another, oldest first.
    over: VecDeque<u64>,
}

/// The links of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Links {
    me: Arc<str>,
    timing: LinkTiming,
    limit: usize,
    random: SplitMix64,
    leaving: bool,
    up: BTreeMap<LinkId, PeerId>,
    nodes: BTreeMap<Arc<str>, Node>,
    targets: BTreeMap<Arc<str>, Target>,
}

impl Links {
    pub fn new(me: Arc<str>, timing: LinkTiming, limit: usize, seed: u64) -> Self {
        Self {
            me,
            timing,
            limit,
            random: SplitMix64::new(seed),
            leaving: false,
            up: BTreeMap::new(),
            nodes: BTreeMap::new(),
            targets: BTreeMap::new(),
        }
    }

    /// The link that is up to a node.
    pub fn link_to(&self, node: &str) -> Option<(LinkId, &PeerId)> {
        let link = self.nodes.get(node)?.current?;
        Some((link, self.up.get(&link)?))
    }

    /// Whether a link is up: what it brings counts.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.up.contains_key(&link)
    }

    /// The links that are up.
    pub fn up(&self) -> impl Iterator<Item = (LinkId, &PeerId)> {
        self.up.iter().map(|(link, peer)| (*link, peer))
    }

    /// Whether this peer may link up now. Asked before it is told so, and again when it is.
    pub fn check(&self, peer: &PeerId) -> Result<(), Refused> {
        if self.leaving {
            return Err(Refused::Leaving);
        }
        // Whoever has the secret can come under ever new names. Whom this node itself wants to reach it always can.
        let is_expected = self.targets.contains_key(&peer.node) || self.link_to(&peer.node).is_some();
        if self.up.len() >= self.limit && !is_expected {
            return Err(Refused::Full { limit: self.limit });
        }
        if planted!("old-link-preferred")
            && self.link_to(&peer.node).is_some_and(|(_, linked)| linked.incarnation != peer.incarnation)
        {
            return Err(Refused::Superseded);
        }
        let over = self.nodes.get(&peer.node).is_some_and(|node| node.over.contains(&peer.incarnation));
        if over && !planted!("superseded-incarnation-returns") { Err(Refused::Superseded) } else { Ok(()) }
    }

    /// When to send `Wake`.
    pub fn next_wake(&self) -> Option<Duration> {
        self.wanted().map(|(_, target)| target.not_before).min()
    }

    /// Takes one input and appends what to do about it.
    pub fn step(&mut self, now: Duration, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Peers(peers) => self.on_peers(now, peers),
            Input::Authenticated { link, peer, via } => self.on_authenticated(now, link, &peer, via, effects),
            Input::MakeWay(peer) => {
                if self.check(&peer).is_ok() {
                    let (farewell, reason) = self.succession(&peer);
                    self.dismiss(now, &peer.node, farewell, &reason, effects);
                }
            }
            Input::DialFailed { node } => self.retry_later(now, &node),
            Input::Ended { link, reason } => self.take_down(now, link, reason, effects),
            Input::Forget(node) => {
                self.dismiss(now, &node, Farewell::Forgotten, &DownReason::Forgotten, effects);
                self.nodes.remove(&node);
            }
            Input::Renew => {
                let linked: Vec<_> = self.up.values().map(|peer| peer.node.clone()).collect();
                for node in linked {
                    self.dismiss(now, &node, Farewell::Forgotten, &DownReason::Forgotten, effects);
                }
            }
            Input::Confirm(peer) => self.on_confirm(now, &peer, effects),
            Input::Leave => {
                self.leaving = true;
                self.targets.clear();
            }
            Input::Wake => {}
        }
        self.dial_due(now, effects);
    }

    fn on_peers(&mut self, now: Duration, peers: Vec<(Arc<str>, String)>) {
        if self.leaving {
            return;
        }
        let mut former = std::mem::take(&mut self.targets);
        for (node, address) in peers {
            if node >= self.me {
                continue; // the greater name dials
            }
            let target = match former.remove(&node) {
                Some(target) if target.address == address => target,
                // Another address is another chance.
                Some(target) => Target { address, failures: 0, not_before: now, ..target },
                None => Target { address, failures: 0, not_before: now, dialling: false },
            };
            self.targets.insert(node, target);
        }
    }

    fn on_authenticated(
        &mut self,
        now: Duration,
        link: LinkId,
        peer: &PeerId,
        via: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        if let Err(why) = self.check(peer) {
            if via.is_some() {
                self.retry_later(now, &peer.node);
            }
            effects.push(Effect::Refuse { link, why });
            return;
        }
        let (farewell, reason) = self.succession(peer);
        if !planted!("former-link-kept") {
            self.dismiss(now, &peer.node, farewell, &reason, effects);
        }
        self.forget_strangers();
        let is_dialled = via.is_some();
        let node = self.succeed(peer);
        (node.current, node.via) = (Some(link), via);
        self.up.insert(link, peer.clone());
        if is_dialled && let Some(target) = self.targets.get_mut(&peer.node) {
            (target.failures, target.not_before, target.dialling) = (0, now, false);
        }
        effects.push(Effect::Up { link, peer: peer.clone() });
    }

    /// Why the link that is there gives way to one to this peer.
    fn succession(&self, peer: &PeerId) -> (Farewell, DownReason) {
        let known = self.nodes.get(&peer.node).and_then(|node| node.last);
        if known == Some(peer.incarnation) {
            (Farewell::Replaced, DownReason::Replaced)
        } else {
            (Farewell::Evicted, DownReason::Evicted)
        }
    }

    fn on_confirm(&mut self, now: Duration, peer: &PeerId, effects: &mut Vec<Effect>) {
        if self.link_to(&peer.node).is_some_and(|(_, linked)| linked != peer) {
            self.dismiss(now, &peer.node, Farewell::Evicted, &DownReason::Evicted, effects);
        }
        self.forget_strangers();
        self.succeed(peer);
        if let Some(target) = self.targets.get_mut(&peer.node) {
            target.not_before = now;
        }
    }

    /// Makes this the last incarnation of its node; the one before is over.
    fn succeed(&mut self, peer: &PeerId) -> &mut Node {
        let node = self.nodes.entry(peer.node.clone()).or_default();
        node.over.retain(|over| *over != peer.incarnation);
        if let Some(former) = node.last.replace(peer.incarnation)
            && former != peer.incarnation
        {
            node.over.push_back(former);
            if node.over.len() > REMEMBERED {
                node.over.pop_front();
            }
        }
        node
    }

    /// Takes the present link to a node down and has its connection closed.
    fn dismiss(
        &mut self,
        now: Duration,
        node: &str,
        farewell: Farewell,
        reason: &DownReason,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(link) = self.nodes.get(node).and_then(|node| node.current) {
            self.take_down(now, link, reason.clone(), effects);
            effects.push(Effect::Dismiss { link, farewell, reason: reason.clone() });
        }
    }

    fn take_down(&mut self, now: Duration, link: LinkId, reason: DownReason, effects: &mut Vec<Effect>) {
        let Some(peer) = self.up.remove(&link) else { return };
        if let Some(node) = self.nodes.get_mut(&peer.node) {
            (node.current, node.via) = (None, None);
        }
        let wait = self.back_off(0);
        if let Some(target) = self.targets.get_mut(&peer.node) {
            target.not_before = target.not_before.max(now + wait);
        }
        effects.push(Effect::Down { link, peer, reason });
    }

    fn retry_later(&mut self, now: Duration, node: &str) {
        let Some(target) = self.targets.get_mut(node) else { return };
        target.dialling = false;
        target.failures = target.failures.saturating_add(1);
        let failures = target.failures;
        let not_before = now + self.back_off(failures);
        if let Some(target) = self.targets.get_mut(node) {
            target.not_before = not_before;
        }
    }

    fn dial_due(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let due: Vec<_> = self
            .wanted()
            .filter(|(_, target)| target.not_before <= now)
            .map(|(node, target)| (node.clone(), target.address.clone()))
            .collect();
        for (node, address) in due {
            if let Some(target) = self.targets.get_mut(&node) {
                target.dialling = true;
            }
            effects.push(Effect::Dial { node, address });
        }
    }

    /// The nodes that should be dialled, now or later.
    fn wanted(&self) -> impl Iterator<Item = (&Arc<str>, &Target)> {
        self.targets.iter().filter(|(node, target)| {
            let via = self.nodes.get(*node).and_then(|node| node.via.as_ref());
            !target.dialling && via != Some(&target.address)
        })
    }

    /// Between the half and the whole of a wait that doubles with each failure: after a cut not all dial at once.
    fn back_off(&mut self, failures: u32) -> Duration {
        let longest = self.timing.redial_max.max(self.timing.redial_min);
        let wait = self.timing.redial_min.saturating_mul(2_u32.saturating_pow(failures)).min(longest);
        let micros = u64::try_from(wait.as_micros() / 2).unwrap_or(u64::MAX);
        wait.saturating_sub(Duration::from_micros(self.random.draw() % (micros + 1)))
    }

    /// Keeps the memory of nodes that come and go under ever new names bounded.
    fn forget_strangers(&mut self) {
        if self.nodes.len() < NODES {
            return;
        }
        let stranger = self
            .nodes
            .iter()
            .find(|(name, node)| node.current.is_none() && !self.targets.contains_key(*name));
        if let Some(name) = stranger.map(|(name, _)| name.clone()) {
            self.nodes.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
