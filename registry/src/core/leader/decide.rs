//! What one request comes to.

use callsign_store::{ids::Position, planted};

use super::{
    Pending,
    takers::{Ruling, Takers},
};
use crate::core::{
    log::{BatchBuilder, Op},
    message::{Verdict, Wish},
    permitted::{NotPermitted, Permitted},
    replica::Replica,
    table::{Row, Table},
};

/// What a request comes to, on the table as it is. `None`: it is not known whether the session that is to have the name may hold it.
pub(super) fn decide<T: Table>(
    replica: &Replica<T>,
    permitted: &Permitted,
    pending: &Pending,
    position: Position,
    takers: &Takers,
    builder: &mut BatchBuilder,
) -> Option<Ruling> {
    let row = replica.row(&pending.name);
    if matches!(pending.wish, Wish::Transfer { .. }) {
        return takers.decide(permitted, pending, row, position, builder);
    }
    let is_grant = matches!((&pending.wish, &row), (Wish::Register { .. }, None))
        || (matches!(pending.wish, Wish::Register { .. }) && planted!("permits-before-the-row"));
    if is_grant && (builder.is_empty() || !planted!("permits-once-a-batch")) {
        match permitted.check(&pending.session, &pending.name) {
            Ok(()) => {}
            Err(NotPermitted::Unknown) => return None,
            Err(NotPermitted::Others(allowed)) => return Some((None, Verdict::NotPermitted { allowed })),
        }
    }
    Some(decide_by_row(replica, row, pending, position, builder))
}

fn decide_by_row<T: Table>(
    replica: &Replica<T>,
    row: Option<Row>,
    pending: &Pending,
    position: Position,
    builder: &mut BatchBuilder,
) -> Ruling {
    match (&pending.wish, row) {
        // It has rules of its own, above.
        (Wish::Transfer { .. }, _) => (None, Verdict::Gone),
        (Wish::Register { .. }, None)
            if let Some(limit) = replica.other_limit(&pending.name)
                && !planted!("limit-not-checked") =>
        {
            (None, Verdict::OtherLimit { limit })
        }
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
            // All that are yet to be started have no actor: only by the request it is the same.
            let is_same_actor = row.actor() == *actor && row.kind == *kind;
            let is_same = row.request == pending.number || (actor.is_some() && is_same_actor);
            let is_taken_for_one = is_same_actor && actor.is_none() && planted!("starts-taken-for-one");
            if (is_same_session && is_same && !planted!("request-not-in-row")) || is_taken_for_one {
                (None, Verdict::Granted { token: row.position, revision: row.revision() })
            } else {
                (None, Verdict::Taken { holder: Box::new(row.holder()) })
            }
        }
        // Before the state is looked at: it is this request that changed it.
        (Wish::Bind { .. }, Some(row))
            if row.is_of(&pending.session, pending.number) && !planted!("bind-not-in-row") =>
        {
            (None, Verdict::Granted { token: row.position, revision: row.revision() })
        }
        (Wish::Bind { position: token, actor, meta }, Some(row))
            if row.position == *token && *row.session == *pending.session && row.is_starting() =>
        {
            let (name, request) = (pending.name.clone(), pending.number);
            let op = Op::Bind { name, position: row.position, request, actor: *actor, meta: meta.clone() };
            (Some(op), Verdict::Granted { token: row.position, revision: position })
        }
        (Wish::Bind { .. }, row) => {
            (None, Verdict::NotHeld { holder: row.map(|row| Box::new(row.holder())) })
        }
        // Before the token and the revision are looked at: it is this request that moved the revision.
        (Wish::Update { .. }, Some(row))
            if row.is_of(&pending.session, pending.number) && !planted!("update-not-in-row") =>
        {
            (None, Verdict::Updated { revision: row.revision() })
        }
        (Wish::Update { position: token, revision, meta }, Some(row))
            if (row.position == *token && *row.session == *pending.session && !row.is_starting())
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
        (Wish::Update { .. }, row) => {
            (None, Verdict::NotHeld { holder: row.map(|row| Box::new(row.holder())) })
        }
        (Wish::Unregister { position, why }, Some(row))
            if (row.position == *position && *row.session == *pending.session)
                || planted!("unguarded-unregister") =>
        {
            let (name, why) = (pending.name.clone(), why.clone());
            (Some(Op::Unregister { name, position: row.position, why }), Verdict::Released)
        }
        (Wish::Unregister { .. }, _) => (None, Verdict::Released),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use callsign_elector::record::LogEnd;
    use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, SessionId, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use callsign_transport::Permits;

    use crate::core::{meta::Meta, name::Name, table::RequestNumber, why::GivenUp};

    fn session(node: &str) -> Arc<SessionId> {
        let node = NodeName::new(node).unwrap();
        Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) })
    }

    /// A replica in which the session of node a registered "x" at position 1, and updated it at 2 by its request 7.
    fn replica() -> Replica<BTreeMap<Name, Row>> {
        let mut replica = Replica::new(NodeName::new("a").unwrap(), BTreeMap::new());
        replica.base_on_nothing();
        let (name, request, meta): (Name, _, _) = ("x".into(), RequestNumber(6), None);
        let register =
            Op::Register { name: name.clone(), session: 0, request, actor: Some(5), kind: Kind(7), meta };
        let (position, request) = (Position(1), RequestNumber(7));
        let update = Op::Update { name, position, request, meta: Meta::new("eu").ok() };
        for op in [register, update] {
            let mut builder = BatchBuilder::default();
            builder.session(&session("a"));
            builder.push(op);
            let (prev, at) = (replica.end(), replica.position().next());
            let batch = builder.build(Epoch(1), Nonce(at.0), prev, at);
            assert_eq!(batch.prev, LogEnd { position: Position(at.0 - 1), nonce: Nonce(at.0 - 1) });
            replica.apply(&batch);
        }
        replica
    }

    /// A leader on node a, which is linked to b.
    fn permitted(a: &str, b: &str) -> Permitted {
        let read =
            |query: &str| if query.is_empty() { Permits::default() } else { Permits::read(query).unwrap() };
        let mut permitted = Permitted::new(session("a").node.clone());
        permitted.own(read(a));
        permitted.linked(&session("b").node, read(b));
        permitted
    }

    fn asked(session: &Arc<SessionId>, number: u64, token: u64, revision: Option<u64>) -> (bool, Verdict) {
        let wish = Wish::Update { position: Position(token), revision: revision.map(Position), meta: None };
        let (session, number) = (session.clone(), RequestNumber(number));
        let pending = Pending { session, number, name: "x".into(), wish };
        // Whatever its node may hold: it is held.
        let permitted = permitted("names=y", "names=y");
        let (takers, builder) = (Takers::default(), &mut BatchBuilder::default());
        let (op, verdict) = decide(&replica(), &permitted, &pending, Position(3), &takers, builder).unwrap();
        (op.is_some(), verdict)
    }

    #[test]
    fn an_update_is_of_the_registration_and_of_the_revision_that_it_names() {
        let (a, b) = (session("a"), session("b"));
        let updated = |revision| Verdict::Updated { revision: Position(revision) };
        assert_eq!(asked(&a, 8, 1, Some(2)), (true, updated(3)));
        assert_eq!(asked(&a, 8, 1, None), (true, updated(3)));
        assert_eq!(asked(&a, 8, 1, Some(1)), (false, Verdict::Moved { revision: Position(2) }));
        for (session, token) in [(&a, 2), (&b, 1)] {
            let (changes, verdict) = asked(session, 8, token, None);
            let Verdict::NotHeld { holder: Some(holder) } = verdict else { panic!("{verdict:?}") };
            assert_eq!((changes, holder.token(), holder.raw_meta()), (false, Position(1), None));
        }
        // Asked again, it is told what it came to, though that moved the revision.
        assert_eq!(asked(&a, 7, 1, Some(1)), (false, updated(2)));
        // The number is another session's.
        assert!(matches!(asked(&b, 7, 1, None), (false, Verdict::NotHeld { .. })));
    }

    /// A replica in which the session of node a has "x" at position 1 by its request 6, while its actor is being started.
    fn starting() -> Replica<BTreeMap<Name, Row>> {
        let mut replica = Replica::new(NodeName::new("a").unwrap(), BTreeMap::new());
        replica.base_on_nothing();
        let (name, request): (Name, _) = ("x".into(), RequestNumber(6));
        let mut builder = BatchBuilder::default();
        builder.session(&session("a"));
        builder.push(Op::Register { name, session: 0, request, actor: None, kind: Kind(7), meta: None });
        replica.apply(&builder.build(Epoch(1), Nonce(1), LogEnd::default(), Position(1)));
        replica
    }

    fn decided(
        replica: &Replica<BTreeMap<Name, Row>>,
        session: &Arc<SessionId>,
        number: u64,
        wish: Wish,
    ) -> (Option<Op>, Verdict) {
        let (session, number) = (session.clone(), RequestNumber(number));
        let pending = Pending { session, number, name: "x".into(), wish };
        let (permitted, takers) = (permitted("", ""), Takers::default());
        decide(replica, &permitted, &pending, Position(3), &takers, &mut BatchBuilder::default()).unwrap()
    }

    #[test]
    fn a_start_is_the_same_again_only_for_its_own_request_and_is_bound_once_by_its_own_session() {
        let (a, b, starting) = (session("a"), session("b"), starting());
        let start = || Wish::Register { actor: None, kind: Kind(7), meta: None };
        let granted = |revision| Verdict::Granted { token: Position(1), revision: Position(revision) };
        assert_eq!(decided(&starting, &a, 6, start()), (None, granted(1)));
        for (session, number) in [(&a, 7), (&b, 6)] {
            let (op, verdict) = decided(&starting, session, number, start());
            assert!(op.is_none() && matches!(&verdict, Verdict::Taken { holder } if holder.is_starting()));
        }
        let register = Wish::Register { actor: Some(0), kind: Kind(7), meta: None };
        assert!(
            matches!(decided(&starting, &a, 7, register), (None, Verdict::Taken { .. })),
            "it is nobody's"
        );
        let update = Wish::Update { position: Position(1), revision: None, meta: None };
        assert!(matches!(decided(&starting, &a, 7, update), (None, Verdict::NotHeld { .. })));

        let bind = |position| Wish::Bind { position: Position(position), actor: 5, meta: None };
        for (session, token) in [(&b, 1), (&a, 2)] {
            assert!(matches!(decided(&starting, session, 7, bind(token)), (None, Verdict::NotHeld { .. })));
        }
        let (op, verdict) = decided(&starting, &a, 7, bind(1));
        assert_eq!(verdict, granted(3));
        let mut replica = starting;
        let mut builder = BatchBuilder::default();
        builder.push(op.unwrap());
        let end = replica.end();
        replica.apply(&builder.build(Epoch(1), Nonce(3), end, Position(3)));
        let row = replica.row("x").unwrap();
        assert_eq!((row.actor(), row.revision(), row.position), (Some(5), Position(3), Position(1)));
        // Asked again it is told the same; another one has nothing to bind.
        assert_eq!(decided(&replica, &a, 7, bind(1)), (None, granted(3)));
        assert!(matches!(decided(&replica, &a, 8, bind(1)), (None, Verdict::NotHeld { .. })));
        // Now it is a name as any other.
        assert!(matches!(decided(&replica, &a, 9, start()), (None, Verdict::Taken { .. })));
        let register = Wish::Register { actor: Some(5), kind: Kind(7), meta: None };
        assert_eq!(decided(&replica, &a, 9, register), (None, granted(3)));
    }

    #[test]
    fn a_name_is_granted_again_only_to_the_same_actor_for_the_same_messages() {
        let (replica, a, b) = (replica(), session("a"), session("b"));
        let register = |actor, kind| Wish::Register { actor: Some(actor), kind: Kind(kind), meta: None };
        let again = Verdict::Granted { token: Position(1), revision: Position(2) };
        assert_eq!(decided(&replica, &a, 9, register(5, 7)), (None, again));
        for (session, actor, kind) in [(&a, 6, 7), (&a, 5, 8), (&b, 5, 7)] {
            let (op, verdict) = decided(&replica, session, 9, register(actor, kind));
            assert!(op.is_none() && matches!(verdict, Verdict::Taken { .. }), "{verdict:?}");
        }
    }

    #[test]
    fn a_name_is_given_up_by_its_own_session_under_its_present_token() {
        let (replica, a, b) = (replica(), session("a"), session("b"));
        let unregister = |token| Wish::Unregister { position: Position(token), why: GivenUp::Unregistered };
        let (op, verdict) = decided(&replica, &a, 9, unregister(1));
        assert_eq!((op.is_some(), verdict), (true, Verdict::Released));
        for (session, token) in [(&a, 2), (&b, 1)] {
            let released = (None, Verdict::Released);
            assert_eq!(decided(&replica, session, 9, unregister(token)), released, "it is not there");
        }
    }

    #[test]
    fn a_name_is_granted_to_a_session_whose_node_may_hold_it_and_what_was_decided_stays_so() {
        let (a, b, c) = (session("a"), session("b"), session("c"));
        let decided = |permitted: &Permitted, session: &Arc<SessionId>, number, name: &str, actor| {
            let wish = Wish::Register { actor, kind: Kind(7), meta: None };
            let (session, number) = (session.clone(), RequestNumber(number));
            let pending = Pending { session, number, name: name.into(), wish };
            let result = decide(
                &replica(),
                permitted,
                &pending,
                Position(3),
                &Takers::default(),
                &mut BatchBuilder::default(),
            );
            result.map(|(op, verdict)| (op.is_some(), verdict))
        };
        let by = permitted("", "names=shop/");
        let refused = Some((false, Verdict::NotPermitted { allowed: vec!["shop/".to_owned()].into() }));
        let granted = |at| Verdict::Granted { token: Position(at), revision: Position(at) };
        for actor in [Some(5), None] {
            assert_eq!(decided(&by, &a, 1, "jobs/x", actor), Some((true, granted(3))));
            assert_eq!(decided(&by, &b, 1, "shop/x", actor), Some((true, granted(3))));
            assert_eq!(decided(&by, &b, 1, "jobs/x", actor), refused);
            assert_eq!(decided(&by, &c, 1, "shop/x", actor), None, "it was never linked");
        }
        // A node that holds the name already is told so, though its certificate does not let it hold it any more.
        let by = permitted("names=shop/", "names=shop/");
        let again = Verdict::Granted { token: Position(1), revision: Position(2) };
        assert_eq!(decided(&by, &a, 7, "x", Some(5)), Some((false, again)));
        assert!(matches!(decided(&by, &b, 1, "x", Some(5)), Some((false, Verdict::Taken { .. }))));
    }
}
