//! Connections between processes, and the cores at their ends.

use std::{collections::BTreeMap, collections::VecDeque, sync::Arc, time::Duration};

use callsign::cores::{Input, Message, Queue};
use callsign_elector::record::LogEnd;
use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, Position};
use callsign_transport::{
    DownReason, LinkId, PeerId, Permits,
    cores::{Effect, Farewell, Input as LinksInput, Link, LinkEffect, LinkInput},
};

use crate::{references::Said, shared::Shared};

use super::{NodeId, World};

/// What travels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// The dialler says who it is.
    Hello,
    /// So does the listener.
    HelloBack,
    /// The dialler is ready.
    Ready,
    /// "I live."
    Ping,
    /// The last words.
    Farewell(Farewell),
    /// A message of the member.
    Message(Arc<Message>),
    /// A word of actors, or a message for one.
    OfActors(Said),
    /// The connection is at its end.
    Closed,
}

/// What is under way in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// First come, first served.
    pub control: VecDeque<Frame>,
    /// May be overtaken.
    pub bulk: VecDeque<Frame>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// The incarnation of its process.
    pub incarnation: Incarnation,
    /// Its number for the link.
    pub link: LinkId,
    /// What it may do by the certificate that it shows.
    pub permits: Permits,
    /// The core.
    pub core: Link,
    /// It neither sends nor takes anything any more.
    pub is_closed: bool,
}

/// A connection. The end at 0 dialled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conn {
    /// The two ends.
    pub ends: [End; 2],
    /// What is on its way to each end.
    pub to: [Lanes; 2],
    /// It broke: nothing more gets into it.
    pub is_broken: bool,
}

impl Conn {
    /// Which end a node has.
    pub fn end_of(&self, node: NodeId) -> Option<usize> {
        self.ends.iter().position(|end| end.node == node)
    }

    pub(super) fn push(&mut self, to: usize, frame: Frame, bulk: bool) {
        if self.is_broken || self.ends[to].is_closed {
            return;
        }
        if bulk {
            self.to[to].bulk.push_back(frame);
        } else {
            self.to[to].control.push_back(frame);
        }
    }
}

impl World {
    /// The place of the `nth` connection between two nodes.
    pub(super) fn conn_at(&self, a: NodeId, b: NodeId, nth: u8) -> Option<usize> {
        let between = |conn: &&(usize, &Shared<Conn>)| {
            let (x, y) = (conn.1.ends[0].node, conn.1.ends[1].node);
            (x, y) == (a, b) || (x, y) == (b, a)
        };
        let mut found = self.conns.iter().enumerate();
        let mut left = nth;
        found
            .find(|conn| {
                let fits = between(&conn);
                let is_it = fits && left == 0;
                left -= u8::from(fits && left > 0);
                is_it
            })
            .map(|(at, _)| at)
    }

    pub(super) fn drop_closed(&mut self) {
        self.conns.retain(|conn| !(conn.ends[0].is_closed && conn.ends[1].is_closed));
    }

    pub(super) fn link_end(&self, node: NodeId, link: LinkId) -> Option<(usize, usize)> {
        self.conns.iter().enumerate().find_map(|(at, conn)| {
            // A successor counts from the beginning again, while the other end may not know that this one is closed.
            let is_it = |end: &End| end.node == node && end.link == link && !end.is_closed;
            let end = conn.ends.iter().position(is_it)?;
            Some((at, end))
        })
    }

    // ---- which link counts

    pub(super) fn step_links(&mut self, node: NodeId, input: LinksInput) -> bool {
        let now = self.local(node);
        let mut effects = Vec::new();
        let Some(process) = self.process_mut(node) else { return false };
        process.links.step(now, input, &mut effects);
        let mut is_admitted = true;
        for effect in effects {
            match effect {
                Effect::Dial { node: to, .. } => self.dial(node, &to),
                Effect::Refuse { link, .. } => {
                    is_admitted = false;
                    self.close_end(node, link);
                }
                Effect::Up { link, peer } => {
                    self.refers_over(node, link);
                    let Ok(name) = NodeName::new(&peer.node) else { continue };
                    let incarnation = Incarnation(peer.incarnation);
                    let permits = self.shown(node, link);
                    let up = Input::LinkUp { node: name, incarnation, link: link.0, permits };
                    self.tell_member(node, Queue::OfLinks, up);
                }
                Effect::Down { link, peer, .. } => {
                    self.refers_no_more_over(node, link);
                    let Ok(name) = NodeName::new(&peer.node) else { continue };
                    let down = Input::LinkDown { node: name, incarnation: Incarnation(peer.incarnation) };
                    self.tell_member(node, Queue::OfLinks, down);
                }
                Effect::Dismiss { link, farewell, reason } => {
                    if let Some((at, end)) = self.link_end(node, link) {
                        self.step_end(at, end, LinkInput::Dismiss(farewell, reason));
                    }
                }
            }
        }
        is_admitted
    }

    pub(super) fn confirm(&mut self, node: NodeId, peer: PeerId) {
        let mut oracle = std::mem::take(&mut self.oracle);
        oracle.link_confirmed(self, node, &peer);
        self.oracle = oracle;
        self.step_links(node, LinksInput::Confirm(peer));
    }

    pub(super) fn set_peers(&mut self, node: NodeId, peers: BTreeMap<NodeName, String>) {
        let peers = peers.into_iter().map(|(other, address)| (other.as_str().into(), address)).collect();
        self.step_links(node, LinksInput::Peers(peers));
    }

    fn new_end(&mut self, node: NodeId) -> Option<End> {
        let (now, timing) = (self.local(node), self.setup.link);
        let process = self.process_mut(node)?;
        process.last_link += 1;
        let link = LinkId(process.last_link);
        let incarnation = process.incarnation;
        let permits = self.permits(node).clone();
        Some(End { node, incarnation, link, permits, core: Link::new(now, timing), is_closed: false })
    }

    fn dial(&mut self, node: NodeId, to: &str) {
        let target = self.setup.id(to).filter(|to| self.process(*to).is_some());
        let Some(target) = target else {
            // Nobody listens there.
            self.step_links(node, LinksInput::DialFailed { node: to.into() });
            return;
        };
        let (Some(dialler), Some(mut listener)) = (self.new_end(node), self.new_end(target)) else { return };
        // The listener's own end begins when the hello arrives.
        listener.core = Link::new(self.local(target), self.setup.link);
        let mut conn = Conn { ends: [dialler, listener], to: Default::default(), is_broken: false };
        conn.push(1, Frame::Hello, false);
        self.conns.push(Shared::new(conn));
    }

    /// Closes an end without a word.
    fn close_end(&mut self, node: NodeId, link: LinkId) {
        if let Some((at, end)) = self.link_end(node, link) {
            self.shut(at, end);
        }
    }

    fn shut(&mut self, at: usize, end: usize) {
        let conn = self.conns[at].edit();
        if conn.ends[end].is_closed {
            return;
        }
        conn.ends[end].is_closed = true;
        conn.to[end] = Lanes::default();
        conn.push(1 - end, Frame::Closed, false);
    }

    // ---- one link

    pub(super) fn step_end(&mut self, at: usize, end: usize, input: LinkInput) {
        let Some(conn) = self.conns.get(at) else { return };
        if conn.ends[end].is_closed {
            return;
        }
        let (node, link) = (conn.ends[end].node, conn.ends[end].link);
        let now = self.local(node);
        let conn = self.conns[at].edit();
        let mut effects = Vec::new();
        conn.ends[end].core.step(now, input, &mut effects);
        let mut ended = None;
        for effect in effects {
            match effect {
                LinkEffect::Ping => conn.push(1 - end, Frame::Ping, false),
                LinkEffect::SayLast(farewell) | LinkEffect::SayOnly(farewell) => {
                    conn.push(1 - end, Frame::Farewell(farewell), false);
                }
                LinkEffect::End(reason) => ended = Some(reason),
            }
        }
        if let Some(reason) = ended {
            self.shut(at, end);
            self.end_link(node, link, at, end, reason);
        }
    }

    fn end_link(&mut self, node: NodeId, link: LinkId, at: usize, end: usize, reason: DownReason) {
        let is_up = self.process(node).is_some_and(|process| process.links.is_up(link));
        let other = self.conns[at].ends[1 - end].node;
        let input = if end == 0 && !is_up && !self.is_admitted(node, link) {
            LinksInput::DialFailed { node: self.setup.names[usize::from(other)].as_str().into() }
        } else {
            LinksInput::Ended { link, reason }
        };
        self.step_links(node, input);
    }

    /// Whether the link was up at some time: then its dial has not failed.
    fn is_admitted(&self, node: NodeId, link: LinkId) -> bool {
        let was_admitted = |process: &super::SimulatedProcess| process.admitted.contains(&link);
        self.process(node).is_some_and(was_admitted)
    }

    fn peer(&self, at: usize, end: usize) -> PeerId {
        let end = &self.conns[at].ends[end];
        PeerId::new(self.setup.names[usize::from(end.node)].as_str(), end.incarnation.0)
    }

    /// The next frame of the control lane.
    pub fn next_frame(&self, from: NodeId, to: NodeId, nth: u8) -> Option<&Frame> {
        let conn = &self.conns[self.conn_at(from, to, nth)?];
        conn.to[conn.end_of(to)?].control.front()
    }

    /// The next frame of a lane arrives.
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId, nth: u8, bulk: bool) -> bool {
        if self.is_blocked(from, to) || self.awake(to).is_none() {
            return false;
        }
        let Some(at) = self.conn_at(from, to, nth) else { return false };
        let Some(end) = self.conns[at].end_of(to) else { return false };
        if self.conns[at].ends[end].is_closed {
            return false;
        }
        let conn = self.conns[at].edit();
        let lane = if bulk { &mut conn.to[end].bulk } else { &mut conn.to[end].control };
        let Some(frame) = lane.pop_front() else { return false };
        let link = conn.ends[end].link;
        if frame != Frame::Closed {
            self.step_end(at, end, LinkInput::Received);
        }
        self.on_frame(at, end, to, link, frame);
        self.settle(to);
        true
    }

    fn on_frame(&mut self, at: usize, end: usize, to: NodeId, link: LinkId, frame: Frame) {
        match frame {
            Frame::Hello => {
                let peer = self.peer(at, 1 - end);
                // Whatever happens, what is due is dialled.
                self.step_links(to, LinksInput::Wake);
                let is_welcome = self.process(to).is_some_and(|process| process.links.check(&peer).is_ok());
                if is_welcome {
                    self.conns[at].edit().push(1 - end, Frame::HelloBack, false);
                } else {
                    if self.process(to).is_some_and(|process| !process.node.leaving().has_begun()) {
                        let mut oracle = std::mem::take(&mut self.oracle);
                        oracle.authenticated(self, to, &peer, false);
                        self.oracle = oracle;
                    }
                    self.step_links(to, LinksInput::Ended { link, reason: DownReason::Closed });
                    self.shut(at, end);
                }
            }
            Frame::HelloBack => {
                let peer = self.peer(at, 1 - end);
                self.step_end(at, end, LinkInput::Established);
                self.conns[at].edit().push(1 - end, Frame::Ready, false);
                let via = Some(format!("{}:1", peer.node));
                self.admit(to, link, &peer, via);
            }
            Frame::Ready => {
                let peer = self.peer(at, 1 - end);
                self.step_end(at, end, LinkInput::Established);
                self.admit(to, link, &peer, None);
            }
            Frame::Ping => {}
            Frame::Farewell(why) => self.step_end(at, end, LinkInput::Farewell(why)),
            Frame::Closed => self.step_end(at, end, LinkInput::Closed),
            Frame::OfActors(said) => {
                if self.process(to).is_some_and(|process| process.links.is_up(link)) {
                    self.receive_of_actors((at, end), to, link, &said);
                }
            }
            Frame::Message(message) => {
                let is_up = self.process(to).is_some_and(|process| process.links.is_up(link));
                if is_up {
                    let sender = self.conns[at].ends[1 - end].node;
                    let from = self.setup.names[usize::from(sender)].clone();
                    let message = Arc::unwrap_or_clone(message);
                    self.oracle.delivered(&message);
                    self.oracle
                        .note_message(sender, to, || format!("{} of {from}: {message:?}", message.kind()));
                    self.tell_member(to, Queue::OfLinks, Input::Message { from, message });
                }
            }
        }
    }

    fn admit(&mut self, node: NodeId, link: LinkId, peer: &PeerId, via: Option<String>) {
        if let Some(process) = self.process_mut(node) {
            process.admitted.push_back(link);
            if process.admitted.len() > 32 {
                process.admitted.pop_front();
            }
        }
        let is_leaving = self.process(node).is_some_and(|process| process.node.leaving().has_begun());
        self.step_links(node, LinksInput::Authenticated { link, peer: peer.clone(), via });
        let is_up = self.process(node).is_some_and(|process| process.links.is_up(link));
        if !is_leaving {
            let mut oracle = std::mem::take(&mut self.oracle);
            oracle.authenticated(self, node, peer, is_up);
            self.oracle = oracle;
        }
        if is_up {
            self.look_at_what_was_shown(node, link);
        }
    }

    // ---- sending, time

    /// Queues a message of a member.
    pub(super) fn send(&mut self, node: NodeId, to: NodeName, link: Option<LinkId>, message: Message) {
        // It went down; the input that says so is on its way, or was taken.
        let Some((at, end)) = link.and_then(|link| self.link_end(node, link)) else { return };
        let bulk = message.is_bulk();
        let limit = self.setup.lane;
        let conn = self.conns[at].edit();
        let lanes = &conn.to[1 - end];
        let waiting = if bulk { lanes.bulk.len() } else { lanes.control.len() };
        if let Message::SnapshotChunk { id, .. } = &message {
            let is_of_it = |frame: &&Frame| {
                let Frame::Message(other) = frame else { return false };
                matches!(&**other, Message::SnapshotChunk { id: other, .. } if other == id)
            };
            let on_their_way = lanes.bulk.iter().filter(is_of_it).count() + 1;
            self.oracle.sends_chunk(on_their_way, self.setup.tuning.snapshot_window);
        }
        if waiting < limit {
            conn.push(1 - end, Frame::Message(Arc::new(message)), bulk);
            self.step_end(at, end, LinkInput::Sent);
        } else {
            self.oracle.not_sent();
            self.tell_member(node, Queue::OfMember, Input::SendFailed { to });
        }
    }

    /// Somebody looks at a node.
    pub(crate) fn ask_for_links(&mut self, node: NodeId) {
        self.tell_member(node, Queue::OfMember, Input::AskForLinks);
        self.settle(node);
    }

    /// A peer claims to lead in an epoch that there will never be, and that the log goes on for ever.
    pub(super) fn lie(&mut self, from: NodeId, to: NodeId) -> bool {
        let Some(at) = self.conn_at(from, to, 0).filter(|_| self.awake(from).is_some()) else { return false };
        let Some(end) = self.conns[at].end_of(to) else { return false };
        let end_of_log = LogEnd { position: Position(1 << 62), nonce: Nonce(1) };
        let message = Message::Heartbeat { epoch: Epoch(1 << 62), end: end_of_log };
        self.conns[at].edit().push(end, Frame::Message(Arc::new(message)), false);
        true
    }

    /// When an end of a node's connections wants to be woken next.
    pub fn ends_wake_at(&self, node: NodeId) -> Option<Duration> {
        let ends = self.conns.iter().flat_map(|conn| &conn.ends);
        let open = ends.filter(|end| end.node == node && !end.is_closed);
        open.filter_map(|end| end.core.next_wake()).min()
    }

    /// Wakes all ends of a node whose time has come.
    pub(super) fn wake_ends(&mut self, node: NodeId) -> bool {
        let now = self.local(node);
        let due: Vec<LinkId> = self
            .conns
            .iter()
            .flat_map(|conn| &conn.ends)
            .filter(|end| end.node == node && !end.is_closed)
            .filter(|end| end.core.next_wake().is_some_and(|at| at <= now))
            .map(|end| end.link)
            .collect();
        for link in &due {
            if let Some((at, end)) = self.link_end(node, *link) {
                self.step_end(at, end, LinkInput::Wake);
            }
        }
        !due.is_empty()
    }

    /// A node that has left says so on its links.
    pub(super) fn say_goodbye(&mut self, node: NodeId) {
        for at in 0..self.conns.len() {
            if let Some(end) = self.conns[at].end_of(node) {
                self.step_end(at, end, LinkInput::Leave);
            }
        }
    }
}
