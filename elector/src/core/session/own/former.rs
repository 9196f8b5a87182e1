//! What the own key shows of before: the session of a former incarnation, which is waited for, or one that this incarnation has left
//! behind.

use callsign_store::planted;

use super::{
    Beat, Effect, MIN_EVERY, Obstacle, Session, SessionEvent, SessionRecord, Sight, Time, Value, Watch,
};

impl Session {
    /// Looks at the record of another incarnation that a read has just shown.
    pub(super) fn watch_former(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some((value, record)) = self.former_open() else {
            self.own.former = None;
            return;
        };
        let (node, incarnation) = (self.config.node.clone(), record.incarnation);
        let Some(watch) = &mut self.own.former else {
            self.own.former = Some(Watch::new(now, value, record.lease));
            self.own.obstacle = Obstacle::FormerOpen { incarnation };
            self.suspicions.suspect(now, &node, incarnation);
            return;
        };
        match watch.see(now, &value, record.lease, true) {
            Sight::Moved => {
                self.own.obstacle = Obstacle::NameInUse { incarnation };
                self.suspicions.acquit(&node, incarnation);
                effects.push(Effect::Emit(SessionEvent::NameInUse { node, incarnation }));
            }
            Sight::Unmoved | Sight::Again => {
                if !matches!(self.own.obstacle, Obstacle::NameInUse { .. }) {
                    self.own.obstacle = Obstacle::FormerOpen { incarnation };
                }
                self.suspicions.ask(now, &node, incarnation);
            }
        }
    }

    /// The stored record, if it is another's and open.
    pub(super) fn former_open(&self) -> Option<(Value, SessionRecord)> {
        let stored = self.own.stored.as_ref()?;
        let record = stored.record.as_ref().filter(|r| r.open && !self.is_mine(r) && !self.is_left(r))?;
        Some((stored.value.clone()?, record.clone()))
    }

    /// Whether it is an earlier session of this incarnation: the node began anew since, and it is to be closed at once.
    fn is_left(&self, record: &SessionRecord) -> bool {
        let is_used = record.incarnation == self.config.incarnation && record.number <= self.own.used;
        is_used && !self.is_mine(record)
    }

    pub(super) fn left_open(&self) -> Option<SessionRecord> {
        let record = self.own.stored.as_ref()?.record.as_ref()?;
        (record.open && self.is_left(record)).then(|| record.clone())
    }

    pub(super) fn close_left(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Some(record) = self.left_open() {
            self.write_own(now, SessionRecord { open: false, ..record }, None, effects);
        }
    }

    pub(super) fn wait_for_former(&mut self, now: Time, former: &SessionRecord, effects: &mut Vec<Effect>) {
        let is_dead = self.suspicions.is_dead(&self.config.node, former.incarnation);
        let is_fresh = self.own.read_at == Some(now);
        let watch = self.own.former.as_ref();
        if is_dead || (is_fresh && watch.is_some_and(Watch::is_overdue)) {
            self.write_own(now, SessionRecord { open: false, ..former.clone() }, None, effects);
        } else if is_fresh {
            let every = self.config.timing.observe_every.min(former.lease / 5).max(MIN_EVERY);
            // From the start of the read: else a store that is slow makes each gap too long, and the count begins anew
            // for ever.
            let from = if planted!("gaps-grow-with-reads") { now } else { self.own.read_from };
            let next = (from + every).max(now + MIN_EVERY);
            let overdue = watch.map(Watch::overdue_at).filter(|at| *at > now);
            self.own.due = overdue.map_or(next, |at| at.min(next));
        } else {
            self.read_own(now, effects);
        }
    }

    /// The session is of a store that went back. The next one gets a number above it.
    pub(in crate::core::session) fn forget_own(&mut self, now: Time) {
        self.own.used = self.own.used.max(self.own.number.take().unwrap_or_default());
        // What was known of it is not so any more, and what is there now is to be read.
        (self.own.stored, self.own.stale) = (None, true);
        self.own.attempts.clear();
        self.own.beat = Beat(0);
        (self.own.last_commit, self.own.due) = (None, now);
        self.own.former = None;
    }

    /// Whether the own record shows less than was known of it when the read was begun. That there is none shows nothing.
    pub(in crate::core::session) fn own_is_gone(&self, record: Option<&SessionRecord>) -> bool {
        let known = self.own.stored.as_ref().and_then(|stored| stored.record.as_ref());
        let (Some(known), Some(record)) = (known, record) else { return false };
        let is_same = (known.number, known.incarnation) == (record.number, record.incarnation);
        let is_less = record.number < known.number || (is_same && record.beat < known.beat);
        known.incarnation == self.config.incarnation && is_less
    }
}
