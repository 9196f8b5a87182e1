//! A host whose node is about to leave: what is held is held, what is asked for anew is asked elsewhere.

use callsign_store::planted;

use super::{
    Answer, Claim, Effect, Elsewhere, Host, Name, Notice, Now, OnLapse, Queued, RegisterError, Replica,
    Table, Wish, refuse,
};

impl Host {
    /// From now on new names are refused. So is what was asked for and not sent yet; what was sent goes on. Actors that asked
    /// to be told are told.
    pub(crate) fn turn_away<T: Table>(
        &mut self,
        now: Now,
        ask: Vec<Elsewhere>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        self.tell_all(Notice::Draining, effects);
        self.turned_away = Some(ask);
        if planted!("drains-and-registers") {
            return;
        }
        self.queued.retain(|_, call| {
            let Queued::Register(caller, _) = call else { return true };
            let ask = self.turned_away.clone().unwrap_or_default();
            refuse(caller.call, RegisterError::Draining { ask }, effects);
            false
        });
        let unsent = self.undecided.iter_mut().filter_map(|(number, open)| {
            let is_new = open.sent.is_none() && matches!(open.wish, Wish::Register { .. });
            is_new.then(|| (*number, open.caller.take()))
        });
        for (number, caller) in unsent.collect::<Vec<_>>() {
            if let Some(caller) = caller {
                let ask = self.turned_away.clone().unwrap_or_default();
                let answer = Answer::Registered(Err(RegisterError::Draining { ask }));
                effects.push(Effect::Answer { call: caller.call, answer });
            }
            self.withdraw(now, number, replica, effects);
        }
    }

    /// Whom to ask has changed.
    pub(crate) fn ask_elsewhere(&mut self, ask: Vec<Elsewhere>) {
        if self.turned_away.is_some() {
            self.turned_away = Some(ask);
        }
    }

    /// Why a name is not asked for here. What this node holds, or has asked for, it still answers for.
    pub(super) fn refusal_of(&self, name: &Name) -> Option<RegisterError> {
        let ask = self.turned_away.as_ref()?;
        let is_new = !self.by_name.contains_key(name) && !self.claims.contains_key(name);
        (is_new && !planted!("drains-and-registers")).then(|| RegisterError::Draining { ask: ask.clone() })
    }

    /// An actor that holds a name only now is told, too.
    pub(super) fn tell_of_leaving(&self, claim: &Claim, effects: &mut Vec<Effect>) {
        if self.turned_away.is_some() && claim.on_lapse == OnLapse::Suspend {
            let (actor, claims) = (claim.actor, vec![claim.id]);
            effects.push(Effect::Notify { actor, claims, notice: Notice::Draining });
        }
    }

    /// Whether a registration is undecided.
    pub(crate) fn is_registering(&self) -> bool {
        !self.asking.is_empty()
    }
}
