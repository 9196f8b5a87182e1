//! Links that carry something, late or not for long.

use std::time::Duration;

use super::{Aim, Nemesis};
use crate::{Way, chaos::world::World};

/// Every piece takes its time.
pub(super) struct Slow;

impl Slow {
    fn way(aim: &Aim) -> Way {
        Way::slow(Duration::from_millis(50 + aim.draw % 950))
    }
}

impl Nemesis for Slow {
    fn missing(&self, world: &World) -> Option<String> {
        world.links.why_no_delay()
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let way = Self::way(aim);
        world.links.impose(&aim.ways(&aim.others), &way);
        format!("{} ms and more each way", way.delay.as_millis())
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&aim.ways(&aim.others), &Self::way(aim));
    }
}

/// Pieces are lost and sent again, and now and then a connection breaks.
pub(super) struct Lossy;

impl Lossy {
    fn way(aim: &Aim) -> Way {
        Way { broken_per_mille: 5, ..Way::lossy(50 + aim.draw % 350) }
    }
}

impl Nemesis for Lossy {
    fn missing(&self, world: &World) -> Option<String> {
        world.links.why_no_delay()
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let way = Self::way(aim);
        world.links.impose(&aim.ways(&aim.others), &way);
        format!("{} of 1000 pieces lost", way.lost_per_mille)
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&aim.ways(&aim.others), &Self::way(aim));
    }
}

/// Connections end, and may be made again at once.
pub(super) struct Break;

impl Nemesis for Break {
    fn missing(&self, world: &World) -> Option<String> {
        world.links.why_no_breaks()
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        self.go_on(world, aim);
        "all of its links".to_owned()
    }

    fn go_on(&self, world: &mut World, aim: &Aim) {
        let pairs = aim.others.iter().map(|other| (aim.node.clone(), other.clone()));
        world.links.break_connections(&pairs.collect::<Vec<_>>());
    }

    fn end(&self, _: &mut World, _: &Aim) {}
}
