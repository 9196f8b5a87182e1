//! One registration as its caller waits for it: when the member is asked, what is asked again, and what is believed.
//!
//! ```text
//! --Begin--> asked --refused, as nothing is trusted--> waiting for trust --trusted again--> asked
//!              | any other answer                         | the deadline
//!              v                                          v
//!            done                                       done
//! ```
//!
//! Promises: only what was refused before anything was sent is asked again; a grant is passed on only while the session is
//! trusted in which it was made; nothing is asked of a store that is gone, where the caller prefers an error.

use std::time::Duration;

use callsign_store::{Time, planted};

use crate::{
    core::{
        input::{Granted, Now},
        name::Name,
    },
    error::RegisterError,
};

/// What a call that writes does while the store takes no commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnOutage {
    /// It waits for as long as calls wait. It is done as soon as the store is there again.
    #[default]
    Wait,
    /// It fails at once, before anything is sent: `StoreUnavailable`.
    Fail,
}

/// What can happen to a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerInput {
    /// It begins.
    Begin,
    /// The member has answered what it was asked last, or it has ended, and somebody else says so.
    Answered(Result<Granted, RegisterError>),
    /// The session is trusted, again or for the first time.
    Trusted,
    /// A time has come.
    Wake,
}

/// What is to be done for a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerEffect {
    /// Ask the member, which answers in this time.
    Ask(Duration),
    /// Wait until the session is trusted, or was since the member was asked; at most until then.
    AwaitTrust(Time),
    /// Tell the caller.
    Done(Result<Granted, RegisterError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallerStage {
    New,
    /// `is_trusted`: that was said since.
    Asked {
        is_trusted: bool,
    },
    Waiting,
    Done,
}

/// One registration as its caller waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    name: Name,
    on_outage: OnOutage,
    began: Time,
    deadline: Time,
    stage: CallerStage,
}

impl Caller {
    /// Somebody who asks for a name now, and waits so long.
    pub fn new(name: Name, on_outage: OnOutage, now: Time, wait: Duration) -> Self {
        Self { name, on_outage, began: now, deadline: now + wait, stage: CallerStage::New }
    }

    /// Takes an input. `outage` is for how long the store has taken no commits, if that is known.
    pub fn step(&mut self, now: Now, outage: Option<Duration>, input: CallerInput) -> Option<CallerEffect> {
        match (self.stage, input) {
            (CallerStage::Asked { .. }, CallerInput::Trusted) => {
                if !planted!("trust-on-the-way-missed") {
                    self.stage = CallerStage::Asked { is_trusted: true };
                }
                None
            }
            (CallerStage::Asked { is_trusted }, CallerInput::Answered(answer)) => {
                Some(self.take(now, outage, is_trusted, answer))
            }
            (CallerStage::Waiting, CallerInput::Trusted) if planted!("retry-lost") => None,
            (CallerStage::New, CallerInput::Begin) | (CallerStage::Waiting, CallerInput::Trusted) => {
                Some(self.ask(now.time, outage))
            }
            (CallerStage::Waiting, CallerInput::Wake) if now.time < self.deadline => {
                Some(CallerEffect::AwaitTrust(self.deadline))
            }
            (CallerStage::Waiting, CallerInput::Wake) => Some(self.gives_up(outage, RegisterError::Lapsed)),
            _ => None,
        }
    }

    /// What a caller is told that heard nothing.
    pub fn unknown(&self, now: Time) -> RegisterError {
        RegisterError::Unknown { name: self.name.to_string(), waited: now.since(self.began) }
    }

    fn ask(&mut self, now: Time, outage: Option<Duration>) -> CallerEffect {
        if self.on_outage == OnOutage::Fail && outage.is_some() {
            return self.gives_up(outage, RegisterError::Lapsed);
        }
        self.stage = CallerStage::Asked { is_trusted: false };
        CallerEffect::Ask(self.deadline.since(now))
    }

    fn take(
        &mut self,
        now: Now,
        outage: Option<Duration>,
        is_trusted: bool,
        answer: Result<Granted, RegisterError>,
    ) -> CallerEffect {
        match answer {
            // The way here took time, too. A session that lapsed meanwhile may resume, with the name.
            Ok(granted) if now.trusted != Some(granted.session) && !planted!("granted-though-lapsed") => {
                self.done(Err(self.unknown(now.time)))
            }
            Err(RegisterError::Lapsed) if self.on_outage == OnOutage::Wait => {
                if is_trusted {
                    return self.ask(now.time, outage);
                }
                self.stage = CallerStage::Waiting;
                CallerEffect::AwaitTrust(self.deadline)
            }
            Err(error @ (RegisterError::Lapsed | RegisterError::NoLeader | RegisterError::NotSynced)) => {
                self.gives_up(outage, error)
            }
            answer => self.done(answer),
        }
    }

    /// Nothing was sent. The store may be why.
    fn gives_up(&mut self, outage: Option<Duration>, error: RegisterError) -> CallerEffect {
        self.done(Err(outage.map_or(error, |lasting| RegisterError::StoreUnavailable { lasting })))
    }

    fn done(&mut self, how: Result<Granted, RegisterError>) -> CallerEffect {
        self.stage = CallerStage::Done;
        CallerEffect::Done(how)
    }
}

/// For whoever has many of them, and wakes each in its time.
#[cfg(any(test, feature = "cores"))]
impl Caller {
    /// When it is to be told that a time has come.
    pub fn wakes_at(&self) -> Option<Time> {
        (self.stage == CallerStage::Waiting).then_some(self.deadline)
    }
}

#[cfg(test)]
mod tests;
