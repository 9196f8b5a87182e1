//! Several nodes are gone at once: those that look after the registry, above all.

use super::{Scheduler, leader};
use crate::world::{Action, World};

impl Scheduler {
    /// Draws who is to be gone with whom. Some are left, so that it is found.
    pub(super) fn perish(&mut self, world: &World) -> Option<Action> {
        let running: Vec<_> = world.ids().filter(|id| world.process(*id).is_some()).collect();
        let leader = leader(world)?;
        let mut observers = running.clone();
        observers.retain(|id| *id != leader);
        // They come by their names, as the leader names them while priorities are the same.
        observers.truncate(self.profile.observers);
        let mut doomed = match self.rng.below(4) {
            // The leader, and all that it named.
            0 => [vec![leader], observers].concat(),
            // All that it named.
            1 => observers,
            // One that rests, if there is one, and the leader.
            2 => {
                let rests = running.iter().rev().find(|id| **id != leader && !observers.contains(id));
                rests.copied().into_iter().chain([leader]).collect()
            }
            // Any of them.
            _ => running.iter().copied().filter(|_| self.rng.below(2) == 0).collect(),
        };
        doomed.truncate(running.len().saturating_sub(1));
        self.script.extend(doomed.into_iter().map(|node| Action::Crash { node }));
        self.script.pop_front()
    }

    /// The leader and those that it named hear nothing of the others, and the others nothing of them; or all that is over.
    pub(super) fn sever(&mut self, world: &World) -> Option<Action> {
        if world.blocked != 0 {
            return self.forsake(world);
        }
        let leader = leader(world)?;
        let first = world.ids().filter(|id| *id != leader).take(self.profile.observers);
        let inside: Vec<_> = std::iter::once(leader).chain(first).collect();
        let outside: Vec<_> = world.ids().filter(|id| !inside.contains(id)).collect();
        let ways = inside.iter().flat_map(|a| outside.iter().flat_map(move |b| [(*a, *b), (*b, *a)]));
        self.script.extend(ways.map(|(from, to)| Action::Block { from, to }));
        self.script.pop_front()
    }
}
