//! For whom a leader may decide what, and that a verdict is the only one.

use callsign::{
    Name,
    cores::{Batch, Message, Op},
};
use callsign_elector::elector::View;
use callsign_store::{
    Transaction, Write,
    ids::{Incarnation, NodeName, Position, SessionId},
};
use callsign_transport::PeerId;

use super::{Check, Inner, Oracle, Outcome, Span, Told};
use crate::world::{NameId, NodeId, World, number_of};

impl Oracle {
    /// A message arrived at another node.
    pub(crate) fn delivered(&mut self, message: &Message) {
        match message {
            Message::SnapshotChunk { .. } => self.count(Check::SnapshotSent),
            Message::Requests { epoch, session, requests, .. } => {
                let Some(inner) = self.edit() else { return };
                let numbers = requests.iter().map(|request| request.number);
                inner.delivered.extend(numbers.map(|n| (session.incarnation, session.number, n, *epoch)));
            }
            _ => {}
        }
    }

    /// A member asks the store for a commit.
    pub(crate) fn flies(&mut self, world: &World, node: NodeId, transaction: &Transaction, view: &View) {
        let Some(inner) = self.edit() else { return };
        let batch = transaction.writes.iter().find_map(|write| match write {
            Write::Put { key, value } => {
                inner.keys.all.log_position(key).and_then(|_| Batch::decode(value).ok())
            }
            _ => None,
        });
        let Some(batch) = batch else { return };
        // The same batch again was decided when it was built.
        let flown = (batch.epoch, batch.nonce);
        if inner.flown.insert(node, flown) == Some(flown) {
            return;
        }
        inner.check_nonce(node, &batch);
        inner.check_turns(node, &batch, view);
        for op in &batch.ops {
            if let Op::Unregister { name, position, .. } = op {
                inner.check_flagged(world, node, name, *position);
            }
            let (Op::Register { name, session, .. } | Op::Transfer { name, session, .. }) = op else {
                continue;
            };
            let session = &batch.sessions[*session as usize];
            if view.sessions.is_closed(session) {
                let what = format!("node {node} registers {name} for {session:?}, which it has read closed");
                return inner.fail(Check::ReadOpen, what);
            }
        }
    }

    /// A caller is told of a grant.
    pub(crate) fn grant_told(&mut self, node: NodeId, is_trusted: bool) {
        self.count(Check::GrantTrusted);
        if !is_trusted {
            self.fail(Check::GrantTrusted, || format!("node {node} does not trust its session"));
        }
    }

    /// Who knows says which incarnation of a node is the present one.
    pub(crate) fn link_confirmed(&mut self, world: &World, node: NodeId, peer: &PeerId) {
        let Some(incarnation) = world.process(node).map(|process| process.incarnation) else { return };
        let Some(of) = world.setup.id(&peer.node) else { return };
        let of = world.setup.names[usize::from(of)].clone();
        let Some(inner) = self.edit() else { return };
        inner.link_of((incarnation, of), peer.incarnation);
    }

    /// A connection was authenticated; it is the link now, or was refused.
    pub(crate) fn authenticated(&mut self, world: &World, node: NodeId, peer: &PeerId, is_up: bool) {
        let Some(incarnation) = world.process(node).map(|process| process.incarnation) else { return };
        let Some(of) = world.setup.id(&peer.node) else { return };
        let of = world.setup.names[usize::from(of)].clone();
        let Some(inner) = self.edit() else { return };
        inner.counts.add(Check::NewerLink, 1);
        let known = inner.linked.get(&(incarnation, of.clone()));
        let (last, was_known) =
            known.map_or((None, false), |(last, seen)| (Some(*last), seen.contains(&peer.incarnation)));
        // Who gave way to another stays away, unless who knows says otherwise. Others are newcomers.
        if is_up && was_known && last != Some(peer.incarnation) {
            inner.fail(Check::NewerLink, format!("node {node} is linked to {peer:?} after {last:?}"));
        }
        if !is_up && !was_known {
            inner.fail(Check::NewerLink, format!("node {node} refuses {peer:?}, a newcomer after {last:?}"));
        }
        if is_up {
            inner.link_of((incarnation, of), peer.incarnation);
        }
    }
}

impl Inner {
    fn link_of(&mut self, at: (Incarnation, NodeName), incarnation: u64) {
        let (last, seen) = self.linked.entry(at).or_default();
        *last = incarnation;
        seen.insert(incarnation);
    }

    /// Whose requests a batch may decide.
    pub(super) fn check_requests(&mut self, world: &World, batch: &Batch, author: NodeId) {
        let began = self.epochs.get(&batch.epoch).map_or(0, |(step, _)| *step);
        for op in &batch.ops {
            let (Op::Register { name, session, request, .. } | Op::Transfer { name, session, request, .. }) =
                op
            else {
                continue;
            };
            let session: &SessionId = &batch.sessions[*session as usize];
            self.check_certificate_of_holder(&session.node, name);
            self.counts.add(Check::ReadOpen, 1);
            if self.closed.get(session).is_some_and(|step| *step < began) {
                let what = format!(
                    "node {author} registers {name} for {session:?}, closed before {:?}",
                    batch.epoch
                );
                self.fail(Check::ReadOpen, what);
            }
            if let Op::Transfer { position, .. } = op {
                // Not when it is asked for: a leader that is deposed may still ask, when its successor has said that the name stays.
                self.check_flagged(world, author, name, *position);
                self.check_move(world, author, number_of(name), (session, *request));
            }
            // Of a transfer the request is that of the former holder, which the log does not say.
            if session.node == world.setup.names[usize::from(author)] || matches!(op, Op::Transfer { .. }) {
                continue;
            }
            self.counts.add(Check::OwnEpoch, 1);
            let asked = (session.incarnation, session.number, *request, batch.epoch);
            if !self.delivered.contains(&asked) {
                let what = format!(
                    "node {author} decides {request:?} of {session:?} for {name} in {:?}",
                    batch.epoch
                );
                self.fail(Check::OwnEpoch, what);
            }
        }
    }

    /// What ends a registration finds its claim flagged.
    fn check_flagged(&mut self, world: &World, node: NodeId, name: &Name, token: Position) {
        let ended = (number_of(name), token);
        let acts = |of: &NodeId| world.acting_on(*of, |acting| (acting.name, acting.token) == ended);
        self.counts.add(Check::FlaggedFirst, 1);
        if let Some(of) = world.ids().find(|of| acts(of).is_some()) {
            let what = format!("node {node} frees {name} of {token:?}, on which node {of} may act");
            self.fail(Check::FlaggedFirst, what);
        }
    }

    /// All that an actor asked of a name, if it asked for it.
    fn asked_by(&self, name: NameId, actor: u64) -> impl Iterator<Item = &Told> {
        self.told.iter().filter(move |told| told.actor == actor && told.want.may_be(actor, name))
    }

    /// Whether an actor asked for something before the registry began anew in another lineage, and may get it in that one.
    fn asks_more(&self, actor: u64) -> bool {
        self.voided_of.contains(&actor)
    }

    /// P6: who was told that nothing was done finds nothing done.
    pub(super) fn check_granted(&mut self, name: NameId, actor: u64, position: Position) {
        self.counts.add(Check::NoMeansNo, 1);
        let is_no = |told: &Told| told.answer.as_ref().is_some_and(|(_, outcome, _)| outcome.says_no());
        let is_asked = self.asked_by(name, actor).next().is_some();
        if is_asked && !self.asks_more(actor) && self.asked_by(name, actor).all(is_no) {
            let told = format!("{:?}", self.asked_by(name, actor).last());
            self.fail(
                Check::NoMeansNo,
                format!("n{name} is registered at {position:?} for actor {actor}: {told}"),
            );
        }
    }

    /// The same, at the moment at which it is told.
    pub(super) fn check_refused(&mut self, at: usize, outcome: &Outcome) {
        let Told { want, name, actor, began, .. } = self.told[at].clone();
        if actor == 0 || self.asks_more(actor) || self.asked_by(name, actor).nth(1).is_some() {
            return;
        }
        self.counts.add(Check::NoMeansNo, 1);
        // What a `Reset` took back before anybody was told of it was asked again as something new.
        let is_there = |span: &&Span| span.to.is_none_or(|to| to > self.reset_at);
        // What it held before it asked, and gave away since, was not asked for by this.
        let is_its = |span: &&Span| {
            want.may_be(actor, span.name) && span.holder.actor == actor && span.holder.token > began
        };
        let span = self.spans.iter().find(is_its);
        if let Some(span) = span.filter(is_there) {
            let span = format!("{span:?}");
            self.fail(Check::NoMeansNo, format!("{outcome:?} to actor {actor}, and the log has {span}"));
        }
    }
}
