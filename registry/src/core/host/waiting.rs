//! Time: who waits no more, and what is asked again.

use callsign_store::planted;

use super::{
    ASK_AGAIN, Answer, Caller, Effect, Host, Now, Open, Queued, RegisterError, Replica, RequestNumber,
    Surroundings, Table, Time, UnregisterError, Wish,
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
                if open.sent.is_none() && matches!(open.wish, Wish::Register { .. }) {
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
            let (caller, answer) = match call {
                // Another request of this node on the same name is undecided.
                Queued::Register(caller, _) => (
                    caller,
                    Answer::Registered(Err(RegisterError::Unknown {
                        name: name.to_string(),
                        waited: time.since(caller.began),
                    })),
                ),
                Queued::Unregister { caller } => (
                    caller,
                    Answer::Unregistered(Err(UnregisterError::Pending {
                        name: name.to_string(),
                        waited: time.since(caller.began),
                    })),
                ),
            };
            let is_over = time >= caller.deadline;
            if is_over {
                if matches!(call, Queued::Register { .. }) {
                    effects.push(Effect::Forget { claim: caller.call });
                }
                effects.push(Effect::Answer { call: caller.call, answer });
            }
            !is_over
        });
        if around.is_synced {
            self.compare(time, replica, effects);
        }
    }

    /// Takes back a register that was never sent, so that its caller can be told so.
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
        if let Wish::Register { actor, .. } = open.wish {
            self.unwatch(actor, effects);
            effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
        }
        self.next_queued(now, &open.name, replica, effects);
    }
}

fn expired(open: &Open, caller: Caller, now: Time, around: Surroundings<'_>) -> Answer {
    let (name, waited) = (open.name.to_string(), now.since(caller.began));
    match open.wish {
        Wish::Unregister { .. } => Answer::Unregistered(Err(UnregisterError::Pending { name, waited })),
        Wish::Register { .. } if planted!("unknown-taken-for-no") => {
            Answer::Registered(Err(RegisterError::NoLeader))
        }
        Wish::Register { .. } if open.sent.is_some() => {
            Answer::Registered(Err(RegisterError::Unknown { name, waited }))
        }
        Wish::Register { .. } if !around.is_synced => Answer::Registered(Err(RegisterError::NotSynced)),
        Wish::Register { .. } if !around.has_leader => Answer::Registered(Err(RegisterError::NoLeader)),
        Wish::Register { .. } => Answer::Registered(Err(RegisterError::Unknown { name, waited })),
    }
}
