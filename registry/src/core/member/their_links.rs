//! Which links the other members have, and where in the log their replicas are, as they say it. A member says it only to a peer that asks,
//! and asks only when somebody looks at its own node.
//!
//! An answer is about the moment at which it was given. It is forgotten when the link over which it came goes down, when the peer is
//! a member no more, and with its age. So what is not forgotten is of the incarnation that is linked.
//!
//! How far a peer is behind is found out when its answer comes, and stays so until the next one: the log grows in between, and the
//! position that the peer said does not.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use callsign_store::{
    Time,
    ids::{Incarnation, NodeName, Position},
    planted,
};

use super::Member;
use crate::core::{
    input::{Effect, Now},
    message::Message,
    table::Table,
};

/// How often the others are asked, at most, however many look. Shorter: each look costs every member a message. Longer: a page
/// shows links that are gone.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// How long an answer counts. Shorter: one that is late leaves a gap. Longer: whoever looks again sees what was before.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// What a peer said, and when that came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    at: Time,
    linked: Arc<[NodeName]>,
    position: Position,
    /// How many positions of the log it lacked then, of those that were known here.
    behind: u64,
}

/// A peer that was asked over the link that is up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    incarnation: Incarnation,
    /// It has not answered yet.
    is_asked: bool,
    said: Option<Said>,
}

/// What the peers have said, and who was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TheirLinks {
    asked_at: Option<Time>,
    peers: BTreeMap<NodeName, Peer>,
    /// How often what is known has changed.
    changes: u64,
}

impl TheirLinks {
    /// Whether the others may be asked now.
    fn is_due(&self, now: Time) -> bool {
        self.asked_at.is_none_or(|at| now.since(at) >= ASKED_EVERY)
    }

    fn asks(&mut self, node: &NodeName, incarnation: Incarnation) {
        let new = || Peer { incarnation, is_asked: true, said: None };
        self.peers.entry(node.clone()).or_insert_with(new).is_asked = true;
    }

    /// Each question has one answer: what comes unasked, or again, is passed over. `end`: how far the log is known to go here.
    fn answered(
        &mut self,
        now: Time,
        (from, incarnation): (&NodeName, Incarnation),
        mut linked: Vec<NodeName>,
        position: Position,
        end: Position,
    ) {
        let is_asked = |peer: &&mut Peer| peer.is_asked && peer.incarnation == incarnation;
        let Some(peer) = self.peers.get_mut(from).filter(is_asked) else { return };
        peer.is_asked = false;
        linked.sort_unstable();
        linked.dedup();
        let behind = behind(position, end);
        let is_same = |said: &&mut Said| {
            *said.linked == linked && (said.behind == behind || planted!("keeps-first-position"))
        };
        match peer.said.as_mut().filter(|said| is_same(said)) {
            Some(said) if planted!("keeps-first-position") => said.at = now,
            Some(said) => (said.at, said.position) = (now, position),
            None => {
                peer.said = Some(Said { at: now, linked: linked.into(), position, behind });
                self.changes += 1;
            }
        }
    }

    /// The link to a node is down.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.retain(|known| known != node);
    }

    /// Keeps what these nodes have said.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&NodeName) -> bool) {
        let before = self.said();
        self.peers.retain(|node, _| keeps(node));
        self.changes += u64::from(self.said() != before);
    }

    /// Forgets what is too old.
    pub(super) fn forget_old(&mut self, now: Time) {
        for peer in self.peers.values_mut() {
            let is_old = |said: &mut Said| now.since(said.at) >= KEPT_FOR;
            self.changes += u64::from(peer.said.take_if(is_old).is_some());
        }
    }

    /// When the next answer is too old.
    pub(super) fn forgets_at(&self) -> Option<Time> {
        self.peers.values().filter_map(|peer| Some(peer.said.as_ref()?.at + KEPT_FOR)).min()
    }

    /// How many have said something.
    fn said(&self) -> usize {
        self.peers.values().filter(|peer| peer.said.is_some()).count()
    }

    fn of(&self, node: &NodeName) -> Option<&Said> {
        self.peers.get(node)?.said.as_ref()
    }

    /// The greatest position that somebody said. The log was there then, and it only grows.
    fn furthest(&self) -> Option<Position> {
        self.peers.values().filter_map(|peer| Some(peer.said.as_ref()?.position)).max()
    }
}

/// How many positions a replica at `position` lacks of a log that goes to `end`.
fn behind(position: Position, end: Position) -> u64 {
    end.0.saturating_sub(position.0)
}

impl<T: Table> Member<T> {
    /// Somebody looks: every linked member is asked for its links, if that was not done just now.
    pub(super) fn ask_for_links(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.drain.has_left() || !self.their_links.is_due(now.time) {
            return;
        }
        self.their_links.asked_at = Some(now.time);
        for node in &*self.linked {
            let Some(linked) = self.links.get(node) else { continue };
            self.their_links.asks(node, linked.incarnation);
            effects.push(Effect::send(node.clone(), Message::LinksWanted));
        }
    }

    pub(super) fn on_links_wanted(&self, from: &NodeName, effects: &mut Vec<Effect>) {
        let linked = if planted!("says-links-of-its-view") {
            self.view.members.keys().filter(|node| **node != self.config.me).cloned().collect()
        } else {
            self.linked.to_vec()
        };
        let position = if planted!("says-position-of-its-view") {
            self.view.commit.map_or(Position(0), |end| end.position)
        } else {
            self.replica.position()
        };
        effects.push(Effect::send(from.clone(), Message::Links { linked, position }));
    }

    pub(super) fn on_links(&mut self, now: Now, from: &NodeName, linked: Vec<NodeName>, position: Position) {
        let end = self.known_end().max(position);
        if let Some(link) = self.links.get(from) {
            self.their_links.answered(now.time, (from, link.incarnation), linked, position, end);
        }
    }

    /// How far the log goes, of what this member knows. It may go further.
    fn known_end(&self) -> Position {
        let said = self.their_links.furthest().unwrap_or(Position(0));
        self.replica.position().max(self.catchup.wanted()).max(said)
    }

    /// The members that a member has links to, in their order: what it said last, or, of this one, what is so. `None`: it has not
    /// been asked, has not answered, or has not done so lately.
    pub fn links_of(&self, node: &NodeName) -> Option<&Arc<[NodeName]>> {
        if *node == self.config.me { Some(&self.linked) } else { Some(&self.their_links.of(node)?.linked) }
    }

    /// Where in the log a member's replica is: what it said last, or, of this one, what is so.
    #[cfg(feature = "cores")]
    pub fn position_of(&self, node: &NodeName) -> Option<Position> {
        let is_me = *node == self.config.me;
        if is_me { Some(self.replica.position()) } else { Some(self.their_links.of(node)?.position) }
    }

    /// How many positions of the log a member lacked when it said last where it is, or, of this one, lacks: at least so many, because
    /// this member may not know how far the log goes. `None`: as for its links.
    pub fn behind_of(&self, node: &NodeName) -> Option<u64> {
        if *node == self.config.me {
            return Some(behind(self.replica.position(), self.known_end()));
        }
        self.their_links.of(node).map(|said| said.behind)
    }

    /// How often what the others have said has changed.
    pub(crate) fn links_changes(&self) -> u64 {
        self.their_links.changes
    }
}
