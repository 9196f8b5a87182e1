//! A group of very many members, which note when they hear something.

use anyhow::{Context, Result, ensure};

use super::{
    Node,
    actors::{Heard, spawn_apart, timed},
};
use crate::{
    commands::bench::orders::{Done, Heards},
    measure::now_ns,
};

const GROUP: &str = "bench";
/// The group of the actors with a thread of their own, one of each node.
const APART: &str = "apart";

/// Has all actors that were spawned join a group: that of the broadcasts, or, beyond 0, another one.
pub(super) async fn join(node: &Node, group: u32, in_flight: u32, start_ns: u64) -> Result<Done> {
    let name = if group == 0 { GROUP.to_owned() } else { format!("{GROUP}/{group}") };
    let (group, actors) = (node.registry.group::<Heard>(&name), node.actors.spawned());
    let all = 0..actors.len().try_into()?;
    let join = move |number: u32| {
        let (group, actor) = (group.clone(), actors.get(number as usize).cloned());
        async move { Ok(_ = group.join(&actor.context("a member has no actor")?, None).await?) }
    };
    timed(all, in_flight, start_ns, join).await
}

/// Has an actor with a thread of its own join a group of such actors.
pub(super) async fn join_apart(node: &Node) -> Result<()> {
    let actor = spawn_apart(node).await?;
    node.registry.group::<Heard>(APART).join(&actor, None).await?;
    Ok(())
}

/// Waits until both groups have so many members, as this node knows them.
pub(super) async fn await_members(node: &Node, count: usize) -> Result<u64> {
    let [group, apart] = [GROUP, APART].map(|group| node.registry.group::<Heard>(group));
    let members = || Some(group.count().ok()? + apart.count().ok()?);
    node.until(|| members() == Some(count), "the members").await?;
    Ok(now_ns())
}

/// Sends 32 bytes to all members, and then to the actors that have a thread of their own. Broadcasts of a node come in their order, so these
/// hear theirs when the message is in every mailbox of their node, whichever of them was the last. Returns the moment of the first call.
pub(super) fn broadcast(node: &Node) -> Result<u64> {
    let begin = now_ns();
    for group in [GROUP, APART] {
        let sent = node.registry.group::<Heard>(group).broadcast(Heard::Text(vec![7; 32]))?;
        ensure!(sent.unreached.is_empty(), "some nodes were not reached: {sent:?}");
    }
    Ok(begin)
}

/// Waits until all members here have heard so many broadcasts, and the one with a thread of its own, too. Returns when the last of them did,
/// and when that one did: by then the message was in every mailbox here.
pub(super) async fn heard(node: &Node, broadcasts: u32) -> Result<Heards> {
    let mut heards = None;
    let have_all = || {
        let [heard, came] =
            [node.actors.heard(), node.actors.apart()].map(|tally| tally.heard_ns(broadcasts));
        heards = heard.zip(came).map(|(heard_ns, came_ns)| Heards { heard_ns, came_ns });
        heards.is_some()
    };
    node.until(have_all, "a broadcast").await?;
    heards.context("not all heard it")
}
