//! Asking the leader, and what its verdicts come to.

use callsign_store::planted;

use super::{
    ASK_AGAIN, Answer, Claim, Duration, Effect, Epoch, GivenUp, Granted, Host, Message, Name, Now, Position,
    Queued, RegisterError, Replica, Request, RequestNumber, SessionId, Surroundings, Table, Time,
    UpdateError, Verdict, Wish, decided::Decided, duties::Duty, queued::ANSWERED_AT_ONCE,
    starts::not_registered,
};
use crate::core::message::MESSAGE_BYTES;

/// How many requests a message has at most. Fewer, if they bring much metadata.
const REQUESTS_OF_A_MESSAGE: usize = 2048;

/// How many requests are sent in a step. More: what comes meanwhile, such as a heartbeat, waits for longer.
const SENT_IN_A_STEP: usize = REQUESTS_OF_A_MESSAGE;

/// How many requests the leader may have from this host and not have answered. More: its queue grows in one long step. Fewer: hosts
/// wait for each commit.
pub(crate) const UNANSWERED: usize = 8 * SENT_IN_A_STEP;

impl Host {
    /// The epoch changed: every undecided request is asked again in the new one.
    pub(crate) fn on_epoch(&mut self, effects: &mut Vec<Effect>) {
        self.unflag_for_new_leader(effects);
        if planted!("not-asked-again-in-new-epoch") {
            return;
        }
        self.outbox.extend(self.undecided.keys().copied());
    }

    /// The leader was linked anew: what was on the old link may be lost.
    pub(crate) fn on_leader_linked(&mut self) {
        if planted!("not-asked-again-in-new-epoch") {
            return;
        }
        self.outbox.extend(self.undecided.keys().copied());
    }

    pub(crate) fn on_send_failed(&mut self, now: Time) {
        for open in self.undecided.values_mut() {
            // Asked again soon, not at once: the link's queue is full, or its end is on the way.
            if let Some((_, at)) = &mut open.sent {
                *at = now - ASK_AGAIN + Duration::from_millis(100);
            }
        }
    }

    /// Sends of what waits to be sent as much as a step may: whether that was all, [`has_more_to_send`](Self::has_more_to_send) says.
    pub(crate) fn flush(&mut self, now: Time, around: Surroundings<'_>, effects: &mut Vec<Effect>) {
        self.has_more_to_send = false;
        let was_synced =
            std::mem::replace(&mut self.is_synced, around.is_synced || planted!("takes-without-a-base"));
        if self.is_synced && !was_synced && self.takes.count() > 0 {
            self.owes(Duty::LookAtTakes(None));
        }
        let (Some((epoch, leader)), Some(session)) = (around.leader, self.session.clone()) else { return };
        if self.outbox.is_empty()
            || self.is_busy()
            || (!around.is_synced && !planted!("unsynced-member-registers"))
        {
            return;
        }
        let unanswered = self.undecided.len() - self.outbox.len();
        let room = UNANSWERED.saturating_sub(unanswered);
        let mut requests = Vec::with_capacity(self.outbox.len().min(room).min(SENT_IN_A_STEP));
        while requests.len() < room.min(SENT_IN_A_STEP)
            && let Some(number) = self.outbox.pop_first()
        {
            let Some(open) = self.undecided.get_mut(&number) else { continue };
            open.sent = Some((epoch, now));
            requests.push(Request { number, name: open.name.clone(), wish: open.wish.clone() });
        }
        // Where there is no room, a verdict makes some, or asking again does.
        self.has_more_to_send = !self.outbox.is_empty() && requests.len() < room;
        let acknowledged = self.acknowledged();
        while !requests.is_empty() {
            let mut bytes = 0;
            let fits = |request: &&Request| {
                bytes += request.weight();
                bytes <= MESSAGE_BYTES
            };
            let count = requests.iter().take(REQUESTS_OF_A_MESSAGE).take_while(fits).count().max(1);
            let requests = requests.drain(..count).collect();
            let message = Message::Requests { epoch, session: session.clone(), acknowledged, requests };
            effects.push(Effect::send(leader.clone(), message));
        }
    }

    /// Whether there is more to do at once than a step does: to send, or to tell those who wait for the starts of others.
    pub(crate) fn has_more_to_send(&self) -> bool {
        self.has_more_to_send || self.starts.has_more()
    }

    /// All below are decided, and their verdicts are here.
    pub(super) fn acknowledged(&self) -> RequestNumber {
        self.undecided.keys().next().copied().unwrap_or(self.next_number)
    }

    pub(crate) fn on_verdicts(
        &mut self,
        epoch: Epoch,
        session: &SessionId,
        position: Position,
        verdicts: Vec<(RequestNumber, Verdict)>,
    ) {
        if self.session.as_deref() != Some(session) && !planted!("foreign-session-verdict") {
            return;
        }
        for (number, verdict) in verdicts {
            // An answer of an epoch other than the one asked last is not for this question any more.
            if self.undecided.get(&number).is_none_or(|open| {
                open.sent.is_none_or(|(asked, _)| asked != epoch && !planted!("verdict-of-old-epoch"))
            }) {
                continue;
            }
            if let Some(open) = self.undecided.remove(&number) {
                self.outbox.remove(&number);
                self.decided.insert(number, Decided { open, verdict, position });
            }
        }
    }

    /// Passes on the verdicts whose time has come: the replica has them, and the session is trusted.
    pub(crate) fn settle<T: Table>(&mut self, now: Now, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        self.settle_decided(now, replica, effects);
        self.look_at_places(replica, effects);
    }

    fn settle_decided<T: Table>(&mut self, now: Now, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        self.find_holders(now, replica, effects);
        if self.starts.is_due() {
            self.look_at_starts(now, replica, effects);
        }
        if self.decided.is_empty() || self.is_busy() {
            return;
        }
        // A grant waits for the beat's answer; a refusal grants nothing, and need not.
        let with_grants = self.is_trusted(now) || planted!("grant-believed-while-lapsed");
        let reached = if planted!("grant-before-replica") { Position(u64::MAX) } else { replica.visible() };
        // Grants first, so that an actor that is refused one name and gets another stays watched.
        let due = self.decided.take_due(reached, with_grants);
        let mut names = Vec::with_capacity(if self.queued.is_empty() { 0 } else { due.len() });
        for (number, one) in due {
            if !self.queued.is_empty() {
                names.push(one.open.name.clone());
            }
            self.settle_one(now, number, one, replica, effects);
        }
        let mut room = ANSWERED_AT_ONCE;
        for name in names {
            self.call_queued(now, &name, &mut room, replica, effects);
        }
    }

    fn settle_one<T: Table>(
        &mut self,
        now: Now,
        number: RequestNumber,
        one: Decided,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let Decided { open, verdict, position } = one;
        self.asking.ends(&open.wish, number);
        if open.takes {
            return self.settle_take(now.time, number, *open, &verdict, effects);
        }
        if self.by_name.get(&open.name) == Some(&number) {
            self.by_name.remove(&open.name);
        }
        let Some(session) = self.session.clone() else { return };
        if open.starter.is_some() {
            match verdict {
                Verdict::Granted { token, .. } => return self.run_start(now.time, *open, token, effects),
                Verdict::Taken { holder } => {
                    return self.start_refused(now, *open, *holder, replica, effects);
                }
                _ => {}
            }
        }
        if matches!(open.wish, Wish::Transfer { .. }) {
            return self.settle_transfer(*open, &verdict, effects);
        }
        if let Wish::Bind { position, actor, .. } = open.wish {
            return self.settle_bind(now.time, *open, (position, actor), &verdict, effects);
        }
        let waited = open.caller.map(|caller| now.time.since(caller.began)).unwrap_or_default();
        let (answer, orphaned) = match (open.wish, verdict) {
            (Wish::Register { actor: actor @ Some(_), kind, .. }, Verdict::Granted { token, revision }) => {
                let orphaned = open.is_orphan.then_some(token);
                let orphaned = orphaned.filter(|_| !planted!("orphan-not-given-up"));
                // A register always says which call it came from.
                if let Some(id) = open.claim.filter(|_| !open.is_orphan) {
                    let (position, on_lapse, on_take) = (token, open.on_lapse, open.on_take);
                    let claim = Claim { id, actor, kind, position, revision, on_lapse, on_take };
                    self.tell_of_leaving(&claim, effects);
                    self.claim(open.name.clone(), claim);
                    let granted = Granted { token, revision, session: session.number, claim: id };
                    (Answer::Registered(Ok(granted)), None)
                } else {
                    effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
                    (Answer::Registered(Err(RegisterError::ActorEnded)), orphaned)
                }
            }
            (wish @ Wish::Register { actor, .. }, verdict) => {
                if let Some(actor) = actor {
                    self.unwatch(actor, effects);
                }
                effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
                let error = match verdict {
                    Verdict::Taken { holder } => {
                        RegisterError::Taken { name: open.name.to_string(), holder: *holder }
                    }
                    Verdict::OtherLimit { limit } => RegisterError::OtherLimit { limit },
                    Verdict::NotPermitted { allowed } => {
                        RegisterError::NotPermitted { name: open.name.to_string(), allowed: allowed.to_vec() }
                    }
                    // No answer to this question, so nothing is known by it.
                    _ => RegisterError::Unknown { name: open.name.to_string(), waited },
                };
                (not_registered(&wish, false, error), None)
            }
            (Wish::Unregister { .. } | Wish::Bind { .. } | Wish::Transfer { .. }, _) => {
                (Answer::Unregistered(Ok(position)), None)
            }
            (Wish::Update { position: token, revision, .. }, verdict) => {
                let answer = self.updated(&open.name, (token, revision), verdict, waited);
                let orphaned = open.is_orphan && !planted!("orphan-of-an-update-kept");
                (Answer::Updated(answer), orphaned.then_some(token))
            }
        };
        if let Some(caller) = open.caller {
            effects.push(Effect::Answer { call: caller.call, answer });
        }
        if let Some(token) = orphaned {
            self.give_up(open.name, token, GivenUp::ActorEnded, None);
        }
    }

    /// What a caller is told of an update, for which the last change may have had to be at a revision.
    fn updated(
        &mut self,
        name: &Name,
        (token, expected): (Position, Option<Position>),
        verdict: Verdict,
        waited: Duration,
    ) -> Result<Position, UpdateError> {
        let claim = self.claims.get_mut(name).filter(|claim| claim.position == token);
        let name = name.to_string();
        match (verdict, expected) {
            (Verdict::Updated { revision }, _) => {
                if let Some(claim) = claim {
                    claim.revision = revision;
                }
                Ok(revision)
            }
            (Verdict::Moved { revision }, Some(expected)) => {
                Err(UpdateError::Changed { name, expected, revision })
            }
            (Verdict::NotHeld { holder }, _) => {
                Err(UpdateError::NotHeld { name, holder: holder.map(|holder| *holder) })
            }
            // No answer to this question, so nothing is known by it.
            _ => Err(UpdateError::Unknown { name, waited }),
        }
    }

    /// Nothing is asked for a name any more: the calls that waited for that have their turn.
    pub(super) fn next_queued<T: Table>(
        &mut self,
        now: Now,
        name: &Name,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let mut room = ANSWERED_AT_ONCE;
        self.call_queued(now, name, &mut room, replica, effects);
    }

    /// The same. When there is no more room, the other calls are a duty: they have their turns in slices, ahead of what comes later.
    fn call_queued<T: Table>(
        &mut self,
        now: Now,
        name: &Name,
        room: &mut usize,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        while !self.is_asked(name) {
            if *room == 0 && self.queued.is_waiting(name) {
                return self.owes(Duty::CallQueued(name.clone()));
            }
            let Some(next) = self.queued.pop(name) else { return };
            match next {
                Queued::Join { caller, group, registrant } => {
                    self.join(now, caller, group, registrant, effects);
                }
                call if self.is_busy() => self.owes(Duty::Call(name.clone(), call)),
                call => {
                    *room -= 1;
                    self.call_now(now, name.clone(), call, replica, effects);
                }
            }
        }
    }
}
