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

/// The watch of the queue, the term and the lock that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    /// It tells of what is written later.
    pub(super) since: Version,
    /// When it was begun.
    pub(super) begun: Time,
}

impl Elector {
    /// Watches what is written later than this reading, which is about to take the place of the former one.
    pub(super) fn watch_behind(&mut self, now: Time, reading: &Reading, effects: &mut Vec<Effect>) {
        let former = self.reading.as_ref();
        let is_as_before =
            |key: &Key| former.is_some_and(|former| former.raw.get(key) == reading.raw.get(key));
        // A store that went back writes nothing that is later for a while.
        let is_good = |watched: Watched| watched.since <= reading.version && now < watched.begun + KEPT_FOR;
        if self.watched.is_some_and(is_good) && self.all_watched().iter().all(is_as_before) {
            return;
        }
        self.watch_since(now, reading.version, effects);
    }

    /// Watches what is written later than this, whatever was watched before.
    pub(super) fn watch_since(&mut self, now: Time, since: Version, effects: &mut Vec<Effect>) {
        self.watched = Some(Watched { since, begun: now });
        effects.push(Effect::Watch { keys: self.all_watched().into(), since });
    }

    fn all_watched(&self) -> [Key; 3] {
        [self.keys.queue(), self.keys.term(), self.keys.lock()]
    }
}
