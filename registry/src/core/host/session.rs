//! The node's session: what becomes of those who hold names, and of those who wait, when it lapses and when it is lost.

use callsign_store::planted;

use super::{
    Answer, Arc, BTreeSet, Effect, Host, Notice, OnLapse, Queued, RegisterError, RequestNumber, SessionId,
    Time, UnregisterError, Wish, not_held, refuse,
};

impl Host {
    pub(crate) fn on_session_opened(&mut self, session: SessionId) {
        self.session = Some(Arc::new(session));
        self.is_lapsed &= planted!("second-lapse-tells-nobody");
    }

    /// The registry was joined while the session was lapsed: nobody has told it of the session before.
    fn adopt(&mut self, session: SessionId) {
        if self.session.is_none() && !planted!("lapsed-session-not-adopted") {
            self.session = Some(Arc::new(session));
        }
    }

    pub(crate) fn on_session_lapsed(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        self.adopt(session);
        if std::mem::replace(&mut self.is_lapsed, true) {
            return;
        }
        self.tell_all(Notice::Lapsed, effects);
    }

    pub(crate) fn on_session_resumed(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        self.adopt(session);
        if !std::mem::replace(&mut self.is_lapsed, false) {
            return;
        }
        self.tell_all(Notice::Resumed, effects);
    }

    pub(crate) fn on_session_lost(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if !planted!("session-end-not-flagged") {
            effects.extend(self.claims.values().map(|claim| Effect::Flag { claim: claim.id }));
        }
        self.tell_all(Notice::Lost, effects);
        let mut watched: BTreeSet<u64> = std::mem::take(&mut self.by_actor).into_keys().collect();
        watched.extend(self.asking.actors());
        self.asking.clear();
        effects.extend(watched.into_iter().map(|actor| Effect::Unwatch { actor }));
        effects.extend(self.claims.values().map(|claim| Effect::Forget { claim: claim.id }));
        if !planted!("lost-session-keeps-claims") {
            self.claims.clear();
            self.claims_digest = 0;
        }
        if planted!("foreign-session-verdict") {
            self.next_number = RequestNumber(1);
        }
        if !planted!("lost-session-leaves-names-asked") {
            self.by_name.clear();
        }
        self.outbox.clear();
        self.session = None;
        let undecided = std::mem::take(&mut self.undecided).into_values();
        let decided = std::mem::take(&mut self.decided).into_iter().map(|(_, open)| open);
        for open in undecided.chain(decided) {
            effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
            let Some(caller) = open.caller else { continue };
            let name = open.name.to_string();
            let answer = match open.wish {
                Wish::Register { .. } => Answer::Registered(Err(RegisterError::SessionLost { name })),
                // The end of the session frees it, and that is not in the log yet.
                Wish::Unregister { .. } => Answer::Unregistered(Err(UnregisterError::Pending {
                    name,
                    waited: now.since(caller.began),
                })),
            };
            effects.push(Effect::Answer { call: caller.call, answer });
        }
        for (name, queued) in std::mem::take(&mut self.queued) {
            for call in queued {
                match call {
                    Queued::Register(caller, _) => {
                        let error = RegisterError::SessionLost { name: name.to_string() };
                        refuse(caller.call, error, effects);
                    }
                    Queued::Unregister { caller } => {
                        let answer = not_held(&name, None);
                        effects.push(Effect::Answer { call: caller.call, answer });
                    }
                }
            }
        }
    }

    /// Tells each actor with a claim, by the listeners of its claims; and stops it, if the notice is one of those that stop and
    /// one of its claims says so: what a claim asked for is done whatever another one asked for.
    pub(super) fn tell_all(&self, notice: Notice, effects: &mut Vec<Effect>) {
        let stops = matches!(notice, Notice::Lapsed | Notice::Lost);
        for (actor, names) in &self.by_actor {
            let claims = || names.iter().filter_map(|name| self.claims.get(name));
            let told: Vec<_> = claims().filter(|c| c.on_lapse == OnLapse::Suspend).map(|c| c.id).collect();
            if !told.is_empty() {
                effects.push(Effect::Notify { actor: *actor, claims: told, notice });
            }
            if stops && claims().any(|claim| claim.on_lapse == OnLapse::Stop) {
                effects.push(Effect::Stop { actor: *actor });
            }
        }
    }
}
