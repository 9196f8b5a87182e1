//! What each committed transaction may do.

mod applied;

use std::{sync::Arc, time::Duration};

use callsign::cores::{Batch, Op};
use callsign_elector::record::{
    AuthorFloor, Evidence, Lock, MemberRow, MembershipEvent, PositionRecord, QueueEntry, SessionFloor,
    SessionRecord, Term,
};
use callsign_store::{
    CommitOutcome, Read, Transaction, Write,
    ids::{Incarnation, Position, Sequence, SessionId, SessionNumber},
    record::Record,
};

use super::{
    Check, Holder, Inner, NoteKind, Oracle, ProcessCore, STARTING, Span, elections::Election, states::digest,
    watches::Logged,
};
use crate::world::{CoreId, NodeId, World, newer::is_newer};

/// What was there before a transaction.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Entries of the queue that it takes off: the key, what is in it, and whether it was the first.
    consumed: Vec<(Vec<u8>, Option<QueueEntry>, bool)>,
    lock: Option<Lock>,
    /// Rows that it removes.
    removed: Vec<MemberRow>,
    /// The accused of the entries that it takes off, as they were.
    accused: Vec<Option<MemberRow>>,
    /// The records of the election, if it touches any.
    election: Option<Box<Election>>,
}

impl Oracle {
    pub(crate) fn before_commit(&mut self, world: &World, transaction: &Transaction) -> Before {
        let mut before = Before::default();
        let Some(inner) = self.inner() else { return before };
        let keys = &inner.keys.all;
        let queue = keys.queue_entries();
        let is_touched = transaction.writes.iter().any(|write| match write {
            Write::Put { key, .. } | Write::Clear(key) => {
                *key == inner.keys.term
                    || *key == inner.keys.lock
                    || *key == keys.settings()
                    || keys.member_node(key).is_some()
                    || queue.contains(key)
            }
            _ => false,
        });
        if is_touched {
            before.election = Some(Box::new(Election::read(world, &inner.keys)));
        }
        for write in &transaction.writes {
            let Write::Clear(key) = write else { continue };
            if queue.contains(key) {
                let first = callsign_store::keys::read_range(queue.clone(), 1);
                let head = world.store.read(&[first], None).ok();
                let is_first =
                    head.is_some_and(|head| head.entries(0).first().is_some_and(|(k, _)| k == key));
                let entry = world.store.get(key).and_then(|value| QueueEntry::from_value(value).ok());
                let accused = entry.as_ref().and_then(|entry| match &entry.event {
                    MembershipEvent::Down { member, .. } => world.store.get(&keys.member(member)),
                    _ => None,
                });
                before.accused.push(accused.and_then(|value| MemberRow::from_value(value).ok()));
                before.consumed.push((key.clone(), entry, is_first));
            } else if keys.member_node(key).is_some() {
                let row = world.store.get(key).and_then(|value| MemberRow::from_value(value).ok());
                before.removed.extend(row);
            }
        }
        if !before.consumed.is_empty() {
            before.lock = world.store.get(&inner.keys.lock).and_then(|value| Lock::from_value(value).ok());
        }
        before
    }

    pub(crate) fn committed(
        &mut self,
        world: &World,
        transaction: &Transaction,
        before: &Before,
        author: (NodeId, Incarnation),
        core: CoreId,
    ) {
        if self.inner().is_some_and(|inner| inner.notes.is_some()) {
            let text = describe(self.inner(), transaction, author, core);
            self.note_as(NoteKind::Commit, Some(author.0), None, || text);
        }
        let Some(inner) = self.edit() else { return };
        for write in &transaction.writes {
            match write {
                Write::Put { key, value } => inner.put(world, key, value, author, core),
                Write::Clear(key) if *key == inner.keys.lock => inner.counts.add(Check::LockClears, 1),
                Write::Clear(key) => inner.swept(world, transaction, key),
                Write::Append { value, .. } => inner.enqueued(value),
                Write::ClearRange(_) => {}
            }
        }
        if let Some(election) = &before.election {
            inner.check_election(world, election, &before.consumed, author.0);
        }
        inner.check_queue(before);
        let is_older = !world.setup.newer.contains(&author.0);
        let mut expected = transaction.checks.iter().filter_map(|check| check.expected.as_deref());
        if is_older && expected.any(is_newer) {
            inner.counts.add(Check::BuiltOnNewer, 1);
        }
    }
}

/// So many commits within this time, all of the same key, and none that is known to be done, are more than a
/// core may ask for. By key: a session may close as many others at once as died.
const HAMMERED: (u32, Duration) = (8, Duration::from_millis(100));

impl Oracle {
    /// A core asks for a commit, at this time of its node. What counts is when it asks: answers may be held back, and come
    /// together.
    pub(crate) fn commit_asked(&mut self, who: ProcessCore, transaction: &Transaction, now: Duration) {
        let Some(inner) = self.edit() else { return };
        let key = transaction.writes.iter().find_map(|write| match write {
            Write::Put { key, .. } | Write::Clear(key) => Some(key.clone()),
            Write::Append { .. } | Write::ClearRange(_) => None,
        });
        let (count, since) = inner.refused.entry(who).or_default().entry(key).or_insert((0, now));
        if now.saturating_sub(*since) >= HAMMERED.1 {
            (*count, *since) = (0, now);
        }
        *count += 1;
        if *count > HAMMERED.0 {
            let what =
                format!("{who:?} asked for {count} commits of one key in {:?}", now.saturating_sub(*since));
            inner.fail(Check::BacksOff, what);
        }
    }

    /// A session asks for a read, at this time of its node. It asks for the same again when it waits for something, or when others have
    /// written what it asked for.
    pub(crate) fn session_reads(&mut self, incarnation: Incarnation, reads: &Arc<Vec<Read>>, now: Duration) {
        let Some(inner) = self.edit() else { return };
        let (last, count, since) = inner.read.entry(incarnation).or_insert((reads.clone(), 0, now));
        if last != reads || now.saturating_sub(*since) >= HAMMERED.1 {
            (*last, *count, *since) = (reads.clone(), 0, now);
        }
        *count += 1;
        if *count > HAMMERED.0 {
            let what = format!("{incarnation:?} asked {count} times for the same {reads:?}");
            inner.fail(Check::BacksOff, what);
        }
    }

    /// A core gets the outcome of a commit.
    pub(crate) fn commit_ended(&mut self, who: ProcessCore, outcome: &CommitOutcome) {
        let Some(inner) = self.edit() else { return };
        if matches!(outcome, CommitOutcome::Committed(_)) {
            inner.refused.remove(&who);
        } else {
            inner.counts.add(Check::BacksOff, 1);
        }
    }
}

impl Inner {
    fn put(&mut self, world: &World, key: &[u8], value: &[u8], author: (NodeId, Incarnation), core: CoreId) {
        let keys = self.keys.clone();
        if let Some(position) = keys.all.log_position(key) {
            self.batch(world, position, value, author);
        } else if let Some(node) = keys.all.cluster().session_node(key) {
            let Ok(record) = SessionRecord::from_value(value) else { return };
            self.session(world, &node, record, author);
        } else if let Some(node) = keys.all.member_node(key) {
            let Ok(row) = MemberRow::from_value(value) else { return };
            self.counts.add(Check::JoinToken, 1);
            if row.empty {
                self.check_empty(world, &row);
            }
            let greatest = self.tokens.entry(node.clone()).or_insert(row.token);
            if row.token < *greatest {
                let greatest = *greatest;
                self.fail(Check::JoinToken, format!("{node} is back as {:?} after {greatest:?}", row.token));
            } else {
                *greatest = row.token;
            }
        } else if *key == keys.all.cluster().lineage() {
            self.lineage_written(world, value, author.1);
        } else if key == keys.term {
            let Ok(term) = Term::from_value(value) else { return };
            self.counts.add(Check::EpochGrows, 1);
            if term.epoch <= self.last_epoch {
                let last = self.last_epoch;
                self.fail(
                    Check::EpochGrows,
                    format!("the term is written again in {:?}, after {last:?}", term.epoch),
                );
            }
            self.last_epoch = self.last_epoch.max(term.epoch);
        } else if key == keys.floor {
            let Ok(PositionRecord(floor)) = PositionRecord::from_value(value) else { return };
            if core == CoreId::Member {
                self.cut(world, floor, author.1);
            }
        } else if *key == keys.all.cluster().session_floor() || *key == keys.all.author_floor() {
            let now = self.floors(world);
            self.counts.add(Check::NumbersGrow, 1);
            let former = std::mem::replace(&mut self.numbers, now);
            if now.0 < former.0 || now.1 < former.1 {
                self.fail(Check::NumbersGrow, format!("they go from {former:?} to {now:?}"));
            }
        }
    }

    /// The floor of session numbers and of authors' sequences, as they are in the store by now.
    fn floors(&self, world: &World) -> (SessionNumber, Sequence) {
        let keys = &self.keys.all;
        let sessions = world.store.get(&keys.cluster().session_floor());
        let authors = world.store.get(&keys.author_floor());
        (
            sessions.and_then(|value| SessionFloor::from_value(value).ok()).unwrap_or_default().0,
            authors.and_then(|value| AuthorFloor::from_value(value).ok()).unwrap_or_default().0,
        )
    }

    /// A record is cleared: if it is that of a session or of an author, it has to be of no use any more, and its number may
    /// never be used again: the sweep relies on the floor that it read, which another one may raise meanwhile.
    fn swept(&mut self, world: &World, transaction: &Transaction, key: &[u8]) {
        let (keys, floors) = (self.keys.clone(), self.floors(world));
        let floor = [keys.all.cluster().session_node(key), keys.all.author_node(key)]
            .into_iter()
            .zip([keys.all.cluster().session_floor(), keys.all.author_floor()])
            .find_map(|(node, floor)| node.map(|_| floor));
        if floor.is_some_and(|floor| !transaction.checks.iter().any(|check| check.key == floor)) {
            self.fail(Check::SweptIsOver, "a record is swept by who does not check the floor".to_owned());
        }
        if let Some(node) = keys.all.cluster().session_node(key) {
            self.counts.add(Check::Swept, 1);
            self.counts.add(Check::SweptIsOver, 1);
            self.swept.insert(node.clone());
            let record = self.sessions.get(&node);
            if record.is_none_or(|record| record.open || record.number > floors.0) {
                let what = format!("{record:?} is swept above {:?}", floors.0);
                self.fail(Check::SweptIsOver, what);
            }
        } else if let Some(node) = keys.all.author_node(key) {
            self.counts.add(Check::AuthorSwept, 1);
            self.counts.add(Check::SweptIsOver, 1);
            let is_member = world.store.get(&keys.all.member(&node)).is_some();
            let is_open = self.sessions.get(&node).is_none_or(|record| record.open);
            let last = self.authored.get(&node).copied().unwrap_or_default();
            if is_member || is_open || last > floors.1 {
                let what = format!(
                    "the author {node} is swept at {last:?}, the floor is {:?}; member: {is_member}, open: {is_open}",
                    floors.1
                );
                self.fail(Check::SweptIsOver, what);
            }
        }
    }

    /// An entry is appended to the queue.
    fn enqueued(&mut self, value: &[u8]) {
        let Ok(entry) = QueueEntry::from_value(value) else { return };
        self.counts.add(Check::AuthorOrder, 1);
        let last = self.authored.insert(entry.author.node.clone(), entry.sequence);
        if last.is_some_and(|last| last >= entry.sequence) {
            self.fail(Check::AuthorOrder, format!("{entry:?} comes after {last:?}"));
        }
        self.check_drain_said(&entry);
    }

    fn batch(&mut self, world: &World, position: Position, value: &[u8], author: (NodeId, Incarnation)) {
        let batch = match Batch::decode(value) {
            Ok(batch) => batch,
            Err(error) => return self.fail(Check::PositionGrows, format!("{position:?}: {error}")),
        };
        self.counts.add(Check::PositionGrows, 1);
        let next = Position(self.losses.lineage.after(self.position.0));
        if position != next || batch.position != position || batch.prev != self.end {
            let (end, prev) = (self.end, batch.prev);
            self.fail(
                Check::PositionGrows,
                format!("{position:?} behind {prev:?} is written when the log ends at {end:?}"),
            );
            return;
        }
        self.end = batch.end();
        self.counts.add(Check::OneCommitter, 1);
        let term = world.store.get(&self.keys.term).and_then(|value| Term::from_value(value).ok());
        let is_elected = term.as_ref().is_some_and(|term| {
            term.epoch == batch.epoch
                && term.leader.as_ref().is_some_and(|leader| leader.incarnation == author.1)
        });
        let is_opening = !self.committers.contains_key(&batch.epoch);
        let first = *self.committers.entry(batch.epoch).or_insert(author);
        if is_opening && let Some((_, end)) = self.epochs.get_mut(&batch.epoch) {
            *end = position;
        }
        if !is_elected || first != author {
            self.fail(
                Check::OneCommitter,
                format!(
                    "{author:?} commits {position:?} in {:?}, first was {first:?}, term {term:?}",
                    batch.epoch
                ),
            );
        }
        self.counted(world, position, batch.ops.contains(&Op::Reset));
        if batch.ops.contains(&Op::Reset) {
            self.check_reset(world, position);
        }
        self.check_requests(world, &batch, author.0);
        self.apply(position, &batch);
        self.watched.ends(batch.end());
    }

    fn session(
        &mut self,
        world: &World,
        node: &callsign_store::ids::NodeName,
        record: SessionRecord,
        author: (NodeId, Incarnation),
    ) {
        self.counts.add(Check::SessionRecord, 1);
        let id = SessionId { node: node.clone(), incarnation: record.incarnation, number: record.number };
        if let Some(former) = self.sessions.get(node) {
            let goes_on = former.number == record.number && former.incarnation == record.incarnation;
            let is_forward = if goes_on {
                former.open && (record.beat > former.beat || (!record.open && record.beat == former.beat))
            } else {
                !former.open && record.number > former.number
            };
            if !is_forward {
                let what = format!("{former:?} becomes {record:?}, by {author:?}");
                self.fail(Check::SessionRecord, what);
            }
        }
        if !record.open {
            let step = self.step;
            self.mourn(world, &id);
            self.closed.entry(id).or_insert(step);
            if world.setup.names[usize::from(author.0)] != *node {
                self.counts.add(Check::SessionClosed, 1);
                self.counts.add(Check::BeatRace, 1);
            }
        }
        if self.swept.remove(node) {
            self.counts.add(Check::CameBack, 1);
        }
        self.sessions.insert(node.clone(), record);
    }

    /// Every member that is synced has passed what is cut.
    fn cut(&mut self, world: &World, floor: Position, by: Incarnation) {
        self.counts.add(Check::LogCut, 1);
        self.counts.add(Check::FloorGrows, 1);
        let former = std::mem::replace(&mut self.floor, floor);
        if floor < former {
            self.fail(Check::FloorGrows, format!("it goes from {former:?} to {floor:?}"));
        }
        if self.losses.cuts_what_was_lost(by, floor, self.position) {
            return;
        }
        if floor > self.position.next() {
            let end = self.position;
            self.fail(Check::FloorSafe, format!("the log ends at {end:?} and is cut up to {floor:?}"));
        }
        for node in world.ids() {
            let name = &world.setup.names[usize::from(node)];
            let row = world.store.get(&self.keys.all.member(name));
            let row = row.and_then(|value| MemberRow::from_value(value).ok()).filter(|row| row.synced);
            let (Some(row), Some(process)) = (row, world.process(node)) else { continue };
            if row.session.incarnation != process.incarnation {
                continue;
            }
            let Some(parts) = &process.parts else { continue };
            let replica = parts.core.member().replica();
            if !replica.is_based() {
                continue;
            }
            self.counts.add(Check::FloorSafe, 1);
            let position = replica.position();
            if position.next() < floor {
                self.fail(
                    Check::FloorSafe,
                    format!("node {node} is synced at {position:?}, cut up to {floor:?}"),
                );
            }
        }
    }

    fn check_queue(&mut self, before: &Before) {
        for (at, (key, entry, is_first)) in before.consumed.iter().enumerate() {
            self.counts.add(Check::QueueOrder, 1);
            if !self.consumed.insert(key.clone()) {
                self.fail(Check::QueueOrder, format!("{entry:?} is applied twice"));
            }
            if !is_first && before.lock.is_none() {
                self.fail(Check::QueueOrder, format!("{entry:?} is applied before its turn"));
            }
            let Some(QueueEntry { event: MembershipEvent::Down { member, token, evidence, .. }, .. }) = entry
            else {
                continue;
            };
            let row = before.accused.get(at).and_then(Option::as_ref);
            let removed = before.removed.iter().find(|row| row.session.node == *member);
            if row.is_some_and(|row| row.token != *token) {
                self.counts.add(Check::StaleDown, 1);
                if let Some(row) = removed {
                    let row = format!("{row:?}");
                    self.fail(Check::StaleDown, format!("{entry:?} removes {row}"));
                }
            }
            if let Some(row) = removed {
                self.counts.add(Check::DownIsClosed, 1);
                let record = self.sessions.get(member);
                let is_closed = record.is_some_and(|record| record.has_closed(&row.session));
                if matches!(evidence, Evidence::Silent { .. }) || !is_closed {
                    let record = record.cloned();
                    self.fail(Check::DownIsClosed, format!("{entry:?} removes {member}: {record:?}"));
                }
            }
        }
    }
}

/// A line for a drawing.
fn describe(
    inner: Option<&Inner>,
    transaction: &Transaction,
    author: (NodeId, Incarnation),
    core: CoreId,
) -> String {
    let Some(keys) = inner.map(|inner| &inner.keys) else { return String::new() };
    let mut text = format!("{core:?} of node {} commits", author.0);
    for write in &transaction.writes {
        let what = match write {
            Write::Put { key, value } => {
                if let Some(position) = keys.all.log_position(key) {
                    format!(" log/{} {:?}", position.0, Batch::decode(value).map(|batch| batch.ops))
                } else if let Some(node) = keys.all.cluster().session_node(key) {
                    format!(
                        " session/{node} {:?}",
                        SessionRecord::from_value(value).map(|r| (r.number, r.beat, r.open))
                    )
                } else if let Some(node) = keys.all.member_node(key) {
                    format!(
                        " member/{node} {:?}",
                        MemberRow::from_value(value).map(|r| (r.token, r.synced, r.empty))
                    )
                } else if *key == keys.term {
                    format!(
                        " term {:?}",
                        Term::from_value(value).map(|t| (t.epoch, t.leader.map(|l| l.node)))
                    )
                } else if *key == keys.lock {
                    " lock".to_owned()
                } else if *key == keys.floor {
                    format!(" floor {:?}", PositionRecord::from_value(value))
                } else {
                    continue;
                }
            }
            Write::Clear(key) if *key == keys.lock => " unlock".to_owned(),
            Write::Clear(key) => match keys.all.member_node(key) {
                Some(node) => format!(" no member/{node}"),
                None => continue,
            },
            Write::Append { value, .. } => {
                format!(" queue {:?}", QueueEntry::from_value(value).map(|entry| entry.event))
            }
            Write::ClearRange(_) => continue,
        };
        text.push_str(&what);
    }
    text
}
