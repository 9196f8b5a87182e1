//! What readers are given is what the log says under their filters, or they are told that it is not.

use std::{collections::BTreeMap, sync::Arc};

use callsign::{
    Change, Entry, WatchEvent, Why,
    cores::{Answer, Effect, Given, RegistryEffect},
};
use callsign_elector::record::LogEnd;
use callsign_store::ids::{NodeName, Position};

use super::{Check, Holder, Inner, Oracle};
use crate::world::{Filter, NameId, NodeId, Parts, number_of};

/// One change of a name, as the log says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Logged {
    pub(super) position: Position,
    pub(super) name: NameId,
    /// Where it was changed last before, and where it was held.
    was: Option<(Position, NodeName)>,
    pub(super) now: Option<(Position, NodeName)>,
    pub(super) why: Why,
}

impl Logged {
    pub(super) fn new(
        position: Position,
        name: NameId,
        (was, now): (Option<&Holder>, Option<&Holder>),
        why: Why,
    ) -> Self {
        let of = |holder: &Holder| (holder.revision, holder.session.node.clone());
        Self { position, name, was: was.map(of), now: now.map(of), why }
    }

    fn is_for(&self, filter: &Filter) -> bool {
        [&self.was, &self.now].into_iter().flatten().any(|(_, node)| filter.has(self.name, node))
    }
}

/// Names, and where each was changed last.
type Known = BTreeMap<NameId, Position>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// It is given the present state.
    Walk,
    /// It is given each change.
    Live,
}

/// A reader's knowledge, and what it has to be given next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // each is true by itself
pub struct Judged {
    filter: Filter,
    mode: Mode,
    /// It begins there, and knows what was so then.
    from: Option<Position>,
    knows: Known,
    /// It was given everything up to there.
    at: Position,
    /// Where the change is that it was given last, and what else has to be given of that position.
    due: (Position, Vec<Logged>),
    /// It was told that it misses something; and what it missed last may be at the position of the next change.
    is_lagging: bool,
    is_unsure: bool,
    is_lapsed: bool,
    /// What the log says up to where the reader was last, by how many of its changes; and of which log.
    truth: BTreeMap<NameId, (Position, NodeName)>,
    folded: (u64, usize),
}

impl Judged {
    /// Of a reader that begins now, with nothing or at a position.
    pub(crate) fn new(filter: Filter, from: Option<Position>) -> Self {
        Self {
            filter,
            mode: if from.is_some() { Mode::Live } else { Mode::Walk },
            from,
            knows: Known::new(),
            at: from.unwrap_or_default(),
            due: (Position(0), Vec::new()),
            is_lagging: false,
            is_unsure: false,
            is_lapsed: false,
            truth: BTreeMap::new(),
            folded: (0, 0),
        }
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Up to where it was given everything.
    pub(crate) fn position(&self) -> Option<Position> {
        (self.mode == Mode::Live && self.at > Position(0)).then_some(self.at)
    }

    /// What the log says under the filter up to a position.
    fn truth_at(&mut self, log: &ChangeLog, position: Position) -> Known {
        let changes = &log.changes;
        let is_ahead = changes.get(..self.folded.1).and_then(|done| done.last());
        if self.folded.0 != log.number || is_ahead.is_some_and(|last| last.position > position) {
            (self.truth, self.folded) = (BTreeMap::new(), (log.number, 0));
        }
        while let Some(next) = changes.get(self.folded.1).filter(|next| next.position <= position) {
            match &next.now {
                Some(now) => self.truth.insert(next.name, now.clone()),
                None => self.truth.remove(&next.name),
            };
            self.folded.1 += 1;
        }
        let is_for = |(name, (_, node)): &(&NameId, &(Position, NodeName))| self.filter.has(**name, node);
        self.truth.iter().filter(is_for).map(|(name, (revision, _))| (*name, *revision)).collect()
    }

    /// Those of the log between two positions, the second one included, that it has to be given.
    fn between<'a>(
        &'a self,
        log: &'a ChangeLog,
        behind: Position,
        to: Position,
    ) -> impl Iterator<Item = &'a Logged> + 'a {
        let changes = &log.changes;
        let begin = changes.partition_point(|change| change.position <= behind);
        let end = changes.partition_point(|change| change.position <= to);
        changes[begin..end.max(begin)].iter().filter(|change| change.is_for(&self.filter))
    }

    fn of(&self, entry: Option<&Entry>, name: NameId) -> Option<Position> {
        entry.filter(|entry| self.filter.has(name, entry.node())).map(Entry::revision)
    }

    /// Takes an event. An error: it must not be given now.
    fn take(
        &mut self,
        (log, replica): (&ChangeLog, Position),
        given: &Given,
        rows: &BTreeMap<NameId, (Position, NodeName)>,
    ) -> Result<(), String> {
        // While its node has less than that, it waits, and does not know yet what was so then.
        if let Some(from) = self.from.take_if(|from| *from <= replica) {
            self.knows = self.truth_at(log, from);
        }
        match &given.event {
            WatchEvent::Present { name, entry } => {
                let (name, revision) = (number_of(name), entry.revision());
                if self.mode != Mode::Walk {
                    return Err(format!("n{name} is told as present, amid changes"));
                }
                if rows.get(&name).map(|(at, _)| *at) != Some(revision)
                    || !self.filter.has(name, entry.node())
                {
                    return Err(format!("n{name} at {revision:?} is not present"));
                }
                self.knows.insert(name, revision);
            }
            WatchEvent::Current { position } => {
                let present = rows.iter().filter(|(name, (_, node))| self.filter.has(**name, node));
                let present: Known = present.map(|(name, (revision, _))| (*name, *revision)).collect();
                // A member that takes the seat may pass over a log that it is about to reset, in the same step.
                if self.knows != present || *position > replica {
                    return Err(format!("is current at {position:?}, with {:?} of {present:?}", self.knows));
                }
                (self.mode, self.at, self.due) = (Mode::Live, *position, (*position, Vec::new()));
                (self.is_lagging, self.is_unsure) = (false, false);
            }
            WatchEvent::Change(change) => self.take_change(log, change)?,
            WatchEvent::Lagged => (self.is_lagging, self.is_unsure) = (true, true),
            WatchEvent::Reset => {
                (self.mode, self.knows, self.due) = (Mode::Walk, Known::new(), (Position(0), Vec::new()));
                (self.is_lagging, self.is_unsure, self.from) = (false, false, None);
            }
            WatchEvent::Lapsed | WatchEvent::Resumed => {
                let lapses = given.event == WatchEvent::Lapsed;
                if std::mem::replace(&mut self.is_lapsed, lapses) == lapses {
                    return Err("is told twice how the session is".to_owned());
                }
            }
            _ => {}
        }
        given.passes.map_or(Ok(()), |position| self.pass(log, position))
    }

    fn take_change(&mut self, log: &ChangeLog, change: &Change) -> Result<(), String> {
        let name = number_of(&change.name);
        let (was, now) = (self.of(change.was.as_ref(), name), self.of(change.now.as_ref(), name));
        let known = match now {
            Some(now) => self.knows.insert(name, now),
            None => self.knows.remove(&name),
        };
        if self.mode == Mode::Walk && change.why == Why::Unknown {
            return Ok(());
        }
        if self.mode == Mode::Live && known != was {
            return Err(format!("{change:?} does not follow what it knows: {known:?}"));
        }
        if change.why == Why::Unknown {
            let is_told = self.is_lagging || self.mode == Mode::Walk;
            self.is_unsure = true;
            return if is_told { Ok(()) } else { Err(format!("{change:?}, and it does not lag")) };
        }
        self.is_lagging = false;
        let at = change.position;
        let is_it = |logged: &Logged| {
            let revision = |of: &Option<(Position, NodeName)>| of.as_ref().map(|(revision, _)| *revision);
            (logged.name, &logged.why) == (name, &change.why)
                && revision(&logged.was) == change.was.as_ref().map(Entry::revision)
                && revision(&logged.now) == change.now.as_ref().map(Entry::revision)
        };
        if self.mode == Mode::Walk {
            let is_logged = self.between(log, Position(at.0 - 1), at).any(is_it);
            return if is_logged { Ok(()) } else { Err(format!("{change:?} is not in the log")) };
        }
        let (last, due) = &self.due;
        if at > *last.max(&self.at) {
            let behind = *last.max(&self.at);
            let skipped = self.between(log, behind, Position(at.0 - 1)).next().or(due.first());
            if let Some(skipped) = skipped.filter(|_| !self.is_unsure) {
                return Err(format!("{change:?} comes, and {skipped:?} did not"));
            }
            let due = self.between(log, Position(at.0 - 1), at).cloned().collect();
            self.due = (at, due);
        } else if at < *last.max(&self.at) {
            return Err(format!("{change:?} comes behind {last:?}"));
        }
        match self.due.1.iter().position(is_it) {
            Some(nth) => _ = self.due.1.remove(nth),
            None => return Err(format!("{change:?} is not in the log, or comes twice: {:?}", self.due)),
        }
        Ok(())
    }

    /// Everything up to there was given.
    fn pass(&mut self, log: &ChangeLog, position: Position) -> Result<(), String> {
        let (last, due) = &self.due;
        let skipped = self.between(log, (*last).max(self.at), position).next().or(due.first());
        if let Some(skipped) = skipped.filter(|_| !self.is_unsure) {
            return Err(format!("{position:?} is passed, and {skipped:?} was not given"));
        }
        let truth = self.truth_at(log, position);
        if self.knows != truth {
            return Err(format!("{position:?} is passed with {:?}, and it is {truth:?}", self.knows));
        }
        (self.at, self.due) = (position, (position, Vec::new()));
        (self.is_unsure, self.is_lagging) = (false, false);
        Ok(())
    }
}

/// What a log says, change by change. Each has another number.
#[derive(Clone, Debug, Default)]
struct ChangeLog {
    number: u64,
    /// Where each of its batches is, and of which nonce.
    ends: Vec<LogEnd>,
    changes: Vec<Logged>,
}

/// What the log says, and what those said that were lost: whoever has not noticed that still follows one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    present: ChangeLog,
    lost: Vec<Arc<ChangeLog>>,
}

impl Watched {
    pub(super) fn add(&mut self, logged: Logged) {
        self.present.changes.push(logged);
    }

    /// A batch is in the log.
    pub(super) fn ends(&mut self, end: LogEnd) {
        self.present.ends.push(end);
    }

    /// The store went back.
    pub(super) fn roll_back(&mut self, before: &Self) {
        self.lose(before.present.clone());
    }

    /// The log begins anew.
    pub(super) fn clear(&mut self) {
        self.lose(ChangeLog::default());
    }

    fn lose(&mut self, next: ChangeLog) {
        let number = self.present.number + 1;
        let lost = std::mem::replace(&mut self.present, ChangeLog { number, ..next });
        self.lost.push(Arc::new(lost));
    }

    /// What the log says, change by change, that a replica follows which ends there.
    pub(super) fn changes(&self, end: LogEnd) -> &[Logged] {
        let changes = &self.followed(end).changes;
        &changes[..changes.partition_point(|change| change.position <= end.position)]
    }

    /// The log that a replica follows which ends there: behind a batch of one nonce there is one history. The present one, if it has nothing.
    fn followed(&self, end: LogEnd) -> &ChangeLog {
        let lost = self.lost.iter().rev().map(Arc::as_ref);
        let mut logs = std::iter::once(&self.present).chain(lost);
        logs.find(|log| log.ends.iter().rev().any(|other| *other == end)).unwrap_or(&self.present)
    }
}

impl Oracle {
    /// A member's step gave something to readers, and answered callers. `waits`: readers had to wait in it.
    pub(crate) fn gives(
        &mut self,
        (node, waits): (NodeId, bool),
        parts: &mut Parts,
        effects: &[RegistryEffect],
    ) {
        let Some(inner) = self.edit() else { return };
        let mut rows = None;
        let end = parts.core.member().replica().end();
        for effect in effects {
            if let RegistryEffect::Member(Effect::Answer { answer, .. }) = effect
                && !waits
            {
                inner.check_given_first(node, parts, answer);
            }
            if !matches!(effect, RegistryEffect::Member(Effect::Given { .. })) {
                continue;
            }
            let rows = rows.get_or_insert_with(|| parts.rows());
            let Some((reader, events)) = parts.readers.given(effect) else { continue };
            for given in events {
                let check = match &given.event {
                    WatchEvent::Lagged => Check::WatchLagged,
                    WatchEvent::Reset => Check::WatchReset,
                    WatchEvent::Present { .. } | WatchEvent::Current { .. } => Check::WatchPresent,
                    _ => Check::WatchTrue,
                };
                inner.counts.add(check, 1);
                let log = inner.watched.followed(end);
                if let Err(what) = reader.judged.take((log, end.position), given, rows) {
                    let what = format!("a reader on node {node}: {what}");
                    inner.fail(if check == Check::WatchPresent { check } else { Check::WatchTrue }, what);
                }
            }
        }
    }

    /// At rest, when all readers have taken everything.
    pub(crate) fn check_readers(&mut self, node: NodeId, parts: &Parts) {
        let Some(inner) = self.edit() else { return };
        let rows = parts.rows();
        for reader in &parts.readers.all {
            let judged = &reader.judged;
            if judged.from.is_some() {
                // It was given nothing, so nothing has changed since.
                continue;
            }
            inner.counts.add(Check::WatchLast, 1);
            let present = rows.iter().filter(|(name, (_, node))| judged.filter.has(**name, node));
            let present: Known = present.map(|(name, (revision, _))| (*name, *revision)).collect();
            if judged.knows != present || judged.mode != Mode::Live {
                let what = format!("a reader on node {node} knows {:?} of {present:?}", judged.knows);
                inner.fail(Check::WatchLast, what);
            }
        }
    }
}

impl Inner {
    /// Whoever waits for a change is answered when those who watch have it.
    fn check_given_first(&mut self, node: NodeId, parts: &Parts, answer: &Answer) {
        let position = match answer {
            Answer::Registered(Ok(granted)) => granted.revision,
            Answer::Updated(Ok(position)) => *position,
            _ => return,
        };
        for reader in parts.readers.all.iter().filter(|reader| reader.is_quick()) {
            let judged = &reader.judged;
            if judged.mode != Mode::Live || judged.from.is_some() {
                continue;
            }
            self.counts.add(Check::WatchFirst, 1);
            let last = judged.at.max(judged.due.0);
            let log = self.watched.followed(parts.core.member().replica().end());
            let late = judged.between(log, last, position).next().cloned();
            if let Some(late) = late {
                let what = format!("node {node} answers for {position:?} before {late:?} is given");
                self.fail(Check::WatchFirst, what);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
