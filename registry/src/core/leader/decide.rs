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
        (Wish::Register { actor, kind }, None) => {
            let op = Op::Register {
                name: pending.name.clone(),
                session: builder.session(&pending.session),
                request: pending.number,
                actor: *actor,
                kind: *kind,
            };
            (Some(op), Verdict::Granted { token: position })
        }
        (Wish::Register { actor, kind }, Some(row)) => {
            let is_same_session = *row.session == *pending.session;
            let is_same = row.request == pending.number || (row.actor == *actor && row.kind == *kind);
            if is_same_session && is_same && !planted!("request-not-in-row") {
                (None, Verdict::Granted { token: row.position })
            } else {
                (None, Verdict::Taken { holder: row.entry() })
            }
        }
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
