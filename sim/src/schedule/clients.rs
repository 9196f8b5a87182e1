//! What clients do.

use std::time::Duration;

use callsign_elector::settings::{Preset, Settings};

use super::Scheduler;
use crate::{
    references::Side,
    world::{Action, NodeId, Want, World, is_member},
};

impl Scheduler {
    /// What a client does next.
    pub(super) fn client(&mut self, world: &World) -> Action {
        let work = self.profile.work;
        let node = self.aimed(world);
        let name = u8::try_from(self.rng.below(u64::from(self.profile.names))).unwrap_or(0);
        let weights = [
            work.register,
            work.again,
            work.unregister,
            work.consistent,
            work.lookup,
            work.end,
            work.resign,
            work.leave,
            work.drain,
            work.beside,
            work.configure,
            work.patient,
            work.update,
            work.start,
            work.join,
            work.acquire,
            work.withdraw,
            work.take,
            work.offer,
            work.refer,
        ];
        let want = match self.rng.weighted(&weights) {
            0 => Want::Register { name, stops: self.rng.below(4) == 0 },
            1 => Want::RegisterAgain { name },
            2 => Want::Unregister { name },
            3 => Want::Consistent { name },
            4 => Want::Lookup { name },
            5 => {
                let nth = u8::try_from(self.rng.below(3)).unwrap_or(0);
                return Action::EndActor { node, nth };
            }
            6 => return Action::Resign { node },
            7 => return Action::Leave { node },
            8 => return Action::Drain { node },
            9 => Want::RegisterBeside { name },
            10 => return Action::Configure { node, change: self.settings() },
            11 => Want::RegisterPatiently { name },
            12 => Want::Update { name, guarded: self.rng.below(2) == 0 },
            13 => Want::Start { name, stops: self.rng.below(4) == 0 },
            14 => Want::Join { group: name % 2, again: self.rng.below(2) == 0 },
            15 => Want::Acquire { semaphore: 0, limit: [1, 1, 1, 2][self.rng.index(4)] },
            16 => Want::Withdraw { stale: self.rng.below(4) == 0 },
            17 => Want::Take { name, stops: self.rng.below(4) == 0 },
            18 => return self.offer(world, node, name),
            _ => return self.refer(world, node),
        };
        Action::Call { node, want }
    }

    /// A name of a node, as a rule one that it holds, is to go to another node.
    fn offer(&mut self, world: &World, node: NodeId, name: u8) -> Action {
        let to = self.node(world);
        let held = world.granted.iter().filter(|(name, _)| !is_member(**name));
        let held: Vec<_> =
            held.filter_map(|(name, grant)| Some((grant.node, u8::try_from(*name).ok()?))).collect();
        let (node, name) = match held.len() {
            0 => (node, name),
            _ if self.rng.below(8) == 0 => (node, name),
            count => held[self.rng.index(count)],
        };
        Action::Call { node, want: Want::Offer { name, to } }
    }

    /// Something with a reference to an actor of another node: as a rule one is asked for.
    fn refer(&mut self, world: &World, node: NodeId) -> Action {
        let mut nth = |count: usize| u8::try_from(self.rng.index(count)).unwrap_or(0);
        let side = world.side(node);
        let (addresses, held) =
            (nth(world.addresses(node).len()), nth(side.map_or(0, |side| side.references().count())));
        match self.rng.below(8) {
            0 => Action::DropReference { node, nth: held },
            1 => Action::Cast { node, nth: held },
            2 => self.end_of_one(world).unwrap_or(Action::Refer { node, nth: addresses }),
            _ => Action::Refer { node, nth: addresses },
        }
    }

    /// The end of an actor that a peer has a reference to.
    fn end_of_one(&mut self, world: &World) -> Option<Action> {
        let mut ends = Vec::new();
        for node in world.ids() {
            let Some(process) = world.process(node) else { continue };
            let Some(parts) = &process.parts else { continue };
            for actor in world.side(node).into_iter().flat_map(Side::monitored) {
                let at = parts.watched.iter().position(|watched| *watched == actor);
                ends.extend(at.and_then(|at| Some(Action::EndActor { node, nth: u8::try_from(at).ok()? })));
            }
        }
        let at = self.rng.index(ends.len());
        (!ends.is_empty()).then(|| ends.swap_remove(at))
    }

    /// Some of what can be set. A lock is never left to its owner for shorter than without: that is judged by one time for all.
    fn settings(&mut self) -> Settings {
        let mut seconds = |choices: [u64; 3]| {
            let drawn = choices[self.rng.index(3)];
            (self.rng.below(2) == 0).then(|| Duration::from_secs(drawn))
        };
        let mut settings = Settings::default();
        (settings.lock_timeout, settings.silence) = (seconds([3, 4, 5]), seconds([1, 2, 3]));
        settings.policy = [None, Some(Preset::Sticky), Some(Preset::Ranked)][self.rng.index(3)];
        settings
    }
}
