//! Claims, and requests: how they begin and how they end.

use callsign_store::{ids::Position, planted};

use super::{Claim, Client, Duty, Host, Open};
use crate::{
    core::{
        input::{Effect, Notice, OnLapse},
        message::Wish,
        name::Name,
        rows::digest,
        table::RequestNumber,
        why::GivenUp,
    },
    error::NotStarted,
};

impl Host {
    pub(super) fn claim(&mut self, name: Name, claim: Claim) {
        self.claims_digest ^= digest(&name, claim.position);
        if let Some(actor) = claim.actor {
            self.by_actor.entry(actor).or_default().insert(name.clone());
        }
        self.places.begins(&name);
        self.offers.holds(&name, &claim);
        self.claims.insert(name, claim);
    }

    /// Ends a claim: first of all it is flagged, so that nobody acts on it any more. Its actor is stopped or told if there is
    /// something to say.
    pub(super) fn end_claim(
        &mut self,
        name: &Name,
        say: Option<Notice>,
        effects: &mut Vec<Effect>,
    ) -> Option<Claim> {
        if let Some(started) = self.end_start(name, NotStarted::Lost, effects) {
            return Some(started);
        }
        let claim = self.claims.remove(name)?;
        let is_lost = say.is_some();
        let mut is_flagged = true;
        if is_lost && planted!("lost-claim-not-flagged") {
            is_flagged = false;
        }
        if !is_lost && planted!("freed-claim-not-flagged") {
            is_flagged = false;
        }
        if is_flagged {
            effects.push(Effect::Flag { claim: claim.id });
        }
        // Before it is not watched any more: such an actor is not stopped.
        if let (Some(notice), Some(actor)) = (say, claim.actor) {
            effects.push(match claim.on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, claims: vec![claim.id], notice },
            });
        }
        self.end_giving(name, effects);
        self.claims_digest ^= digest(name, claim.position);
        if let Some(actor) = claim.actor
            && let Some(names) = self.by_actor.get_mut(&actor)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_actor.remove(&actor);
                self.unwatch(actor, effects);
            }
        }
        effects.push(Effect::Forget { claim: claim.id });
        Some(claim)
    }

    /// Stops watching an actor, unless it holds or asks for another name.
    pub(super) fn unwatch(&self, actor: u64, effects: &mut Vec<Effect>) {
        if !self.by_actor.contains_key(&actor)
            && (!self.asking.is_for(actor) || planted!("unwatched-while-asking"))
        {
            effects.push(Effect::Unwatch { actor });
        }
    }

    /// Asks the leader to free a name whose claim is dropped already.
    pub(super) fn give_up(&mut self, name: Name, position: Position, why: GivenUp, caller: Option<Client>) {
        let wish = Wish::Unregister { position, why };
        self.ask(Open { name, caller, ..Open::of(wish) });
    }

    pub(super) fn ask(&mut self, open: Open) {
        let number = self.next_number;
        self.next_number = RequestNumber(number.0 + 1);
        self.by_name.insert(open.name.clone(), number);
        self.outbox.insert(number);
        self.asking.begins(&open.wish, number);
        self.undecided.insert(number, Box::new(open));
    }

    pub(crate) fn on_actor_ended(&mut self, actor: u64) {
        // Ahead of calls that wait, and of what becomes of the session: as if it were done at once.
        self.owes_first(Duty::ActorEnded { actor, behind: RequestNumber(0) });
    }

    /// A request that is undecided, or whose verdict is not passed on yet.
    pub(super) fn open_mut(&mut self, number: RequestNumber) -> Option<&mut Open> {
        let undecided = self.undecided.get_mut(&number).map(|open| &mut **open);
        undecided.or_else(|| self.decided.get_mut(number))
    }

    /// The actor of an undecided request has ended.
    pub(super) fn orphan(&mut self, number: RequestNumber) {
        if let Some(open) = self.open_mut(number) {
            open.is_orphan = !planted!("actor-end-forgotten");
        }
        self.takes.orphan(number);
    }
}
