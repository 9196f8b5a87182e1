//! What is done to etcd's own servers. One thing at a time, so that a majority is lost only where that is meant.

use super::{Aim, Nemesis};
use crate::{chaos::world::World, etcd::EtcdServers};

const MEMBERS: usize = 3;

fn missing(world: &World) -> Option<String> {
    (!world.has_etcd()).then(|| "the store is not a private etcd (--store etcd)".to_owned())
}

/// Which member is meant by a draw.
fn drawn(aim: &Aim) -> usize {
    usize::try_from(aim.draw % 3).unwrap_or(0)
}

fn with(world: &mut World, act: impl FnOnce(&mut EtcdServers, &mut Option<usize>)) {
    world.with_etcd(act);
}

/// The leader of etcd ends without a word.
pub(super) struct Kill;

impl Nemesis for Kill {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, struck| {
            let leader = etcd.leader();
            etcd.kill(leader);
            *struck = Some(leader);
            said = format!("m{leader} killed");
        });
        said
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.take() {
                etcd.resume(member);
            }
        });
    }
}

/// It stands still, and goes on as if nothing had been.
pub(super) struct Stop;

impl Nemesis for Stop {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, struck| {
            let leader = etcd.leader();
            etcd.pause(leader, true);
            *struck = Some(leader);
            said = format!("m{leader} stopped");
        });
        said
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.take() {
                etcd.pause(member, false);
            }
        });
    }
}

/// A member hears nothing of its peers. Nodes reach it.
pub(super) struct CutOff;

impl Nemesis for CutOff {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, _| {
            // Every second time the one that leads.
            let member = if aim.draw.is_multiple_of(2) { etcd.leader() } else { drawn(aim) };
            etcd.cut_off(member);
            said = format!("m{member} cut off");
        });
        said
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, _| etcd.join_again());
    }
}

/// Two of three are gone.
pub(super) struct Quorum;

impl Nemesis for Quorum {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let left = drawn(aim);
        with(world, |etcd, _| {
            (0..MEMBERS).filter(|member| *member != left).for_each(|member| etcd.kill(member));
        });
        format!("m{left} is left")
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, _| (0..MEMBERS).for_each(|member| etcd.resume(member)));
    }
}

/// History is forgotten, and members stand still while they give back space, again and again.
pub(super) struct Compact;

impl Nemesis for Compact {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, _| {
            // A revision may be compacted by now, where nothing was written since the last time.
            said =
                etcd.compact().map_or_else(|why| format!("not all: {}", why.trim()), |()| "done".to_owned());
        });
        said
    }

    fn go_on(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, _| drop(etcd.compact()));
    }

    fn end(&self, _: &mut World, _: &Aim) {}
}

/// One member has no room for another byte: etcd then refuses writes at all of them.
pub(super) struct Full;

impl Nemesis for Full {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let member = drawn(aim);
        with(world, |etcd, struck| {
            etcd.fill(member);
            *struck = Some(member);
        });
        format!("m{member} has no room")
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.take() {
                etcd.empty(member);
            }
        });
    }
}
