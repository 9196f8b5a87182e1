//! Who holds a name is stopped or told when the session of its node lapses, and when it is lost; and is told of the lapse before it
//! is told that it is over. A member may take several steps for that.

use std::collections::{BTreeMap, BTreeSet};

use callsign::{
    Name, Notice,
    cores::{Call, Effect, Input, Member, Row},
};

use super::{Check, Oracle};
use crate::world::NodeId;

/// What the member of a node owes to its actors.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToTell {
    /// These are to be stopped, or told that the session is not trusted.
    actors: BTreeSet<u64>,
    /// These before they are told that it is trusted again.
    first: BTreeSet<u64>,
    /// The member has heard of the session since: it is to have told them when it has nothing more to do at once.
    is_due: bool,
}

/// The actors that hold names. None holds one that is being started.
fn holders(member: &Member<BTreeMap<Name, Row>>) -> impl Iterator<Item = u64> {
    member.holds().map(|(_, actor, _)| actor).filter(|actor| *actor != 0)
}

impl Oracle {
    /// The session of a node lapses, or is lost: all these are to be told.
    pub(crate) fn owes_to(&mut self, node: NodeId, actors: impl IntoIterator<Item = u64>) {
        let Some(inner) = self.edit() else { return };
        let owed = &mut inner.to_tell.entry(node).or_default().actors;
        let before = owed.len();
        // Those that have ended may hold names until all of these are given up. Nobody is left there to be told.
        owed.extend(actors.into_iter().filter(|actor| !inner.ended.contains_key(actor)));
        let more = owed.len() - before;
        inner.counts.add(Check::AllTold, more as u64);
    }

    /// A member is about to take this.
    pub(crate) fn hears(&mut self, node: NodeId, member: &Member<BTreeMap<Name, Row>>, input: &Input) {
        if matches!(input, Input::SessionLapsed(_) | Input::SessionLost) {
            self.owes_to(node, holders(member));
        }
        if matches!(input, Input::SessionLapsed(_)) && !member.owes() {
            // Otherwise it may have to tell them first that a former lapse is over.
            let first = holders(member).collect();
            if let Some(inner) = self.edit() {
                inner.to_tell.entry(node).or_default().first = first;
            }
        }
        let Some(to_tell) = self.edit().and_then(|inner| inner.to_tell.get_mut(&node)) else { return };
        match input {
            Input::SessionOpened(_)
            | Input::SessionLapsed(_)
            | Input::SessionResumed(_)
            | Input::SessionLost => to_tell.is_due = true,
            Input::ActorEnded { actor } => _ = to_tell.actors.remove(actor),
            // It gives up a name by itself, and maybe its last one.
            Input::Call { call: Call::Unregister { name }, .. } => {
                let holder = member.holds().find(|(held, _, _)| *held == name);
                if let Some((_, actor, _)) = holder {
                    to_tell.actors.remove(&actor);
                }
            }
            Input::Call { call: Call::Withdraw { name, token }, .. } => {
                let holder = member.holds().find(|(held, _, at)| (*held, at) == (name, token));
                if let Some((_, actor, _)) = holder {
                    to_tell.actors.remove(&actor);
                }
            }
            _ => {}
        }
    }

    /// A member asks for this. `is_busy`: it has more to do at once.
    pub(crate) fn says<'a>(
        &mut self,
        node: NodeId,
        effects: impl Iterator<Item = &'a Effect>,
        is_busy: bool,
    ) {
        let Some(inner) = self.edit() else { return };
        let Some(to_tell) = inner.to_tell.get_mut(&node) else { return };
        let mut early = None;
        for effect in effects {
            match effect {
                Effect::Stop { actor }
                | Effect::Unwatch { actor }
                | Effect::Notify {
                    actor, notice: Notice::Lapsed | Notice::Lost | Notice::Transferred, ..
                } => {
                    to_tell.actors.remove(actor);
                    to_tell.first.remove(actor);
                }
                Effect::Notify { actor, notice: Notice::Resumed, .. } if to_tell.first.contains(actor) => {
                    early = Some(*actor);
                }
                _ => {}
            }
        }
        let is_over = to_tell.is_due && !is_busy;
        let left = to_tell.actors.first().copied().filter(|_| is_over);
        to_tell.is_due &= is_busy;
        if let Some(actor) = early {
            let what =
                format!("actor {actor} of node {node} is told that a lapse is over of which it was not told");
            inner.fail(Check::AllTold, what);
        }
        if let Some(actor) = left {
            let what = format!("actor {actor} of node {node} holds a name, and is neither stopped nor told");
            inner.fail(Check::AllTold, what);
        }
    }
}
