//! A host whose node is about to leave: what is held is held, what is asked for anew is asked elsewhere.

use callsign_store::planted;

use super::{Claim, Effect, Elsewhere, Host, Name, Notice, OnLapse, RegisterError, duties::Duty};

impl Host {
    /// From now on new names are refused. So is what was asked for and not sent yet; what was sent goes on. Actors that asked
    /// to be told are told.
    pub(crate) fn turn_away(&mut self, ask: Vec<Elsewhere>) {
        self.owes(Duty::Tell { notice: Notice::Draining, told: None });
        self.turned_away = Some(ask);
        if !planted!("drains-and-registers") {
            self.owes(Duty::TurnAwayQueued(None));
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
        if let (Some(_), OnLapse::Suspend, Some(actor)) = (&self.turned_away, claim.on_lapse, claim.actor) {
            let claims = vec![claim.id];
            effects.push(Effect::Notify { actor, claims, notice: Notice::Draining });
        }
    }

    /// Whether a registration is undecided.
    pub(crate) fn is_registering(&self) -> bool {
        !self.asking.is_empty() || self.duties.calls() > 0
    }
}
