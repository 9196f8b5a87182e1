//! What clients were told, held against the log, and as a history of their own.

use std::time::Duration;

use callsign::{
    NotStarted, OfferError, RegisterError, TakeError, UnregisterError, UpdateError,
    cores::{Answer, CallId, Granted, StartedAs},
};
use callsign_store::ids::{Incarnation, Position};

use super::{Check, Inner, Oracle};
use crate::world::{Asked, NameId, NodeId, Want, World};

/// Who asks for a name: an actor of a process. Actors are numbered over the whole world.
pub type ActorNumber = u64;

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
    /// An actor was started, and holds the name.
    Started {
        /// The token.
        token: Position,
        /// Where it was bound.
        revision: Position,
    },
    /// Another actor holds the name, and was not started by this call.
    Theirs {
        /// Its token.
        token: Position,
        /// Its last change.
        revision: Position,
    },
    /// Taken from another actor.
    Moved {
        /// The token from then on.
        token: Position,
    },
    /// What was to be taken is not held any more.
    Gone,
    /// Nothing is held by this call, and nothing will be: what was started is not bound.
    Failed,
    /// Updated.
    Updated {
        /// The revision from then on.
        revision: Position,
    },
    /// Changed before.
    Changed {
        /// The revision that it has.
        revision: Position,
    },
    /// Freed.
    Freed {
        /// In the log from here.
        at: Position,
    },
    /// Others have a place in the semaphore under this limit.
    OtherLimit {
        /// The limit in force.
        limit: u32,
    },
    /// Another node holds what was offered to it, or this one what was offered to itself.
    Offered {
        /// The token under which it does.
        token: Position,
    },
    /// Read consistently.
    Read {
        /// Where.
        at: Position,
        /// The token of the holder, and the revision.
        held: Option<(Position, Position)>,
    },
    /// Nothing was done.
    Refused,
    /// It may have been done, or will be.
    Unknown,
}

impl Outcome {
    /// Whether it says that the call had no effect, and will have none.
    pub(super) fn says_no(&self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Failed | Self::Gone | Self::Taken { .. } | Self::OtherLimit { .. }
        )
    }
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
    /// The name. Of a membership, once it was granted.
    pub name: NameId,
    /// For which actor.
    pub actor: ActorNumber,
    /// The registration that was there to be given up, or to be updated.
    pub target: Position,
    /// The revision that an update expects.
    pub expected: Option<Position>,
    /// How far its node knew the log then.
    pub seen: Position,
    /// The token of the name that its node has offered for it.
    pub offered: Option<Position>,
    /// At which step it was asked.
    pub asked: u64,
    /// How long its caller waits, by the node's clock. None: longer than it says, or the member has not taken it yet.
    pub until: Option<Duration>,
    /// Where the log ended then.
    pub began: Position,
    /// When and what was answered, and where the log ended then.
    pub answer: Option<(u64, Outcome, Position)>,
}

/// Whether the name may be had by this call, or may have been.
fn is_unknown(error: &RegisterError) -> bool {
    matches!(
        error,
        RegisterError::Unknown { .. } | RegisterError::SessionLost { .. } | RegisterError::ActorEnded
    )
}

impl Oracle {
    /// The name of a call was granted, and its actor is being started.
    pub(crate) fn start_runs(&mut self, node: NodeId, id: CallId, token: Position) {
        self.note(node, || format!("call {}: the actor is started, under {token:?}", id.0));
        let Some(inner) = self.edit() else { return };
        if let Some(at) = inner.open_calls.get(&id) {
            inner.told[*at].target = token;
        }
    }

    pub(crate) fn asked(
        &mut self,
        id: CallId,
        node: NodeId,
        incarnation: Incarnation,
        (want, name): (&Want, NameId),
        (actor, target, expected): (u64, Position, Option<Position>),
    ) {
        self.note(node, || format!("call {}: {want:?} for actor {actor}", id.0));
        let Some(inner) = self.edit() else { return };
        let (asked, began) = (inner.step, inner.position);
        let seen = inner.seen[usize::from(node)].position;
        inner.open_calls.insert(id, inner.told.len());
        inner.told.push(Told {
            node,
            incarnation,
            want: want.clone(),
            name,
            actor,
            target,
            expected,
            seen,
            offered: None,
            asked,
            until: None,
            began,
            answer: None,
        });
    }

    /// A member takes a call, whose caller waits until then by the node's clock.
    pub(crate) fn waits(&mut self, id: CallId, until: Duration) {
        let Some(inner) = self.edit() else { return };
        let Some(at) = inner.open_calls.get(&id) else { return };
        let told = &mut inner.told[*at];
        // A patient one may ask again, by another call.
        if !matches!(told.want, Want::RegisterPatiently { .. }) {
            told.until = Some(until);
        }
    }

    pub(crate) fn answered(
        &mut self,
        id: CallId,
        node: NodeId,
        (asked, name): (Option<&Asked>, Option<NameId>),
        answer: Answer,
    ) {
        self.note(node, || format!("answer {}: {answer:?}", id.0));
        let Some(inner) = self.edit() else { return };
        if inner.voided.remove(&id) {
            return;
        }
        inner.counts.add(Check::AnswerOnce, 1);
        let Some(at) = inner.open_calls.remove(&id).filter(|_| asked.is_some()) else {
            return inner.fail(Check::AnswerOnce, format!("call {id:?} was not open: {answer:?}"));
        };
        inner.told[at].name = name.unwrap_or(inner.told[at].name);
        if let Answer::Registered(Err(error)) | Answer::Started(Err(NotStarted::Register(error))) = &answer
            && matches!(error, RegisterError::NotPermitted { .. })
        {
            inner.check_not_permitted(at);
        }
        let outcome = match answer {
            Answer::Registered(Err(RegisterError::OtherLimit { limit })) => Outcome::OtherLimit { limit },
            Answer::Registered(Ok(granted)) => Outcome::Granted { token: granted.token },
            Answer::Registered(Err(RegisterError::Taken { holder, .. })) => {
                Outcome::Taken { token: holder.token() }
            }
            Answer::Registered(Err(error)) if is_unknown(&error) => Outcome::Unknown,
            Answer::Unregistered(Err(UnregisterError::Pending { .. }))
            | Answer::Offered(Err(OfferError::Unknown { .. } | OfferError::Silent { .. }))
            | Answer::Updated(Err(UpdateError::Unknown { .. } | UpdateError::SessionLost { .. })) => {
                Outcome::Unknown
            }
            Answer::Started(Ok(StartedAs::Ours(Granted { token, revision, .. }))) => {
                Outcome::Started { token, revision }
            }
            Answer::Started(Ok(StartedAs::Theirs(entry))) => {
                Outcome::Theirs { token: entry.token(), revision: entry.revision() }
            }
            Answer::Started(Err(NotStarted::StillStarting { .. })) => Outcome::Refused,
            Answer::Started(Err(NotStarted::Register(error))) if !is_unknown(&error) => Outcome::Refused,
            // It may be bound, or may have been.
            Answer::Started(Err(NotStarted::Register(_) | NotStarted::Ended)) => Outcome::Unknown,
            Answer::Started(Err(_)) => Outcome::Failed,
            Answer::Taken(Ok(taken)) => {
                let name = inner.told[at].name;
                inner.check_whole(node, name, &taken);
                Outcome::Moved { token: taken.granted.token }
            }
            Answer::Taken(Err(TakeError::Gone { .. })) => Outcome::Gone,
            Answer::Taken(Err(TakeError::Register(error))) if is_unknown(&error) => Outcome::Unknown,
            Answer::Taken(Err(error)) => {
                let is_kept = matches!(error, TakeError::Refused { .. });
                inner.counts.add(Check::Stayed, u64::from(is_kept));
                Outcome::Refused
            }
            Answer::Offered(Ok(token)) => Outcome::Offered { token },
            Answer::Updated(Ok(revision)) => Outcome::Updated { revision },
            Answer::Updated(Err(UpdateError::Changed { revision, .. })) => Outcome::Changed { revision },
            Answer::Unregistered(Ok(at)) => Outcome::Freed { at },
            Answer::Consistent(Ok((at, entry))) => {
                Outcome::Read { at, held: entry.map(|entry| (entry.token(), entry.revision())) }
            }
            _ => Outcome::Refused,
        };
        let (step, end) = (inner.step, inner.position);
        inner.check_answer(at, &outcome);
        inner.check_turned_away(at, &outcome);
        inner.told[at].answer = Some((step, outcome, end));
    }
}

/// A member looks at its callers anew this long after it began to, at the latest, unless it is still looking.
const LOOKS: Duration = Duration::from_millis(100);

impl Inner {
    /// A member was woken. It is through with all of its callers once more: those whose time was over when it was through the last time have
    /// their answers.
    pub(super) fn check_in_time(&mut self, world: &World, node: NodeId) {
        let Some(process) = world.process(node) else { return };
        if process.parts.as_ref().is_none_or(|parts| parts.core.member().looks_at_callers()) {
            return;
        }
        let (incarnation, now) = (process.incarnation, world.local(node));
        let last = self.looked.entry(node).or_insert((incarnation, now));
        if last.0 != incarnation {
            *last = (incarnation, now);
        }
        let before = last.1;
        if now < before + LOOKS {
            return;
        }
        last.1 = now;
        let waiting = self.open_calls.iter().map(|(id, at)| (id, &self.told[*at]));
        let mut here = waiting.filter(|(_, told)| told.node == node && told.until.is_some());
        self.counts.add(Check::InTime, u64::from(here.clone().next().is_some()));
        let late = here.find(|(_, told)| told.until.is_some_and(|until| until < before));
        if let Some((id, told)) = late {
            let what = format!("call {} waits until {:?}, and has no answer at {now:?}", id.0, told.until);
            self.fail(Check::InTime, what);
        }
    }

    pub(super) fn lose_calls_of(&mut self, node: NodeId) {
        let told = &self.told;
        self.open_calls.retain(|_, at| told[*at].node != node);
    }

    /// P4, by the log: an answer was true at some moment between the call and its answer.
    fn check_answer(&mut self, at: usize, outcome: &Outcome) {
        let Told { name, began, actor, .. } = self.told[at].clone();
        let end = self.position;
        if outcome.says_no() {
            self.check_refused(at, outcome);
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
            Outcome::Started { token, revision } | Outcome::Theirs { token, revision } => {
                self.counts.add(Check::StartTold, 1);
                let is_ours = matches!(outcome, Outcome::Started { .. });
                let span = self.spans.iter().find(|span| span.name == name && span.holder.token == *token);
                let is_bound = self.binds.contains(&(name, *token, *revision));
                let is_changed = self.updates.contains(&(name, *token, *revision));
                let is_true = span.is_some_and(|span| {
                    let is_held = revision == token
                        && !self.binds.iter().any(|bind| (bind.0, bind.1) == (name, *token));
                    span.to.is_none_or(|to| to > began)
                        && *revision <= end
                        && (span.holder.actor == actor) == is_ours
                        && if is_ours {
                            is_bound && *token > began
                        } else {
                            is_changed || (is_held && !span.holder.is_starting)
                        }
                });
                if !is_true {
                    let span = format!("{span:?}");
                    self.fail(
                        Check::StartTold,
                        format!("n{name}: {outcome:?} to actor {actor}, asked at {began:?}, told at {end:?}: {span}"),
                    );
                }
            }
            Outcome::Moved { token } => self.check_moved(at, *token),
            Outcome::Gone => self.check_gone(at),
            Outcome::Updated { revision } | Outcome::Changed { revision } => {
                self.counts.add(Check::UpdateTold, 1);
                let target = self.told[at].target;
                let is_done = matches!(outcome, Outcome::Updated { .. });
                let is_there =
                    self.updates.contains(&(name, target, *revision)) || (!is_done && *revision == target);
                if !is_there || *revision > end || (is_done && *revision <= began) {
                    let what =
                        format!("n{name}: {outcome:?} of {target:?}, asked at {began:?}, told at {end:?}");
                    self.fail(Check::UpdateTold, what);
                }
            }
            Outcome::Read { at, held } => {
                self.counts.add(Check::ReadTrue, 1);
                let found = self.held_at(name, *at).map(|span| span.holder.token);
                let found = found.map(|token| (token, self.revision_at(name, token, *at)));
                if *at < began || *at > end || found != *held {
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
            Outcome::OtherLimit { limit } => self.check_other_limit(at, *limit),
            Outcome::Unknown => self.counts.add(Check::Unknown, 1),
            Outcome::Refused | Outcome::Failed | Outcome::Offered { .. } => {}
        }
    }

    /// When a registration was changed last, at a position of the log.
    fn revision_at(&self, name: NameId, token: Position, at: Position) -> Position {
        let of_it = self.updates.iter().filter(|(of, under, to)| (*of, *under) == (name, token) && *to <= at);
        of_it.map(|(.., to)| *to).max().unwrap_or(token)
    }
}

impl World {
    /// All calls of clients and what became of them.
    pub fn told(&self) -> &[Told] {
        self.oracle.0.as_deref().map(|inner| inner.told.as_slice()).unwrap_or_default()
    }
}
