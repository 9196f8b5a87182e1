//! The sessions that names are to go to: each has to be read open before a name goes to it, as that of whoever asks.

use std::collections::{BTreeSet, VecDeque};

use callsign_elector::elector::View;
use callsign_store::{
    ids::{Position, SessionId},
    planted,
};

use super::Pending;
use crate::core::{
    log::{BatchBuilder, Op},
    message::{Verdict, Wish},
    table::Row,
};

/// Which of them are open, and what waits to know that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Takers {
    /// Those that were read open since the term was committed, and were not read closed since.
    open: BTreeSet<SessionId>,
    /// Requests that wait until the session of their taker is read.
    unread: Vec<Pending>,
}

impl Takers {
    /// Gives a request back that can be decided; keeps it if it has to wait until the session of its taker is read.
    pub(super) fn admit(&mut self, pending: Pending, view: &View) -> Option<Pending> {
        let Wish::Transfer { to, .. } = &pending.wish else { return Some(pending) };
        if view.sessions.is_open(to) {
            self.open.insert(SessionId::clone(to));
            return Some(pending);
        }
        // One that is closed is no taker, which is a verdict, too.
        if self.open.contains(&**to) || view.sessions.is_closed(to) {
            return Some(pending);
        }
        self.unread.push(pending);
        None
    }

    /// Takes what the elector read. What waited for that is queued. A taker that is closed is closed for all that is decided here: what is
    /// in flight may yet give it a row.
    pub(super) fn on_view(
        &mut self,
        view: &View,
        queue: &mut VecDeque<Pending>,
        closed: &mut BTreeSet<SessionId>,
    ) {
        self.open.retain(|id| {
            let is_closed = view.sessions.is_closed(id) && !planted!("closed-taker-kept");
            if is_closed {
                closed.insert(id.clone());
            }
            !is_closed
        });
        for pending in std::mem::take(&mut self.unread) {
            if !view.sessions.is_closed(&pending.session) {
                queue.extend(self.admit(pending, view));
            }
        }
    }

    /// All whose sessions have to be read.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let awaited = self.unread.iter().filter_map(|pending| match &pending.wish {
            Wish::Transfer { to, .. } => Some(&**to),
            _ => None,
        });
        self.open.iter().chain(awaited)
    }

    /// What a request that a name goes to another actor comes to.
    pub(super) fn decide(
        &self,
        pending: &Pending,
        row: Option<Row>,
        position: Position,
        builder: &mut BatchBuilder,
    ) -> (Option<Op>, Verdict) {
        let Wish::Transfer { position: token, to, number, actor, kind } = &pending.wish else {
            return (None, Verdict::Gone);
        };
        match row {
            // Before the token is looked at: it is this request that moved it.
            Some(row) if row.is_of(to, *number) && !planted!("transfer-not-in-row") => {
                (None, Verdict::Transferred { token: row.position })
            }
            Some(row) if row.position == *token && *row.session == *pending.session && !row.is_starting() => {
                if !self.open.contains(&**to) && !planted!("transfer-to-the-closed") {
                    return (None, Verdict::Kept);
                }
                let name = pending.name.clone();
                let (request, actor, kind) = (*number, *actor, *kind);
                let session = builder.session(to);
                let op = Op::Transfer { name, position: row.position, session, request, actor, kind };
                (Some(op), Verdict::Transferred { token: position })
            }
            Some(_) if planted!("gone-taken-for-kept") => (None, Verdict::Kept),
            _ => (None, Verdict::Gone),
        }
    }
}
