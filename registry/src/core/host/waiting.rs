//! Time: who waits no more, and what is asked again.

use callsign_store::planted;

use super::{
    ASK_AGAIN, Answer, Caller, Effect, GivenUp, Host, Now, Open, Queued, RegisterError, Replica,
    RequestNumber, Surroundings, Table, Time, UnregisterError, UpdateError, Wish, starts::not_registered,
};

impl Host {
    pub(crate) fn on_wake<T: Table>(
        &mut self,
        now: Now,
        around: Surroundings<'_>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let time = now.time;
        let mut withdrawn = Vec::new();
        for (number, open) in &mut self.undecided {
            if open.sent.is_some_and(|(_, at)| time.since(at) >= ASK_AGAIN)
                && !planted!("not-asked-again-in-new-epoch")
            {
                self.outbox.insert(*number);
            }
            if let Some(caller) = open.caller.filter(|caller| time >= caller.deadline) {
                // What was sent goes on: only its caller does not wait for it any more.
                open.caller = None;
                let answer = expired(open, caller, time, around);
                effects.push(Effect::Answer { call: caller.call, answer });
                let is_needed =
                    matches!(open.wish, Wish::Unregister { .. } | Wish::Bind { .. } | Wish::Transfer { .. });
                if open.sent.is_none() && !is_needed {
                    withdrawn.push(*number);
                }
            }
        }
        for number in withdrawn {
            self.withdraw(now, number, replica, effects);
        }
        for open in self.decided.opens_mut() {
            if let Some(caller) = open.caller.filter(|caller| time >= caller.deadline) {
                open.caller = None;
                let answer = expired(open, caller, time, around);
                effects.push(Effect::Answer { call: caller.call, answer });
            }
        }
        self.queued.retain(|name, call| {
            let caller = call.caller();
            if time < caller.deadline {
                return true;
            }
            // Another request of this node on the same name is undecided.
            let (name, waited) = (name.to_string(), time.since(caller.began));
            let answer = match call {
                Queued::Register { .. } | Queued::Join { .. } => {
                    effects.push(Effect::Forget { claim: caller.call });
                    Answer::Registered(Err(RegisterError::Unknown { name, waited }))
                }
                Queued::Start { .. } => {
                    effects.push(Effect::Forget { claim: caller.call });
                    Answer::Started(Err(RegisterError::Unknown { name, waited }.into()))
                }
                Queued::Unregister { .. } => {
                    Answer::Unregistered(Err(UnregisterError::Pending { name, waited }))
                }
                Queued::Update { .. } => Answer::Updated(Err(UpdateError::Unknown { name, waited })),
                Queued::Take { .. } => {
                    effects.push(Effect::Forget { claim: caller.call });
                    Answer::Taken(Err(RegisterError::Unknown { name, waited }.into()))
                }
            };
            effects.push(Effect::Answer { call: caller.call, answer });
            false
        });
        self.wake_starts(time, effects);
        self.wake_takes(now, replica, effects);
        self.wake_gives(now, replica, effects);
        if around.is_synced {
            self.compare(time, replica);
        }
    }

    /// Takes back a request that was never sent, so that its caller can be told so.
    pub(super) fn withdraw<T: Table>(
        &mut self,
        now: Now,
        number: RequestNumber,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(open) = self.undecided.remove(&number) else { return };
        self.outbox.remove(&number);
        self.asking.ends(&open.wish, number);
        self.by_name.remove(&open.name);
        match open.wish {
            Wish::Register { actor, .. } => {
                if let Some(actor) = actor {
                    self.unwatch(actor, effects);
                }
                effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
            }
            // Its actor has ended, and what was to come first does not come.
            Wish::Update { position, .. } if open.is_orphan => {
                self.give_up(open.name.clone(), position, GivenUp::ActorEnded, None);
            }
            Wish::Bind { .. } | Wish::Update { .. } | Wish::Unregister { .. } | Wish::Transfer { .. } => {}
        }
        self.next_queued(now, &open.name, replica, effects);
    }
}

fn expired(open: &Open, caller: Caller, now: Time, around: Surroundings<'_>) -> Answer {
    let (name, waited) = (open.name.to_string(), now.since(caller.began));
    match open.wish {
        Wish::Unregister { .. } => Answer::Unregistered(Err(UnregisterError::Pending { name, waited })),
        // The name is held while its actor was started: whether with that actor is not known.
        Wish::Bind { .. } => not_registered(&open.wish, false, RegisterError::Unknown { name, waited }),
        // Nobody waits for a transfer here.
        Wish::Transfer { .. } => not_registered(&open.wish, true, RegisterError::Unknown { name, waited }),
        Wish::Register { .. } => not_registered(
            &open.wish,
            open.takes,
            match around {
                _ if open.takes => RegisterError::Unknown { name, waited },
                _ if planted!("unknown-taken-for-no") => RegisterError::NoLeader,
                _ if open.sent.is_some() => RegisterError::Unknown { name, waited },
                Surroundings { is_synced: false, .. } => RegisterError::NotSynced,
                Surroundings { has_leader: false, .. } => RegisterError::NoLeader,
                _ => RegisterError::Unknown { name, waited },
            },
        ),
        Wish::Update { .. } => Answer::Updated(Err(match around {
            _ if open.sent.is_some() => UpdateError::Unknown { name, waited },
            Surroundings { is_synced: false, .. } => UpdateError::NotSynced,
            Surroundings { has_leader: false, .. } => UpdateError::NoLeader,
            _ => UpdateError::Unknown { name, waited },
        })),
    }
}
