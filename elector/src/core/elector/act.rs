//! What an elector could do by what it read, when each is due, and doing it.

use std::time::Duration;

use callsign_store::{
    Key, Time, Transaction,
    ids::{Epoch, NodeName, Nonce, SessionId, Token},
    planted,
};

use super::{
    Answer, Doing, Effect, Elector, ElectorEvent, Leaving, QUEUE_LIMIT_LOCKED, Reading, Wish, plan,
    silence::{Voice, first},
};
use crate::core::{
    elector::reading::Queued,
    past::Past,
    record::{Evidence, Lock, MemberRow, MembershipEvent},
    settings::InForce,
    state::{Applied, ElectionState, Facts, Relied},
};

/// How many turns a leader that lost the seat leaves it to the others, and a failed handoff waits for its repetition.
pub(super) const LONG_TURN: u32 = 10;

/// Something that could be done. In the order in which it is chosen among what is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// Enqueue a join.
    Join,
    /// Take the seat that fell vacant in this epoch.
    Fill(Epoch),
    /// Apply or drop an entry of the queue.
    Consume(Key),
    /// Clear a lock whose handoff is done, or whose epoch is over.
    ClearLock(Nonce),
    /// Clear a lock although its handoff is not done.
    GiveUpLock(Nonce),
    /// Replace a lock whose owner does not move.
    TakeLock(Nonce),
    /// Enqueue something else.
    Say(MembershipEvent),
}

impl Action {
    /// Whether it says that the leader is silent.
    pub(super) fn is_vote(&self) -> bool {
        matches!(self, Self::Say(MembershipEvent::Down { evidence: Evidence::Silent { .. }, .. }))
    }
}

/// An action, when it is due, and by how much that may be spread.
struct Proposal {
    action: Action,
    due: Time,
    spread: Duration,
}

impl Elector {
    /// Works out anew what there is to do. What was there before keeps its turn.
    pub(super) fn update_turns(&mut self, now: Time) {
        let proposals = self.proposals(now);
        let mut turns = Vec::with_capacity(proposals.len());
        for Proposal { action, due, spread } in proposals {
            let former = self.turns.iter().find(|(former, _)| *former == action).map(|(_, due)| *due);
            let due = match former {
                Some(former) if spread.is_zero() => former.min(due),
                Some(former) => former,
                None => due + self.seed.below(spread),
            };
            turns.push((action, due));
        }
        self.turns = turns;
        self.look_further();
    }

    /// Under a lock, what may pass it can be behind what may not.
    fn look_further(&mut self) {
        let Some((reading, state)) = self.readable() else { return };
        let passes = self.turns.iter().any(|(action, _)| matches!(action, Action::Consume(_)));
        let is_behind = reading.queue_is_longer && reading.untold.is_none();
        if state.lock.is_some() && is_behind && !passes && self.queue_limit < QUEUE_LIMIT_LOCKED {
            self.queue_limit *= 4;
            self.stale = true;
        }
    }

    fn proposals(&self, now: Time) -> Vec<Proposal> {
        let (Some(session), Some(reading)) = (&self.session, &self.reading) else { return Vec::new() };
        // An elector whose session is not open decides for nobody, and enqueues nothing. A session of another lineage is about to
        // be lost.
        let is_of_lineage = reading.lineage().is_some_and(|id| !id.number.is_after(session.number.0));
        if self.wish == Wish::Gone || !reading.is_open(session) || !is_of_lineage {
            return Vec::new();
        }
        let Some(state) = &reading.state else {
            let undecodable = reading.queue.iter().find(|queued| queued.entry.is_err());
            let consume = |queued: &Queued| Action::Consume(queued.key.clone());
            return undecodable.map(consume).map(|action| at(now, action)).into_iter().collect();
        };
        let rank = self.rank(now, reading, state);
        let turn = self.config.timing.turn;
        let ranked = |action| Proposal {
            action,
            due: now + turn * rank,
            // Whoever is first in line needs no jitter: nobody else believes to be that for long.
            spread: if rank == 0 { Duration::ZERO } else { turn },
        };
        let facts = self.facts(session, reading, Nonce(0));
        let in_force = InForce::new(state.settings, &self.config.timing);

        let mut proposals = Vec::new();
        // What finds no room is not said: the row that is removed next will show.
        let has_room = state.has_room_for(&session.node, self.config.most_checks);
        if self.needs_join(reading, session) && has_room {
            proposals.push(at(now.max(self.may_join_at(reading)), Action::Join));
        }
        proposals.extend(self.fill(now, reading, state, &facts));
        if let Some((queued, _)) = next_entry(reading, state, &facts) {
            let consume = Action::Consume(queued.key.clone());
            proposals.push(if self.draining { at(now, consume) } else { ranked(consume) });
        }
        if let Some(lock) = &state.lock {
            let (epoch, nonce) = (state.term.epoch, lock.nonce);
            let is_mine = lock.owner == session.node;
            if lock.epoch != epoch || state.term.leader.is_none() {
                proposals.push(ranked(Action::ClearLock(nonce)));
            }
            match self.handoff.answer(epoch) {
                Some((Answer::Done, _)) if is_mine => proposals.push(at(now, Action::ClearLock(nonce))),
                Some((Answer::Open, asked)) if self.handoff.is_taken(nonce) => {
                    // Whoever waits for the leader must not lose the lock meanwhile, to one who waits as long.
                    let handoff = self.config.timing.handoff.min(in_force.lock_timeout * 2 / 3);
                    proposals.push(at(asked + handoff, Action::GiveUpLock(nonce)));
                }
                Some((Answer::Failed, _)) if self.handoff.is_taken(nonce) => {
                    proposals.push(at(now, Action::GiveUpLock(nonce)));
                }
                _ => {}
            }
            if let Some(since) = self.handoff.unmoved_since()
                && !planted!("lock-never-taken-over")
            {
                let due = since + in_force.lock_timeout + turn * rank;
                proposals.push(at(due, Action::TakeLock(nonce)));
            }
        }
        self.say(now, reading, state, session, rank, &mut proposals);
        proposals
    }

    fn needs_join(&self, reading: &Reading, session: &SessionId) -> bool {
        if self.wish != Wish::Member || reading.next_sequence.is_none() || self.own_row().is_some() {
            return false;
        }
        // It waits in the queue, or it was dropped, and is to be repeated under the next number.
        let waits = |joined: Token| {
            reading.queue_is_longer || reading.queued_by(session).any(|e| e.sequence.0 == joined.0)
        };
        !self.joined.is_some_and(waits)
    }

    fn fill(&self, now: Time, reading: &Reading, state: &ElectionState, facts: &Facts) -> Option<Proposal> {
        if self.wish != Wish::Member || self.own_row().is_none() {
            return None;
        }
        let applied = state.fill(facts)?;
        let opens_anew = applied.relied.contains(&Relied::Members);
        // Whoever waits in the queue may have the base that nobody among the members has.
        if opens_anew && (reading.queue_is_longer || !reading.queue.is_empty()) {
            return None;
        }
        let me = &self.config.node;
        let could = |row: &MemberRow| (opens_anew || row.synced) && reading.is_open(&row.session);
        let others = state.members.iter().filter(|(node, row)| *node != me && could(row));
        let before = others.clone().filter(|(node, _)| *node < me).count();
        let mut turns = u32::try_from(before).unwrap_or(u32::MAX);
        // It was deposed because the others do not hear it: they go first.
        if self.led.is_some_and(|led| led.next() == state.term.epoch) && others.count() > 0 {
            turns = turns.saturating_add(LONG_TURN);
        }
        Some(at(now + self.config.timing.turn * turns.min(1000), Action::Fill(state.term.epoch)))
    }

    fn say(
        &self,
        now: Time,
        reading: &Reading,
        state: &ElectionState,
        session: &SessionId,
        rank: u32,
        proposals: &mut Vec<Proposal>,
    ) {
        let mut say = |due: Time, event: MembershipEvent| {
            if reading.next_sequence.is_some() && !self.is_equal_queued(&event) {
                proposals.push(at(due, Action::Say(event)));
            }
        };
        if self.wish == Wish::Leaving
            && let Some(row) = state.members.get(&session.node).filter(|row| row.session == *session)
        {
            say(now, MembershipEvent::Leave { token: row.token });
        }
        let Some(row) = self.own_row().filter(|_| self.wish == Wish::Member) else { return };
        let (token, epoch) = (row.token, state.term.epoch);

        let gives_up = self.resign == Some(epoch)
            || self.handoff.has_failed(epoch)
            || self.is_stuck(now, reading, state);
        if self.leaving != Leaving::No && !row.draining {
            // Again only after a while, if it was dropped by somebody who does not know it.
            let is_again = self.leaving == Leaving::Said;
            let again = if is_again { self.config.timing.poll } else { Duration::ZERO };
            say(now + again, MembershipEvent::Drain { token });
        }
        if let Some(change) = self.configure {
            say(now, MembershipEvent::Configure { token, change });
        }
        if self.leads() && gives_up {
            say(now, MembershipEvent::Resign { token, epoch });
        }
        if let Some((said_in, position)) = self.synced
            && said_in == epoch
            && position.next() >= reading.floor
            && (!reading.is_of_former_lineage(position) || planted!("synced-in-a-lost-log"))
            && (!row.synced || row.empty)
        {
            say(now, MembershipEvent::Synced { token, epoch, position });
        }
        if let Some(event) = self.stance(now, reading, state, session, row) {
            say(now, event);
        }
        // Of rows that may be other ones by now nothing is said. If nobody goes on, everything is read.
        let closed = |row: &MemberRow| reading.untold.is_none() && reading.sessions.is_closed(&row.session);
        let delay = if self.leads() { Duration::ZERO } else { self.config.timing.closed * rank };
        for (node, accused) in
            state.members.iter().filter(|(node, row)| **node != session.node && closed(row))
        {
            let is_said = reading.queue.iter().filter_map(|queued| queued.entry.as_ref().ok()).any(|entry| {
                matches!(&entry.event, MembershipEvent::Down { member, token, epoch: said_in, evidence, .. }
                    if member == node && *token == accused.token && *said_in == epoch
                        && *evidence == Evidence::Closed)
            });
            if !is_said && !planted!("dead-member-never-accused") {
                let event = MembershipEvent::Down {
                    member: node.clone(),
                    token: accused.token,
                    accuser_token: token,
                    epoch,
                    evidence: Evidence::Closed,
                };
                say(now + delay, event);
            }
        }
    }

    /// Whether the own handoff takes so long that another member should try.
    ///
    /// Of two members, the other one that never heard the leader cannot depose it; so the leader has to see to it.
    fn is_stuck(&self, now: Time, reading: &Reading, state: &ElectionState) -> bool {
        let Some((Answer::Open, asked)) = self.handoff.answer(state.term.epoch) else { return false };
        let timing = InForce::new(state.settings, &self.config.timing);
        let others = state.members.iter().filter(|(node, _)| **node != self.config.node);
        now.since(asked) >= first(timing.lock_timeout, timing.silence).saturating_mul(2)
            && others
                .map(|(_, row)| row)
                .any(|row| row.synced && row.priority != 0 && reading.is_open(&row.session))
    }

    /// Accuses a silent leader, or takes that back, if the store does not have it so already.
    fn stance(
        &self,
        now: Time,
        reading: &Reading,
        state: &ElectionState,
        session: &SessionId,
        row: &MemberRow,
    ) -> Option<MembershipEvent> {
        let (token, epoch) = (row.token, state.term.epoch);
        let leader = state.term.leader.as_ref().filter(|leader| leader.node != session.node)?;
        let mut stance = row.accuses.filter(|accusation| accusation.epoch == epoch).map(|a| a.had_contact);
        for entry in reading.queued_by(session) {
            match &entry.event {
                MembershipEvent::Down {
                    epoch: said_in, evidence: Evidence::Silent { had_contact }, ..
                } if *said_in == epoch => {
                    stance = Some(*had_contact);
                }
                MembershipEvent::Withdraw { epoch: said_in, .. } if *said_in == epoch => stance = None,
                _ => {}
            }
        }
        match self.silence.voice(now, &leader.node) {
            Voice::Silent { had_contact } if stance.is_none_or(|said| had_contact && !said) => {
                Some(MembershipEvent::Down {
                    member: leader.node.clone(),
                    token: leader.token,
                    accuser_token: token,
                    epoch,
                    evidence: Evidence::Silent { had_contact },
                })
            }
            Voice::Fine if stance.is_some() => Some(MembershipEvent::Withdraw { token, epoch }),
            _ => None,
        }
    }

    /// How many electors go before this one: the leader's, unless it is out, then the others by their names.
    pub(super) fn rank(&self, now: Time, reading: &Reading, state: &ElectionState) -> u32 {
        if self.leads() {
            return 0;
        }
        let me = &self.config.node;
        let leader = state.term.leader.as_ref().map(|leader| &leader.node);
        let is_alive = |node: &NodeName| state.members.get(node).is_some_and(|r| reading.is_open(&r.session));
        let leads = leader.is_some_and(|l| l != me && is_alive(l) && !self.silence.is_out(now, l));
        let is_member = self.own_row().is_some();
        let before = state.members.keys().filter(|node| {
            Some(*node) != leader && *node != me && is_alive(node) && (!is_member || *node < me)
        });
        u32::try_from(before.count()).unwrap_or(u32::MAX).min(1000) + u32::from(leads)
    }

    /// Asks for the handoff of the current epoch, if it is ours to see to.
    pub(super) fn ask_for_handoff(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let leads = self.leads();
        let acts = match (&self.session, &self.reading) {
            (Some(session), Some(reading)) => reading.is_open(session) && self.wish != Wish::Gone,
            _ => false,
        };
        let Some((_, state)) = self.readable().filter(|_| acts) else { return };
        let Some(leader) = &state.term.leader else { return };
        let (leader, epoch) = (leader.node.clone(), state.term.epoch);
        if self.retry_handoff_at(now).is_none() && self.handoff.ask(now, &self.config.node, epoch, leads) {
            effects.push(Effect::Emit(ElectorEvent::RunHandoff { leader, epoch }));
        }
    }

    /// When a failed handoff may be tried again, if that is still to come.
    pub(super) fn retry_handoff_at(&self, now: Time) -> Option<Time> {
        let (answer, asked) = self.handoff.answer(self.epoch()?)?;
        let at = asked + self.config.timing.turn * LONG_TURN;
        (answer == Answer::Failed && self.leads() && at > now).then_some(at)
    }

    /// When the leader's silence is to be looked at.
    pub(super) fn silence_due(&self) -> Option<Time> {
        let (_, state) = self.readable()?;
        let leader = state.term.leader.as_ref()?;
        (leader.node != self.config.node && self.own_row().is_some()).then(|| self.silence.due())
    }

    /// Does it; says whether an operation of the store began.
    pub(super) fn perform(&mut self, action: &Action, effects: &mut Vec<Effect>) -> bool {
        self.turns.retain(|(other, _)| other != action);
        let nonce = Nonce(self.seed.draw());
        let mut join = None;
        let Some((transaction, report)) = self.plan(action, nonce) else { return false };
        match action {
            Action::Join => join = self.reading.as_ref().and_then(|r| r.next_sequence),
            Action::TakeLock(_) => self.handoff.take(nonce),
            _ => {}
        }
        let mut commits = Past::of(self.known.number());
        commits.note_committed(&self.keys, &self.author, &transaction);
        let drain = matches!(action, Action::Say(MembershipEvent::Drain { .. }));
        let configure = match action {
            Action::Say(MembershipEvent::Configure { change, .. }) => Some(*change),
            _ => None,
        };
        let is_vote = action.is_vote();
        let id = self.begin(Doing::Commit { report, join, is_vote, drain, configure, commits });
        effects.push(Effect::Commit { id, transaction });
        true
    }

    fn plan(&self, action: &Action, nonce: Nonce) -> Option<(Transaction, Vec<ElectorEvent>)> {
        let (session, reading) = (self.session.as_ref()?, self.reading.as_ref()?);
        if let Action::Consume(key) = action
            && let Some(queued) = reading.queue.iter().find(|queued| queued.key == *key)
            && let Err(error) = &queued.entry
        {
            let event = ElectorEvent::Undecodable { key: key.clone(), error: error.clone() };
            return Some((plan::discard(&self.keys, reading, queued), vec![event]));
        }
        let state = reading.state.as_ref()?;
        let facts = self.facts(session, reading, nonce);
        let say = |event| plan::enqueue(&self.keys, reading, session, event).map(|said| (said.1, Vec::new()));
        let lock = state.lock.as_ref();
        match action {
            Action::Join => say(MembershipEvent::Join {
                address: self.config.address.clone(),
                admin: self.config.admin.clone(),
                priority: self.barred.priority(self.config.priority),
                empty: self.empty,
            }),
            Action::Say(event) => say(event.clone()),
            Action::Fill(_) => {
                let applied = state.fill(&facts)?;
                let transaction = plan::fill(&self.keys, reading, state, &applied);
                Some((transaction, vec![ElectorEvent::Filled { seat: applied.seat }]))
            }
            Action::Consume(key) => {
                let queued = reading.queue.iter().find(|queued| queued.key == *key)?;
                let entry = queued.entry.as_ref().ok()?.clone();
                let applied = state.apply(&entry, &facts);
                let transaction = plan::consume(&self.keys, reading, state, queued, &applied);
                let Applied { outcome, seat, .. } = applied;
                let event = match outcome {
                    Ok(change) => ElectorEvent::Applied { entry, change, seat },
                    Err(reason) => ElectorEvent::Dropped { entry, reason },
                };
                Some((transaction, vec![event]))
            }
            Action::ClearLock(_) => Some((plan::clear_lock(&self.keys, reading), Vec::new())),
            Action::GiveUpLock(_) => {
                let given_up = ElectorEvent::LockGivenUp { epoch: lock?.epoch };
                Some((plan::clear_lock(&self.keys, reading), vec![given_up]))
            }
            Action::TakeLock(_) => {
                let broken: Lock = lock?.clone();
                let transaction = plan::take_lock(&self.keys, reading, session, &broken, nonce);
                Some((transaction, vec![ElectorEvent::LockBroken { lock: broken }]))
            }
        }
    }

    fn facts(&self, session: &SessionId, reading: &Reading, nonce: Nonce) -> Facts {
        Facts {
            sessions: reading.sessions.clone(),
            commit: reading.commit.map(|end| end.position),
            floor: reading.floor,
            version: reading.version,
            lineage: reading.lineage().unwrap_or_default().number,
            proposer: session.clone(),
            nonce,
            unlinked: self.silence.unlinked().clone(),
            barred: self.barred.all(&self.config.node),
            most_checks: self.config.most_checks,
        }
    }

    pub(super) fn readable(&self) -> Option<(&Reading, &ElectionState)> {
        let reading = self.reading.as_ref()?;
        Some((reading, reading.state.as_ref()?))
    }

    /// The epoch that was last read.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.readable().map(|(_, state)| state.term.epoch)
    }

    /// The own row, if it is of the latest own join.
    pub(super) fn own_row(&self) -> Option<&MemberRow> {
        let (_, state) = self.readable()?;
        let session = self.session.as_ref()?;
        if planted!("former-row-taken-for-own") {
            return state.members.get(&session.node);
        }
        let joined = self.joined?;
        state.members.get(&session.node).filter(|row| row.session == *session && row.token >= joined)
    }

    /// Whether the own member leads, by the latest own join.
    pub(super) fn leads(&self) -> bool {
        let (Some((_, state)), Some(row)) = (self.readable(), self.own_row()) else { return false };
        state.term.is_led_by(&self.config.node, row.token)
    }
}

fn at(due: Time, action: Action) -> Proposal {
    Proposal { action, due, spread: Duration::ZERO }
}

/// The entry to be taken off the queue next: the first, or, under a lock, the first that may pass it.
///
/// An entry that cannot be understood may always be taken: it applies nothing, and nothing waits for it.
fn next_entry<'a>(
    reading: &'a Reading,
    state: &ElectionState,
    facts: &Facts,
) -> Option<(&'a Queued, Option<Applied>)> {
    let first = if state.lock.is_some() { reading.queue.len() } else { 1 };
    let skipped = usize::from(planted!("queue-out-of-order") && reading.queue.len() > 1);
    reading.queue.iter().skip(skipped).take(first).find_map(|queued| match &queued.entry {
        Err(_) => Some((queued, None)),
        Ok(entry) => {
            let applied = state.apply(entry, facts);
            (state.lock.is_none() || applied.passes_lock() || planted!("lock-ignored"))
                .then_some((queued, Some(applied)))
        }
    })
}
