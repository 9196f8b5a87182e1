//! Links that carry nothing. Everybody keeps the store.

use super::{Aim, Nemesis};
use crate::{
    Way,
    chaos::world::World,
    links::{Ends, both_ways},
};

/// One way of one link.
pub(super) struct CutWay;

impl CutWay {
    /// From whom to whom.
    fn way(aim: &Aim) -> Ends {
        let (node, other) = (aim.node.clone(), aim.others.first().cloned().unwrap_or_default());
        if aim.draw.is_multiple_of(2) { (node, other) } else { (other, node) }
    }
}

impl Nemesis for CutWay {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let (from, to) = Self::way(aim);
        world.links.cut_way(&from, &to);
        format!("{from} to {to}")
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&[Self::way(aim)], &Way::cut());
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
        world.links.impose(&aim.ways(some(aim)), &Way::cut());
        format!("{} and {}", aim.node, some(aim).join(", "))
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&aim.ways(some(aim)), &Way::cut());
    }
}

/// All links of one node.
pub(super) struct Isolate;

impl Nemesis for Isolate {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.links.impose(&aim.ways(&aim.others), &Way::cut());
        "from all".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&aim.ways(&aim.others), &Way::cut());
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

    fn ways(aim: &Aim) -> Vec<Ends> {
        let [few, many] = Self::sides(aim);
        few.iter().flat_map(|one| many.iter().flat_map(|other| both_ways(one, other))).collect()
    }
}

impl Nemesis for Split {
    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        world.links.impose(&Self::ways(aim), &Way::cut());
        let [few, many] = Self::sides(aim);
        format!("{} | {}", few.join(", "), many.join(", "))
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.links.lift(&Self::ways(aim), &Way::cut());
    }
}
