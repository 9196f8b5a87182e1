//! What clients do.

use std::time::Duration;

use callsign_elector::settings::{Preset, Settings};

use super::Scheduler;
use crate::world::{Action, NodeId, Want, World, is_member};

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
            _ => return self.offer(world, node, name),
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
