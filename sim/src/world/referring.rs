//! References to actors of other nodes: the two cores of each process, and what their driver does.
//!
//! Words and questions travel over the connections that the members use. A seed has all of this or nothing of it.

use std::sync::Arc;

use callsign_store::ids::Incarnation;
use callsign_transport::{LinkId, cores::LinkInput};

use super::{
    NodeId, World,
    links::{End, Frame},
};
use crate::{
    oracle::Check,
    references::{Broken, Heard, Resolved, Said, Side},
};

/// How many addresses an application remembers.
const REMEMBERED: usize = 6;

/// Where an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Its node.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The actor.
    pub actor: u64,
}

/// A process's part in references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Referring {
    /// The two cores.
    pub side: Side,
    /// The addresses that were resolved last, oldest first.
    remembered: Vec<Address>,
}

impl World {
    /// From now on there are references in this world.
    pub fn begin_to_refer(&mut self) {
        Arc::make_mut(&mut self.setup).references = true;
        for node in self.ids() {
            let Some(process) = self.process_mut(node) else { continue };
            let up: Vec<LinkId> = process.links.up().map(|(link, _)| link).collect();
            let mut referring = Referring::default();
            for link in up {
                referring.side.link_up(link);
            }
            process.referring = Some(referring);
        }
    }

    fn referring(&self, node: NodeId) -> Option<&Referring> {
        self.process(node)?.referring.as_ref()
    }

    /// A process's cores of references.
    pub fn side(&self, node: NodeId) -> Option<&Side> {
        Some(&self.referring(node)?.side)
    }

    fn side_mut(&mut self, node: NodeId) -> Option<&mut Side> {
        // Most worlds have none, and a process that is not edited is shared.
        self.side(node)?;
        self.process_mut(node)?.referring.as_mut().map(|referring| &mut referring.side)
    }

    fn judge(&mut self, node: NodeId, broken: Result<(), Broken>) {
        if let Err(broken) = broken {
            self.oracle.breaks(node, broken);
        }
    }

    // ---- what happens beside

    pub(super) fn refers_over(&mut self, node: NodeId, link: LinkId) {
        if let Some(side) = self.side_mut(node) {
            side.link_up(link);
        }
    }

    pub(super) fn refers_no_more_over(&mut self, node: NodeId, link: LinkId) {
        let Some(ended) = self.side_mut(node).map(|side| side.link_down(link)) else { return };
        self.oracle.count(Check::NoneOverDownLinks);
        if ended.as_ref().is_ok_and(|ended| *ended > 0) {
            self.oracle.count(Check::ReferenceLost);
            self.oracle.count(Check::ReferenceEndsOnce);
        }
        self.judge(node, ended.map(drop));
    }

    /// Peers may reach this actor.
    pub(super) fn export(&mut self, node: NodeId, actor: u64) {
        if let Some(side) = self.side_mut(node).filter(|_| actor != 0) {
            side.export(actor);
        }
    }

    /// An actor ends, and its monitor does not say so yet.
    pub(super) fn refers_to_the_ended(&mut self, node: NodeId, actor: u64) {
        if let Some(side) = self.side_mut(node) {
            side.end(actor);
        }
    }

    // ---- what applications do

    /// The actors that an application of a node may want a reference to: those that hold names elsewhere, as `whereis` says, and then
    /// those that it remembers.
    pub fn addresses(&self, node: NodeId) -> Vec<Address> {
        let Some(referring) = self.referring(node) else { return Vec::new() };
        let Some(process) = self.awake(node) else { return Vec::new() };
        let mut found = Vec::new();
        if let Some(parts) = &process.parts
            && process.trusted(self.local(node)).is_some()
            && parts.core.member().is_synced()
        {
            for (_, row) in parts.core.member().replica().rows().filter(|(_, row)| !row.is_starting()) {
                let home = self.setup.id(row.session.node.as_str()).filter(|home| *home != node);
                found.extend(home.map(|home| Address {
                    node: home,
                    incarnation: row.session.incarnation,
                    actor: row.actor,
                }));
            }
        }
        found.extend(&referring.remembered);
        found
    }

    pub(super) fn refer(&mut self, node: NodeId, nth: u8) -> bool {
        let Some(address) = self.addresses(node).get(usize::from(nth)).copied() else { return false };
        let has_ended = self.oracle.has_ended(address.actor);
        let name = &self.setup.names[usize::from(address.node)];
        let Some(process) = self.process(node) else { return false };
        // Another incarnation has other actors.
        let link = process.links.link_to(name.as_str());
        let link = link.filter(|(_, peer)| peer.incarnation == address.incarnation.0).map(|(link, _)| link);
        let Some(referring) = self.process_mut(node).and_then(|process| process.referring.as_mut()) else {
            return false;
        };
        referring.remembered.retain(|known| *known != address);
        referring.remembered.push(address);
        if referring.remembered.len() > REMEMBERED {
            referring.remembered.remove(0);
        }
        let Some(link) = link else { return true };
        let resolved = referring.side.resolve(link, address.actor, has_ended);
        self.oracle.count(Check::ReferenceNotAgain);
        if resolved == Ok(Resolved::Made) {
            self.oracle.count(Check::ReferenceMade);
            self.oracle.note(node, || format!("has a reference to actor {} now", address.actor));
        }
        self.judge(node, resolved.map(drop));
        true
    }

    fn nth_reference(&self, node: NodeId, nth: u8) -> Option<(LinkId, u64)> {
        self.awake(node)?.referring.as_ref()?.side.references().nth(usize::from(nth))
    }

    pub(super) fn drop_reference(&mut self, node: NodeId, nth: u8) -> bool {
        let Some((link, actor)) = self.nth_reference(node, nth) else { return false };
        if let Some(side) = self.side_mut(node) {
            side.drop_reference(link, actor);
        }
        true
    }

    pub(super) fn cast(&mut self, node: NodeId, nth: u8) -> bool {
        let Some((link, actor)) = self.nth_reference(node, nth) else { return false };
        self.say_of_actors(node, link, [Said::Cast { actor }]);
        true
    }

    // ---- links

    /// How many frames a link has room for. It takes all of what is said if nobody reads it.
    fn room_for(&self, node: NodeId, link: LinkId) -> usize {
        let Some((at, end)) = self.link_end(node, link) else { return 0 };
        self.setup.lane.saturating_sub(self.conns[at].to[1 - end].control.len())
    }

    /// The links of a node that have room for what there may be to say of actors.
    pub fn speakers(&self, node: NodeId) -> Vec<LinkId> {
        let Some(side) = self.side(node) else { return Vec::new() };
        side.to_say().filter(|link| self.room_for(node, *link) > 0).collect()
    }

    /// The writer of a link takes what there is to say of actors.
    pub(super) fn speak(&mut self, node: NodeId, nth: u8) -> bool {
        if self.awake(node).is_none() {
            return false;
        }
        let Some(link) = self.speakers(node).get(usize::from(nth)).copied() else { return false };
        let room = self.room_for(node, link);
        let Some(said) = self.side_mut(node).map(|side| side.speak(link, room)) else { return false };
        self.say_of_actors(node, link, said);
        true
    }

    /// What finds no room is lost.
    fn say_of_actors(&mut self, node: NodeId, link: LinkId, said: impl IntoIterator<Item = Said>) {
        for said in said {
            if self.room_for(node, link) > 0
                && let Some((at, end)) = self.link_end(node, link)
            {
                self.conns[at].edit().push(1 - end, Frame::OfActors(said), false);
                self.step_end(at, end, LinkInput::Sent);
            }
        }
    }

    /// The monitor of an actor that has ended says so.
    pub(super) fn notice_end(&mut self, node: NodeId) -> bool {
        self.awake(node).is_some() && self.side_mut(node).is_some_and(Side::notice)
    }

    /// It arrives over a link that is up.
    pub(super) fn receive_of_actors(
        &mut self,
        (at, end): (usize, usize),
        node: NodeId,
        link: LinkId,
        said: &Said,
    ) {
        let sender = self.conns[at].ends[1 - end].node;
        self.oracle.note_message(sender, node, || format!("of actors: {said:?}"));
        let has_ended = match said {
            Said::Word(word) => self.oracle.has_ended(word.actor()),
            Said::Ask { actor } | Said::Cast { actor } | Said::Undelivered { actor, .. } => {
                self.oracle.has_ended(*actor)
            }
        };
        let Some(side) = self.side_mut(node) else { return };
        match said {
            Said::Ask { actor } => {
                let asked = side.asked(link, *actor);
                self.oracle.count(Check::AskedAtHome);
                if asked == Ok(true) {
                    let why = "it asks for actors, and does not read what it is answered".to_owned();
                    self.step_end(at, end, LinkInput::Violation(why));
                }
                self.judge(node, asked.map(drop));
            }
            Said::Cast { actor } => {
                let answer = side.take_cast(link, *actor);
                self.say_of_actors(node, link, answer);
            }
            Said::Word(_) | Said::Undelivered { .. } => {
                let heard = side.take_said(link, said, has_ended);
                let met = match heard {
                    Ok(Heard::Ended) => Some(Check::ReferenceEnded),
                    Ok(Heard::Refused) => Some(Check::ReferenceRefused),
                    _ => None,
                };
                if let Some(met) = met {
                    self.oracle.count(met);
                    self.oracle.count(Check::ReferenceEndTrue);
                    self.oracle.count(Check::ReferenceEndsOnce);
                }
                self.judge(node, heard.map(drop));
            }
        }
    }

    // ---- at rest

    /// The other end of a node's link.
    fn other_end(&self, node: NodeId, link: LinkId) -> Option<&End> {
        let (at, end) = self.link_end(node, link)?;
        Some(&self.conns[at].ends[1 - end])
    }

    /// The process that a link leads to, if it is there and the link is up at its end, too: its cores, and its number for the link.
    pub(crate) fn home_over(&self, node: NodeId, link: LinkId) -> Option<(&Side, LinkId)> {
        let (at, _) = self.link_end(node, link)?;
        let other = self.other_end(node, link)?;
        let process = self.process(other.node).filter(|process| process.incarnation == other.incarnation)?;
        let is_whole = !self.conns[at].is_broken && !other.is_closed && process.links.is_up(other.link);
        let side = &process.referring.as_ref()?.side;
        is_whole.then_some((side, other.link))
    }

    /// What is under way of references, so that the world is not at rest.
    pub(crate) fn says_of_actors(&self) -> Option<String> {
        if !self.setup.references {
            return None;
        }
        for node in self.ids() {
            let Some(side) = self.side(node) else { continue };
            if side.has_untold() || side.to_say().next().is_some() {
                return Some(format!("node {node} has something to say of actors"));
            }
            let half_open = side.references().find(|(link, _)| self.home_over(node, *link).is_none());
            if let Some((_, actor)) = half_open {
                return Some(format!(
                    "node {node} has a reference to actor {actor} over a link that is half open"
                ));
            }
        }
        let mut lanes = self.conns.iter().flat_map(|conn| &conn.to);
        let is_of_actors = |frame: &Frame| matches!(frame, Frame::OfActors(_));
        let is_under_way = lanes.any(|lanes| lanes.control.iter().any(is_of_actors));
        is_under_way.then(|| "something is said of actors".to_owned())
    }
}
