//! Time: who waits no more, and what is asked again.

use std::ops::Bound::{Excluded, Unbounded};

use callsign_store::planted;

use super::{
    ASK_AGAIN, Answer, Client, Effect, GivenUp, Host, Name, Now, Open, Queued, RegisterError, Replica,
    RequestNumber, Surroundings, Table, Time, UnregisterError, UpdateError, Wish, duties::Slice,
    starts::not_registered,
};

/// Where the look at all who wait goes on, if it was cut: behind this one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Look {
    Undecided(RequestNumber),
    Decided(RequestNumber),
    Queued(Option<Name>),
}

impl Host {
    /// Whether a look at all who wait was cut, and goes on at once.
    pub(crate) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// Looks at who waits, at most so many at a time: see [`is_looking`](Self::is_looking).
    pub(crate) fn on_wake<T: Table>(
        &mut self,
        now: Now,
        names: usize,
        around: Surroundings<'_>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let mut slice = Slice::of(names);
        let mut look = self.look.take().or(Some(Look::Undecided(RequestNumber(0))));
        while let Some(at) = look {
            if slice.is_over() {
                self.look = (!planted!("look-cut-short")).then_some(at);
                return;
            }
            look = match at {
                Look::Undecided(behind) => {
                    let last = self.look_at_undecided(now, behind, &mut slice, around, replica, effects);
                    Some(last.map_or(Look::Decided(RequestNumber(0)), Look::Undecided))
                }
                Look::Decided(behind) => {
                    let last = self.look_at_decided(now.time, behind, &mut slice, around, effects);
                    Some(last.map_or(Look::Queued(None), Look::Decided))
                }
                Look::Queued(behind) => {
                    let last = self.look_at_queued(now.time, behind.as_ref(), &mut slice, effects);
                    last.map(|last| Look::Queued(Some(last)))
                }
            };
        }
        self.wake_starts(now.time, effects);
        self.wake_takes(now, replica, effects);
        self.wake_gives(now, replica, effects);
        if around.is_synced {
            self.compare(now.time, replica);
        }
    }

    /// Returns the last one that it came to, if the slice is over.
    fn look_at_undecided<T: Table>(
        &mut self,
        now: Now,
        behind: RequestNumber,
        slice: &mut Slice,
        around: Surroundings<'_>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) -> Option<RequestNumber> {
        let time = now.time;
        let (mut last, mut seen, mut withdrawn) = (None, 0, Vec::new());
        for (number, open) in self.undecided.range_mut((Excluded(behind), Unbounded)).take(slice.left()) {
            (last, seen) = (Some(*number), seen + 1);
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
        slice.took(seen);
        for number in withdrawn {
            self.withdraw(now, number, replica, effects);
        }
        last.filter(|_| slice.is_over())
    }

    /// The same.
    fn look_at_decided(
        &mut self,
        time: Time,
        behind: RequestNumber,
        slice: &mut Slice,
        around: Surroundings<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<RequestNumber> {
        let (mut last, mut seen) = (None, 0);
        for (number, open) in self.decided.opens_behind(behind).take(slice.left()) {
            (last, seen) = (Some(number), seen + 1);
            if let Some(caller) = open.caller.filter(|caller| time >= caller.deadline) {
                open.caller = None;
                let answer = expired(open, caller, time, around);
                effects.push(Effect::Answer { call: caller.call, answer });
            }
        }
        slice.took(seen);
        last.filter(|_| slice.is_over())
    }

    /// The same. All calls for one name are looked at together.
    fn look_at_queued(
        &mut self,
        time: Time,
        behind: Option<&Name>,
        slice: &mut Slice,
        effects: &mut Vec<Effect>,
    ) -> Option<Name> {
        let mut seen = 0;
        let last = self.queued.retain(behind, slice.left(), |name, call| {
            seen += 1;
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
                Queued::Unregister { .. } | Queued::Disown { .. } => {
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
        slice.took(seen);
        last
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

fn expired(open: &Open, caller: Client, now: Time, around: Surroundings<'_>) -> Answer {
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
