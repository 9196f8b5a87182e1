//! A core, its clock, and everything that it asked for.

use callsign_store::ids::{ElectionName, Incarnation, MemberId};

use super::super::*;
use crate::{
    core::{campaign::OnLoss, term::AuthorityTime, timing::Timing},
    oracle::{Attempt, Denial, Fault, Refusal, Signal, Validity, Verdict},
    role::Abort,
};

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn config() -> CoreConfig {
    CoreConfig {
        election: ElectionName::new("e").unwrap(),
        member: MemberId::new("a").unwrap(),
        incarnation: Incarnation(1),
        timing: Timing::default(),
        claim_delay: Duration::ZERO,
        cool_down: s(10),
        activate_attempts: 3,
        activate_timeout: s(30),
        abdicate_tries: [1, 2, 3].map(s).to_vec(),
        on_loss: OnLoss::Follow,
        seed: 7,
    }
}

/// Another's term.
pub(super) fn other(epoch: u64) -> Term {
    Term { leader: MemberId::new("b").unwrap(), incarnation: Incarnation(2), ..term(epoch) }
}

pub(super) fn term(epoch: u64) -> Term {
    Term {
        leader: MemberId::new("a").unwrap(),
        incarnation: Incarnation(1),
        epoch: Epoch(epoch),
        elected_at: AuthorityTime(epoch * 100),
    }
}

/// Valid for 10 s, to be refreshed after 3.
pub(super) fn grant(epoch: u64, ballot: u64) -> Grant<Fence> {
    Grant {
        term: term(epoch),
        fence: Fence { epoch: Epoch(epoch), ballot: Ballot(ballot) },
        validity: Validity::For(s(10)),
        refresh_in: Some(s(3)),
    }
}

pub(super) fn denial(leader: Option<Term>) -> Denial {
    Denial { why: Refusal::Held, leader, retry_in: None }
}

pub(super) fn fault(maybe_committed: bool) -> Fault {
    Fault::Transient { maybe_committed, cause: "down".to_owned() }
}

/// `F`: what the grants carry.
pub(super) struct Story<F = Fence> {
    pub(super) core: Core<F>,
    pub(super) now: Time,
    pub(super) log: Vec<(Time, Effect<F>)>,
}

impl<F: Clone + PartialEq + std::fmt::Debug + 'static> Story<F> {
    pub(super) fn of(config: CoreConfig) -> Self {
        let mut story = Self { core: Core::new(config).unwrap(), now: Time(s(1_000)), log: Vec::new() };
        story.step(Input::Start);
        story
    }

    pub(super) fn step(&mut self, input: Input<F>) {
        let mut out = Vec::new();
        self.core.step(self.now, input, &mut out);
        self.log.extend(out.into_iter().map(|effect| (self.now, effect)));
    }

    /// Time passes, and it is told whenever it asked for.
    pub(super) fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(at) = self.core.wake_at().filter(|at| *at <= end) {
            // What is due and done is not asked for again.
            assert!(self.log.len() < 1_000_000, "it goes round in circles");
            self.now = at.max(self.now);
            self.step(Input::Wake);
        }
        self.now = end;
    }

    /// Time passes until it asks the oracle something, for at most this long.
    pub(super) fn until_it_asks(&mut self, most: Duration) {
        let end = self.now + most;
        while self.core.call.is_none() {
            let at = self.core.wake_at().filter(|at| *at <= end).expect("it asks in time");
            self.now = at.max(self.now);
            self.step(Input::Wake);
        }
    }

    /// Time passes until something is due.
    pub(super) fn until_due(&mut self) {
        let at = self.core.wake_at().expect("something is due");
        self.now = at.max(self.now);
        self.step(Input::Wake);
    }

    /// Time passes, and nothing runs: a stopped process.
    pub(super) fn pause(&mut self, by: Duration) {
        self.now = self.now + by;
    }

    /// The call that waits for an answer.
    pub(super) fn call(&self) -> CallId {
        self.core.call.as_ref().expect("a call in flight").id
    }

    pub(super) fn answer(&mut self, answer: Result<Verdict<F>, Fault>) {
        let call = self.call();
        self.step(Input::Answered { call, answer });
    }

    pub(super) fn granted(&mut self, grant: Grant<F>) {
        self.answer(Ok(Verdict::Granted(grant)));
    }

    pub(super) fn denied(&mut self, leader: Option<Term>) {
        self.answer(Ok(Verdict::Denied(denial(leader))));
    }

    pub(super) fn abdicated(&mut self, answer: Result<bool, Fault>) {
        let call = self.call();
        self.step(Input::Abdicated { call, answer });
    }

    /// It asks that nothing of it is left, and nothing is.
    pub(super) fn leaves(&mut self) {
        assert_eq!(self.phase(), Phase::Leaving);
        self.abdicated(Ok(false));
    }

    pub(super) fn rivals(&mut self, answer: bool) {
        let call = self.call();
        self.step(Input::Rivals { call, answer: Ok(answer) });
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.step(Input::Signal(signal));
    }

    pub(super) fn run(&self) -> RunId {
        RunId(self.core.runs)
    }

    pub(super) fn activated(&mut self) {
        let run = self.run();
        self.step(Input::Activated { run, answer: Ok(()) });
    }

    pub(super) fn activate_failed(&mut self) {
        let run = self.run();
        self.step(Input::Activated { run, answer: Err(Abort("no".to_owned())) });
    }

    pub(super) fn role_stopped(&mut self) {
        let run = self.run();
        self.step(Input::Stopped { run });
    }

    /// What it asked for since the log was this long, in short.
    pub(super) fn told_since(&self, length: usize) -> Vec<&'static str> {
        self.log[length..].iter().filter_map(|(_, effect)| name(effect)).collect()
    }

    pub(super) fn events(&self) -> Vec<&'static str> {
        self.log
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Emit(event) => Some(event.what.name()),
                _ => None,
            })
            .collect()
    }

    /// When it claimed.
    pub(super) fn claims(&self) -> Vec<Time> {
        let claims = self.log.iter().filter(|(_, effect)| matches!(effect, Effect::Claim { .. }));
        claims.map(|(at, _)| *at).collect()
    }

    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.log
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Claim { attempt, .. } | Effect::Refresh { attempt, .. } => Some(*attempt),
                _ => None,
            })
            .collect()
    }

    pub(super) fn count(&self, wanted: &str) -> usize {
        self.told_since(0).iter().filter(|name| **name == wanted).count()
    }

    pub(super) fn trust_left(&self) -> Duration {
        self.core.status(self.now).trust_left
    }

    pub(super) fn phase(&self) -> Phase {
        self.core.phase()
    }
}

/// It leads since now, by a first grant of this.
pub(super) fn leading<F: Clone + PartialEq + std::fmt::Debug + 'static>(
    config: CoreConfig,
    grant: Grant<F>,
) -> Story<F> {
    let mut story = Story::of(config);
    story.granted(grant);
    story.activated();
    assert_eq!(story.phase(), Phase::Leading);
    story
}

/// Events have their own names.
fn name<F>(effect: &Effect<F>) -> Option<&'static str> {
    Some(match effect {
        Effect::Claim { .. } => "claim",
        Effect::Refresh { .. } => "refresh",
        Effect::Abdicate { .. } => "abdicate",
        Effect::Leave { .. } => "leave",
        Effect::Tidy { .. } => "tidy",
        Effect::Rivals { .. } => "rivals",
        Effect::Inform { .. } => "inform",
        Effect::Abandon { .. } => "abandon",
        Effect::Trust { .. } => "trust",
        Effect::Lapse => "lapse",
        Effect::Publish(Transition::Leading(_)) => "leading",
        Effect::Publish(Transition::Following(_)) => "following",
        Effect::Activate { .. } => "activate",
        Effect::Deactivate { .. } => "deactivate",
        Effect::Abort { .. } => "abort",
        Effect::Follow { .. } => "follow",
        Effect::Emit(_) => return None,
        Effect::End(_) => "end",
    })
}
