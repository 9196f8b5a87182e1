//! The node's session: what becomes of those who hold names, and of those who wait, when it lapses and when it is lost.

use callsign_planted::planted;

use super::{
    Answer, Arc, BTreeMap, BTreeSet, Effect, Host, Notice, OnLapse, Queued, RegisterError, RequestNumber,
    SessionId, Time, UnregisterError, Wish, not_held,
};

impl Host {
    pub(crate) fn on_session_opened(&mut self, session: SessionId) {
        self.session = Some(Arc::new(session));
        self.is_lapsed = false;
    }

    pub(crate) fn on_session_lapsed(&mut self, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.is_lapsed, true) {
            return;
        }
        for (actor, on_lapse) in self.actors() {
            effects.push(match on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, notice: Notice::Lapsed },
            });
        }
    }

    pub(crate) fn on_session_resumed(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.is_lapsed, false) {
            return;
        }
        for (actor, on_lapse) in self.actors() {
            if on_lapse == OnLapse::Suspend {
                effects.push(Effect::Notify { actor, notice: Notice::Resumed });
            }
        }
    }

    pub(crate) fn on_session_lost(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (actor, on_lapse) in self.actors() {
            effects.push(match on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, notice: Notice::Lost },
            });
        }
        let mut watched: BTreeSet<u64> = std::mem::take(&mut self.by_actor).into_keys().collect();
        let asking = self.undecided.values().chain(self.decided.iter().map(|d| &d.open));
        watched.extend(asking.filter_map(|open| match open.wish {
            Wish::Register { actor, .. } => Some(actor),
            Wish::Unregister { .. } => None,
        }));
        effects.extend(watched.into_iter().map(|actor| Effect::Unwatch { actor }));
        if !planted!("lost-session-keeps-claims") {
            self.claims.clear();
            self.claims_digest = 0;
        }
        if planted!("foreign-session-verdict") {
            self.next_number = RequestNumber(1);
        }
        self.by_name.clear();
        self.outbox.clear();
        self.session = None;
        let undecided = std::mem::take(&mut self.undecided).into_values();
        let decided = std::mem::take(&mut self.decided).into_iter().map(|d| d.open);
        for open in undecided.chain(decided) {
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
                let (caller, answer) = match call {
                    Queued::Register { caller, .. } => (
                        caller,
                        Answer::Registered(Err(RegisterError::SessionLost { name: name.to_string() })),
                    ),
                    Queued::Unregister { caller } => (caller, not_held(&name, None)),
                };
                effects.push(Effect::Answer { call: caller.call, answer });
            }
        }
    }

    /// Each actor with a claim, and the milder of its wishes: an actor that wants to be told is told.
    pub(super) fn actors(&self) -> BTreeMap<u64, OnLapse> {
        let mut actors = BTreeMap::new();
        for claim in self.claims.values() {
            let on_lapse = actors.entry(claim.actor).or_insert(claim.on_lapse);
            if claim.on_lapse == OnLapse::Suspend {
                *on_lapse = OnLapse::Suspend;
            }
        }
        actors
    }
}
