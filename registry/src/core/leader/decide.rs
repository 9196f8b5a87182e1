//! What one request comes to.

use callsign_store::{ids::Position, planted};

use super::Pending;
use crate::core::{
    log::{BatchBuilder, Op},
    message::{Verdict, Wish},
    replica::Replica,
    table::Table,
};

/// What a request comes to, on the table as it is: an operation to commit, or none, and the verdict.
pub(super) fn decide<T: Table>(
    replica: &Replica<T>,
    pending: &Pending,
    position: Position,
    builder: &mut BatchBuilder,
) -> (Option<Op>, Verdict) {
    let row = replica.row(&pending.name);
    match (&pending.wish, row) {
        (Wish::Register { actor, kind, meta }, None) => {
            let op = Op::Register {
                name: pending.name.clone(),
                session: builder.session(&pending.session),
                request: pending.number,
                actor: *actor,
                kind: *kind,
                meta: meta.clone(),
            };
            (Some(op), Verdict::Granted { token: position, revision: position })
        }
        (Wish::Register { actor, kind, .. }, Some(row)) => {
            let is_same_session = *row.session == *pending.session;
            let is_same = row.request == pending.number || (row.actor == *actor && row.kind == *kind);
            if is_same_session && is_same && !planted!("request-not-in-row") {
                (None, Verdict::Granted { token: row.position, revision: row.revision() })
            } else {
                (None, Verdict::Taken { holder: row.holder() })
            }
        }
        // Before the token and the revision are looked at: it is this request that moved the revision.
        (Wish::Update { .. }, Some(row))
            if row.is_of(&pending.session, pending.number) && !planted!("update-not-in-row") =>
        {
            (None, Verdict::Updated { revision: row.revision() })
        }
        (Wish::Update { position: token, revision, meta }, Some(row))
            if (row.position == *token && *row.session == *pending.session)
                || planted!("update-of-any-token") =>
        {
            let is_moved = revision.is_some_and(|revision| revision != row.revision());
            if is_moved && !planted!("update-of-any-revision") {
                return (None, Verdict::Moved { revision: row.revision() });
            }
            let (name, request) = (pending.name.clone(), pending.number);
            let op = Op::Update { name, position: row.position, request, meta: meta.clone() };
            (Some(op), Verdict::Updated { revision: position })
        }
        (Wish::Update { .. }, row) => (None, Verdict::NotHeld { holder: row.map(|row| row.holder()) }),
        (Wish::Unregister { .. }, Some(row)) if planted!("unguarded-unregister") => {
            (Some(Op::Unregister { name: pending.name.clone(), position: row.position }), Verdict::Released)
        }
        (Wish::Unregister { position }, Some(row))
            if row.position == *position && *row.session == *pending.session =>
        {
            (Some(Op::Unregister { name: pending.name.clone(), position: *position }), Verdict::Released)
        }
        (Wish::Unregister { .. }, _) => (None, Verdict::Released),
    }
}
