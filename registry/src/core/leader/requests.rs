//! What hosts ask for: it waits until their sessions are known to be open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use callsign_elector::elector::View;
use callsign_store::{
    ids::{Incarnation, NodeName, Position, SessionId, SessionNumber},
    planted,
};

use super::{HostState, Leader, Pending};
use crate::core::{
    host::UNANSWERED,
    input::{Effect, Tell},
    message::{Request, Verdict},
    replica::Replica,
    table::{RequestNumber, Table},
};

/// So many requests of a session wait here, at most. A host has half as many without an answer. What is decided is kept until the
/// host says that it knows: of that there is no bound.
pub(super) const WAITING: usize = 2 * UNANSWERED;

impl Leader {
    /// Takes the requests of a host.
    pub(crate) fn on_requests<T: Table>(
        &mut self,
        replica: &Replica<T>,
        session: Arc<SessionId>,
        acknowledged: RequestNumber,
        requests: Vec<Request>,
        view: &View,
        effects: &mut Vec<Effect>,
    ) {
        if self.closed.contains(&*session) || !self.makes_room(&session) {
            return;
        }
        let host = self.hosts.entry(SessionId::clone(&session)).or_insert_with(|| {
            let id = replica.sessions().get(&*session).map_or(session, |held| held.id.clone());
            HostState {
                is_open: planted!("session-not-read-open"),
                id,
                unread: Vec::new(),
                waiting: BTreeSet::new(),
                decided: BTreeMap::new(),
                acknowledged: RequestNumber(0),
            }
        });
        if acknowledged > host.acknowledged {
            host.acknowledged = acknowledged;
            host.decided = host.decided.split_off(&acknowledged);
        }
        host.is_open |= view.sessions.is_open(&host.id);
        let mut again: BTreeMap<Position, Vec<(RequestNumber, Verdict)>> = BTreeMap::new();
        for request in requests {
            // No host asks so: it is not answered.
            if !request.is_bounded() {
                continue;
            }
            // A number below is a late copy: its host knows the answer. One that waits is a copy, too.
            let is_copy = request.number < host.acknowledged || host.waiting.contains(&request.number);
            if is_copy && !planted!("request-not-deduplicated") {
                continue;
            }
            if let Some((position, verdict)) = host.decided.get(&request.number)
                && !planted!("request-not-deduplicated")
            {
                again.entry(*position).or_default().push((request.number, verdict.clone()));
                continue;
            }
            // A host asks for fewer at a time; what is passed over is asked again.
            if host.waiting.len() >= WAITING {
                continue;
            }
            host.waiting.insert(request.number);
            let pending = Pending {
                session: host.id.clone(),
                number: request.number,
                name: request.name,
                wish: request.wish,
            };
            if !host.is_open {
                host.unread.push(pending);
            } else if let Some(pending) = self.takers.admit(pending, view) {
                self.queue.push_back(pending);
            }
        }
        let session = host.id.clone();
        let is_unread = !host.unread.is_empty() && !planted!("unread-session-not-read");
        let is_taker_unread = self.takers.is_waiting() && !planted!("unread-taker-not-read");
        if is_unread || is_taker_unread {
            self.name_concerned(view, replica, effects);
            effects.push(Effect::Tell(Tell::Refresh));
        }
        for (position, verdicts) in again {
            self.send_verdicts(&session, position, &verdicts, effects);
        }
    }

    /// Each node has at most one session here that is not known to be open, the last one: it may make up more than there are.
    /// Returns whether the given session is known, or the last one.
    fn makes_room(&mut self, session: &SessionId) -> bool {
        if self.hosts.contains_key(session) {
            return true;
        }
        let least =
            SessionId { node: session.node.clone(), incarnation: Incarnation(0), number: SessionNumber(0) };
        let of_node = self.hosts.range(least..).take_while(|(id, _)| id.node == session.node);
        let unread: Vec<_> = of_node.filter(|(_, host)| !host.is_open).map(|(id, _)| id.clone()).collect();
        let is_later = |id: &SessionId| id.incarnation == session.incarnation && id.number > session.number;
        if unread.iter().any(is_later) {
            return false;
        }
        for former in &unread {
            self.hosts.remove(former);
        }
        true
    }

    /// Whether it knows that the session is open, or that it is closed.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read(&self, session: &SessionId) -> bool {
        self.closed.contains(session) || self.hosts.get(session).is_some_and(|host| host.is_open)
    }

    /// The same, of a session that a name is to go to.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read_taker(&self, session: &SessionId) -> bool {
        self.closed.contains(session) || self.takers.has_open(session)
    }

    /// Whether it knows that the session is closed: nobody waits for what it asks any more.
    #[cfg(feature = "cores")]
    pub(crate) fn has_read_closed(&self, session: &SessionId) -> bool {
        self.closed.contains(session)
    }

    /// Whether a session's request has come before: it waits, or was decided.
    #[cfg(feature = "cores")]
    pub(crate) fn has_request(&self, session: &SessionId, number: RequestNumber) -> bool {
        let is_known =
            |host: &HostState| host.waiting.contains(&number) || host.decided.contains_key(&number);
        self.hosts.get(session).is_some_and(is_known)
    }

    /// Takes what the elector read: sessions that are open, and sessions that are closed.
    pub(crate) fn on_view<T: Table>(&mut self, view: &View, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let has_closed = |id: &SessionId| view.sessions.is_closed(id);
        for host in self.hosts.values_mut() {
            if !host.is_open && view.sessions.is_open(&host.id) {
                host.is_open = true;
                let takers = &mut self.takers;
                self.queue.extend(host.unread.drain(..).filter_map(|pending| takers.admit(pending, view)));
            }
        }
        self.takers.on_view(view, &mut self.queue, &mut self.closed);
        self.hosts.retain(|id, _| {
            let is_closed = has_closed(id);
            if is_closed {
                self.closed.insert(id.clone());
            }
            !is_closed
        });
        self.queue.retain(|pending| {
            !self.closed.contains(&*pending.session) || planted!("queue-of-closed-session-kept")
        });
        for id in replica.sessions().keys() {
            if has_closed(id) {
                self.closed.insert(id.clone());
            }
        }
        // Once a later session of the node is known, nobody can ask in an old one any more, and who asks for a node that is
        // not read any more has to be read open first; but what is in flight may yet give it a row.
        let has_rows = |id: &SessionId| replica.sessions().contains_key(id);
        let is_latest =
            |id: &SessionId| view.sessions.record(&id.node).is_some_and(|r| r.number == id.number);
        let is_settled = self.is_settled();
        // A store that went back may show one open again, and then nothing of what it asks is late.
        let is_open = |id: &SessionId| view.sessions.is_open(id);
        self.closed.retain(|id| (!is_settled || has_rows(id) || is_latest(id)) && !is_open(id));
        self.name_concerned(view, replica, effects);
    }

    /// Names the nodes whose sessions decide here, and that are not read anyway: they ask, or have names, and are not
    /// members, or no longer.
    fn name_concerned<T: Table>(&mut self, view: &View, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let here = self.hosts.keys().chain(replica.sessions().keys()).chain(self.takers.sessions());
        let here = here.map(|id| &id.node);
        let concerned: BTreeSet<_> = here.filter(|node| !view.members.contains_key(*node)).cloned().collect();
        if concerned != self.concerned && !planted!("concerned-not-named") {
            self.concerned.clone_from(&concerned);
            effects.push(Effect::Tell(Tell::Concerned(concerned)));
        }
    }

    /// For a planted defect only: takes the sessions of a node for closed, because its link is down.
    pub(crate) fn presume_gone<T: Table>(&mut self, replica: &Replica<T>, node: &NodeName) {
        self.closed.extend(replica.sessions().keys().filter(|id| id.node == *node).cloned());
    }
}
