//! Postgres fails over: its primary is gone, its standby is promoted, and afterwards the old primary is the standby.

use callsign_store::testing::postgres::Pair;

use super::{Aim, Nemesis};
use crate::{chaos::world::World, links::StoreLinks};

fn missing(world: &World) -> Option<String> {
    (!world.has_pair())
        .then(|| "the store is not a private pair of Postgres (--store postgres-ha)".to_owned())
}

/// Does something to the primary, has the standby take its place, and says what was done.
fn fail_over(world: &mut World, act: impl FnOnce(&mut Pair, &StoreLinks) -> &'static str) -> String {
    let mut said = "";
    world.with_pair(|pair, ways| said = act(pair, ways));
    let promoted = world.promote();
    format!("{said}, {promoted}")
}

/// Whatever the old primary is and does: it ends, and comes back as the standby.
fn follow(world: &mut World) {
    world.with_pair(|pair, ways| {
        pair.follow();
        ways.cut_server(pair.other(), false);
    });
}

/// The primary ends without a word.
pub(super) struct PairKill;

impl Nemesis for PairKill {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        fail_over(world, |pair, _| {
            pair.server(pair.primary()).destroy();
            "the primary killed"
        })
    }

    fn end(&self, world: &mut World, _: &Aim) {
        follow(world);
    }
}

/// The primary lives on without the others.
pub(super) struct PairCutOff;

impl Nemesis for PairCutOff {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        fail_over(world, |pair, ways| match aim.draw % 3 {
            0 => {
                pair.server(pair.primary()).pause();
                "the primary stopped"
            }
            1 => {
                ways.cut_server(pair.primary(), true);
                "the primary cut off from the nodes"
            }
            // A server that is promoted does not stream any more.
            _ => "the primary left by its standby, not by the nodes",
        })
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        // What was sent to it meanwhile reaches it, before it is ended.
        world.with_pair(|pair, ways| match aim.draw % 3 {
            0 => pair.server(pair.other()).go_on(),
            1 => ways.cut_server(pair.other(), false),
            _ => {}
        });
        follow(world);
    }
}

/// The primary ends, and comes back as it was: there are two.
pub(super) struct Twice;

impl Nemesis for Twice {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let said = PairKill.begin(world, aim);
        // Every second time it answers commits by itself: then its timeline alone keeps nodes away.
        let alone = aim.draw.is_multiple_of(2);
        world.bring_back(alone);
        let waits = if alone { "nobody" } else { "a standby" };
        format!("{said}, and the old one is back as a second primary, which waits for {waits}")
    }

    fn end(&self, world: &mut World, _: &Aim) {
        world.judge_old_primary();
        follow(world);
    }
}
