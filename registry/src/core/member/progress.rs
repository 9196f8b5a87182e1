//! What a member tells the leader of how far its replica is: at a heartbeat, if that is new, and from time to time.

use std::time::Duration;

use callsign_store::{
    Time,
    ids::{Epoch, Position},
};

use super::Member;
use crate::core::{
    input::{Effect, Now},
    message::Message,
    table::Table,
};

/// How often it is said though nothing is new. Shorter: the members of an idle registry wake their leader. Longer: a leader that
/// does not know it cuts the log later.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What was said last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Progress(Option<SaidProgress>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SaidProgress {
    epoch: Epoch,
    /// The number of the link. A leader forgets what came by one that is down.
    link: u64,
    position: Position,
    at: Time,
}

impl Progress {
    /// It may not have been sent.
    pub(super) fn is_lost(&mut self) {
        self.0 = None;
    }

    /// Says whether the leader knows it.
    fn is_known(&self, new: SaidProgress) -> bool {
        self.0.is_some_and(|old| SaidProgress { at: old.at, ..new } == old && new.at.since(old.at) < AGAIN)
    }
}

impl<T: Table> Member<T> {
    /// Tells the leader how far the replica is, unless it knows.
    pub(super) fn say_progress(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some((epoch, to)) = self.leader().filter(|(_, leader)| **leader != self.config.me) else {
            return;
        };
        let Some(link) = self.links.get(to).map(|linked| linked.number) else { return };
        let said = SaidProgress { epoch, link, position: self.replica.position(), at: now.time };
        if self.progress.is_known(said) {
            return;
        }
        effects.push(Effect::send(to.clone(), Message::Progress { epoch, position: said.position }));
        self.progress = Progress(Some(said));
    }
}
