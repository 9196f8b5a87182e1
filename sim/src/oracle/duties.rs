//! What a node owes to others at certain moments: to those who are still there when it leaves, to those who ask it as a leader.

use std::time::Duration;

use callsign::cores::{Batch, Drained, Effect, Input, Message, Op, Request, Tell, Wish};
use callsign_elector::{
    elector::View,
    record::{MemberRow, MembershipEvent, QueueEntry, SessionRecord},
};
use callsign_store::{
    Transaction, Write,
    ids::{Incarnation, SessionId, SessionNumber},
    record::Record,
};

use super::{Check, Inner, Oracle};
use crate::world::{CoreId, NodeId, SimulatedProcess, World};

/// A core that is woken so often without any time passing would be woken for ever.
const SPIN: u32 = 100;

/// How long the queue is waited for by whoever leaves.
const SAY: Duration = Duration::from_secs(1);

/// What a member owes for the input that it is about to take.
#[derive(Debug)]
pub(crate) enum Owed {
    /// To have the store read, since a session asks that this leader has not read open.
    Look,
}

/// What a member is about to owe.
pub(crate) fn owed(process: &SimulatedProcess, input: &Input) -> Option<Owed> {
    let member = process.parts.as_ref()?.core.member();
    match input {
        Input::Message { message: Message::Requests { epoch, session, acknowledged, requests }, .. } => {
            let view = member.view();
            // What was asked of the leader of a lineage that is lost is dropped.
            let is_leader =
                member.is_serving() && view.term.epoch == *epoch && !view.lineage.number.is_after(epoch.0);
            let is_read =
                |session: &SessionId| view.sessions.is_open(session) || view.sessions.is_closed(session);
            let is_known = is_read(session) || member.leader_has_read(session);
            // That of whoever is to get a name has to be read, too.
            let is_unread = |wish: &Wish| match wish {
                Wish::Transfer { to, .. } if is_known => !is_read(to) && !member.leader_has_read_taker(to),
                _ => !is_known,
            };
            // A copy of what waits or was decided is answered by that.
            let is_new = |request: &&Request| {
                request.number >= *acknowledged && !member.leader_has_request(session, request.number)
            };
            let looks = requests.iter().filter(is_new).any(|request| is_unread(&request.wish));
            // A late message of a session that is gone is not looked at.
            let is_gone = member.leader_has_read_closed(session);
            (is_leader && !is_gone && looks).then_some(Owed::Look)
        }
        _ => None,
    }
}

impl Oracle {
    /// A member has taken the input, and this is what it does.
    pub(crate) fn paid(&mut self, node: NodeId, owed: &Owed, effects: &[Effect]) {
        let Some(inner) = self.edit() else { return };
        match owed {
            Owed::Look => {
                inner.counts.add(Check::Looked, 1);
                if !effects.iter().any(|effect| matches!(effect, Effect::Tell(Tell::Refresh))) {
                    let what =
                        format!("node {node} leads, is asked in a session that it has not read, and waits");
                    inner.fail(Check::Looked, what);
                }
            }
        }
    }

    /// The member of a node has left: it gave up its names and its part in everything.
    pub(crate) fn member_left(&mut self, incarnation: Incarnation, now: Duration) {
        if let Some(inner) = self.edit() {
            inner.retired.insert(incarnation, now);
        }
    }

    /// A node that leaves closes its session: its names are dropped, and the queue has said so, or could not for a second.
    pub(crate) fn closes_to_leave(&mut self, world: &World, node: NodeId) {
        let Some(process) = world.process(node) else { return };
        let (now, row) = (world.local(node), self.row_of(world, node));
        let Some(inner) = self.edit() else { return };
        inner.counts.add(Check::NamesThenSession, 1);
        let dropped = inner.retired.get(&process.incarnation);
        if dropped.is_none_or(|at| row.is_some() && now < *at + SAY) {
            let what = format!(
                "node {node} closes its session at {now:?}, dropped its names at {dropped:?}, and has {row:?}"
            );
            inner.fail(Check::NamesThenSession, what);
        }
    }

    /// The row of a process in the queue, if its session is open: others take it for a member. A row of a former lineage came back with
    /// the store: its process says nothing of it, and others find it closed or silent.
    fn row_of(&self, world: &World, node: NodeId) -> Option<MemberRow> {
        let process = world.process(node)?;
        let name = &world.setup.names[usize::from(node)];
        let row = MemberRow::from_value(world.store.get(&world.setup.keys.member(name))?).ok()?;
        let inner = self.inner()?;
        let record = inner.sessions.get(name)?;
        let is_its = row.session.incarnation == process.incarnation && record.is_open_as(&row.session);
        (is_its && !inner.losses.brought_back(&row.session)).then_some(row)
    }

    /// What a member sends or commits after it has left.
    pub(crate) fn done_by(&mut self, node: NodeId, incarnation: Incarnation, effect: &Effect) {
        if self.inner().is_none_or(|inner| !inner.retired.contains_key(&incarnation)) {
            return;
        }
        self.count(Check::Retired);
        let leads = match effect {
            Effect::Send { message, .. } => matches!(
                message,
                Message::Heartbeat { .. } | Message::Replicate { .. } | Message::ApplyNamesSnapshot { .. }
            ),
            Effect::Commit { .. } => true,
            _ => false,
        };
        if leads {
            self.fail(Check::Retired, || format!("node {node} has left, and goes on: {effect:?}"));
        }
    }

    /// A member is told that it has drained: others lead, and nobody takes it for one that could.
    pub(crate) fn drained_row(&mut self, world: &World, node: NodeId, drained: &Drained) {
        if !matches!(drained, Drained::Led { .. }) {
            return;
        }
        let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else { return };
        let name = &world.setup.names[usize::from(node)];
        let row = world.store.get(&world.setup.keys.member(name));
        let Some(row) = row.and_then(|value| MemberRow::from_value(value).ok()) else { return };
        // Of a join that this member has not heard of yet it can say nothing.
        if parts.core.member().view().me != Some(row.token) {
            return;
        }
        self.count(Check::DrainKnown);
        if !row.draining {
            self.fail(Check::DrainKnown, || {
                format!("node {node} has drained, and its row does not say so: {row:?}")
            });
        }
    }

    /// An elector says that its member has left: nothing of it is in the registry any more.
    pub(crate) fn elector_left(&mut self, world: &World, node: NodeId) {
        self.count(Check::LeaveSaid);
        if let Some(row) = self.row_of(world, node) {
            self.fail(Check::LeaveSaid, || format!("node {node} has left, and nobody was told: {row:?}"));
        }
    }

    /// A node that has failed is through with closing its session, and says whether that is confirmed.
    pub(crate) fn has_failed(
        &mut self,
        world: &World,
        node: NodeId,
        number: SessionNumber,
        is_confirmed: bool,
    ) {
        if !is_confirmed {
            return;
        }
        self.count(Check::FailedClosed);
        let Some(process) = world.process(node) else { return };
        let name = world.setup.names[usize::from(node)].clone();
        let record = self.inner().and_then(|inner| inner.sessions.get(&name));
        let id = SessionId { node: name, incarnation: process.incarnation, number };
        if record.is_some_and(|record| record.is_open_as(&id)) {
            self.fail(Check::FailedClosed, || format!("node {node} has failed, and {id:?} is open still"));
        }
    }

    /// From now on a node's session trusts itself; or not any more.
    pub(crate) fn trusts(&mut self, node: NodeId, since: Option<Duration>) {
        let Some(inner) = self.edit() else { return };
        match since {
            Some(since) => _ = inner.trusted_since.entry(node).or_insert(since),
            None => _ = inner.trusted_since.remove(&node),
        }
    }

    /// A session asks the store to close another node's, by its own clock: it has watched it for a lease, without a break.
    pub(crate) fn closes(&mut self, world: &World, node: NodeId, transaction: &Transaction) {
        for write in &transaction.writes {
            let Write::Put { key, value } = write else { continue };
            let cluster = world.setup.keys.cluster();
            let Some(of) = cluster.session_node(key) else { continue };
            let Ok(record) = SessionRecord::from_value(value) else { continue };
            let id = world.setup.id(of.as_str()).filter(|id| *id != node);
            let Some(id) = id.filter(|_| !record.open) else { continue };
            // Of a process that has ended there is proof, or nothing is lost.
            if world.process(id).is_none_or(|process| process.incarnation != record.incarnation) {
                continue;
            }
            let now = world.local(node);
            let Some(inner) = self.edit() else { return };
            inner.counts.add(Check::Watched, 1);
            let since = inner.trusted_since.get(&node).copied();
            if since.is_none_or(|since| now.saturating_sub(since) < record.lease) {
                let what =
                    format!("node {node}, trusted since {since:?}, closes {of} at {now:?}: {record:?}");
                inner.fail(Check::Watched, what);
            }
        }
    }
}

impl Inner {
    /// A core that is woken at a time that it asked for asks for a later one.
    pub(super) fn check_spin(&mut self, node: NodeId, core: CoreId) {
        let (at, times) = self.woken.entry((node, core)).or_default();
        *times = if *at == self.now { *times + 1 } else { 1 };
        *at = self.now;
        let times = *times;
        self.counts.add(Check::NoSpin, 1);
        if times > SPIN {
            self.fail(
                Check::NoSpin,
                format!("{core:?} of node {node} is woken {times} times at {:?}", self.now),
            );
        }
    }

    /// A nonce tells one batch from all others: whoever finds it knows which one was committed.
    pub(super) fn check_nonce(&mut self, node: NodeId, batch: &Batch) {
        self.counts.add(Check::NonceOnce, 1);
        let is_new = self.nonces.insert(batch.nonce);
        if !is_new {
            self.fail(
                Check::NonceOnce,
                format!("node {node} gives a second batch the same nonce: {batch:?}"),
            );
        }
    }

    /// Names of the dead are freed at the second batch at the latest, however many requests wait.
    pub(super) fn check_turns(&mut self, node: NodeId, batch: &Batch, view: &View) {
        let frees = batch.ops.iter().any(|op| matches!(op, Op::HostGone { .. } | Op::Reset | Op::Open));
        let are_waiting =
            !frees && self.truth.values().any(|holder| view.sessions.is_closed(&holder.session));
        let passed = self.passed_over.entry(node).or_default();
        *passed = if are_waiting { *passed + 1 } else { 0 };
        let passed = *passed;
        self.counts.add(Check::FreedInTurn, u64::from(are_waiting));
        if passed > 1 {
            let what =
                format!("node {node} commits {passed} batches and frees no name of the dead: {batch:?}");
            self.fail(Check::FreedInTurn, what);
        }
    }

    /// Who drains says so in each of its joins before it can be elected.
    pub(super) fn check_drain_said(&mut self, entry: &QueueEntry) {
        let incarnation = entry.author.incarnation;
        match entry.event {
            MembershipEvent::Drain { token } => _ = self.drain_said.insert(incarnation, token),
            MembershipEvent::Synced { token, .. } => {
                let Some(said) = self.drain_said.get(&incarnation).copied() else { return };
                self.counts.add(Check::DrainSaid, 1);
                if said < token {
                    let what = format!("{entry:?} comes before it is said that this join drains, too");
                    self.fail(Check::DrainSaid, what);
                }
            }
            _ => {}
        }
    }
}
