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
    permitted::{NotPermitted, Permitted},
    table::Row,
};

/// An operation to commit, or none, and the verdict.
pub(super) type Ruling = (Option<Op>, Verdict);

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

    /// Whether a request waits until the session of its taker is read.
    pub(super) fn is_waiting(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether this session was read open, and not closed since.
    #[cfg(feature = "cores")]
    pub(super) fn has_open(&self, session: &SessionId) -> bool {
        self.open.contains(session)
    }

    /// All whose sessions have to be read.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let awaited = self.unread.iter().filter_map(|pending| match &pending.wish {
            Wish::Transfer { to, .. } => Some(&**to),
            _ => None,
        });
        self.open.iter().chain(awaited)
    }

    /// What a request that a name goes to another actor comes to. `None`: it is not known whether the taker may hold the name.
    pub(super) fn decide(
        &self,
        permitted: &Permitted,
        pending: &Pending,
        row: Option<Row>,
        position: Position,
        builder: &mut BatchBuilder,
    ) -> Option<Ruling> {
        let Wish::Transfer { position: token, to, number, actor, kind } = &pending.wish else {
            return Some((None, Verdict::Gone));
        };
        let decided = match row {
            // Before the token is looked at: it is this request that moved it.
            Some(row) if row.is_of(to, *number) && !planted!("transfer-not-in-row") => {
                (None, Verdict::Transferred { token: row.position })
            }
            Some(row) if row.position == *token && *row.session == *pending.session && !row.is_starting() => {
                if !self.open.contains(&**to) && !planted!("transfer-to-the-closed") {
                    return Some((None, Verdict::Kept { allowed: None }));
                }
                match permitted.check(to, &pending.name) {
                    Ok(()) => {}
                    Err(_) if planted!("take-ignores-permits") => {}
                    Err(NotPermitted::Unknown) => return None,
                    Err(NotPermitted::Others(allowed)) => {
                        return Some((None, Verdict::Kept { allowed: Some(allowed) }));
                    }
                }
                let name = pending.name.clone();
                let (request, actor, kind) = (*number, *actor, *kind);
                let session = builder.session(to);
                let op = Op::Transfer { name, position: row.position, session, request, actor, kind };
                (Some(op), Verdict::Transferred { token: position })
            }
            Some(_) if planted!("gone-taken-for-kept") => (None, Verdict::Kept { allowed: None }),
            _ => (None, Verdict::Gone),
        };
        Some(decided)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, SessionNumber};
    use callsign_transport::{Kind, Permits};

    use super::*;
    use crate::core::{name::Name, replica::Replica, table::RequestNumber};

    fn session(node: &str) -> Arc<SessionId> {
        let node = NodeName::new(node).unwrap();
        Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) })
    }

    /// "x" is held by an actor of node a under token 1; by none yet, if it is starting.
    fn replica(actor: Option<u64>) -> Replica<BTreeMap<Name, Row>> {
        let mut replica = Replica::new(NodeName::new("a").unwrap(), BTreeMap::new());
        replica.base_on_nothing();
        let (name, request): (Name, _) = ("x".into(), RequestNumber(6));
        apply(
            &mut replica,
            Op::Register { name, session: 0, request, actor, kind: Kind(7), meta: None },
            "a",
        );
        replica
    }

    fn apply(replica: &mut Replica<BTreeMap<Name, Row>>, op: Op, node: &str) {
        let mut builder = BatchBuilder::default();
        builder.session(&session(node));
        builder.push(op);
        let (end, at) = (replica.end(), replica.position().next());
        replica.apply(&builder.build(Epoch(1), Nonce(at.0), end, at));
    }

    fn asked(
        replica: &Replica<BTreeMap<Name, Row>>,
        takers: &Takers,
        asked: (&str, u64, u64),
    ) -> (Option<Op>, Verdict) {
        let mut permitted = Permitted::new(session("a").node.clone());
        permitted.linked(&session("b").node, Permits::default());
        asked_where(&permitted, replica, takers, asked).unwrap()
    }

    fn asked_where(
        permitted: &Permitted,
        replica: &Replica<BTreeMap<Name, Row>>,
        takers: &Takers,
        (of, number, token): (&str, u64, u64),
    ) -> Option<(Option<Op>, Verdict)> {
        let (position, to, number) = (Position(token), session("b"), RequestNumber(number));
        let wish = Wish::Transfer { position, to, number, actor: 9, kind: Kind(7) };
        let pending = Pending { session: session(of), number: RequestNumber(40), name: "x".into(), wish };
        takers.decide(permitted, &pending, replica.row("x"), Position(2), &mut BatchBuilder::default())
    }

    #[test]
    fn a_name_goes_to_a_session_that_is_open_from_the_one_that_holds_it_under_that_token() {
        let open = Takers { open: [SessionId::clone(&session("b"))].into(), unread: Vec::new() };
        let held = replica(Some(5));
        let (op, verdict) = asked(&held, &open, ("a", 3, 1));
        assert_eq!(verdict, Verdict::Transferred { token: Position(2) });
        // A taker that is closed, or that nobody has read open.
        assert_eq!(asked(&held, &Takers::default(), ("a", 3, 1)), (None, Verdict::Kept { allowed: None }));
        for (of, token) in [("a", 2), ("c", 1)] {
            assert_eq!(asked(&held, &open, (of, 3, token)), (None, Verdict::Gone));
        }
        assert_eq!(asked(&replica(None), &open, ("a", 3, 1)), (None, Verdict::Gone), "it is starting");

        let mut moved = held;
        apply(&mut moved, op.unwrap(), "b");
        let row = moved.row("x").unwrap();
        assert_eq!((row.position, row.actor(), row.request), (Position(2), Some(9), RequestNumber(3)));
        assert!(*row.session == *session("b") && moved.sessions().get(&*session("a")).is_none());
        // Asked again it is the same, whatever became of the taker; another one finds nothing.
        let same = Verdict::Transferred { token: Position(2) };
        assert_eq!(asked(&moved, &Takers::default(), ("a", 3, 1)), (None, same));
        assert_eq!(asked(&moved, &open, ("a", 4, 1)), (None, Verdict::Gone));
    }

    #[test]
    fn a_name_goes_only_to_a_node_whose_certificate_lets_it_hold_that() {
        let open = Takers { open: [SessionId::clone(&session("b"))].into(), unread: Vec::new() };
        let held = replica(Some(5));
        // Whatever the giver may hold.
        let mut permitted = Permitted::new(session("a").node.clone());
        permitted.own(Permits::read("names=x").unwrap());
        assert_eq!(asked_where(&permitted, &held, &open, ("a", 3, 1)), None, "the taker was never linked");
        permitted.linked(&session("b").node, Permits::read("names=shop/").unwrap());
        let stays = Verdict::Kept { allowed: Some(vec!["shop/".to_owned()].into()) };
        assert_eq!(asked_where(&permitted, &held, &open, ("a", 3, 1)), Some((None, stays)));
        // One that is closed has none by any certificate, and what is not there goes nowhere.
        let kept = Verdict::Kept { allowed: None };
        assert_eq!(asked_where(&permitted, &held, &Takers::default(), ("a", 3, 1)), Some((None, kept)));
        assert_eq!(asked_where(&permitted, &held, &open, ("a", 3, 2)), Some((None, Verdict::Gone)));
        permitted.linked(&session("b").node, Permits::read("names=x").unwrap());
        let goes = Verdict::Transferred { token: Position(2) };
        let (op, verdict) = asked_where(&permitted, &held, &open, ("a", 3, 1)).unwrap();
        assert_eq!(verdict, goes);

        // What was decided stays so.
        let mut moved = held;
        apply(&mut moved, op.unwrap(), "b");
        permitted.linked(&session("b").node, Permits::read("names=shop/").unwrap());
        assert_eq!(asked_where(&permitted, &moved, &open, ("a", 3, 1)), Some((None, goes)));
    }

    #[test]
    fn within_a_session_a_name_keeps_its_place_in_the_list_of_its_names() {
        let mut replica = replica(Some(5));
        let register = |name: &str| {
            let (name, request): (Name, _) = (name.into(), RequestNumber(8));
            Op::Register { name, session: 0, request, actor: Some(5), kind: Kind(7), meta: None }
        };
        apply(&mut replica, register("y"), "a");
        let (name, request): (Name, _) = ("x".into(), RequestNumber(9));
        let position = Position(1);
        let op = Op::Transfer { name, position, session: 0, request, actor: 6, kind: Kind(7) };
        apply(&mut replica, op, "a");
        let held = &replica.sessions()[&*session("a")];
        let mut names: Vec<_> = held.names.iter().cloned().collect();
        names.sort_unstable();
        assert_eq!(names, ["x".into(), "y".into()] as [Name; 2]);
        let digests = [("x", Position(3)), ("y", Position(2))];
        let digests = digests.map(|(name, position)| crate::core::rows::digest(name, position));
        assert_eq!(held.digest, digests[0] ^ digests[1]);
        for name in ["x", "y"] {
            let slot = replica.row(name).unwrap().slot.0 as usize;
            assert_eq!(replica.sessions()[&*session("a")].names.get(slot).map(|held| &**held), Some(name));
        }
    }
}
