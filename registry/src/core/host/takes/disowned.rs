//! What an actor took, or takes, and does not want any more: it lives, and whoever asked in its place has given up waiting.

use super::{Client, Duty, Effect, Host, Name, Position, Queued, Replica, Table, Take, Takes};
use crate::core::host::calls::not_held;

/// What an actor took, or takes, and does not want any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disowned {
    /// The registration that was to end by it.
    pub(crate) token: Position,
    pub(crate) actor: u64,
}

impl Takes {
    /// The actor of the one that takes this name from this registration does not want it any more. Returns whether there is one.
    fn disown(&mut self, name: &Name, (token, actor): (Position, u64)) -> bool {
        let number = self.by_name.get(name);
        let take = number.and_then(|number| self.by_number.get_mut(number));
        let is_its = |take: &&mut Take| (take.wanted.token, take.wanted.actor) == (token, actor);
        let Some(take) = take.filter(is_its) else { return false };
        (take.is_orphan, take.is_disowned) = (true, !take.is_orphan || take.is_disowned);
        true
    }
}

impl Host {
    /// An actor lives, and does not want what it took: if the name is its own since, it is given up, and if it comes yet, it is given up
    /// then.
    pub(crate) fn disown<T: Table>(
        &mut self,
        caller: Client,
        name: Name,
        disowned: Disowned,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Disown { caller, disowned }));
        }
        self.disown_now(caller, name, &disowned, replica, effects);
    }

    pub(in crate::core::host) fn disown_now<T: Table>(
        &mut self,
        caller: Client,
        name: Name,
        &Disowned { token, actor }: &Disowned,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let is_taking = self.takes.disown(&name, (token, actor));
        let claim = self.claims.get(&name).filter(|claim| claim.actor == Some(actor));
        let claim = claim.filter(|claim| !is_taking && claim.position > token);
        if let Some(position) = claim.map(|claim| claim.position) {
            return self.unregister(caller, name, Some(position), replica, effects);
        }
        let answer = not_held(&name, replica.row(&name).as_ref());
        effects.push(Effect::Answer { call: caller.call, answer });
    }
}
