//! Links that carry nothing. Everybody keeps the store.

use super::{Aim, Nemesis};
use crate::chaos::world::World;

/// One way of one link.
pub(super) struct CutWay;

impl CutWay {
    /// From whom to whom.
    fn way(aim: &Aim) -> (&str, &str) {
        let (node, other) = (aim.node.as_str(), aim.others.first().map_or("", String::as_str));
        if aim.draw.is_multiple_of(2) { (node, other) } else { (other, node) }
    }
}

impl Nemesis for CutWay {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let (from, to) = Self::way(aim);
        world.links.cut_way(from, to);
        format!("{from} to {to}")
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        let (from, to) = Self::way(aim);
        world.links.heal(from, to);
    }
}

/// Both ways of one link, or of some.
pub(super) struct Cut;

fn some(aim: &Aim) -> &[String] {
    let most = aim.others.len().min(3);
    let more = usize::try_from(aim.draw).unwrap_or(0) % most;
    &aim.others[..=more]
}

impl Nemesis for Cut {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        for other in some(aim) {
            world.links.cut(&aim.node, other);
        }
        format!("{} and {}", aim.node, some(aim).join(", "))
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        for other in some(aim) {
            world.links.heal(&aim.node, other);
        }
    }
}

/// All links of one node.
pub(super) struct Isolate;

impl Nemesis for Isolate {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.links.isolate(&aim.node);
        "from all".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        for other in &aim.others {
            world.links.heal(&aim.node, other);
        }
    }
}

/// All links between a few and the others.
pub(super) struct Split;

impl Split {
    fn sides(aim: &Aim) -> [Vec<&str>; 2] {
        let (few, many) = aim.others.split_at(1.min(aim.others.len()));
        let few = few.iter().chain([&aim.node]).map(String::as_str).collect();
        [few, many.iter().map(String::as_str).collect()]
    }
}

impl Nemesis for Split {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let [few, many] = Self::sides(aim);
        world.links.split(&[&few, &many]);
        format!("{} | {}", few.join(", "), many.join(", "))
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        let [few, many] = Self::sides(aim);
        for (one, other) in few.iter().flat_map(|one| many.iter().map(move |other| (one, other))) {
            world.links.heal(one, other);
        }
    }
}
