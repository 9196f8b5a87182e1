//! One batch on its way into the log: committing, settling what became of it, passing it on.

use callsign_store::planted;

use super::{
    ASKED_AGAIN, Batch, BatchBuilder, BatchFlight, CommitOutcome, Conditions, Decision, Duration, Effect,
    Event, FENCE_AGE, Fence, Flight, FlightStage, LONGEST_COMMIT_PAUSE, Leader, Message, NodeName, Nonce,
    ONE_OPERATION, OpId, Outcome, Pending, ReadResult, Record, Replica, RequestNumber, STORE_RETRY,
    SessionId, StoreError, Table, Time, Transaction, Turn, UNANSWERED_AFTER, Wish, flight_conditions_failed,
    read_key, splitmix,
};

impl Leader {
    /// How many operations the batch in flight has.
    pub(crate) fn batch_operations(&self) -> Option<usize> {
        match &self.flight {
            Flight::Batch(flight) => Some(flight.batch.ops.len()),
            _ => None,
        }
    }

    /// The requests that this batch decides.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = (&SessionId, RequestNumber, &Wish)> {
        let decisions = match &self.flight {
            Flight::Batch(flight) => &flight.decisions[..],
            _ => &[],
        };
        decisions.iter().map(|Decision { pending, .. }| (&*pending.session, pending.number, &pending.wish))
    }

    pub(super) fn fly<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        builder: BatchBuilder,
        decisions: Vec<Decision>,
        conditions: Conditions,
    ) {
        self.nonces = splitmix(self.nonces);
        let batch = builder.build(
            self.epoch,
            Nonce(self.nonces),
            replica.end(),
            self.next_position(replica.position()),
        );
        let bytes = batch.encode();
        let flight = BatchFlight {
            batch,
            bytes,
            decisions,
            conditions,
            stage: FlightStage::Pausing { until: Time::ZERO },
        };
        if planted!("answer-before-commit") {
            self.answer(flight.batch.position, flight.decisions.clone(), turn.effects);
        }
        if planted!("apply-before-commit") {
            let (epoch, position) = (self.epoch, flight.batch.position);
            for to in self.followers.keys().cloned() {
                let message = Message::Replicate { epoch, position, batch: flight.bytes.clone() };
                turn.effects.push(Effect::send(to, message));
            }
        }
        self.flight = Flight::Batch(Box::new(flight));
        self.commit(turn);
    }

    /// Commits the batch in flight, for the first time or again: the same one, so that it is known again.
    pub(super) fn commit(&mut self, turn: &mut Turn<'_>) {
        let Flight::Batch(flight) = &mut self.flight else { return };
        let Fence { term, commit: end, lineage } = self.fence.clone();
        let mut transaction = Transaction::new();
        let found = [
            (self.keys.term(), Some(term)),
            (self.keys.commit(), end),
            (self.keys.cluster().lineage(), lineage),
        ];
        let seen = self.seen.filter(|(_, at)| turn.now.since(*at) < FENCE_AGE);
        for (key, value) in found {
            transaction = match seen {
                Some((version, _)) => transaction.fence(key, value, version),
                None => transaction.check(key, value),
            };
        }
        for (key, value) in &flight.conditions {
            transaction = transaction.check(key.clone(), value.clone());
        }
        transaction = transaction
            .put(self.keys.log(flight.batch.position), flight.bytes.to_vec())
            .put(self.keys.commit(), flight.batch.end().to_value());
        if planted!("term-not-checked") {
            transaction.checks.retain(|check| check.key != self.keys.term());
        }
        let mut is_unchecked = planted!("commit-not-checked");
        is_unchecked |= !self.is_open && planted!("handoff-reads-commit-too-early");
        is_unchecked |= !self.is_open && planted!("opens-without-catching-up");
        if is_unchecked {
            transaction.checks.retain(|check| check.key != self.keys.commit());
        }
        flight.stage = FlightStage::Committing { id: turn.commit(transaction), since: turn.now };
    }

    /// A commit ended.
    pub(crate) fn on_commit<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &mut Replica<T>,
        id: OpId,
        outcome: &CommitOutcome,
        members: &[NodeName],
    ) -> Outcome {
        let Flight::Batch(flight) = &mut self.flight else { return Outcome::default() };
        // Also the late answer of an attempt that was tried again: it is the same batch.
        if !matches!(flight.stage, FlightStage::Committing { id: current, .. } if current == id) {
            return Outcome::default();
        }
        match outcome {
            CommitOutcome::Committed(version) => {
                self.seen = Some((*version, turn.now));
                self.committed(turn.now, replica, members, turn.effects)
            }
            CommitOutcome::Conflict => {
                let mut reads = Fence::reads(&self.keys);
                reads.push(read_key(self.keys.log(flight.batch.position)));
                flight.stage = FlightStage::Settling { id: turn.read(reads), since: turn.now };
                self.seen = None;
                Outcome::default()
            }
            CommitOutcome::Unknown if planted!("unknown-taken-for-yes") => {
                self.committed(turn.now, replica, members, turn.effects)
            }
            CommitOutcome::Unknown => {
                self.seen = None;
                self.commit_again(turn);
                Outcome::default()
            }
            CommitOutcome::Unavailable(_) => {
                // It has waited for the store already.
                self.failures = self.failures.max(1);
                self.commit_again(turn);
                Outcome::default()
            }
            CommitOutcome::TooLarge(too_large) => {
                // Our own limit was wrong for this store. Nothing was written and nothing will be, so the
                // requests are decided anew, in smaller batches.
                let is_smallest = self.max_batch <= ONE_OPERATION;
                if !planted!("large-batch-not-halved") {
                    let half = self.max_batch / 2;
                    self.max_batch = if half < self.least_batch { ONE_OPERATION } else { half };
                }
                self.rests_until = is_smallest.then(|| turn.now + self.pause());
                let reason = too_large.to_string();
                turn.effects.push(Effect::Event(Event::BatchTooLarge { reason, tried_next: self.max_batch }));
                let Flight::Batch(flight) = std::mem::replace(&mut self.flight, Flight::None) else {
                    return Outcome::default();
                };
                self.requeue(*flight, is_smallest);
                Outcome::default()
            }
        }
    }

    /// How long to wait after a commit that is not known to be done. The first is the ordinary fault and tried again at
    /// once; a store that refuses the next ones, too, may do so for long (a full disk), and each costs it and us.
    fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if planted!("refused-commit-not-paused") {
            return Duration::ZERO;
        }
        match self.failures {
            1 => Duration::ZERO,
            failures => {
                STORE_RETRY.saturating_mul(2_u32.saturating_pow(failures - 2)).min(LONGEST_COMMIT_PAUSE)
            }
        }
    }

    /// Commits the batch in flight again, after a pause if it is not the first time.
    fn commit_again(&mut self, turn: &mut Turn<'_>) {
        let pause = self.pause();
        if pause == Duration::ZERO {
            self.commit(turn);
        } else if let Flight::Batch(flight) = &mut self.flight {
            flight.stage = FlightStage::Pausing { until: turn.now + pause };
        }
    }

    /// Has what a batch was to decide wait again, in its order, ahead of what came since. If the store does not even take the one
    /// operation that the batch has, its request goes behind all others, which may fit.
    pub(super) fn requeue(&mut self, flight: BatchFlight, is_smallest: bool) {
        // A session may have been closed while its batch was in flight: nothing more is decided for it.
        let is_open = |pending: &Pending| !self.closed.contains(&*pending.session);
        let is_kept = |pending: &Pending| {
            matches!(pending.wish, Wish::Register { .. }) || !planted!("requeued-request-waits-for-ever")
        };
        let mut decisions = flight.decisions;
        // The batch was full with it, so nothing was decided after it.
        let too_large = if is_smallest { decisions.pop() } else { None };
        let again = |decision: Decision| Some(decision.pending).filter(|it| is_open(it) && is_kept(it));
        let first: Vec<_> = decisions.into_iter().filter_map(again).collect();
        let last = too_large.and_then(again);
        for pending in first.into_iter().rev() {
            self.queue.push_front(pending);
        }
        self.queue.extend(last);
    }

    /// A read ended.
    pub(crate) fn on_read<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &mut Replica<T>,
        id: OpId,
        result: &Result<ReadResult, StoreError>,
        members: &[NodeName],
    ) -> Outcome {
        match &mut self.flight {
            Flight::Fence { id: current, since, riders } if *current == id => {
                let Ok(read) = result else {
                    // Asked again when its time has run out, with the riders it has.
                    *since = turn.now - UNANSWERED_AFTER + STORE_RETRY;
                    return Outcome::default();
                };
                let riders = std::mem::take(riders);
                self.flight = Flight::None;
                if !self.fence.is_in(read) {
                    return Outcome { deposed: true, ..Outcome::default() };
                }
                self.seen = Some((read.version, turn.now));
                self.answer(replica.position(), riders, turn.effects);
                Outcome::default()
            }
            Flight::Batch(flight) => {
                if !matches!(flight.stage, FlightStage::Settling { id: current, .. } if current == id) {
                    return Outcome::default();
                }
                let Ok(read) = result else {
                    self.failures = self.failures.max(1);
                    self.commit_again(turn);
                    return Outcome::default();
                };
                let written = read.value(3).and_then(|value| Batch::decode(value).ok());
                let is_own = |b: &Batch| b.nonce == flight.batch.nonce && b.epoch == flight.batch.epoch;
                if written.is_some_and(|b| is_own(&b) || planted!("nonce-not-compared")) {
                    // It is in the log, so it is committed, whoever leads by now.
                    let mut outcome = self.committed(turn.now, replica, members, turn.effects);
                    outcome.deposed |= read.value(0) != Some(&self.fence.term);
                    return outcome;
                }
                if !self.fence.is_in(read) {
                    return Outcome { deposed: true, ..Outcome::default() };
                }
                if flight_conditions_failed(&self.flight) {
                    // The fence holds, so what failed is a condition of the reset: it must not be written.
                    return Outcome { deposed: true, ..Outcome::default() };
                }
                self.seen = Some((read.version, turn.now));
                self.commit_again(turn);
                Outcome::default()
            }
            Flight::Fence { .. } | Flight::None => Outcome::default(),
        }
    }

    /// The batch in flight is in the log: apply it, pass it on, answer.
    pub(super) fn committed<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        members: &[NodeName],
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        let Flight::Batch(flight) = std::mem::replace(&mut self.flight, Flight::None) else {
            return Outcome::default();
        };
        let position = flight.batch.position;
        if position <= replica.position() {
            // A successor has read it from the log and passed it on already. This leader's time is over.
            self.answer(position, flight.decisions, effects);
            return Outcome { deposed: true, ..Outcome::default() };
        }
        self.failures = 0;
        self.fence.commit = flight.batch.end().to_record();
        let applied = replica.apply(&flight.batch);
        let opened = !self.is_open;
        self.is_open = true;
        if opened {
            self.frees_after = Some(now + ASKED_AGAIN);
            // `apply_names_snapshot`: a member that lacks what is before it sees the gap, and asks.
            let batches = vec![(position, flight.bytes.clone())];
            let message = Message::ApplyNamesSnapshot { epoch: self.epoch, batches };
            effects.extend(members.iter().map(|member| Effect::send(member.clone(), message.clone())));
        } else {
            for member in members {
                if planted!("several-messages-per-version") {
                    for op in &flight.batch.ops {
                        let batch = Batch { ops: vec![op.clone()], ..flight.batch.clone() }.encode();
                        let message = Message::Replicate { epoch: self.epoch, position, batch };
                        effects.push(Effect::send(member.clone(), message));
                    }
                }
                let batch = flight.bytes.clone();
                let message = Message::Replicate { epoch: self.epoch, position, batch };
                effects.push(Effect::send(member.clone(), message));
            }
        }
        self.remember(position, flight.bytes);
        self.answer(position, flight.decisions, effects);
        Outcome { applied, opened, deposed: false }
    }
}
