//! A process stands still, and goes on as if nothing had been.

use super::{Aim, Nemesis};
use crate::chaos::world::World;

pub(super) struct Pause;

impl Nemesis for Pause {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.stop(&aim.node);
        "stopped".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.go_on(&aim.node);
    }
}
