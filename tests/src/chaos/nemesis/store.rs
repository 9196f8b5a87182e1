//! The store is away, for one node or for all.

use super::{Aim, Nemesis};
use crate::chaos::world::World;

/// The node hears nothing of it, nor it of the node.
pub(super) struct StoreCut;

impl Nemesis for StoreCut {
    fn missing(&self, world: &World) -> Option<String> {
        world.store_links().is_none().then(|| world.why_no_store_links())
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        if let Some(ways) = world.store_links() {
            ways.cut(&aim.node);
        }
        "cut".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        if let Some(ways) = world.store_links() {
            ways.end_cut(&aim.node);
        }
    }
}

/// Commits are done, and their outcome is unknown.
pub(super) struct Mute;

impl Nemesis for Mute {
    fn missing(&self, world: &World) -> Option<String> {
        StoreCut.missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        if let Some(ways) = world.store_links() {
            ways.cut_answers(&aim.node);
        }
        "answers cut".to_owned()
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        if let Some(ways) = world.store_links() {
            ways.end_cut_answers(&aim.node);
        }
    }
}

/// Nobody has it.
pub(super) struct StoreStop;

impl Nemesis for StoreStop {
    fn missing(&self, world: &World) -> Option<String> {
        (!world.can_stop_store()).then(|| "there is nothing that stops this store from here".to_owned())
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        world.stop_store()
    }

    fn end(&self, world: &mut World, _: &Aim) {
        world.resume_store();
    }
}
