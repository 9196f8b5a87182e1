//! Names that go from one actor to another: free at no moment, held by one at each, and whole.

use std::collections::BTreeSet;

use callsign::{
    Why,
    cores::{RequestNumber, TakenAs},
};
use callsign_store::ids::{Position, SessionId};

use super::{Check, Holder, Inner, Oracle, Span, watches::Logged};
use crate::world::{NameId, NodeId, World};

/// All that were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// The name, its former and its new token, and the actor that got it.
    done: Vec<(NameId, Position, Position, u64)>,
    /// What holders gave: the name, the node that was to get it, and the data.
    given: BTreeSet<(NameId, NodeId, Vec<u8>)>,
}

impl Oracle {
    /// The holder of a name says what goes with it.
    pub(crate) fn handed(&mut self, name: NameId, to: NodeId, data: &[u8]) {
        if let Some(inner) = self.edit() {
            inner.moved.given.insert((name, to, data.to_vec()));
        }
    }
}

impl Inner {
    /// The log says that a name goes to another actor. False: it cannot.
    pub(super) fn moves(&mut self, name: NameId, token: Position, holder: Holder) -> bool {
        self.counts.add(Check::MoveTrue, 1);
        self.counts.add(Check::Moved, 1);
        let position = holder.token;
        let held = self.truth.get(&name).filter(|held| held.token == token && !held.is_starting);
        let Some(was) = held.cloned() else {
            let what =
                format!("n{name} goes from {token:?} to {holder:?}, and is {:?}", self.truth.get(&name));
            self.fail(Check::MoveTrue, what);
            return false;
        };
        self.watched.add(Logged::new(position, name, (Some(&was), Some(&holder)), Why::Transferred));
        if let Some(span) = self.spans.iter_mut().find(|span| span.name == name && span.to.is_none()) {
            span.to = Some(position);
        }
        if was.session != holder.session && self.drains.contains_key(&was.session.incarnation) {
            self.counts.add(Check::DrainMoves, 1);
        }
        self.moved.done.push((name, token, position, holder.actor));
        self.truth.insert(name, holder.clone());
        self.spans.push(Span { name, holder, to: None, given_up: None });
        true
    }

    /// Whether a registration has ended by going to another actor.
    pub(super) fn has_moved(&self, name: NameId, token: Position) -> bool {
        self.moved.done.iter().any(|(of, from, ..)| (*of, *from) == (name, token))
    }

    /// Under which token a name was held that was taken under this one.
    pub(super) fn moved_from(&self, name: NameId, token: Position) -> Option<Position> {
        let done = self.moved.done.iter().find(|(of, _, to, _)| (*of, *to) == (name, token));
        done.map(|(_, from, ..)| *from)
    }

    /// The log says that a name goes to a session.
    pub(super) fn check_move(
        &mut self,
        world: &World,
        author: NodeId,
        name: NameId,
        (session, request): (&SessionId, RequestNumber),
    ) {
        let taker = world.setup.id(session.node.as_str()).and_then(|id| world.process(id));
        let member = taker.and_then(|process| process.parts.as_ref()).map(|parts| parts.core.member());
        // Of a session that is over, or of which the member has not heard, nothing can be said.
        let Some(member) = member.filter(|member| member.session() == Some(session)) else { return };
        // Who leaves wants nothing any more.
        if self.left.contains_key(&session.incarnation) {
            return;
        }
        self.counts.add(Check::MoveWanted, 1);
        if !member.has_data(request) && !member.owes() {
            let what =
                format!("node {author} gives n{name} to {request:?} of {session:?}, which has no data");
            self.fail(Check::MoveWanted, what);
        }
    }

    /// A caller is told that it has a name, with these data.
    pub(super) fn check_whole(&mut self, node: NodeId, name: NameId, taken: &TakenAs) {
        self.counts.add(Check::MoveWhole, 1);
        let given = (name, node, taken.data.to_vec());
        if !self.moved.given.contains(&given) {
            self.fail(Check::MoveWhole, format!("n{name} comes to node {node} with {:?}", taken.data));
        }
    }

    /// The same, held against the log.
    pub(super) fn check_moved(&mut self, at: usize, token: Position) {
        let told = &self.told[at];
        let (name, actor, target, began, end) =
            (told.name, told.actor, told.target, told.began, self.position);
        self.counts.add(Check::MoveTold, 1);
        let is_there = self.moved.done.contains(&(name, target, token, actor));
        if !is_there || token <= began || token > end {
            let what = format!(
                "n{name}: {token:?} from {target:?} for actor {actor}, asked at {began:?}, told at {end:?}"
            );
            self.fail(Check::MoveTold, what);
        }
    }

    /// A caller is told that what it wanted to take is not held any more.
    pub(super) fn check_gone(&mut self, at: usize) {
        let (name, target) = (self.told[at].name, self.told[at].target);
        self.counts.add(Check::MoveTold, 1);
        let is_it = |span: &&Span| span.name == name && span.holder.token == target && span.to.is_none();
        if let Some(span) = self.spans.iter().find(is_it) {
            let what = format!("n{name} is said to be gone under {target:?}: {span:?}");
            self.fail(Check::MoveTold, what);
        }
    }
}
