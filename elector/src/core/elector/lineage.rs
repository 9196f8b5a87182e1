//! Which store this elector knows: its lineage, and what of the registry was committed in it. A store that shows less went back.

use std::time::Duration;

use callsign_store::{Time, planted};

use super::{Doing, Effect, Elector, ElectorEvent, Handoff, Leaving, Notice, Reading, Silence, Wanted};
use crate::core::{
    lineage::{LineageId, LineageNumber},
    past::{Fact, Past},
    record::LogEnd,
    sweep::Walk,
};

/// What is known of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// The lineage that the node is in. `None` until the first reading.
    lineage: Option<LineageId>,
    /// When it was first seen.
    since: Time,
    /// Since when the node is in it, as its session said.
    told: Option<Time>,
    /// The longest lease of all that may still be trusted.
    greatest: Duration,
    /// What was committed.
    past: Past,
    /// What was known to be when the read was begun that is under way.
    asked: Past,
}

impl Known {
    /// A read begins. What is known only later it may not show.
    pub(super) fn ask(&mut self) {
        self.asked.clone_from(&self.past);
    }

    pub(super) fn past(&mut self) -> &mut Past {
        &mut self.past
    }

    pub(super) fn number(&self) -> LineageNumber {
        self.lineage.unwrap_or_default().number
    }
}

impl Elector {
    /// Compares what was read with what is known. No: nothing may be done by it, and the node's session is told.
    pub(super) fn is_our_store(&mut self, now: Time, reading: &Reading, effects: &mut Vec<Effect>) -> bool {
        // Without it nothing is decided.
        let Some(theirs) = reading.lineage else { return true };
        let known = &mut self.known;
        if known.lineage.is_none() {
            (known.since, known.past) = (now, Past::of(theirs.id.number));
        }
        let ours = *known.lineage.get_or_insert(theirs.id);
        let mut gone = Vec::new();
        if ours.is_same(theirs.id) {
            known.lineage = Some(theirs.id);
            known.greatest = known.greatest.max(theirs.greatest_lease);
            gone = known.asked.gone(|key| reading.raw(key));
            gone.extend(reading.cut_of_a_lost_log(&self.keys));
            if gone.is_empty() {
                reading.note_in(&mut known.past, &self.keys, &self.author);
                return true;
            }
        }
        effects.push(Effect::Emit(ElectorEvent::Missing { since: known.told, facts: gone }));
        self.stale = true;
        self.retry_at = now + self.config.timing.poll / 4;
        false
    }

    /// The node is in this lineage from now on, or begins again in the same one: all that was known is not so any more.
    pub(super) fn begin_lineage(&mut self, lineage: LineageId, since: Time) {
        self.forget_join();
        let timing = self.config.timing;
        self.known.lineage = Some(lineage);
        (self.known.since, self.known.told) = (since, Some(since));
        self.known.past = Past::of(lineage.number);
        self.known.asked = Past::of(lineage.number);
        (self.empty, self.led, self.last_session) = (true, None, None);
        self.handoff = Handoff::default();
        self.walk = Walk::default();
        let unlinked = self.silence.unlinked().clone();
        self.silence = Silence::of(&timing);
        for node in unlinked {
            self.silence.link(node, false);
        }
        self.wanted = Wanted::new(&self.config.node);
        self.rest.forget_deltas();
        self.watched = None;
        (self.reading, self.view) = (None, None);
        self.turns.clear();
        match &mut self.doing {
            Some((_, Doing::Commit { commits, report, .. })) => {
                (*commits, *report) = (Past::of(lineage.number), Vec::new());
            }
            // It asked for the sessions of other nodes than are wanted now. Its answer finds nobody who waits for it.
            Some((_, Doing::Read)) => self.doing = None,
            _ => {}
        }
        if self.leaving == Leaving::Said {
            self.leaving = Leaving::ToSay;
        }
        (self.stale, self.retry_at) = (true, Time::ZERO);
    }

    /// Takes what the own member knows of the log.
    pub(super) fn on_known(&mut self, notice: Notice, effects: &mut Vec<Effect>) {
        match notice {
            Notice::Applied { end } => self.on_applied(end),
            // A member of a former lineage has not heard yet that what it has is lost.
            Notice::Contradicted { lineage, key, value } if lineage >= self.known.number() => {
                let facts = vec![(key, Fact::Contradicts(value))];
                effects.push(Effect::Emit(ElectorEvent::Missing { since: self.known.told, facts }));
            }
            _ => {}
        }
    }

    fn on_applied(&mut self, end: LogEnd) {
        let key = self.keys.commit();
        self.known.past.note(key, Fact::Commit(end));
    }

    /// When the registry may be joined: while its log is of another lineage, only after nobody is left who trusts what was lost.
    pub(super) fn may_join_at(&self, reading: &Reading) -> Time {
        if !reading.is_behind_lineage() || planted!("no-wait-at-the-join") {
            return Time::ZERO;
        }
        self.known.since + self.known.greatest
    }
}
