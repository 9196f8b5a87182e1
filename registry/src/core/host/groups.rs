//! Memberships of groups: names that say which group, which session and which actor. And places in semaphores, which hold once few
//! enough stand before them.
//!
//! Promises: at most as many claims as the limit says are told that they hold, over all nodes, because whoever stands before one in
//! the log of any node does so in a later log, too, until it has left; and whoever leaves is flagged first.

use std::collections::BTreeSet;

use callsign_store::planted;

use super::{
    Caller, Effect, GroupId, Host, Name, Now, Queued, RegisterError, Registrant, Replica, Table,
    calls::refuse, duties::Duty,
};
use crate::core::group::Membership;

/// Claims of places that do not hold yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Places {
    waiting: BTreeSet<Name>,
    /// Some of them may hold by now.
    is_due: bool,
}

impl Places {
    /// A claim begins.
    pub(super) fn begins(&mut self, name: &Name) {
        if Membership::of_place(name).is_some() {
            self.waiting.insert(name.clone());
            self.is_due = true;
        }
    }

    /// Somebody has left, or many rows are others than before.
    pub(super) fn changed(&mut self) {
        self.is_due = !self.waiting.is_empty();
    }
}

impl Host {
    /// An actor is to be a member of a group.
    pub(crate) fn join(
        &mut self,
        now: Now,
        caller: Caller,
        group: GroupId,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            let name = group.key().clone();
            return self.owes(Duty::Call(name, Queued::Join { caller, group, registrant }));
        }
        self.join_now(now, caller, &group, registrant, effects);
    }

    pub(super) fn join_now(
        &mut self,
        now: Now,
        caller: Caller,
        group: &GroupId,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = &self.session else {
            return refuse(caller.call, RegisterError::Lapsed, effects);
        };
        let name = group.member(session, registrant.actor);
        self.register_now(now, caller, name, registrant, effects);
    }

    /// Tells those whose places hold by now.
    pub(super) fn look_at_places<T: Table>(&mut self, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.places.is_due) {
            return;
        }
        let claims = &self.claims;
        self.places.waiting.retain(|name| {
            let Some(claim) = claims.get(name) else { return false };
            let holds = replica.holds(name, claim.position) || planted!("everybody-holds");
            if holds {
                effects.push(Effect::Holds { claim: claim.id });
            }
            !holds
        });
    }
}
