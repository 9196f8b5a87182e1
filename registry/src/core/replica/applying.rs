//! Applies a batch of the log, operation by operation.

use std::sync::Arc;

use callsign_store::{
    ids::{NodeName, Position, SessionId},
    planted,
};

use super::Replica;
use crate::core::{
    group::MembershipName,
    log::{Batch, Op},
    name::Name,
    table::{More, Row, Slot, Table},
    why::{GivenUp, Why},
};

/// What a batch changed that others have to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Applied {
    /// Rows of this node that are gone.
    pub own_freed: Vec<(Name, Row)>,
    /// Sessions of this node all of whose names are gone.
    pub own_gone: Vec<SessionId>,
    /// Sessions all of whose names are gone, with their number.
    pub gone: Vec<(SessionId, u64)>,
    /// Names whose actor was being started, and is not any more: it was, or the name is free.
    pub starts: Vec<Name>,
    /// Names of this node that went to another actor, as this node held them, and the node and the token under which that one
    /// holds them.
    pub given: Vec<(Name, Row, NodeName, Position)>,
    /// Names that went to an actor of this node, as it holds them.
    pub taken: Vec<(Name, Row)>,
    /// Registrations that have ended, by their tokens.
    pub ended: Vec<(Name, Position)>,
    /// Any number of names may be free that none of the others names.
    pub is_of_many: bool,
    /// Places of semaphores that are free, by their tokens.
    pub freed_places: Vec<(Name, Position)>,
}

impl Applied {
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.own_freed.append(&mut other.own_freed);
        self.own_gone.append(&mut other.own_gone);
        self.gone.append(&mut other.gone);
        self.starts.append(&mut other.starts);
        self.given.append(&mut other.given);
        self.taken.append(&mut other.taken);
        self.ended.append(&mut other.ended);
        self.is_of_many |= other.is_of_many;
        self.freed_places.append(&mut other.freed_places);
    }
}

impl<T: Table> Replica<T> {
    /// Applies the next batch of the log.
    pub fn apply(&mut self, batch: &Batch) -> Applied {
        debug_assert!(batch.position > self.position(), "the log is applied forwards");
        let mut applied = Applied::default();
        let mut resets = false;
        let sessions: Vec<Arc<SessionId>> = batch.sessions.iter().map(|id| self.rows.shared(id)).collect();
        for op in &batch.ops {
            match op {
                Op::Register { name, session, request, actor, kind, meta } => {
                    let row = Row {
                        position: batch.position,
                        session: sessions[*session as usize].clone(),
                        request: *request,
                        actor: actor.unwrap_or(0),
                        kind: *kind,
                        more: More::of_actor(*actor, batch.position, batch.position, meta.clone()),
                        slot: Slot::default(),
                    };
                    self.put(name, row);
                }
                Op::Bind { name, position, request, actor, meta } => {
                    if let Some(row) = self.row(name).filter(|row| row.position == *position) {
                        let more = More::of(*position, batch.position, meta.clone());
                        self.touch(name);
                        applied.starts.extend(row.is_starting().then(|| name.clone()));
                        let was = self.memory.is_on().then(|| row.clone());
                        let now = Row { request: *request, actor: *actor, more, ..row };
                        self.changed(name, batch.position, (was.as_ref(), Some(&now)), || Why::Bound);
                        self.rows.change(name, now);
                    }
                }
                Op::Transfer { name, position, session, request, actor, kind } => {
                    if let Some(was) = self.row(name).filter(|row| row.position == *position) {
                        let meta = was.meta().filter(|_| !planted!("transfer-drops-metadata")).cloned();
                        let now = Row {
                            position: batch.position,
                            session: sessions[*session as usize].clone(),
                            request: *request,
                            actor: *actor,
                            kind: *kind,
                            more: More::of(batch.position, batch.position, meta),
                            slot: Slot::default(),
                        };
                        self.transfer(name, was, now, &mut applied);
                    }
                }
                Op::Update { name, position, request, meta } => {
                    if let Some(row) = self.row(name).filter(|row| row.position == *position) {
                        let more = More::of_actor(row.actor(), *position, batch.position, meta.clone());
                        self.touch(name);
                        let was = self.memory.is_on().then(|| row.clone());
                        let now = Row { request: *request, more, ..row };
                        self.changed(name, batch.position, (was.as_ref(), Some(&now)), || Why::Updated);
                        self.rows.change(name, now);
                    }
                }
                Op::Unregister { name, position, why } => {
                    if self.row(name).is_some_and(|row| row.position == *position) {
                        self.free(name, batch.position, why, &mut applied);
                    }
                }
                Op::HostGone { session } => {
                    let session = &sessions[*session as usize];
                    let gone = self.free_all_of(session, batch.position, &mut applied);
                    applied.gone.push((SessionId::clone(session), gone));
                }
                Op::Open => {}
                Op::Reset => {
                    // Rows of a log that was forgotten may be at positions after this one.
                    let is_kept = self.based || planted!("reset-spares-later-rows");
                    let last = if is_kept { batch.position } else { Position(u64::MAX - 1) };
                    let all: Vec<_> = self.rows.sessions().values().map(|held| held.id.clone()).collect();
                    for session in all {
                        self.free_all_of(&session, last, &mut applied);
                    }
                    (self.based, resets) = (true, true);
                }
            }
        }
        self.rows.forget_empty();
        self.remember_swept();
        self.epoch = self.epoch.max(batch.epoch);
        self.past.applied(self.position(), batch.position);
        self.end = batch.end();
        if resets {
            self.memory.lose();
            self.memory.begin_at(batch.position);
            self.past.reset_at(batch.position);
        }
        applied
    }

    fn put(&mut self, name: &Name, row: Row) {
        self.touch(name);
        let (position, is_starting) = (row.position, row.is_starting());
        let now = self.memory.is_on().then(|| row.clone());
        let former = self.rows.put(name, row);
        debug_assert!(former.is_none(), "the leader grants free names only");
        let why = || if is_starting { Why::Starting } else { Why::Registered };
        self.changed(name, position, (former.as_ref(), now.as_ref()), why);
    }

    /// A name goes from one holder to the next, and is free at no moment.
    fn transfer(&mut self, name: &Name, was: Row, now: Row, applied: &mut Applied) {
        self.touch(name);
        self.changed(name, now.position, (Some(&was), Some(&now)), || Why::Transferred);
        self.past.ended(name, &was, now.position, Why::Transferred);
        if planted!("transfer-frees-the-name") {
            self.rows.take(name);
            return;
        }
        self.rows.put(name, now.clone());
        applied.ended.push((name.clone(), was.position));
        if was.session.node == self.me {
            applied.given.push((name.clone(), was, now.session.node.clone(), now.position));
        }
        if now.session.node == self.me {
            applied.taken.push((name.clone(), now));
        }
    }

    fn free(&mut self, name: &Name, at: Position, why: &GivenUp, applied: &mut Applied) {
        let Some(row) = self.rows.take(name) else { return };
        self.touch(name);
        applied.starts.extend(row.is_starting().then(|| name.clone()));
        if MembershipName::of_place(name).is_some() && !planted!("freed-place-not-seen") {
            applied.freed_places.push((name.clone(), row.position));
        }
        self.changed(name, at, (Some(&row), None), || why.into());
        self.past.ended(name, &row, at, why.into());
        applied.ended.push((name.clone(), row.position));
        if row.session.node == self.me {
            applied.own_freed.push((name.clone(), row));
        }
    }

    /// Frees all names of a session up to a position, and returns how many they were. Cost: nothing for each name.
    fn free_all_of(&mut self, session: &SessionId, position: Position, applied: &mut Applied) -> u64 {
        let below = position.next();
        applied.is_of_many = true;
        if session.node == self.me {
            applied.own_gone.push(session.clone());
        }
        // Rows below that are gone already, and not by this.
        let from = self.rows.gone_below(session).unwrap_or_default();
        let gone = self.rows.hide(session, below);
        if gone > 0 && !planted!("host-gone-not-touched") {
            for touched in self.touched.values_mut() {
                touched.gone.insert(session.clone(), below);
            }
        }
        if gone > 0 && self.memory.is_on() {
            self.memory.hidden(position, session, from..below);
        }
        if gone > 0 {
            self.past.gone(session, from..below, position);
        }
        gone as u64
    }

    /// Puts a change into the memory that watches read.
    fn changed(
        &mut self,
        name: &Name,
        position: Position,
        (was, now): (Option<&Row>, Option<&Row>),
        why: impl FnOnce() -> Why,
    ) {
        if self.memory.is_on() {
            self.memory.changed(name, position, (was, now), why());
        }
    }

    fn touch(&mut self, name: &Name) {
        self.touched.retain(|_, touched| touched.insert(name));
    }
}
