//! One member's part in an election: registers, is heard, claims, refreshes, sweeps, resigns, leaves.
//!
//! Pure: the driver carries out each [`Step`] and brings the answer; nothing else is decided there.

use std::time::Duration;

use callsign_store::{
    ids::{Epoch, Nonce},
    keys::ElectionKeys,
    time::Time,
};

use super::{
    error::ElectionError,
    event::LeaseEvent,
    memory::Memory,
    operation::{Input, Operation, Outcome, Step, refusal},
    sweep::{Next, SWEEP_AT_ONCE, Sweeps},
};
use crate::{
    core::{
        config::ElectionConfig,
        state::{Candidate, Command, Effect, ElectionState, Evidence, Refused, Who},
        term::{Fence, Term},
        timing::{MIN_EVERY, refresh_after},
    },
    oracle::{Denial, Grant, Refusal, Validity, Verdict},
};

/// What a member is asked to do. A new one takes the place of one that is not over: its answer is not waited for any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Initialise the election, if there is a configuration to do it with, and register. Answered [`Answer::Ready`].
    Prepare(Option<ElectionConfig>),
    /// Claim the seat. Answered [`Answer::Verdict`]; a denial never asks for a pause beyond the next heartbeat.
    Claim(Nonce),
    /// Keep the term of this epoch; the last grant of it that was answered may be believed for so long. Answered
    /// [`Answer::Verdict`].
    Refresh(Epoch, Duration),
    /// Be heard, and claim or refresh, in one transaction. Answered [`Answer::Verdict`].
    Cycle(Nonce),
    /// Give back the term of this epoch. Answered [`Answer::Resigned`].
    Resign(Epoch),
    /// Look for others that may be elected. Reads all candidates. Answered [`Answer::Rivals`].
    Rivals,
    /// Give back whatever term it has, and remove its registration, in one transaction: it was asked for this term, if for one.
    /// If it does not register by itself, it only gives the term back. Answered [`Answer::Resigned`].
    Leave(Option<Epoch>),
    /// Remove what is left of candidates that are gone, if it holds the seat and it is time for that. Answered
    /// [`Answer::Tidied`].
    Tidy,
}

impl Ask {
    /// To keep the term of a grant: the last that was answered.
    pub fn refresh(held: &Grant<Fence>) -> Self {
        let trusted = match held.validity {
            Validity::For(lease) => lease,
            Validity::UntilRevoked => Duration::MAX,
        };
        Self::Refresh(held.term.epoch, trusted)
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The member may claim. The configuration that holds, if the election is initialised.
    Ready(Option<ElectionConfig>),
    /// The seat is the member's, or not.
    Verdict(Verdict<Fence>),
    /// Whether the term was there to be given back.
    Resigned(bool),
    /// Whether another candidate may be elected that is not known to be silent.
    Rivals(bool),
    /// After how long there is something to remove again, at the earliest. `None`: not in this term.
    Tidied(Option<Duration>),
}

/// What the present operation is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Initialises,
    /// And then goes on to what it was asked for.
    Joins(Ask),
    Claims(Ask),
    Refreshes,
    Resigns,
    Looks,
    /// And gives back this term, if it was asked to.
    Leaves(Option<Epoch>),
    Sweeps,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Member {
    keys: ElectionKeys,
    me: Candidate,
    /// Whether it registers by itself.
    registers: bool,
    is_registered: bool,
    /// Whether it has begun to register, and may have a row.
    has_joined: bool,
    /// A priority that is not written yet.
    priority: Option<u32>,
    /// When it has to be heard again.
    beat_due: Time,
    memory: Memory,
    doing: Option<(Operation, Doing)>,
    /// How long the last grant that was answered may be believed.
    granted: Duration,
    /// Whether it registered again for what it is asked to do now: it was evicted, and that happens once.
    rejoined: bool,
    /// The epoch whose leader is asked to resign, as the last operation saw it.
    asked: Option<Epoch>,
    /// How long candidates count as alive, as the last operation saw it.
    timeout: Duration,
    sweeps: Sweeps,
}

impl Member {
    /// A member that has not begun.
    pub fn new(keys: ElectionKeys, me: Candidate, registers: bool) -> Self {
        Self {
            keys,
            me,
            registers,
            is_registered: false,
            has_joined: false,
            priority: None,
            beat_due: Time::ZERO,
            memory: Memory::default(),
            doing: None,
            granted: Duration::ZERO,
            rejoined: false,
            asked: None,
            timeout: Duration::ZERO,
            sweeps: Sweeps::default(),
        }
    }

    /// Gives it another priority, written with its next operation.
    pub fn set_priority(&mut self, priority: u32) {
        self.me.priority = priority;
        self.priority = Some(priority);
        self.beat_due = Time::ZERO;
    }

    /// Its priority; written, or to be written with its next operation.
    pub fn priority(&self) -> u32 {
        self.me.priority
    }

    /// The epoch that it holds and is asked to resign, as the last operation saw it.
    pub fn asked_to_resign(&self) -> Option<Epoch> {
        self.asked.filter(|asked| self.memory.held() == Some(*asked))
    }

    /// A number that no other member has.
    pub fn identity(&self) -> u64 {
        self.me.incarnation.0
    }

    /// How often the present operation was tried in vain.
    pub fn tries(&self) -> u32 {
        self.doing.as_ref().map_or(0, |(operation, _)| operation.tries())
    }

    /// Begins what it is asked for.
    pub fn begin(&mut self, now: Time, ask: Ask) -> Step<Answer> {
        self.rejoined = false;
        self.go_on(now, ask)
    }

    fn go_on(&mut self, now: Time, ask: Ask) -> Step<Answer> {
        let who = self.who();
        match ask {
            Ask::Prepare(Some(config)) => {
                self.start(now, vec![Command::Initialise(config)], Doing::Initialises)
            }
            Ask::Prepare(None) if !self.registers => self.start(now, Vec::new(), Doing::Initialises),
            Ask::Claim(_) | Ask::Cycle(_) | Ask::Prepare(None) if self.registers && !self.is_registered => {
                self.join(now, ask)
            }
            Ask::Prepare(None) => self.start(now, Vec::new(), Doing::Initialises),
            Ask::Claim(nonce) => {
                let commands = self.with_heartbeat(now >= self.beat_due, Command::Claim { who, nonce });
                self.start(now, commands, Doing::Claims(ask))
            }
            Ask::Cycle(nonce) => {
                if let Some(epoch) = self.memory.held() {
                    let commands =
                        self.with_heartbeat(true, Command::Refresh { who, epoch, trusted: self.granted });
                    return self.start(now, commands, Doing::Refreshes);
                }
                let commands = self.with_heartbeat(true, Command::Claim { who, nonce });
                self.start(now, commands, Doing::Claims(ask))
            }
            Ask::Refresh(epoch, trusted) => {
                let commands =
                    self.with_heartbeat(now >= self.beat_due, Command::Refresh { who, epoch, trusted });
                self.start(now, commands, Doing::Refreshes)
            }
            Ask::Rivals => self.run(now, Operation::look(&self.keys, true), Doing::Looks),
            Ask::Leave(held) if self.has_joined => {
                self.start(now, vec![Command::Leave(who)], Doing::Leaves(held))
            }
            Ask::Leave(None) => Step::Done(Ok(Answer::Resigned(false))),
            Ask::Resign(epoch) | Ask::Leave(Some(epoch)) => {
                self.start(now, vec![Command::Resign { who, epoch }], Doing::Resigns)
            }
            Ask::Tidy => self.tidy(now, who),
        }
    }

    /// Goes on. What it did to the election is added to `events`.
    pub fn step(&mut self, now: Time, input: Input, events: &mut Vec<LeaseEvent>) -> Step<Answer> {
        let Some((mut operation, doing)) = self.doing.take() else {
            return Step::Done(Err(ElectionError::Unavailable("an answer that nobody waits for".to_owned())));
        };
        let raw = operation.step(now, &mut self.memory, input, events);
        match raw {
            Step::Read(reads) => {
                self.doing = Some((operation, doing));
                Step::Read(reads)
            }
            Step::Commit(transaction) => {
                self.doing = Some((operation, doing));
                Step::Commit(transaction)
            }
            Step::Done(result) => {
                let mut step = self.over(now, doing, result);
                match &mut step {
                    Step::Done(Ok(Answer::Verdict(Verdict::Granted(Grant {
                        validity: Validity::For(lease),
                        ..
                    })))) => self.granted = *lease,
                    // Whoever waits longer than it counts as alive would be passed over, again and again.
                    Step::Done(Ok(Answer::Verdict(Verdict::Denied(Denial {
                        retry_in: Some(wait), ..
                    })))) => *wait = self.beat_due.since(now).max(MIN_EVERY).min(*wait),
                    _ => {}
                }
                step
            }
        }
    }

    fn who(&self) -> Who {
        Who { member: self.me.member.clone(), incarnation: self.me.incarnation }
    }

    fn start(&mut self, now: Time, commands: Vec<Command>, doing: Doing) -> Step<Answer> {
        self.run(now, Operation::new(&self.keys, commands), doing)
    }

    fn run(&mut self, now: Time, mut operation: Operation, doing: Doing) -> Step<Answer> {
        let raw = operation.begin(now, &mut self.memory);
        self.doing = Some((operation, doing));
        match raw {
            Step::Read(reads) => Step::Read(reads),
            Step::Commit(transaction) => Step::Commit(transaction),
            Step::Done(_) => unreachable!("an operation begins with a read"),
        }
    }

    /// Sweeps, if it holds the seat and it is time for that.
    fn tidy(&mut self, now: Time, who: Who) -> Step<Answer> {
        let Some(epoch) = self.memory.held() else { return Step::Done(Ok(Answer::Tidied(None))) };
        match self.sweeps.next(now, epoch, self.timeout) {
            Next::Wait(wait) => Step::Done(Ok(Answer::Tidied(Some(wait)))),
            Next::Sweep(watched) => {
                let sweep = Command::Sweep { who, epoch, watched, most: SWEEP_AT_ONCE };
                self.start(now, vec![sweep], Doing::Sweeps)
            }
        }
    }

    fn join(&mut self, now: Time, then: Ask) -> Step<Answer> {
        self.has_joined = true;
        self.start(now, vec![Command::Join(self.me.clone())], Doing::Joins(then))
    }

    /// With a heartbeat before it, if one is due.
    fn with_heartbeat(&self, due: bool, command: Command) -> Vec<Command> {
        let beat = due.then(|| Command::Beat { who: self.who(), priority: self.priority });
        beat.into_iter().chain([command]).collect()
    }

    fn over(&mut self, now: Time, doing: Doing, result: Result<Box<Outcome>, ElectionError>) -> Step<Answer> {
        // A disabled election is an answer to a member, not a failure.
        let outcome = match (result, &doing) {
            (Ok(outcome), _) => outcome,
            (Err(ElectionError::Disabled), Doing::Joins(Ask::Prepare(_))) => {
                return Step::Done(Ok(Answer::Ready(None)));
            }
            (Err(ElectionError::Disabled), Doing::Joins(..) | Doing::Claims(..) | Doing::Refreshes) => {
                return denied(Refusal::Disabled, None, None);
            }
            // Nothing is left of an election that is not there.
            (Err(ElectionError::NotInitialized), Doing::Leaves(..)) => {
                return Step::Done(Ok(Answer::Resigned(false)));
            }
            (Err(error), _) => return Step::Done(Err(error)),
        };
        let Outcome { effects, state, evidence, uncertain } = *outcome;
        self.asked = state.control.as_ref().and_then(|control| control.request);
        let timeout = state.control.as_ref().map_or(Duration::ZERO, |c| c.config.candidate_timeout);
        self.timeout = timeout;
        if effects.iter().flatten().any(|e| matches!(e, Effect::HeartbeatSeen | Effect::Joined { .. })) {
            self.priority = None;
            self.beat_due = now + timeout / 3;
        }
        let last = effects.last().map_or(&[][..], Vec::as_slice);
        let refused = refusal(last);
        match doing {
            Doing::Initialises => {
                let config = state.control.map(|control| control.config);
                if self.registers && config.is_some() {
                    return self.join(now, Ask::Prepare(None));
                }
                Step::Done(Ok(Answer::Ready(config)))
            }
            Doing::Joins(ask) => {
                self.is_registered |= refused.is_none();
                match (ask, refused) {
                    // Its former self has the seat still. It registers when that is over.
                    (Ask::Prepare(_), _) => {
                        Step::Done(Ok(Answer::Ready(state.control.map(|control| control.config))))
                    }
                    (ask, None) => self.go_on(now, ask),
                    (_, Some(refused)) => verdict(last, &state, &evidence, Some(refused)),
                }
            }
            Doing::Claims(ask) => {
                if self.registers && refused == Some(&Refused::Unregistered) {
                    self.is_registered = false;
                    if !std::mem::replace(&mut self.rejoined, true) {
                        return self.join(now, ask);
                    }
                }
                verdict(last, &state, &evidence, refused)
            }
            Doing::Refreshes => {
                if refused == Some(&Refused::Unregistered) {
                    self.is_registered = false;
                }
                verdict(last, &state, &evidence, refused)
            }
            Doing::Looks => {
                let rivals = state.rivals(&evidence, &self.me.member);
                Step::Done(Ok(Answer::Rivals(rivals)))
            }
            Doing::Resigns => {
                let was = last.iter().any(|effect| matches!(effect, Effect::Vacated { .. }));
                // What stood when it was first tried, and does not stand now, it gave back itself.
                Step::Done(Ok(Answer::Resigned(was || uncertain)))
            }
            Doing::Leaves(held) => {
                (self.is_registered, self.has_joined) = (false, false);
                let was = last.iter().any(|effect| matches!(effect, Effect::Vacated { .. }));
                Step::Done(Ok(Answer::Resigned(was || (uncertain && held.is_some()))))
            }
            Doing::Sweeps => {
                let removed = last.iter().filter(|effect| matches!(effect, Effect::Evicted(_))).count();
                Step::Done(Ok(Answer::Tidied(Some(self.sweeps.done(now, removed, timeout)))))
            }
        }
    }
}

fn denied(why: Refusal, leader: Option<Term>, retry_in: Option<Duration>) -> Step<Answer> {
    Step::Done(Ok(Answer::Verdict(Verdict::Denied(Denial { why, leader, retry_in }))))
}

/// What the effects of a claim or a refresh come to.
fn verdict(
    effects: &[Effect],
    state: &ElectionState,
    evidence: &Evidence,
    refused: Option<&Refused>,
) -> Step<Answer> {
    let holder = state.seat.as_ref().and_then(|seat| seat.holder.as_ref());
    if let Some(refused) = refused {
        let leader = state.seat.as_ref().filter(|_| holder.is_some_and(|h| evidence.seat.at_least < h.lease));
        let leader = leader.and_then(crate::core::state::Seat::term);
        let (why, retry_in) = match refused {
            Refused::Disabled => (Refusal::Disabled, None),
            Refused::Unregistered => (Refusal::Unregistered, None),
            Refused::DuplicateIdentity => (Refusal::DuplicateIdentity, None),
            Refused::Ineligible => (Refusal::Ineligible, None),
            Refused::Outranked => (Refusal::Outranked, None),
            Refused::Held => (Refusal::Held, None),
            Refused::TooEarly { wait } => (Refusal::TooEarly, Some(*wait)),
            Refused::TermOver => (Refusal::TermOver, None),
            other => return Step::Done(Err(other.clone().into())),
        };
        return denied(why, leader, retry_in);
    }
    let won = effects.iter().find_map(|effect| match effect {
        Effect::Elected { term, fence } | Effect::Refreshed { term, fence } => Some((term, fence)),
        _ => None,
    });
    let lease = state.control.as_ref().map(|control| control.config.lease);
    match won.zip(lease) {
        Some(((term, fence), lease)) => Step::Done(Ok(Answer::Verdict(Verdict::Granted(Grant {
            term: term.clone(),
            fence: *fence,
            validity: Validity::For(lease),
            refresh_in: Some(refresh_after(lease)),
        })))),
        None => denied(Refusal::TermOver, None, None),
    }
}
