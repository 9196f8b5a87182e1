//! Getting what a replica lacks.
//!
//! From the leader's memory if it is linked; from the store's log if it is silent, does not have it, or is this
//! member itself before its epoch is open; as a snapshot if the log no longer goes back so far, or there is no base.
//! One request at a time. A source that does not answer is given up, and another one is asked.
//!
//! The chunks of a snapshot come one behind the other: so many are on their way that the donor need not wait. If one is lost, the snapshot
//! is begun anew with fewer on their way.
//!
//! Donors of snapshots are asked in an order of this member's own, so that those that join together ask different ones. The leader
//! comes last, as it has the most to do; one that gave nothing comes after all that failed less often.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use callsign_elector::{
    lineage::LineageNumber,
    record::{LogEnd, PositionRecord},
};
use callsign_store::{
    Key, Read, ReadResult, Time, Value,
    ids::{Epoch, NodeName, Position},
    keys::{RegistryKeys, read_key, read_range},
    planted,
    random::splitmix,
    record::Record,
};

use crate::core::{
    input::{Effect, OpId, Turn},
    log::{Batch, CorruptBatch, Op},
    message::{Chunk, Message},
    rank::rank,
    replica::{Applied, Replica, Staged},
    table::Table,
};

/// How long a source may take. Shorter: a busy leader is asked twice. Longer: a gap stays open behind a dead one.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(1);

/// How far behind for how long before something is asked for without a gap being proven: batches are on the way.
const LAG_ALLOWED: Duration = Duration::from_millis(150);

/// How long to wait when there is nobody to ask, unless somebody comes.
const NOBODY: Duration = Duration::from_millis(100);

/// How long to wait when what is lacking cannot be read: it takes an operator, so this only must not cost much.
const UNREADABLE: Duration = Duration::from_secs(1);

/// How many batches are read from the store's log at a time. More: they take longer to be copied than a step may take.
const LOG_READ: usize = 16;

/// Who can be asked, at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sources {
    /// The leader, if it is another node and linked.
    pub(crate) leader: Option<NodeName>,
    /// Whether this member was elected and has not opened its epoch yet: nothing is on the way to it.
    pub(crate) is_taking_over: bool,
    /// Other linked members that are synced.
    pub(crate) synced: Vec<NodeName>,
    /// Other linked members. One may have a base although its row does not say so.
    pub(crate) others: Vec<NodeName>,
    /// The epoch of the term.
    pub(crate) epoch: Epoch,
}

impl Sources {
    /// Those that have a base to give.
    fn donors(&self) -> impl Iterator<Item = &NodeName> {
        self.synced.iter().chain(&self.leader)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Nothing,
    Leader { since: Time },
    Log { id: OpId, since: Time },
    Snapshot { from: NodeName, id: u64, index: u64, since: Time, staged: Staged },
}

/// What a replica lacks, and whom it asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CatchUp {
    wanted: Position,
    wanted_since: Time,
    asked: Asked,
    /// Batches that were read from the log, and are not looked at yet.
    read: VecDeque<(Key, Position, Value)>,
    /// The leader did not have it in memory, or did not answer.
    prefer_log: bool,
    /// The log does not go back so far.
    too_far: bool,
    /// The number of the last snapshot. Drawn: a former incarnation of this node asked under others.
    last_snapshot: u64,
    /// How many chunks may be on their way, and how many may be now: fewer, if some were lost.
    most: u64,
    window: u64,
    /// In which order it asks donors.
    spread: u64,
    /// How often each donor gave nothing, so that the next is tried.
    failed: BTreeMap<NodeName, u32>,
    /// The leader and the synced members that there were when a snapshot was last wanted. Any other is asked at once.
    known: BTreeSet<NodeName>,
    /// In which lineage the log begins for who has no base: with a batch that resets, unless it is the first one.
    begin: LineageNumber,
    /// What was read of the log that does not follow what was applied.
    contradiction: Option<(Key, Value)>,
    /// Nothing is asked before: whoever was asked had nothing, and would have nothing at once again.
    not_before: Time,
}

impl CatchUp {
    /// `seed`: where the numbers of its snapshots begin. `window`: how many chunks of one may be on their way.
    pub(crate) fn new(seed: u64, window: u64) -> Self {
        Self::beginning(seed, window, LineageNumber::default())
    }

    /// As [`new`](Self::new), in a lineage.
    pub(crate) fn beginning(seed: u64, window: u64, lineage: LineageNumber) -> Self {
        Self {
            begin: lineage,
            contradiction: None,
            wanted: Position(0),
            wanted_since: Time::ZERO,
            asked: Asked::Nothing,
            read: VecDeque::new(),
            prefer_log: false,
            too_far: false,
            last_snapshot: seed,
            most: window,
            window,
            spread: seed,
            failed: BTreeMap::new(),
            known: BTreeSet::new(),
            not_before: Time::ZERO,
        }
    }

    /// The lineage that the store is in.
    pub(crate) fn begin_at(&mut self, lineage: LineageNumber) {
        self.begin = lineage;
    }

    /// What was read of the log that does not follow what was applied, once.
    pub(crate) fn take_contradiction(&mut self) -> Option<(Key, Value)> {
        self.contradiction.take()
    }

    /// The log is known to go at least to `position`.
    pub(crate) fn want(&mut self, now: Time, position: Position) {
        if position > self.wanted {
            self.wanted = position;
            self.wanted_since = now;
        }
    }

    /// How far the log is known to go: everything up to there is wanted.
    pub(crate) fn wanted(&self) -> Position {
        self.wanted
    }

    /// Whether the log was found not to go back to where the replica is.
    pub(crate) fn is_too_far(&self) -> bool {
        self.too_far
    }

    /// Whether the replica lacks nothing that is known of.
    pub(crate) fn is_complete<T: Table>(&self, replica: &Replica<T>) -> bool {
        replica.is_based() && !replica.has_next() && replica.position() >= self.wanted
    }

    /// Whether something is lacking, so that [`drive`](Self::drive) has to be called. Of a source that did not answer, and of what it was
    /// asked for, nothing is remembered once nothing is lacking.
    pub(crate) fn lacks<T: Table>(&mut self, replica: &Replica<T>) -> bool {
        if replica.is_installing() || replica.has_next() || self.is_busy() {
            // What it has may be all that it lacks.
            return false;
        }
        if !self.is_complete(replica) {
            return true;
        }
        self.asked = Asked::Nothing;
        self.prefer_log = false;
        self.too_far = false;
        self.window = self.most;
        self.failed.clear();
        self.known.clear();
        false
    }

    /// Asks for what is lacking.
    pub(crate) fn drive<T: Table>(&mut self, turn: Turn<'_>, replica: &Replica<T>, sources: &Sources) {
        let now = turn.now;
        let waiting_since = match &self.asked {
            Asked::Nothing => None,
            Asked::Leader { since } | Asked::Log { since, .. } | Asked::Snapshot { since, .. } => {
                Some(*since)
            }
        };
        if let Some(since) = waiting_since {
            let is_log = matches!(self.asked, Asked::Log { .. });
            if now < since + SOURCE_TIMEOUT || (is_log && planted!("log-waited-for-ever")) {
                return;
            }
            if matches!(self.asked, Asked::Snapshot { .. }) {
                self.narrow();
            }
            self.give_up();
        }
        let needs_snapshot = !replica.is_based() || self.too_far || planted!("replica-goes-back");
        if now < self.not_before && !(needs_snapshot && self.has_new_donor(sources)) {
            return;
        }
        let certain = needs_snapshot
            || sources.is_taking_over
            || sources.leader.is_none()
            || replica.gap_before().is_some();
        if !certain && now < self.wanted_since + LAG_ALLOWED {
            return;
        }
        if needs_snapshot {
            self.known = sources.donors().cloned().collect();
            let Some(from) = self.next_donor(sources).cloned() else {
                // Nobody has a base to give. The log may still go back to its beginning.
                return self.ask_log(turn, replica);
            };
            self.last_snapshot = splitmix(self.last_snapshot);
            let id = self.last_snapshot;
            let message = Message::SnapshotWanted { id, below: self.window };
            turn.effects.push(Effect::send(from.clone(), message));
            self.asked = Asked::Snapshot { from, id, index: 0, since: now, staged: Staged::default() };
            return;
        }
        match &sources.leader {
            Some(leader) if !self.prefer_log => {
                let message = Message::Fetch { epoch: sources.epoch, after: replica.position() };
                turn.effects.push(Effect::send(leader.clone(), message));
                self.asked = Asked::Leader { since: now };
            }
            _ => self.ask_log(turn, replica),
        }
    }

    /// Whether somebody could be asked for a snapshot who could not be when one was last wanted.
    fn has_new_donor(&self, sources: &Sources) -> bool {
        sources.donors().any(|donor| !self.known.contains(donor))
    }

    /// The next one to be asked for a snapshot.
    fn next_donor<'a>(&self, sources: &'a Sources) -> Option<&'a NodeName> {
        let failures = |donor: &NodeName| self.failed.get(donor).copied().unwrap_or_default();
        let place = |donor: &NodeName| {
            let rank = rank(donor.as_str(), self.spread);
            (failures(donor), sources.leader.as_ref() == Some(donor), rank)
        };
        // Not to wait for ever for who may never be synced: a member that was elected meanwhile, say.
        let others = sources.others.iter().filter(|_| self.too_far && sources.donors().next().is_none());
        sources.donors().chain(others).min_by_key(|donor| place(donor))
    }

    fn ask_log<T: Table>(&mut self, mut turn: Turn<'_>, replica: &Replica<T>) {
        let keys = turn.keys;
        let begin = Position(self.begin.after(0));
        let from = if replica.is_based() { replica.position().next() } else { begin };
        let range = keys.log_range(from..Position(u64::MAX));
        let reads: Vec<Read> =
            vec![read_key(keys.floor()), read_key(keys.commit()), read_range(range, LOG_READ)];
        self.asked = Asked::Log { id: turn.read(reads), since: turn.now };
    }

    fn give_up(&mut self) {
        match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Leader { .. } => self.prefer_log = true,
            Asked::Snapshot { from, .. } => self.count_failure(from),
            Asked::Log { .. } | Asked::Nothing => {}
        }
    }

    /// A chunk was lost, as far as one can tell: maybe there was no room for so many. One at a time always finds some.
    fn narrow(&mut self) {
        self.window = (self.window / 2).max(1);
    }

    fn count_failure(&mut self, donor: NodeName) {
        *self.failed.entry(donor).or_default() += u32::from(!planted!("donors-take-no-turns"));
    }

    /// The replica is the leader's own from here on: what was asked for is not wanted any more. If the log had more than the replica
    /// has, the leader could not open its epoch: whoever said so spoke of a log that was lost.
    pub(crate) fn stop(&mut self) {
        self.asked = Asked::Nothing;
        self.read.clear();
        if !planted!("leader-wants-what-was-lost") {
            self.wanted = Position(0);
        }
    }

    /// A node cannot be asked any more.
    pub(crate) fn lost(&mut self, node: &NodeName, leader: Option<&NodeName>) {
        let asked = match &self.asked {
            Asked::Snapshot { from, .. } => from == node,
            Asked::Leader { .. } => leader == Some(node),
            Asked::Nothing | Asked::Log { .. } => false,
        };
        if asked {
            self.give_up();
        }
    }

    /// The term changed: the new leader may have what the old one did not.
    pub(crate) fn term_changed(&mut self) {
        self.prefer_log = false;
        if matches!(self.asked, Asked::Leader { .. }) {
            self.asked = Asked::Nothing;
        }
    }

    /// The leader answered from its memory.
    pub(crate) fn on_fetched<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        epoch: Epoch,
        batches: &[(Position, Bytes)],
    ) -> Result<Applied, CorruptBatch> {
        if !matches!(self.asked, Asked::Leader { .. }) {
            return Ok(Applied::default());
        }
        self.asked = Asked::Nothing;
        self.prefer_log = batches.is_empty();
        let result = offer_all(replica, epoch, batches);
        if let Err(corrupt) = &result {
            self.not_before = now + UNREADABLE;
            // The log says whether it is the leader's word or what was applied that is not so any more.
            self.prefer_log |= matches!(corrupt, CorruptBatch::Diverged { .. });
        }
        result
    }

    /// The store's log was read. Begins to apply it, so many names at a time: see [`proceed`](Self::proceed).
    pub(crate) fn on_log<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        id: OpId,
        result: Option<&ReadResult>,
        keys: &RegistryKeys,
        names: usize,
    ) -> Result<Applied, CorruptBatch> {
        let Asked::Log { id: asked, since } = self.asked else { return Ok(Applied::default()) };
        if asked != id {
            return Ok(Applied::default());
        }
        self.asked = Asked::Nothing;
        // Unless it brings the replica on, nothing else would come of reading it again at once.
        self.not_before = now + NOBODY;
        let Some(result) = result else { return Ok(Applied::default()) };
        let corrupt = |e: callsign_store::record::CorruptRecord| CorruptBatch::Malformed(e.to_string());
        let floor = result.value(0).map(|v| PositionRecord::from_value(v)).transpose().map_err(corrupt)?;
        let floor = floor.map_or(Position(1), |floor| floor.0);
        let commit = result.value(1).map(|v| LogEnd::from_value(v)).transpose().map_err(corrupt)?;
        let commit = commit.unwrap_or_default().position;
        self.want(now, commit);
        if self.wanted_since < since {
            // Whoever said before that there is more spoke of a log that was lost.
            self.wanted = commit;
        }
        let mut is_based_now = false;
        if !replica.is_based() {
            if floor > Position(self.begin.after(0)) {
                self.too_far = true;
                return Ok(Applied::default());
            }
            if self.begin == LineageNumber::default() {
                replica.base_on_nothing();
                is_based_now = true;
            }
        }
        if replica.is_based() && floor > replica.position().next() && commit > replica.position() {
            self.too_far = true;
            return Ok(Applied::default());
        }
        let at = |key| keys.log_position(key).filter(|at| *at <= commit);
        let entries =
            result.entries(2).iter().map_while(|(key, value)| Some((key.clone(), at(key)?, value.clone())));
        self.read = entries.collect();
        let mut applied = self.proceed(now, replica, names)?;
        // From an empty table one can tell that a name is free, which what waits for one has not been told.
        applied.is_of_many |= is_based_now && !planted!("base-on-nothing-not-told");
        Ok(applied)
    }

    /// Whether there is something to [`proceed`](Self::proceed) with.
    pub(crate) fn is_busy(&self) -> bool {
        !self.read.is_empty()
    }

    /// Goes on with what was read of the log: applies batches until so many names are changed.
    pub(crate) fn proceed<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        names: usize,
    ) -> Result<Applied, CorruptBatch> {
        let (mut applied, mut changed) = (Applied::default(), 0);
        while changed < names
            && let Some((_, at, value)) = self.read.front()
        {
            let follows = |batch: &Batch| {
                if replica.is_based() {
                    return replica.is_next(batch);
                }
                // The first one of its lineage needs none before it.
                Ok(batch.ops.contains(&Op::Reset))
            };
            let batch = match Batch::decode_at(*at, value).and_then(|b| Ok((follows(&b)?, b))) {
                Ok((true, batch)) => batch,
                // Another source was quicker, or it is not the log that this replica has the beginning of.
                Ok((false, _)) => {
                    self.read.clear();
                    break;
                }
                // What was applied before it has to be told. The next time begins with this one.
                Err(_) if changed > 0 => break,
                Err(corrupt) => {
                    self.not_before = now + UNREADABLE;
                    if matches!(corrupt, CorruptBatch::Diverged { .. }) {
                        self.contradiction = self.read.pop_front().map(|(key, _, value)| (key, value));
                    }
                    self.read.clear();
                    return Err(corrupt);
                }
            };
            self.read.pop_front();
            changed += batch.ops.len().max(1);
            replica.applies_late();
            applied.merge(replica.apply(&batch));
            self.not_before = now;
        }
        Ok(applied)
    }

    /// A chunk of a snapshot arrived.
    pub(crate) fn on_chunk<T: Table>(
        &mut self,
        now: Time,
        replica: &mut Replica<T>,
        from: &NodeName,
        chunk: ArrivedChunk,
        effects: &mut Vec<Effect>,
    ) -> Result<(), CorruptBatch> {
        let Asked::Snapshot { from: asked, id, index, since, staged } = &mut self.asked else {
            return Ok(());
        };
        let is_of_it = (asked == from && *id == chunk.id) || planted!("chunk-of-another-snapshot");
        if !is_of_it || chunk.index < *index {
            return Ok(());
        }
        if chunk.index > *index {
            // They come in order: there was no room for the one between. What is on its way still has to go.
            self.not_before = now + NOBODY;
            self.narrow();
            self.give_up();
            return Ok(());
        }
        if let Err(corrupt) = staged.take(chunk.chunk) {
            self.not_before = now + NOBODY;
            self.give_up();
            return Err(corrupt);
        }
        let Some((epoch, end)) = chunk.end else {
            *index = chunk.index + 1;
            if !planted!("snapshot-timed-as-a-whole") {
                *since = now;
            }
            let message = Message::SnapshotNext { id: *id, below: *index + self.window };
            effects.push(Effect::send(from.clone(), message));
            return Ok(());
        };
        let complete = std::mem::take(staged);
        self.asked = Asked::Nothing;
        // Its donor has not heard yet that the store went back.
        let is_of_ours = !self.begin.is_after(end.position.0);
        if is_of_ours && replica.install(complete, epoch, end) {
            self.too_far = false;
        } else {
            self.count_failure(from.clone());
            self.not_before = now + NOBODY;
        }
        Ok(())
    }

    /// The one asked for a snapshot has none.
    pub(crate) fn on_refused(&mut self, now: Time, from: &NodeName, id: u64) {
        if matches!(&self.asked, Asked::Snapshot { from: asked, id: ours, .. } if asked == from && *ours == id)
        {
            self.not_before = now + NOBODY;
            self.give_up();
        }
    }
}

/// A chunk as it came over the link.
pub(crate) struct ArrivedChunk {
    pub(crate) id: u64,
    pub(crate) index: u64,
    pub(crate) chunk: Chunk,
    pub(crate) end: Option<(Epoch, LogEnd)>,
}

/// Offers batches that follow one another.
pub(crate) fn offer_all<T: Table>(
    replica: &mut Replica<T>,
    epoch: Epoch,
    batches: &[(Position, Bytes)],
) -> Result<Applied, CorruptBatch> {
    replica.applies_late();
    let mut applied = Applied::default();
    for (nth, (position, batch)) in batches.iter().enumerate() {
        // A batch keeps the epoch of its author; `epoch` is that of the leader who passed it on.
        let one = match replica.offer(epoch, *position, batch) {
            Ok(one) => one,
            // What was applied before it has to be told. It is missing then, and asked for again.
            Err(_) if nth > 0 => break,
            Err(corrupt) => return Err(corrupt),
        };
        applied.merge(one);
    }
    Ok(applied)
}
