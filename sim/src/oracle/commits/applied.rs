//! What a batch does to the names, as the log says.

use std::sync::Arc;

use callsign::{
    Why,
    cores::{Batch, Op, RequestNumber},
};
use callsign_store::ids::{Position, SessionId};

use super::{Check, Holder, Inner, Logged, STARTING, Span, digest};
use crate::world::{NameId, number_of};

impl Inner {
    /// What the log says now.
    pub(super) fn apply(&mut self, position: Position, batch: &Batch) {
        let mut names = Vec::new();
        for op in &batch.ops {
            match op {
                Op::Register { name, session, request, actor, meta, .. } => {
                    let name = number_of(name);
                    names.push(name);
                    let session: Arc<SessionId> = batch.sessions[*session as usize].clone();
                    self.decided(&session, *request, position);
                    if let Some(actor) = actor {
                        self.check_granted(name, *actor, position);
                    }
                    let (is_starting, meta) = (actor.is_none(), meta.clone());
                    let actor = actor.unwrap_or(STARTING | position.0);
                    let (token, revision, request) = (position, position, request.0);
                    let holder = Holder { token, session, actor, revision, request, meta, is_starting };
                    if let Some(former) = self.truth.insert(name, holder.clone()) {
                        self.fail(
                            Check::AnswerTrue,
                            format!("n{name} is registered at {position:?} while {former:?} has it"),
                        );
                    }
                    self.check_place(name, position);
                    let why = if is_starting { Why::Starting } else { Why::Registered };
                    self.watched.add(Logged::new(position, name, (None, Some(&holder)), why));
                    self.spans.push(Span { name, holder, to: None, given_up: None });
                }
                Op::Bind { name, position: token, request, actor, meta } => {
                    let name = number_of(name);
                    names.push(name);
                    self.check_granted(name, *actor, position);
                    self.counts.add(Check::BindTrue, 1);
                    let held = self.truth.get_mut(&name);
                    let held = held.filter(|holder| holder.token == *token && holder.is_starting);
                    let Some(holder) = held else {
                        let what = format!(
                            "actor {actor} is bound to n{name} under {token:?} at {position:?}, which is not started"
                        );
                        return self.fail(Check::BindTrue, what);
                    };
                    let was = holder.clone();
                    (holder.revision, holder.meta) = (position, meta.clone());
                    (holder.actor, holder.is_starting) = (*actor, false);
                    self.watched.add(Logged::new(position, name, (Some(&was), Some(holder)), Why::Bound));
                    let (session, holder) = (holder.session.clone(), holder.clone());
                    if let Some(span) = self.spans.iter_mut().find(|s| s.name == name && s.to.is_none()) {
                        span.holder = holder;
                    }
                    self.updates.push((name, *token, position));
                    self.binds.push((name, *token, position));
                    self.decided(&session, *request, position);
                }
                Op::Transfer { name, position: from, session, request, actor, .. } => {
                    let name = number_of(name);
                    names.push(name);
                    let session = batch.sessions[*session as usize].clone();
                    self.decided(&session, *request, position);
                    self.check_granted(name, *actor, position);
                    let held = self.truth.get(&name).filter(|holder| holder.token == *from);
                    let meta = held.and_then(|holder| holder.meta.clone());
                    let (is_starting, actor) = (false, *actor);
                    let (token, revision, request) = (position, position, request.0);
                    let holder = Holder { token, session, actor, revision, request, meta, is_starting };
                    if !self.moves(name, *from, holder) {
                        return;
                    }
                }
                Op::Update { name, position: token, request, meta } => {
                    let name = number_of(name);
                    names.push(name);
                    self.counts.add(Check::UpdateTrue, 1);
                    let held = self.truth.get_mut(&name).filter(|holder| holder.token == *token);
                    let Some(holder) = held else {
                        let what = format!(
                            "n{name} is updated under {token:?} at {position:?}, which does not hold it"
                        );
                        return self.fail(Check::UpdateTrue, what);
                    };
                    let was = holder.clone();
                    (holder.revision, holder.meta) = (position, meta.clone());
                    self.watched.add(Logged::new(position, name, (Some(&was), Some(holder)), Why::Updated));
                    let session = holder.session.clone();
                    self.updates.push((name, *token, position));
                    self.decided(&session, *request, position);
                }
                Op::Unregister { name, position: token, why } => {
                    let name = number_of(name);
                    names.push(name);
                    if self.truth.get(&name).is_some_and(|holder| holder.token == *token) {
                        let step = self.step;
                        if let Some(span) = self.spans.iter_mut().find(|s| s.name == name && s.to.is_none()) {
                            span.given_up = Some(step);
                        }
                        self.free(name, position, why.into());
                    }
                }
                Op::HostGone { session } => {
                    self.counts.add(Check::HostGone, 1);
                    let session = batch.sessions[*session as usize].clone();
                    // Free by the closing of the session, and by nothing less.
                    let record = self.sessions.get(&session.node);
                    if record.is_none_or(|record| !record.has_closed(&session)) {
                        let record = record.cloned();
                        self.fail(Check::Kept, format!("the names of {session:?} are freed: {record:?}"));
                    }
                    let held: Vec<NameId> = self
                        .truth
                        .iter()
                        .filter(|(_, holder)| *holder.session == *session)
                        .map(|(name, _)| *name)
                        .collect();
                    for name in held {
                        self.free(name, position, Why::NodeGone);
                    }
                }
                Op::Reset => {
                    self.counts.add(Check::Reset, 1);
                    // With the log is lost what it decided: that is asked again, as something new.
                    self.requests.clear();
                    self.reset_at = position;
                    self.resets.push(position);
                    // Nobody who was synced is left: what was held is lost, and its hosts were told.
                    let step = self.step;
                    for span in self.spans.iter_mut().filter(|span| span.to.is_none()) {
                        span.given_up = Some(step);
                    }
                    let held: Vec<NameId> = self.truth.keys().copied().collect();
                    for name in held {
                        self.free(name, position, Why::Reset);
                    }
                }
                Op::Open => {}
            }
        }
        if !names.is_empty() {
            self.counts.add(Check::OneOpPerName, 1);
            names.sort_unstable();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                self.fail(Check::OneOpPerName, format!("{names:?} at {position:?}"));
            }
        }
        self.position = position;
        let table = self.truth.iter();
        let sum = table.fold(0, |sum, (name, holder)| {
            let actor = holder.known_actor();
            sum ^ digest(*name, (holder.token, holder.revision, actor), holder.meta.as_ref())
        });
        self.digests.push(sum);
    }

    /// A request changes the log, once.
    fn decided(&mut self, session: &SessionId, request: RequestNumber, position: Position) {
        self.counts.add(Check::RequestOnce, 1);
        if !self.requests.insert((session.clone(), request.0)) {
            self.fail(Check::RequestOnce, format!("{request:?} of {session:?} at {position:?}"));
        }
    }

    fn free(&mut self, name: NameId, position: Position, why: Why) {
        if let Some(was) = self.truth.remove(&name) {
            self.watched.add(Logged::new(position, name, (Some(&was), None), why));
        }
        let open = self.spans.iter_mut().find(|span| span.name == name && span.to.is_none());
        if let Some(span) = open {
            span.to = Some(position);
        }
    }
}
