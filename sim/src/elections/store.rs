//! What the store is asked, what becomes of it, and what is given up and done all the same.

use std::time::Duration;

use callsign_election::{
    Disable, ElectionConfig,
    lease::operation::{Input, Operation, Step},
    state::Command,
};
use callsign_store::{CommitOutcome, StoreError, Transaction, time::Time};

use super::{
    action::{Channel, ElectionFate, Order, Slot},
    checks::Check,
    process::{Author, ElectionRequest, Intent, Pending},
    world::{ElectionOrphan, ElectionWorld},
};

impl ElectionWorld {
    /// What a process that ends, or gives up its call, leaves behind.
    pub(super) fn abandon(&mut self, at: Slot) {
        let Some(process) = self.process_mut(at) else { return };
        let incarnation = process.incarnation;
        let Some(asking) = process.asking.take() else { return };
        let Pending { request, answer, serial, started, decided } = asking.pending;
        if let (ElectionRequest::Commit(transaction), None) = (request, answer) {
            if let Some(process) = self.process_mut(at) {
                process.may_leave_some = true;
            }
            let author = Author { at, incarnation, intent: asking.asked.intent, started, decided };
            self.orphans.push(ElectionOrphan { author, transaction, serial });
        }
    }

    pub(super) fn reach(&mut self, at: Slot, channel: Channel, fate: ElectionFate) -> bool {
        let is_out = self.machines.get(usize::from(at)).is_some_and(|machine| machine.outage);
        let Some(process) = self.process(at) else { return false };
        let pending = match channel {
            Channel::Oracle => process.asking.as_ref().map(|asking| &asking.pending),
            Channel::Watch => process.watch.pending.as_ref(),
        };
        let Some(Pending { request, started, decided, serial, .. }) =
            pending.filter(|p| p.answer.is_none()).cloned()
        else {
            return false;
        };
        let intent = process.asking.as_ref().map_or(Intent::Other, |asking| asking.asked.intent);
        let author = Author { at, incarnation: process.incarnation, intent, started, decided };
        let fate = if is_out { ElectionFate::Unavailable } else { fate };
        let input = match (request, fate) {
            (ElectionRequest::Read(reads), ElectionFate::Done) => {
                let read = self.store.read(&reads, None);
                Input::Read(read.map_err(|error| StoreError::Unavailable(error.to_string())))
            }
            (ElectionRequest::Read(_), ElectionFate::Unavailable) => {
                Input::Read(Err(StoreError::Unavailable("sim".to_owned())))
            }
            (ElectionRequest::Read(_), _) => return false,
            (ElectionRequest::Commit(transaction), ElectionFate::Done) => {
                Input::Commit(self.commit(&transaction, Some(author)))
            }
            (ElectionRequest::Commit(_), ElectionFate::Conflict) => Input::Commit(CommitOutcome::Conflict),
            (ElectionRequest::Commit(transaction), ElectionFate::UnknownDone) => {
                if matches!(self.commit(&transaction, Some(author)), CommitOutcome::Committed(_)) {
                    self.judge.met(Check::UnknownDone);
                }
                Input::Commit(CommitOutcome::Unknown)
            }
            (ElectionRequest::Commit(_), ElectionFate::UnknownLost) => Input::Commit(CommitOutcome::Unknown),
            (ElectionRequest::Commit(transaction), ElectionFate::UnknownLater) => {
                if let Some(process) = self.process_mut(at) {
                    process.may_leave_some = true;
                }
                self.orphans.push(ElectionOrphan { author, transaction, serial });
                Input::Commit(CommitOutcome::Unknown)
            }
            (ElectionRequest::Commit(_), ElectionFate::Unavailable) => {
                Input::Commit(CommitOutcome::Unavailable("sim".to_owned()))
            }
        };
        let Some(process) = self.process_mut(at) else { return false };
        let pending = match channel {
            Channel::Oracle => process.asking.as_mut().map(|asking| &mut asking.pending),
            Channel::Watch => process.watch.pending.as_mut(),
        };
        if let Some(pending) = pending {
            pending.answer = Some(input);
        }
        true
    }

    pub(super) fn land(&mut self, nth: usize) -> bool {
        if self.orphans.len() <= nth {
            return false;
        }
        let ElectionOrphan { author, transaction, .. } = self.orphans.remove(nth);
        if matches!(self.commit(&transaction, Some(author)), CommitOutcome::Committed(_)) {
            self.judge.met(Check::OrphanLanded);
        }
        true
    }

    /// Commits, with the judge looking.
    fn commit(&mut self, transaction: &Transaction, author: Option<Author>) -> CommitOutcome {
        let mut judge = std::mem::take(&mut self.judge);
        let before = judge.records(self);
        let outcome = self.store.apply(transaction);
        if matches!(outcome, CommitOutcome::Committed(_)) && !transaction.writes.is_empty() {
            judge.committed(self, &before, author);
        }
        self.judge = judge;
        outcome
    }

    /// An operation of somebody who is never disturbed.
    pub(super) fn administer(&mut self, order: Order) -> bool {
        let command = match order {
            Order::Enable => Command::Enable,
            Order::Disable { stop } => Command::Disable(if stop { Disable::Stop } else { Disable::Drain }),
            Order::Configure { lease, lock_delay } => {
                let lease = Duration::from_millis(u64::from(lease));
                let mut config = ElectionConfig {
                    lock_delay: Duration::from_millis(u64::from(lock_delay)),
                    ..ElectionConfig::new(self.setup.config.policy.clone(), lease)
                };
                if self.setup.has_goers() {
                    config.candidate_timeout = self.setup.config.candidate_timeout;
                }
                Command::Configure(config)
            }
            Order::RequestResign => Command::RequestResign { epoch: None },
            Order::Evict => Command::Evict { most: 100 },
        };
        let evicts = matches!(command, Command::Evict { .. });
        let mut operation = Operation::new(&self.setup.keys, vec![command]);
        let now = Time(self.now);
        let (mut memory, mut events) = (std::mem::take(&mut self.admin), Vec::new());
        let mut step = operation.begin(now, &mut memory);
        let result = loop {
            let input = match step {
                Step::Read(reads) => Input::Read(
                    self.store.read(&reads, None).map_err(|e| StoreError::Unavailable(e.to_string())),
                ),
                Step::Commit(transaction) => Input::Commit(self.commit(&transaction, None)),
                Step::Done(result) => break result,
            };
            step = operation.step(now, &mut memory, input, &mut events);
        };
        self.admin = memory;
        self.judge.told(&events);
        if let Ok(outcome) = &result
            && evicts
        {
            self.judge.evicted(&outcome.effects);
        }
        result.is_ok()
    }

    pub(super) fn lose_seat(&mut self) -> bool {
        let key = self.setup.keys.seat();
        if self.store.get(&key).is_none() {
            return false;
        }
        let mut judge = std::mem::take(&mut self.judge);
        let before = judge.records(self);
        self.store.apply(&Transaction::new().clear(key));
        judge.seat_lost(self, &before);
        self.judge = judge;
        true
    }
}
