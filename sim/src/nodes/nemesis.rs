//! What is done to the nodes, as the seed says.
#![allow(clippy::disallowed_methods)] // time passes here

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use callsign::{LookupError, Turns};
use clap::ValueEnum;
use tokio::time::sleep;

use super::{
    edge::Weather,
    life::SomeParts,
    plan::TROUBLE,
    world::{NodePlace, NodesWorld},
};
use crate::rng::Rng;

/// Between two looks at a node.
const NODE_INTERVAL: Duration = Duration::from_millis(50);

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A node dies.
    Kill,
    /// It dies at a poll of one of its parts.
    DieAtAnAwait,
    /// Nothing of it runs for a while.
    Pause,
    /// Its parts wait some polls now and then.
    Starve,
    /// Some of its parts stand still for a while.
    Doze,
    /// It leaves.
    Leave,
    /// It is started and killed again and again.
    Storm,
    /// Another life of it is started.
    Beside,
    /// It joins another registry while its session is lapsed.
    JoinLapsed,
    /// It does not reach the store.
    Outage,
    /// Nobody does.
    OutageForAll,
    /// The store answers late, wrong, or never.
    Weather,
    /// A link is cut.
    Cut,
    /// One way of a link holds what is sent.
    HalfOpen,
    /// One way of a link is slow.
    Slow,
}

/// Each with how often it comes.
const KINDS: [(Kind, u64); 15] = [
    (Kind::Kill, 10),
    (Kind::DieAtAnAwait, 12),
    (Kind::Pause, 10),
    (Kind::Starve, 10),
    (Kind::Doze, 10),
    (Kind::Leave, 6),
    (Kind::Storm, 3),
    (Kind::Beside, 6),
    (Kind::JoinLapsed, 8),
    (Kind::Outage, 10),
    (Kind::OutageForAll, 3),
    (Kind::Weather, 12),
    (Kind::Cut, 10),
    (Kind::HalfOpen, 10),
    (Kind::Slow, 10),
];

/// Does things to the nodes until the time for it is over. Returns how many.
pub async fn torment(world: &Arc<NodesWorld>) -> u64 {
    let mut rng = Rng::new(world.plan.seed ^ 0x6e65_6d65);
    let mut done = 0;
    while world.begin.elapsed() < TROUBLE {
        sleep(Duration::from_millis(50) + rng.duration(world.plan.calm)).await;
        let kind = KINDS[rng.weighted(&KINDS.map(|(_, weight)| weight))].0;
        if world.plan.without != Some(kind) {
            strike(world, kind, &mut rng);
            done += 1;
        }
    }
    done
}

/// Ends all of it: the dead are started again, ways are open, and nothing goes wrong any more.
pub fn heal(world: &Arc<NodesWorld>) {
    world.say("heals");
    world.sky.is_down.store(false, SeqCst);
    let places: Vec<NodePlace> = (0..world.plan.nodes).map(|index| world.place(index)).collect();
    let current: Vec<_> = places.iter().map(|place| place.life.who.clone()).collect();
    for life in world.lives() {
        life.heal();
        // A second life of a node is no part of the cluster in the end.
        if !current.contains(&life.who) && !life.is_leaving() {
            life.die();
        }
    }
    for (index, place) in places.iter().enumerate() {
        place.edge.change(|weather| *weather = Weather::default());
        for other in &places[..index] {
            world.network.heal(place.listen, other.listen);
        }
        if place.life.is_dead() || place.life.is_leaving() {
            world.restart(index);
            world.place(index).edge.change(|weather| *weather = Weather::default());
        }
    }
}

fn strike(world: &Arc<NodesWorld>, kind: Kind, rng: &mut Rng) {
    let lease = world.plan.lease;
    let index = rng.index(world.plan.nodes);
    let other = (index + 1 + rng.index(world.plan.nodes - 1)) % world.plan.nodes;
    let (place, peer) = (world.place(index), world.place(other));
    let time = Duration::from_millis(100) + rng.duration(lease * 2);
    world.say(&format!("{kind:?} {} {} {time:?}", place.life.who, peer.life.who));
    let at = |what: &'static str| {
        if !place.life.is_dead() {
            world.counts.met(what);
        }
    };
    let back = Duration::from_millis(50) + rng.duration(lease * 2);
    match kind {
        Kind::Kill => {
            at("a node is killed");
            place.life.die();
            again(world, index, place, back);
        }
        Kind::DieAtAnAwait => {
            place.life.die_after(rng.below(3000));
            again(world, index, place, back);
        }
        Kind::Pause => {
            at("a node is paused");
            place.life.pause(time);
        }
        Kind::Starve => {
            place.life.starve(1 + rng.below(400), 1 + rng.below(40));
            after(world, time, move |_| place.life.starve(0, 0));
        }
        Kind::Doze => place.life.doze(time, SomeParts::Half(rng.draw())),
        Kind::Leave => {
            place.life.leave();
            again(world, index, place, back);
        }
        Kind::Storm => {
            at("a node is started again and again");
            place.life.die();
            let (times, every) = (rng.below(4) + 2, Duration::from_millis(20) + rng.duration(lease / 6));
            // Its lives follow each other while whoever they ask has not answered the one before.
            let whole = every * u32::try_from(times).unwrap_or(1);
            let mut apart = Vec::new();
            if let Some(leader) = leader(world).filter(|leader| *leader != index && rng.per_mille(700)) {
                // They can ask only one, which is not the leader: that one hears of changes all the while.
                let mut others = (0..world.plan.nodes).filter(|node| *node != index);
                let asked = if other == leader { others.find(|node| *node != leader) } else { Some(other) };
                if let Some(asked) = asked {
                    world.place(asked).life.doze(whole, SomeParts::Members);
                    apart.extend((0..world.plan.nodes).filter(|node| *node != index && *node != asked));
                }
            } else {
                peer.life.doze(whole, SomeParts::Half(rng.draw()));
            }
            storm(world, index, times, every, apart);
        }
        Kind::Beside => {
            at("two lives of one node");
            let second = world.start(index);
            after(world, time, move |_| second.life.die());
        }
        Kind::JoinLapsed => {
            place.edge.change(|weather| weather.is_down = true);
            tokio::spawn(join_lapsed(world.clone(), place.clone(), rng.duration(lease)));
        }
        Kind::Outage => {
            place.edge.change(|weather| weather.is_down = true);
            after(world, time, move |_| place.edge.change(|weather| weather.is_down = false));
        }
        Kind::OutageForAll => {
            world.counts.met("nobody reaches the store");
            world.sky.is_down.store(true, SeqCst);
            after(world, time, |world| world.sky.is_down.store(false, SeqCst));
        }
        Kind::Weather => {
            let slow = rng.duration(lease / 4);
            let (unsure, lost, blind) = (rng.below(600), rng.below(100), rng.below(600));
            let before = world.plan.unsure;
            place.edge.change(|weather| *weather = Weather { unsure, lost, blind, slow, ..*weather });
            after(world, time, move |_| {
                place.edge.change(|weather| {
                    let is_down = weather.is_down;
                    *weather = Weather { unsure: before, blind: before, is_down, ..Weather::default() };
                });
            });
        }
        Kind::Cut => {
            at("a link is cut");
            world.network.cut(place.listen, peer.listen);
            mend(world, &place, &peer, time);
        }
        Kind::HalfOpen => {
            at("a link is half open");
            world.network.hold(place.listen, peer.listen);
            mend(world, &place, &peer, time);
        }
        Kind::Slow => {
            at("a link is slow");
            let pause = Duration::from_millis(1) + rng.duration(Duration::from_millis(300));
            let bytes = 1 << rng.below(14);
            world.network.slow(place.listen, peer.listen, pause, bytes);
            mend(world, &place, &peer, time);
        }
    }
}

/// Does something later, unless all is healed then.
fn after(world: &Arc<NodesWorld>, time: Duration, what: impl FnOnce(&Arc<NodesWorld>) + Send + 'static) {
    let world = world.clone();
    tokio::spawn(async move {
        sleep(time).await;
        if world.begin.elapsed() < TROUBLE {
            what(&world);
        }
    });
}

fn mend(world: &Arc<NodesWorld>, a: &NodePlace, b: &NodePlace, time: Duration) {
    let (a, b) = (a.listen, b.listen);
    after(world, time, move |world| world.network.heal(a, b));
}

/// Cuts a node off until its session has lapsed, has it join another registry then, and lets it back some time later.
async fn join_lapsed(world: Arc<NodesWorld>, place: NodePlace, later: Duration) {
    let lapsed = || {
        let registry = place.life.registry.get()?;
        matches!(registry.lookup(""), Err(LookupError::Lapsed { .. })).then_some(registry)
    };
    let until = TROUBLE.min(world.begin.elapsed() + world.plan.lease * 2);
    while lapsed().is_none() && world.begin.elapsed() < until {
        sleep(NODE_INTERVAL).await;
    }
    if let Some(registry) = lapsed()
        && place.life.beside.get().is_none()
        && !place.life.is_dead()
    {
        world.counts.met("a registry is joined beside while lapsed");
        place.life.say("joins beside, lapsed");
        if let Ok(beside) = registry.join_beside("beside").await {
            let _ = place.life.beside.set(beside);
        }
    }
    sleep(later).await;
    if world.begin.elapsed() < TROUBLE {
        place.edge.change(|weather| weather.is_down = false);
    }
}

/// Starts a node again, that long after it died.
fn again(world: &Arc<NodesWorld>, index: usize, place: NodePlace, time: Duration) {
    let world = world.clone();
    tokio::spawn(async move {
        place.life.death().await;
        sleep(time).await;
        // Whoever heals starts it, and so may have somebody else.
        if world.begin.elapsed() < TROUBLE && world.place(index).life.who == place.life.who {
            world.restart(index);
        }
    });
}

/// The node that says that it leads.
fn leader(world: &NodesWorld) -> Option<usize> {
    (0..world.plan.nodes).find(|index| {
        let life = world.place(*index).life;
        !life.is_dead() && life.registry.get().is_some_and(|registry| registry.status().leads)
    })
}

/// Starts a node so many times, and kills it each time but the last. All that while it has no link to those.
fn storm(world: &Arc<NodesWorld>, index: usize, times: u64, every: Duration, apart_from: Vec<usize>) {
    let world = world.clone();
    tokio::spawn(async move {
        for _ in 0..times {
            if world.begin.elapsed() >= TROUBLE {
                return;
            }
            world.place(index).life.die();
            world.restart(index);
            let others: Vec<_> = apart_from.iter().map(|other| world.place(*other).listen).collect();
            let me = world.place(index).listen;
            for other in &others {
                world.network.cut(me, *other);
            }
            sleep(every).await;
            for other in &others {
                world.network.heal(me, *other);
            }
        }
    });
}
