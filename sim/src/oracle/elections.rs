//! What entries of the membership queue, the seat and the lock may come to.
//!
//! Judged from the records before and after each transaction, by the rules that were promised, not by the code that
//! decided: `apply` is not called here.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use callsign_elector::{
    record::{Evidence, Leader, Lock, MemberRow, MembershipEvent, PositionRecord, QueueEntry, Term},
    settings::{Preset, Settings},
};
use callsign_store::{
    Version,
    ids::{Epoch, NodeName, Position, SessionId, Token},
    record::Record,
};

use super::{Check, Inner, Keys};
use crate::world::{CoreId, NodeId, World};

/// For how long a dead leader may keep the seat while nothing else goes wrong and nobody is slow. Less than a lock is left
/// to its owner.
const DEAD_LEADER: Duration = Duration::from_millis(3500);

/// The records of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Election {
    pub(super) term: Term,
    pub(super) lock: Option<Lock>,
    pub(super) members: BTreeMap<NodeName, MemberRow>,
    settings: Settings,
    floor: Position,
    is_opened: bool,
}

impl Election {
    pub(super) fn read(world: &World, keys: &Keys) -> Self {
        let nobody =
            Term { leader: None, epoch: Epoch(0), ballot: Term::vacant().ballot, elected_at: Version(0) };
        let term = world.store.get(&keys.term).and_then(|value| Term::from_value(value).ok());
        let row = |name: &NodeName| {
            let value = world.store.get(&keys.all.member(name))?;
            MemberRow::from_value(value).ok().map(|row| (name.clone(), row))
        };
        let settings = world.store.get(&keys.all.settings());
        let settings = settings.and_then(|value| Settings::from_value(value).ok());
        let floor = world.store.get(&keys.floor).and_then(|value| PositionRecord::from_value(value).ok());
        Self {
            term: term.unwrap_or(nobody),
            lock: world.store.get(&keys.lock).and_then(|value| Lock::from_value(value).ok()),
            members: world.setup.names.iter().filter_map(row).collect(),
            settings: settings.unwrap_or_default(),
            floor: floor.map_or(Position(0), |record| record.0),
            is_opened: world.store.get(&keys.all.commit()).is_some(),
        }
    }

    fn leader(&self) -> Option<&NodeName> {
        self.term.leader.as_ref().map(|leader| &leader.node)
    }

    fn is_led_by(&self, node: &NodeName, token: Token) -> bool {
        self.term.is_led_by(node, token)
    }
}

impl Inner {
    /// A transaction that touched records of an election.
    pub(super) fn check_election(
        &mut self,
        world: &World,
        before: &Election,
        entries: &[(Vec<u8>, Option<QueueEntry>, bool)],
        author: NodeId,
    ) {
        let keys = self.keys.clone();
        let after = Election::read(world, &keys);
        let mut entry = None;
        if let [(_, Some(found), _)] = entries {
            if let Some(why) = self.staleness(before, found) {
                self.counts.add(Check::StaleEntry, 1);
                if after != *before {
                    self.fail(Check::StaleEntry, format!("{found:?}, {why}, makes {before:?} {after:?}"));
                }
            }
            if before.lock.is_some() {
                self.counts.add(Check::LockHolds, 1);
                let is_vote = matches!(
                    found.event,
                    MembershipEvent::Down { evidence: Evidence::Silent { .. }, .. }
                        | MembershipEvent::Withdraw { .. }
                        | MembershipEvent::Configure { .. }
                );
                if !is_vote && after.term.epoch == before.term.epoch {
                    self.fail(Check::LockHolds, format!("{found:?} is taken under {:?}", before.lock));
                }
            }
            entry = Some(found);
        }
        self.check_settings(before, &after, entry);
        if let Some(Leader { node, token, .. }) = &after.term.leader {
            self.counts.add(Check::LeaderIsMember, 1);
            if after.members.get(node).is_none_or(|row| row.token != *token) {
                self.fail(Check::LeaderIsMember, format!("after {entry:?}: {after:?}"));
            }
        }
        if after.term.epoch != before.term.epoch {
            self.check_seat(before, &after, entry);
            self.term_began(&after);
        }
        self.check_lock(world, before, &after, author);
    }

    fn is_open(&self, session: &SessionId) -> bool {
        self.sessions.get(&session.node).is_some_and(|record| record.is_open_as(session))
    }

    fn has_closed(&self, session: &SessionId) -> bool {
        self.sessions.get(&session.node).is_some_and(|record| record.has_closed(session))
    }

    /// Why an entry must be dropped.
    fn staleness(&self, before: &Election, entry: &QueueEntry) -> Option<&'static str> {
        let own = before.members.get(&entry.author.node);
        let is_by = |token: Token| own.is_some_and(|row| row.token == token && row.session == entry.author);
        let is_current = |epoch: Epoch| epoch == before.term.epoch;
        let is_stale = match &entry.event {
            MembershipEvent::Join { .. } => {
                let is_spent = own.is_some_and(|row| row.token.0 >= entry.sequence.0);
                return if is_spent {
                    Some("of a token that is spent")
                } else {
                    (!self.is_open(&entry.author)).then_some("of a session that is not open")
                };
            }
            MembershipEvent::Down { member, token, accuser_token, epoch, evidence } => {
                let Some(row) = before.members.get(member).filter(|row| row.token == *token) else {
                    return Some("about a join that is over");
                };
                let is_true = match evidence {
                    Evidence::Closed => self.has_closed(&row.session),
                    Evidence::Silent { .. } => before.is_led_by(member, *token),
                };
                if !is_true {
                    return Some("not true");
                }
                !is_by(*accuser_token) || !is_current(*epoch)
            }
            MembershipEvent::Withdraw { token, epoch } | MembershipEvent::Resign { token, epoch } => {
                !is_by(*token) || !is_current(*epoch)
            }
            MembershipEvent::Leave { token }
            | MembershipEvent::Drain { token }
            | MembershipEvent::Configure { token, .. } => !is_by(*token),
            MembershipEvent::Synced { token, epoch, position } => {
                if position.next() < before.floor {
                    return Some("behind the floor");
                }
                !is_by(*token) || !is_current(*epoch)
            }
        };
        is_stale.then_some("of a join or an epoch that is over")
    }

    /// Settings change by an entry that sets them, and only as far as it says. A stale one was looked at before.
    fn check_settings(&mut self, before: &Election, after: &Election, entry: Option<&QueueEntry>) {
        let (old, new) = (before.settings, after.settings);
        let expected = match entry.map(|entry| &entry.event) {
            Some(MembershipEvent::Configure { change, .. }) if old != new => {
                self.counts.add(Check::Configured, 1);
                let mut changed = old;
                changed.lock_timeout = change.lock_timeout.or(old.lock_timeout);
                changed.silence = change.silence.or(old.silence);
                changed.policy = change.policy.or(old.policy);
                changed
            }
            _ => old,
        };
        if new != expected {
            self.fail(Check::Configured, format!("{entry:?} makes {old:?} {new:?}"));
        }
    }

    /// The seat changed.
    fn check_seat(&mut self, before: &Election, after: &Election, entry: Option<&QueueEntry>) {
        let mut gives_up = false;
        if let Some(old) = before.leader() {
            let goes = entry.is_some_and(|entry| match &entry.event {
                MembershipEvent::Join { .. } | MembershipEvent::Leave { .. } => entry.author.node == *old,
                MembershipEvent::Resign { .. } | MembershipEvent::Drain { .. } => {
                    gives_up = entry.author.node == *old;
                    gives_up
                }
                // Somebody can take the seat who stays.
                MembershipEvent::Synced { .. } => {
                    gives_up = before.members.get(old).is_some_and(|row| row.draining);
                    gives_up
                }
                MembershipEvent::Down { member, evidence: Evidence::Closed, .. } => member == old,
                _ => false,
            });
            if !goes {
                gives_up = true;
                self.check_votes(before, after, old);
            }
        }
        let Some(new) = after.leader() else { return };
        let Some(row) = after.members.get(new) else { return };
        self.check_certificate_of_leader(new);
        self.counts.add(Check::Electable, 1);
        // A node whose certificate bars it may be passed over, whatever its row says.
        let is_barred = |row: &MemberRow| self.is_barred(&row.session.node);
        let may_lead = |row: &MemberRow| {
            row.synced && row.priority != 0 && self.is_open(&row.session) && !is_barred(row)
        };
        let others = after.members.iter().filter(|(node, row)| *node != new && may_lead(row)).count();
        let former = before.leader().filter(|_| gives_up);
        let stays = |(node, other): (&NodeName, &MemberRow)| {
            Some(node) != former && may_lead(other) && !other.draining
        };
        let another_stays = after.members.iter().any(stays);
        let rank = |(node, row): &(&NodeName, &MemberRow)| (Reverse(row.priority), (*node).clone());
        let best = after.members.iter().filter(|member| stays(*member)).min_by_key(rank);
        let best = best.filter(|_| after.settings.policy == Some(Preset::Ranked));
        // Without a base anywhere somebody has to begin anew.
        let is_empty = |row: &MemberRow| row.empty || self.has_closed(&row.session);
        let may_open = !before.is_opened || after.members.values().all(is_empty);
        let is_electable = self.is_open(&row.session) && (row.synced || (may_open && others == 0));
        if !is_electable {
            self.fail(
                Check::Electable,
                format!("{new} is elected by {entry:?}: {after:?}, {:?}", self.sessions),
            );
        }
        if let Some((best, best_row)) = best {
            self.counts.add(Check::RankedFirst, 1);
            // A node whose former certificate barred it may lead by its present one, and then goes first by its own rank.
            let outranks = self.is_barred(new) && rank(&(new, row)) < rank(&(best, best_row));
            if best != new && !outranks {
                self.fail(Check::RankedFirst, format!("{new} is elected by {entry:?}: {after:?}"));
            }
        }
        if row.draining {
            self.counts.add(Check::DrainerElected, 1);
            if another_stays {
                self.fail(Check::DrainerElected, format!("{new} is elected by {entry:?}: {after:?}"));
            }
        }
        if gives_up {
            self.counts.add(Check::SeatGivenUp, 1);
            if before.leader() == Some(new) && others > 0 {
                self.fail(Check::SeatGivenUp, format!("{new} has the seat again after {entry:?}: {after:?}"));
            }
        }
    }

    /// A leader lost the seat, and neither did it give it up nor is its session over.
    fn check_votes(&mut self, before: &Election, after: &Election, old: &NodeName) {
        self.counts.add(Check::Silenced, 1);
        let others = after.members.iter().filter(|(node, _)| *node != old);
        let votes = others.clone().filter_map(|(_, row)| row.accuses);
        let votes: Vec<_> = votes.filter(|vote| vote.epoch == before.term.epoch).collect();
        let with_contact = votes.iter().filter(|vote| vote.had_contact).count();
        let is_majority = 2 * with_contact > others.clone().count() || 2 * votes.len() > after.members.len();
        let has_successor = others.clone().any(|(_, row)| row.synced && self.is_open(&row.session));
        if !is_majority || !has_successor {
            self.fail(Check::Silenced, format!("{old} is deposed by {votes:?} of {after:?}"));
        }
    }

    fn term_began(&mut self, after: &Election) {
        let (step, end) = (self.step, self.position);
        self.epochs.insert(after.term.epoch, (step, end));
        self.dead_leader = None;
        if let Some(leader) = &after.term.leader
            && let Some(row) = after.members.get(&leader.node)
            && self.has_closed(&row.session)
        {
            self.dead_leader = Some(Duration::ZERO);
        }
    }

    /// A session was closed.
    pub(super) fn mourn(&mut self, world: &World, session: &SessionId) {
        let term = world.store.get(&self.keys.term).and_then(|value| Term::from_value(value).ok());
        let leader = term.and_then(|term| term.leader);
        if leader
            .is_some_and(|leader| leader.node == session.node && leader.incarnation == session.incarnation)
        {
            self.dead_leader = Some(Duration::ZERO);
        }
    }

    /// P8: while nothing else goes wrong, the seat of a closed session falls vacant without waiting for its lock. Time
    /// that passes while an operation of a session or an elector is under way, or after one wants to be woken, is the
    /// store's or the processor's, and does not count.
    pub(super) fn check_seat_of_the_dead(&mut self, world: &World, passed: Duration) {
        let Some(waited) = &mut self.dead_leader else { return };
        let is_trusted =
            |id: NodeId| world.process(id).is_some_and(|process| process.trusted(world.local(id)).is_some());
        let has_joined = |id: NodeId| world.process(id).is_some_and(|process| process.parts.is_some());
        // Where nobody has joined there is nobody to vacate it.
        let is_hindered = world.blocked != 0
            || !world.ids().any(has_joined)
            || world.nodes.iter().any(|machine| machine.outage)
            || world
                .ids()
                .any(|id| world.process(id).is_some_and(|process| process.paused) || !is_trusted(id));
        if is_hindered {
            *waited = Duration::ZERO;
            return;
        }
        let cores = [CoreId::Session, CoreId::Elector];
        let late = world.ids().map(|id| lateness(world, id, &cores)).max().unwrap_or_default();
        *waited += passed.saturating_sub(late);
        let waited = *waited;
        self.counts.add(Check::DeadLeader, 1);
        if waited > DEAD_LEADER {
            self.fail(Check::DeadLeader, format!("a dead leader has kept the seat for {waited:?}"));
        }
    }

    fn check_lock(&mut self, world: &World, before: &Election, after: &Election, author: NodeId) {
        if after.lock == before.lock {
            return;
        }
        self.counts.add(Check::LockOwner, 1);
        let since = std::mem::replace(&mut self.lock_since, world.now);
        let (epoch, leader) = (after.term.epoch, after.leader());
        let is_right = match (&before.lock, &after.lock) {
            _ if before.term.epoch != epoch => {
                after.lock.as_ref().map(|lock| (lock.epoch, &lock.owner))
                    == leader.map(|leader| (epoch, leader))
            }
            // Replaced: only after its owner had its time. Half of it, since clocks differ.
            (Some(old), Some(new)) => {
                self.taken.insert(new.nonce);
                old.epoch == new.epoch && world.now.saturating_sub(since) >= world.setup.elector.lock / 2
            }
            (None, Some(_)) => false,
            (Some(old), None) => {
                let is_over = old.epoch != epoch || leader.is_none();
                let is_done = self.committers.contains_key(&epoch) || self.taken.contains(&old.nonce);
                is_over || (is_done && old.owner == world.setup.names[usize::from(author)])
            }
            (None, None) => true,
        };
        if !is_right {
            let (old, new) = (&before.lock, &after.lock);
            self.fail(Check::LockOwner, format!("node {author} makes {old:?} {new:?} in {epoch:?}"));
        }
    }

    /// A member says that it is synced.
    pub(super) fn check_synced(&mut self, node: NodeId, epoch: Epoch, position: Position) {
        self.counts.add(Check::SyncedAtEnd, 1);
        let end = self.epochs.get(&epoch).map(|(_, end)| *end);
        if end.is_none_or(|end| position < end) && !self.is_stale(node) {
            let what =
                format!("node {node} says so in {epoch:?} at {position:?}, and lacks some up to {end:?}");
            self.fail(Check::SyncedAtEnd, what);
        }
    }

    /// A row that says that its member has no base.
    pub(super) fn check_empty(&mut self, world: &World, row: &MemberRow) {
        let Some(node) = world.setup.id(row.session.node.as_str()) else { return };
        let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else { return };
        // An entry of the queue that came back with the store says what was true when it was written.
        if parts.core.member().session() != Some(&row.session) || self.is_stale(node) {
            return;
        }
        self.counts.add(Check::EmptyHandsOff, 1);
        if let Some((name, actor, token)) = parts.core.member().holds().next() {
            let what = format!("node {node} claims {name} for actor {actor} with {token:?}: {row:?}");
            self.fail(Check::EmptyHandsOff, what);
        }
    }

    /// A `Reset` is written.
    pub(super) fn check_reset(&mut self, world: &World, position: Position) {
        self.counts.add(Check::ResetSafe, 1);
        if position == Position(1) {
            return;
        }
        let election = Election::read(world, &self.keys.clone());
        let has_base = |row: &&MemberRow| !row.empty && !self.has_closed(&row.session);
        if let Some(row) = election.members.values().find(has_base) {
            let row = format!("{row:?}");
            self.fail(Check::ResetSafe, format!("at {position:?} in spite of {row}"));
        }
    }
}

/// For how long some cores of a node have been kept waiting by others.
pub(super) fn lateness(world: &World, id: NodeId, cores: &[CoreId]) -> Duration {
    let Some(process) = world.process(id) else { return Duration::ZERO };
    let is_slow = process.ops.iter().any(|op| cores.contains(&op.core));
    if is_slow || process.parts.as_ref().is_some_and(|parts| parts.fired) {
        return Duration::MAX;
    }
    let wakes = cores.iter().filter_map(|core| process.wakes_at(*core));
    wakes.map(|at| world.local(id).saturating_sub(at)).max().unwrap_or_default()
}
