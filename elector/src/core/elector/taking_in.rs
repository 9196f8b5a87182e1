//! What an elector makes of what it read.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use callsign_store::{ReadResult, StoreError, Time, ids::Token, planted};

use super::{Effect, Elector, ElectorEvent, QUEUE_LIMIT, Reading, View, Wish};
use crate::core::settings::InForce;

impl Elector {
    /// Takes in what was read; says whether something was.
    pub(super) fn on_read(
        &mut self,
        now: Time,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(result) = self.answer(now, result, effects) else { return false };
        let (limit, asked, former) = (self.queue_limit, self.wanted.nodes(), self.reading.as_ref());
        let reading = Reading::new(&self.keys, limit, asked, self.used, former, result);
        if !self.is_our_store(now, &reading, effects) {
            return false;
        }
        let node = &self.config.node;
        let (reading, is_incomplete) = self.wanted.of(node, reading);
        self.stale |= is_incomplete;
        let Some(reading) = reading else { return false };
        self.rest.has_read_all(now, reading.version);
        self.take_in(now, reading, effects);
        true
    }

    /// What the store answered. Without an answer it is asked again.
    pub(super) fn answer(
        &mut self,
        now: Time,
        result: Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) -> Option<ReadResult> {
        match result {
            Ok(result) => {
                self.read_failures = 0;
                Some(result)
            }
            Err(StoreError::Unavailable(reason)) => {
                self.read_failures += 1;
                if self.read_failures == 1 {
                    effects.push(Effect::Emit(ElectorEvent::Unavailable { reason }));
                }
                self.stale = true;
                self.back_off(now, self.read_failures);
                None
            }
        }
    }

    /// From now on the store is known to be like this.
    pub(super) fn take_in(&mut self, now: Time, reading: Reading, effects: &mut Vec<Effect>) {
        self.poll_at = now + self.config.timing.poll + self.seed.below(self.config.timing.poll / 4);
        self.await_own(now, &reading);
        if planted!("watch-without-poll") {
            self.poll_at = now + Duration::from_secs(24 * 3600);
        }
        self.watch_behind(now, &reading, effects);
        self.used = self.used.max(reading.author.unwrap_or_default());
        self.draining &= !reading.queue.is_empty();
        self.settle_join(&reading);
        self.report_corrupt(&reading, effects);
        if let Some(state) = &reading.state {
            let InForce { lock_timeout, silence, .. } = InForce::new(state.settings, &self.config.timing);
            self.silence.limit(silence, lock_timeout);
            self.configure = self.configure.filter(|change| !state.settings.has(change));
            self.silence.observe(now, state.term.epoch);
            self.handoff.observe(now, state.lock.as_ref());
            if state.lock.is_none() {
                self.queue_limit = QUEUE_LIMIT;
            }
        }
        self.reading = Some(reading);
        self.forget_barred();
        if self.leads() {
            self.led = self.epoch();
        }
        if self.own_row().is_some_and(|row| row.synced) {
            self.empty = false;
        }
        self.show(effects);
        self.finish_leaving(effects);
    }

    /// Nothing rings when an entry is taken off the queue. So an elector that waits for its own one looks again soon, and then more and more seldom.
    fn await_own(&mut self, now: Time, reading: &Reading) {
        let waits = self.session.as_ref().is_some_and(|session| reading.queued_by(session).next().is_some());
        self.own_looks = if waits { self.own_looks.saturating_add(1) } else { 0 };
        if waits {
            let pause = self.config.timing.turn * 2_u32.saturating_pow((self.own_looks - 1).min(16));
            self.poll_at = self.poll_at.min(now + pause);
        }
    }

    /// A join whose outcome was unknown was appended if the author's number has moved: nothing else moves it.
    fn settle_join(&mut self, reading: &Reading) {
        if let (Some(unsettled), Some(author)) = (self.unsettled, reading.author)
            && author >= unsettled
        {
            self.joined = Some(Token(unsettled.0));
            self.unsettled = None;
        }
    }

    fn report_corrupt(&mut self, reading: &Reading, effects: &mut Vec<Effect>) {
        let corrupt: BTreeSet<_> = reading.corrupt.iter().cloned().collect();
        for (key, error) in corrupt.difference(&self.reported) {
            let event = ElectorEvent::Corrupt { key: key.clone(), error: error.clone() };
            effects.push(Effect::Emit(event));
        }
        self.reported = corrupt;
    }

    /// Shows what was read, if it differs from what was shown.
    fn show(&mut self, effects: &mut Vec<Effect>) {
        let me = self.own_row().map(|row| row.token);
        let Some((reading, state)) = self.readable() else { return };
        let Some(lineage) = reading.lineage() else { return };
        let view = View {
            version: reading.version,
            lineage,
            term: state.term.clone(),
            lock: state.lock.clone(),
            members: state.members.clone(),
            settings: InForce::new(state.settings, &self.config.timing),
            sessions: reading.sessions.clone(),
            commit: reading.commit,
            floor: reading.floor,
            me,
            raw: Arc::clone(&reading.raw),
            queued: reading.queued_authors(),
        };
        if self.view.as_ref().is_none_or(|shown| !shown.shows_the_same(&view, &self.keys)) {
            let view = Arc::new(view);
            self.view = Some(Arc::clone(&view));
            effects.push(Effect::Emit(ElectorEvent::View(view)));
        }
    }

    fn finish_leaving(&mut self, effects: &mut Vec<Effect>) {
        let Some((reading, state)) = self.readable() else { return };
        if self.wish != Wish::Leaving {
            return;
        }
        let is_in = self.last_session.as_ref().is_some_and(|session| {
            let row = state.members.get(&session.node).is_some_and(|row| row.session == *session);
            row || reading.queue_is_longer || reading.queued_by(session).next().is_some()
        });
        if !is_in || planted!("left-before-it-is-said") {
            self.wish = Wish::Gone;
            (self.joined, self.unsettled) = (None, None);
            effects.push(Effect::Emit(ElectorEvent::Left));
        }
    }
}
