//! What clients were told, held against the log, and as a history of their own.

use callsign::{
    RegisterError, UnregisterError,
    cores::{Answer, CallId},
};
use callsign_store::ids::{Incarnation, Position};

use super::{Check, Inner, Oracle};
use crate::world::{Asked, NodeId, Want, World};

/// Who asks for a name: an actor of a process. Actors are numbered over the whole world.
pub type Claimant = u64;

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Registered.
    Granted {
        /// The token.
        token: Position,
    },
    /// Held by another.
    Taken {
        /// The token of the holder.
        token: Position,
    },
    /// Freed.
    Freed {
        /// In the log from here.
        at: Position,
    },
    /// Read consistently.
    Read {
        /// Where.
        at: Position,
        /// The token of the holder.
        token: Option<Position>,
    },
    /// Nothing was done.
    Refused,
    /// It may have been done, or will be.
    Unknown,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Told {
    /// Where.
    pub node: NodeId,
    /// The process.
    pub incarnation: Incarnation,
    /// What.
    pub want: Want,
    /// For which actor.
    pub actor: Claimant,
    /// The registration that was there to be given up.
    pub target: Position,
    /// At which step it was asked.
    pub asked: u64,
    /// Where the log ended then.
    pub began: Position,
    /// When and what was answered, and where the log ended then.
    pub answer: Option<(u64, Outcome, Position)>,
}

impl Oracle {
    pub(crate) fn asked(
        &mut self,
        id: CallId,
        node: NodeId,
        incarnation: Incarnation,
        want: &Want,
        (actor, target): (u64, Position),
    ) {
        self.note(node, || format!("call {}: {want:?} for actor {actor}", id.0));
        let Some(inner) = self.edit() else { return };
        let (asked, began) = (inner.step, inner.position);
        inner.open_calls.insert(id, inner.told.len());
        inner.told.push(Told {
            node,
            incarnation,
            want: want.clone(),
            actor,
            target,
            asked,
            began,
            answer: None,
        });
    }

    pub(crate) fn answered(&mut self, id: CallId, node: NodeId, asked: Option<&Asked>, answer: Answer) {
        self.note(node, || format!("answer {}: {answer:?}", id.0));
        let Some(inner) = self.edit() else { return };
        if inner.voided.remove(&id) {
            return;
        }
        inner.counts.add(Check::AnswerOnce, 1);
        let Some(at) = inner.open_calls.remove(&id).filter(|_| asked.is_some()) else {
            return inner.fail(Check::AnswerOnce, format!("call {id:?} was not open: {answer:?}"));
        };
        let outcome = match answer {
            Answer::Registered(Ok(granted)) => Outcome::Granted { token: granted.token },
            Answer::Registered(Err(RegisterError::Taken { holder, .. })) => {
                Outcome::Taken { token: holder.token }
            }
            Answer::Registered(Err(
                RegisterError::Unknown { .. } | RegisterError::SessionLost { .. } | RegisterError::ActorEnded,
            ))
            | Answer::Unregistered(Err(UnregisterError::Pending { .. })) => Outcome::Unknown,
            Answer::Unregistered(Ok(at)) => Outcome::Freed { at },
            Answer::Consistent(Ok((at, entry))) => {
                Outcome::Read { at, token: entry.map(|entry| entry.token) }
            }
            _ => Outcome::Refused,
        };
        let (step, end) = (inner.step, inner.position);
        inner.check_answer(at, &outcome);
        inner.check_turned_away(at, &outcome);
        inner.told[at].answer = Some((step, outcome, end));
    }
}

impl Inner {
    pub(super) fn lose_calls_of(&mut self, node: NodeId) {
        let told = &self.told;
        self.open_calls.retain(|_, at| told[*at].node != node);
    }

    /// P4, by the log: an answer was true at some moment between the call and its answer.
    fn check_answer(&mut self, at: usize, outcome: &Outcome) {
        let Told { want, began, actor, .. } = self.told[at].clone();
        let (name, end) = (want.name(), self.position);
        if matches!(outcome, Outcome::Refused | Outcome::Taken { .. }) {
            self.check_refused(name, actor, outcome);
        }
        match outcome {
            Outcome::Granted { token } | Outcome::Taken { token } => {
                let is_grant = matches!(outcome, Outcome::Granted { .. });
                self.counts.add(if is_grant { Check::Granted } else { Check::Refused }, 1);
                self.counts.add(Check::AnswerTrue, 1);
                let span = self.spans.iter().find(|span| span.name == name && span.holder.token == *token);
                let is_true = span.is_some_and(|span| {
                    span.to.is_none_or(|to| to > began)
                        && span.holder.token <= end
                        && (span.holder.actor == actor) == is_grant
                });
                if !is_true {
                    let span = format!("{span:?}");
                    self.fail(
                        Check::AnswerTrue,
                        format!("n{name}: {outcome:?} to actor {actor}, asked at {began:?}, told at {end:?}: {span}"),
                    );
                }
            }
            Outcome::Read { at, token } => {
                self.counts.add(Check::ReadTrue, 1);
                let found = self.held_at(name, *at).map(|span| span.holder.token);
                if *at < began || *at > end || found != *token {
                    self.fail(
                        Check::ReadTrue,
                        format!(
                            "n{name}: {outcome:?}, asked at {began:?}, told at {end:?}; it was {found:?}"
                        ),
                    );
                }
            }
            Outcome::Freed { at } => {
                self.counts.add(Check::FreedTrue, 1);
                let is_freed = |span: &super::Span| span.name == name && span.to.is_some_and(|to| to <= *at);
                if *at > end || !self.spans.iter().any(is_freed) {
                    self.fail(Check::FreedTrue, format!("n{name}: {outcome:?}, asked at {began:?}"));
                }
            }
            Outcome::Unknown => self.counts.add(Check::Unknown, 1),
            Outcome::Refused => {}
        }
    }
}

impl World {
    /// All calls of clients and what became of them.
    pub fn told(&self) -> &[Told] {
        self.oracle.0.as_deref().map(|inner| inner.told.as_slice()).unwrap_or_default()
    }
}
