//! What drivers do: hands the campaign its inputs, carries out its effects, and drives the lease's operations.

use callsign_election::{
    Fault, Fence, Reaction, Signal, Verdict,
    campaign::{
        Transition,
        core::{Effect, Input},
    },
    lease::{
        ElectionError,
        member::{Answer, Ask},
        operation::{Operation, Step},
    },
};
use callsign_store::{Version, time::Time};

use super::{
    action::Slot,
    checks::Check,
    process::{Asking, Doing, ElectionProcess, ElectionRequest, Intent, OracleCall, OracleCallKind, Pending},
    world::ElectionWorld,
};

impl ElectionWorld {
    /// Tells a campaign something, and carries out all that comes of it.
    pub(super) fn tell(&mut self, at: Slot, input: Input<Fence>) {
        let Some(process) = self.process_mut(at) else { return };
        process.inputs.push_back(input);
        while let Some(input) = self.process_mut(at).and_then(|process| process.inputs.pop_front()) {
            self.step(at, &input);
        }
        // A campaign that has ended is gone, and so is the process.
        if self.process(at).is_some_and(|process| process.core.is_over()) {
            self.abandon(at);
            if let Some(machine) = self.machines.get_mut(usize::from(at)) {
                machine.process = None;
            }
        }
    }

    fn step(&mut self, at: Slot, input: &Input<Fence>) {
        let now = self.local(at);
        let mut judge = std::mem::take(&mut self.judge);
        let mut effects = Vec::new();
        if let Some(process) = self.process_mut(at) {
            judge.before_input(now, process, input);
            process.core.step(now, input.clone(), &mut effects);
        }
        self.judge = judge;
        for effect in effects {
            self.carry(at, effect);
        }
        let machine = self.machines.get_mut(usize::from(at));
        if let Some(process) = machine.and_then(|machine| machine.process.as_mut()) {
            if let Input::Answered { answer: Ok(Verdict::Granted(grant)), .. } = input {
                process.refresh_due = grant.refresh_in.map(|after| process.asked_at + after);
            }
            self.judge.after_input(now, process, input);
        }
    }

    /// Carries out what a campaign says; or what none does, to see whether the judge notices.
    pub fn carry(&mut self, at: Slot, effect: Effect<Fence>) {
        let now = self.local(at);
        if let (Effect::Claim { .. } | Effect::Refresh { .. }, Some(process)) =
            (&effect, self.process_mut(at))
        {
            process.asked_at = now;
        }
        match effect {
            Effect::Claim { call, attempt } => {
                let claim = Ask::Claim(attempt.nonce);
                let ready = self.process(at).is_some_and(|process| process.ready);
                if ready {
                    self.ask(
                        at,
                        OracleCall { call, kind: OracleCallKind::Attempt, intent: Intent::Claim, then: None },
                        claim,
                    );
                } else {
                    let prepare = Ask::Prepare(Some(self.setup.config.clone()));
                    let then = Some(claim);
                    self.ask(
                        at,
                        OracleCall { call, kind: OracleCallKind::Attempt, intent: Intent::Other, then },
                        prepare,
                    );
                }
            }
            Effect::Refresh { call, held, .. } => {
                let epoch = held.term.epoch;
                let intent = Intent::Refresh(epoch);
                self.ask(
                    at,
                    OracleCall { call, kind: OracleCallKind::Attempt, intent, then: None },
                    Ask::refresh(&held),
                );
            }
            Effect::Abdicate { call, held } => {
                let epoch = held.term.epoch;
                let intent = Intent::Resign(epoch);
                self.ask(
                    at,
                    OracleCall { call, kind: OracleCallKind::Abdicate, intent, then: None },
                    Ask::Resign(epoch),
                );
            }
            Effect::Leave { call, held } => {
                let leave = Ask::Leave(held.map(|held| held.term.epoch));
                self.ask(
                    at,
                    OracleCall { call, kind: OracleCallKind::Leave, intent: Intent::Leave, then: None },
                    leave,
                );
            }
            Effect::Tidy { call } => {
                let asked =
                    OracleCall { call, kind: OracleCallKind::Tidy, intent: Intent::Sweep, then: None };
                self.ask(at, asked, Ask::Tidy);
            }
            Effect::Rivals { call } => {
                self.ask(
                    at,
                    OracleCall { call, kind: OracleCallKind::Rivals, intent: Intent::Other, then: None },
                    Ask::Rivals,
                );
            }
            Effect::Inform { call } => {
                let Some(process) = self.process_mut(at) else { return };
                let reaction = match process.infos.pop_front() {
                    Some(priority) => {
                        process.member.set_priority(priority);
                        Reaction::Poll
                    }
                    None => Reaction::Ignore,
                };
                process.inputs.push_back(Input::Reacted { call, reaction: Ok(reaction) });
            }
            Effect::Abandon { call } => {
                let is_it =
                    |process: &ElectionProcess| process.asking.as_ref().is_some_and(|a| a.asked.call == call);
                if self.process(at).is_some_and(is_it) {
                    if let Some(process) = self.process_mut(at) {
                        process.may_leave_some = true;
                    }
                    self.abandon(at);
                }
            }
            Effect::Trust { grant, until } => {
                self.judge.trusted(now, &grant, until);
                if let Some(process) = self.process_mut(at) {
                    process.handle = Some((grant, until));
                }
            }
            Effect::Lapse => {
                if let Some(process) = self.process_mut(at) {
                    process.handle = None;
                }
            }
            Effect::Publish(transition) => self.publish(at, &transition),
            Effect::Activate { run, grant } => {
                let serial = self.serial();
                if let Some(process) = self.process_mut(at) {
                    process.role.doing = Some((Doing::Activating(run), serial));
                    process.role.works = Some(grant.term.epoch);
                }
            }
            Effect::Deactivate { run, .. } => {
                let serial = self.serial();
                if let Some(process) = self.process_mut(at) {
                    process.role.active = None;
                    process.role.doing = Some((Doing::Stopping(run), serial));
                }
            }
            Effect::Abort { run } => {
                let serial = self.serial();
                if let Some(process) = self.process_mut(at) {
                    process.role.active = None;
                    process.role.doing = Some((Doing::Aborting(run), serial));
                }
            }
            Effect::Emit(event) => {
                if let Some(process) = self.machines.get(usize::from(at)).and_then(|m| m.process.as_ref()) {
                    self.judge.event(process, &event);
                }
            }
            Effect::End(end) => {
                let mut judge = std::mem::take(&mut self.judge);
                judge.ended(self, at, &end);
                self.judge = judge;
            }
            Effect::Follow { .. } => {}
        }
    }

    fn publish(&mut self, at: Slot, transition: &Transition<Fence>) {
        let machine = self.machines.get_mut(usize::from(at));
        let Some(process) = machine.and_then(|machine| machine.process.as_mut()) else { return };
        self.judge.published(process, transition);
        process.log.push(transition.clone());
        for subscriber in &mut process.subscribers {
            subscriber.queue.push_back(transition.clone());
        }
    }

    fn ask(&mut self, at: Slot, asked: OracleCall, ask: Ask) {
        let now = self.local(at);
        let waits_for =
            self.process(at).and_then(|process| process.asking.as_ref()).map(|asking| asking.asked.call);
        self.judge.hold(Check::OneCall, waits_for.is_none(), || {
            format!("machine {at} begins {:?} while it waits for {waits_for:?}", asked.call)
        });
        self.abandon(at);
        let Some(process) = self.process_mut(at) else { return };
        let step = process.member.begin(now, ask);
        self.proceed(at, asked, None, step);
    }

    /// The answer of the store arrives at the oracle.
    pub(super) fn deliver(&mut self, at: Slot) -> bool {
        let now = self.local(at);
        let Some(process) = self.process_mut(at) else { return false };
        let Some(asking) = process.asking.take_if(|asking| asking.pending.answer.is_some()) else {
            return false;
        };
        let Asking { asked, pending } = asking;
        let Some(answer) = pending.answer else { return false };
        let mut events = Vec::new();
        let step = process.member.step(now, answer, &mut events);
        self.judge.told(&events);
        self.proceed(at, asked, Some(pending.started), step);
        true
    }

    fn proceed(&mut self, at: Slot, asked: OracleCall, started: Option<Time>, step: Step<Answer>) {
        let now = self.local(at);
        let (request, started) = match step {
            Step::Read(reads) => (ElectionRequest::Read(reads), now),
            Step::Commit(transaction) => (ElectionRequest::Commit(transaction), started.unwrap_or(now)),
            Step::Done(result) => return self.done(at, asked, result),
        };
        let serial = self.serial();
        let Some(process) = self.process_mut(at) else { return };
        let pending = Pending { request, answer: None, serial, started, decided: now };
        process.asking = Some(Asking { asked, pending });
    }

    fn done(&mut self, at: Slot, asked: OracleCall, result: Result<Answer, ElectionError>) {
        let (now, OracleCall { call, kind, then, .. }) = (self.local(at), asked);
        let Some(process) = self.process_mut(at) else { return };
        if let Some(then) = then {
            let fault = match result {
                Ok(_) | Err(ElectionError::NotInitialized) => {
                    process.ready = true;
                    let step = process.member.begin(now, then);
                    let asked = OracleCall { call, kind, intent: Intent::Claim, then: None };
                    return self.proceed(at, asked, None, step);
                }
                Err(error) => match Fault::from(error) {
                    // Nothing was claimed.
                    Fault::Transient { cause, .. } => Fault::Transient { maybe_committed: false, cause },
                    fault => fault,
                },
            };
            return self.tell(at, Input::Answered { call, answer: Err(fault) });
        }
        let to_resign = process.member.asked_to_resign();
        let input = match (kind, result) {
            (OracleCallKind::Attempt, Ok(Answer::Verdict(verdict))) => {
                Input::Answered { call, answer: Ok(verdict) }
            }
            (OracleCallKind::Attempt, Err(error)) => Input::Answered { call, answer: Err(error.into()) },
            (OracleCallKind::Abdicate | OracleCallKind::Leave, Ok(Answer::Resigned(was))) => {
                if !was && kind == OracleCallKind::Abdicate {
                    self.judge.met(Check::StaleResign);
                }
                Input::Abdicated { call, answer: Ok(was) }
            }
            (OracleCallKind::Abdicate | OracleCallKind::Leave, Err(error)) => {
                process.may_leave_some = true;
                Input::Abdicated { call, answer: Err(error.into()) }
            }
            (OracleCallKind::Tidy, Ok(Answer::Tidied(again))) => Input::Tidied { call, answer: Ok(again) },
            (OracleCallKind::Tidy, Err(error)) => Input::Tidied { call, answer: Err(error.into()) },
            (OracleCallKind::Rivals, Ok(Answer::Rivals(rivals))) => {
                Input::Rivals { call, answer: Ok(rivals) }
            }
            (OracleCallKind::Rivals, Err(error)) => Input::Rivals { call, answer: Err(error.into()) },
            (_, Ok(answer)) => {
                let what = format!("an answer of another kind: {answer:?}");
                return self.judge.fail(Check::Panics, || what);
            }
        };
        if let Input::Answered { answer: Ok(Verdict::Denied(denial)), .. } = &input {
            self.judge.denied(denial);
        }
        self.tell(at, input);
        if let Some(epoch) = to_resign {
            self.tell(at, Input::Signal(Signal::ResignRequested { epoch: Some(epoch) }));
        }
    }

    /// Whether a member has something to look at.
    pub fn may_look(&self, at: Slot) -> bool {
        let watches = self.setup.members.get(usize::from(at)).is_some_and(|seat| seat.watches);
        let Some(process) = self.process(at).filter(|process| watches && process.ready) else { return false };
        let keys = &self.setup.keys;
        let changed = |since: Version| {
            self.store.changed_since(&keys.seat(), since) || self.store.changed_since(&keys.control(), since)
        };
        process.watch.pending.is_none() && process.watch.since.is_none_or(changed)
    }

    pub(super) fn look(&mut self, at: Slot) -> bool {
        if !self.may_look(at) {
            return false;
        }
        let (now, serial) = (self.local(at), self.serial());
        let mut operation = Operation::look(&self.setup.keys, false);
        let Some(process) = self.process_mut(at) else { return false };
        if let Step::Read(reads) = operation.begin(now, &mut process.watch.memory) {
            let request = ElectionRequest::Read(reads);
            let pending = Pending { request, answer: None, serial, started: now, decided: now };
            process.watch.pending = Some(pending);
            process.watch.operation = Some(operation);
        }
        true
    }

    pub(super) fn deliver_look(&mut self, at: Slot) -> bool {
        let now = self.local(at);
        let Some(process) = self.process_mut(at) else { return false };
        let pending = process.watch.pending.take_if(|pending| pending.answer.is_some());
        let Some(answer) = pending.and_then(|pending| pending.answer) else { return false };
        let Some(mut operation) = process.watch.operation.take() else { return false };
        if let Step::Done(Ok(outcome)) =
            operation.step(now, &mut process.watch.memory, answer, &mut Vec::new())
        {
            process.watch.since = Some(Version(outcome.evidence.at.0));
            for signal in process.watch.watcher.look(&outcome) {
                self.tell(at, Input::Signal(signal));
            }
        }
        true
    }
}
