//! Links that carry something, late or not for long.

use std::time::Duration;

use super::{Aim, Nemesis};
use crate::{Way, chaos::world::World};

fn set(world: &World, aim: &Aim, way: &Way) {
    for other in &aim.others {
        world.links.set(&aim.node, other, way.clone());
        world.links.set(other, &aim.node, way.clone());
    }
}

/// Every piece takes its time.
pub(super) struct Slow;

impl Nemesis for Slow {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let delay = Duration::from_millis(50 + aim.draw % 950);
        set(world, aim, &Way::slow(delay));
        format!("{} ms and more each way", delay.as_millis())
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        set(world, aim, &Way::default());
    }
}

/// Pieces are lost and sent again, and now and then a connection breaks.
pub(super) struct Lossy;

impl Nemesis for Lossy {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let lost_per_mille = 50 + aim.draw % 350;
        set(world, aim, &Way { broken_per_mille: 5, ..Way::lossy(lost_per_mille) });
        format!("{lost_per_mille} of 1000 pieces lost")
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        set(world, aim, &Way::default());
    }
}

/// Connections end, and may be made again at once.
pub(super) struct Break;

impl Nemesis for Break {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        self.go_on(world, aim);
        "all of its links".to_owned()
    }

    fn go_on(&self, world: &mut World, aim: &Aim) {
        for other in &aim.others {
            world.links.break_connections(&aim.node, other);
        }
    }

    fn end(&self, _: &mut World, _: &Aim) {}
}
