//! A process ends, and is started again.

use super::{Aim, Nemesis};
use crate::chaos::world::World;

/// Without a word.
pub(super) struct Kill;

impl Nemesis for Kill {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.kill(&aim.node);
        "killed".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.launch(&aim.node);
    }
}

/// In good order.
pub(super) struct Restart;

impl Nemesis for Restart {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.ask_to_leave(&aim.node);
        "asked to leave".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.await_leave(&aim.node);
        world.launch(&aim.node);
    }
}
