//! A group of very many members, which note when they hear something.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use anyhow::{Context, Result, ensure};
use callsign::{RactorClusterMessage, remote_message};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use super::{Node, until};
use crate::measure::now_ns;

const GROUP: &str = "bench";

/// What a member takes.
#[derive(Debug, RactorClusterMessage)]
pub(crate) enum Heard {
    /// Counts.
    Text(Vec<u8>),
}
remote_message!(Heard, "callsign.bench.heard/1");

/// What the members of this node have heard, all together.
#[derive(Default)]
pub(super) struct Ears {
    count: AtomicU32,
    last_ns: AtomicU64,
}

struct Member(Arc<Ears>);

impl Actor for Member {
    type Msg = Heard;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Heard>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Heard>,
        Heard::Text(_): Heard,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        self.0.last_ns.fetch_max(now_ns(), Ordering::SeqCst);
        self.0.count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Spawns so many members, and has them join by so many tasks at once. Returns the moments of the first request and of the last answer.
pub(super) async fn join(node: &Node, members: u32, in_flight: u32) -> Result<[u64; 2]> {
    let mut actors = Vec::new();
    for _ in 0..members {
        actors.push(Actor::spawn(None, Member(node.ears.clone()), ()).await?.0);
    }
    let (actors, next) = (Arc::new(actors), Arc::new(AtomicU32::new(0)));
    let group = node.registry.group::<Heard>(GROUP);
    let begin = now_ns();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let (group, actors, next) = (group.clone(), actors.clone(), next.clone());
        tasks.spawn(async move {
            while let Some(actor) = actors.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                group.join(actor, None).await?;
            }
            anyhow::Ok(())
        });
    }
    for joined in tasks.join_all().await {
        joined?;
    }
    Ok([begin, now_ns()])
}

/// Waits until the group has so many members here.
pub(super) async fn await_members(node: &Node, count: usize) -> Result<u64> {
    let group = node.registry.group::<Heard>(GROUP);
    until(|| group.members().is_ok_and(|members| members.len() == count), "the members").await?;
    Ok(now_ns())
}

/// Sends 32 bytes to all members. Returns the moment of the call.
pub(super) fn broadcast(node: &Node) -> Result<u64> {
    let begin = now_ns();
    let sent = node.registry.group::<Heard>(GROUP).broadcast(Heard::Text(vec![7; 32]))?;
    ensure!(sent.unreached.is_empty(), "some nodes were not reached: {sent:?}");
    Ok(begin)
}

/// Waits until the members here have heard so much, all together. Returns when the last of them did.
pub(super) async fn heard(node: &Node, count: u32) -> Result<u64> {
    until(|| node.ears.count.load(Ordering::SeqCst) >= count, "a broadcast")
        .await
        .context("not all heard it")?;
    Ok(node.ears.last_ns.load(Ordering::SeqCst))
}
