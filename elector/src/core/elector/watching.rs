//! What an elector watches: one watch at a time, which is kept until it ends.
//!
//! A watch tells of whatever is written later than it says. So one that is under way tells of all that happens behind a
//! look, too, and a look that finds everything as it was asks for no other one. Where a look finds a change, the watch has
//! ended or is about to: it is begun anew, or it would ring for what is known.

use std::time::Duration;

use callsign_store::{Key, Time, Version};

use super::{Effect, Elector, Reading};

/// For how long a watch is kept that tells nothing. Shorter: more to ask the store for. Longer: a watch that was lost
/// without a word leaves the next change to the poll for as long.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// What is being watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Watched {
    /// Nothing: the watch has ended, or it failed.
    #[default]
    Nothing,
    /// The queue, the term and the lock.
    All {
        /// It tells of what is written later.
        since: Version,
        /// When it was begun.
        begun: Time,
    },
    /// The term and the lock. Something has come into the queue, which is read soon, and more may come meanwhile.
    AllButQueue,
}

impl Elector {
    /// Watches what is written later than this reading, which is about to take the place of the former one.
    pub(super) fn watch_behind(&mut self, now: Time, reading: &Reading, effects: &mut Vec<Effect>) {
        let former = self.reading.as_ref();
        let is_as_before =
            |key: &Key| former.is_some_and(|former| former.raw.get(key) == reading.raw.get(key));
        let is_under_way = match self.watched {
            // A store that went back writes nothing that is later for a while.
            Watched::All { since, begun } => since <= reading.version && now < begun + KEPT_FOR,
            Watched::Nothing | Watched::AllButQueue => false,
        };
        if is_under_way && self.all_watched().iter().all(is_as_before) {
            return;
        }
        self.watch_since(now, reading.version, effects);
    }

    /// Watches what is written later than this, whatever was watched before.
    pub(super) fn watch_since(&mut self, now: Time, since: Version, effects: &mut Vec<Effect>) {
        self.watched = Watched::All { since, begun: now };
        effects.push(Effect::Watch { keys: self.all_watched().into(), since });
    }

    /// Watches all but the queue. If it was not the queue that has changed since the last reading, this rings at once.
    pub(super) fn watch_all_but_queue(&mut self, effects: &mut Vec<Effect>) {
        let Some(reading) = &self.reading else { return };
        let (keys, since) = (vec![self.keys.term(), self.keys.lock()], reading.version);
        self.watched = Watched::AllButQueue;
        effects.push(Effect::Watch { keys, since });
    }

    fn all_watched(&self) -> [Key; 3] {
        [self.keys.queue(), self.keys.term(), self.keys.lock()]
    }
}
