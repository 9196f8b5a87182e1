//! What is called for by the application: to register a name, to give one up, to say something else of it.

use callsign_store::{ids::Position, planted};

use super::{Claim, Client, Duty, Host, MetaChange, Open, Queued, Registrant};
use crate::{
    core::{
        input::{Answer, CallId, Effect, Granted, Now},
        message::Wish,
        name::Name,
        replica::Replica,
        table::{Row, Table},
        why::GivenUp,
    },
    error::{RegisterError, UnregisterError, UpdateError},
};

impl Host {
    pub(crate) fn register(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            // Behind what was to be done before: of the session, say, in which it asks.
            return self.owes(Duty::Call(name, Queued::Register { caller, registrant }));
        }
        self.register_now(now, caller, name, registrant, effects);
    }

    pub(super) fn register_now(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        let call = caller.call;
        if let Some(error) = self.refusal_of(&name) {
            return refuse(call, error, effects);
        }
        let Some(session) = self.session.clone().filter(|_| self.is_trusted(now)) else {
            return refuse(call, RegisterError::Lapsed, effects);
        };
        if let Some(pending) = self.overload(registrant.meta.as_ref()) {
            return refuse(call, RegisterError::Overloaded { pending }, effects);
        }
        if self.is_asked(&name) {
            return self.queued.push(name, Queued::Register { caller, registrant });
        }
        let Registrant { actor, kind, on_lapse, on_take, meta } = registrant;
        // What this node holds while it is trusted nobody else can hold: no need to ask.
        if let Some(claim) = self.claims.get(&name) {
            if claim.actor == Some(actor) && claim.kind == kind {
                let Claim { position: token, revision, id: claim, .. } = *claim;
                let granted = Granted { token, revision, session: session.number, claim };
                effects.push(Effect::Same { claim, again: call });
                effects.push(Effect::Answer { call, answer: Answer::Registered(Ok(granted)) });
                return;
            }
            if let Some(holder) = self.held_as(claim) {
                return refuse(call, RegisterError::Taken { name: name.to_string(), holder }, effects);
            }
        }
        if !self.by_actor.contains_key(&actor) {
            effects.push(Effect::Watch { actor });
        }
        let open = Open {
            name,
            wish: Wish::Register { actor: Some(actor), kind, meta },
            on_lapse,
            on_take,
            claim: Some(call),
            caller: Some(caller),
            starter: None,
            sent: None,
            is_orphan: false,
            takes: false,
        };
        self.ask(open);
    }

    /// With a token: only if the claim is that of it.
    pub(crate) fn unregister<T: Table>(
        &mut self,
        caller: Client,
        name: Name,
        token: Option<Position>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Unregister { caller, token }));
        }
        self.unregister_now(caller, name, token, replica, effects);
    }

    fn unregister_now<T: Table>(
        &mut self,
        caller: Client,
        name: Name,
        token: Option<Position>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(number) = self.by_name.get(&name) {
            // It is being given up already, because its actor ended: whoever asks for just that waits for the same verdict.
            let (number, is_first) = (*number, !self.queued.is_waiting(&name));
            if is_first
                && let Some(open) = self.open_mut(number)
                && open.caller.is_none()
                && matches!(open.wish, Wish::Unregister { .. })
            {
                open.caller = Some(caller);
                return;
            }
        }
        // It may be another's soon.
        if self.is_asked(&name) {
            return self.queued.push(name, Queued::Unregister { caller, token });
        }
        // What is started here is not held yet.
        let is_starting = self.claims.get(&name).is_some_and(|claim| claim.actor.is_none());
        let is_another =
            self.claims.get(&name).is_some_and(|claim| token.is_some_and(|t| t != claim.position));
        let claim = if is_starting || (is_another && !planted!("any-membership-left")) {
            None
        } else if planted!("claim-outlives-unregister") {
            self.claims.get(&name).cloned()
        } else {
            self.end_claim(&name, None, effects)
        };
        let Some(claim) = claim else {
            let answer = not_held(&name, replica.row(&name).as_ref());
            effects.push(Effect::Answer { call: caller.call, answer });
            return;
        };
        self.give_up(name, claim.position, GivenUp::Unregistered, Some(caller));
    }

    pub(crate) fn update<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        change: MetaChange,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Update { caller, change }));
        }
        self.update_now(now, caller, name, change, replica, effects);
    }

    fn update_now<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        change: MetaChange,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let token = change.token;
        let is_held = |claim: &Claim| claim.position == token && claim.actor.is_some();
        let refused = if !self.claims.get(&name).is_some_and(is_held) {
            let holder = replica.row(&name).map(|row| row.holder());
            Some(UpdateError::NotHeld { name: name.to_string(), holder })
        } else if !self.is_trusted(now) {
            Some(UpdateError::Lapsed)
        } else {
            self.overload(change.meta.as_ref()).map(|pending| UpdateError::Overloaded { pending })
        };
        if let Some(error) = refused {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Updated(Err(error)) });
        } else if self.is_asked(&name) {
            self.queued.push(name, Queued::Update { caller, change });
        } else {
            let MetaChange { token: position, revision, meta } = change;
            let wish = Wish::Update { position, revision, meta };
            self.ask(Open { name, caller: Some(caller), ..Open::of(wish) });
        }
    }

    /// Does what is called for, whose turn has come.
    pub(super) fn call_now<T: Table>(
        &mut self,
        now: Now,
        name: Name,
        call: Queued,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        match call {
            Queued::Register { caller, registrant } => {
                self.register_now(now, caller, name, registrant, effects);
            }
            Queued::Start { caller, starter } => {
                self.start_now(now, caller, name, *starter, replica, effects);
            }
            Queued::Join { caller, group, registrant } => {
                self.join_now(now, caller, &group, registrant, effects);
            }
            Queued::Unregister { caller, token } => {
                self.unregister_now(caller, name, token, replica, effects);
            }
            Queued::Update { caller, change } => {
                self.update_now(now, caller, name, change, replica, effects);
            }
            Queued::Take { caller, wanted } => self.take_now(now, caller, name, wanted, replica, effects),
            Queued::Disown { caller, disowned } => {
                self.disown_now(caller, name, &disowned, replica, effects);
            }
        }
    }
}

/// Tells a caller that it gets no name. Nothing more will be said of what it asked for.
pub(super) fn refuse(call: CallId, error: RegisterError, effects: &mut Vec<Effect>) {
    effects.push(Effect::Forget { claim: call });
    effects.push(Effect::Answer { call, answer: Answer::Registered(Err(error)) });
}

pub(super) fn not_held(name: &Name, row: Option<&Row>) -> Answer {
    let holder = row.map(Row::holder);
    Answer::Unregistered(Err(UnregisterError::NotHeldHere { name: name.to_string(), holder }))
}
