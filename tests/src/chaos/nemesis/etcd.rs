//! What is done to etcd's own servers. One thing at a time, so that a majority is lost only where that is meant.

use std::time::Duration;

use super::{Aim, Nemesis};
use crate::{
    chaos::world::{Struck, World},
    etcd::EtcdServers,
    small_disk::SmallDisk,
    wait::wait_for,
};

const MEMBERS: usize = 3;
/// How long is waited for what a write has to bring about.
const COMES: Duration = Duration::from_secs(10);

fn missing(world: &World) -> Option<String> {
    (!world.has_etcd()).then(|| "the store is not a private etcd (--store etcd)".to_owned())
}

/// Which member is meant by a draw.
fn drawn(aim: &Aim) -> usize {
    usize::try_from(aim.draw % 3).unwrap_or(0)
}

fn with(world: &mut World, act: impl FnOnce(&mut EtcdServers, &mut Struck)) {
    world.with_etcd(act);
}

/// The leader of etcd ends without a word.
pub(super) struct EtcdKill;

impl Nemesis for EtcdKill {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, struck| {
            let leader = etcd.leader();
            etcd.kill(leader);
            struck.member = Some(leader);
            said = format!("m{leader} killed");
        });
        said
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.member.take() {
                etcd.resume(member);
            }
        });
    }
}

/// It stands still, and goes on as if nothing had been.
pub(super) struct EtcdStop;

impl Nemesis for EtcdStop {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, _: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, struck| {
            let leader = etcd.leader();
            etcd.pause(leader, true);
            struck.member = Some(leader);
            said = format!("m{leader} stopped");
        });
        said
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.member.take() {
                etcd.pause(member, false);
            }
        });
    }
}

/// A member hears nothing of its peers. Nodes reach it.
pub(super) struct EtcdCutOff;

impl Nemesis for EtcdCutOff {
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
        with(world, |etcd, struck| {
            // A revision may be compacted by now, where nothing was written since the last time.
            struck.came = etcd.compact().map_err(|why| format!("not all: {}", why.trim()));
            said = struck.came.clone().map_or_else(|why| why, |()| "done".to_owned());
        });
        said
    }

    fn go_on(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            let done = etcd.compact();
            if struck.came.is_err() {
                struck.came = done;
            }
        });
    }

    fn came(&self, world: &mut World, _: &Aim) -> Result<(), String> {
        let mut came = Ok(());
        with(world, |_, struck| came.clone_from(&struck.came));
        came
    }

    fn end(&self, _: &mut World, _: &Aim) {}
}

/// One member is beyond its quota: etcd then refuses writes at all of them.
pub(super) struct Full;

impl Nemesis for Full {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world)
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let member = drawn(aim);
        with(world, |etcd, struck| {
            etcd.fill(member);
            struck.member = Some(member);
        });
        format!("m{member} is beyond its quota")
    }

    fn came(&self, world: &mut World, _: &Aim) -> Result<(), String> {
        let mut raised = None;
        with(world, |etcd, _| raised = wait_for(COMES, || etcd.alarms().contains("NOSPACE").then_some(())));
        raised.ok_or_else(|| "the alarm NOSPACE was not raised".to_owned())
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, struck| {
            if let Some(member) = struck.member.take() {
                etcd.empty(member);
            }
        });
    }
}

/// The disk of one member has no room for another byte: that member ends, by a fatal error of its own.
pub(super) struct Disk;

impl Nemesis for Disk {
    fn missing(&self, world: &World) -> Option<String> {
        missing(world).or_else(|| SmallDisk::mount(1 << 20).err())
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        let mut said = String::new();
        with(world, |etcd, _| {
            // Every second time the one that leads.
            let member = if aim.draw.is_multiple_of(2) { etcd.leader() } else { drawn(aim) };
            let done = etcd.fill_disk(member);
            said = done.map_or_else(|why| why, |()| format!("the disk of m{member} is full"));
        });
        said
    }

    fn came(&self, world: &mut World, _: &Aim) -> Result<(), String> {
        let mut ended = None;
        with(world, |etcd, _| ended = wait_for(COMES, || etcd.has_ended_for_want_of_room().then_some(())));
        ended.ok_or_else(|| "the member whose disk is full has not ended".to_owned())
    }

    fn end(&self, world: &mut World, _: &Aim) {
        with(world, |etcd, _| etcd.empty_disk());
    }
}
