//! A group of very many members, which note when they hear something.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use callsign::{RactorClusterMessage, remote_message};
use callsign_store::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use super::{Node, until};
use crate::{commands::bench::orders::Names, measure::now_ns};

const GROUP: &str = "bench";

/// What a member takes.
#[derive(Debug, RactorClusterMessage)]
pub(crate) enum Heard {
    /// Counts.
    Text(Vec<u8>),
}
remote_message!(Heard, "callsign.bench.heard/1");

/// The members of this node, and what they have heard, all together.
#[derive(Default)]
pub(super) struct Ears {
    /// Members that are to be.
    spawned: Mutex<Vec<ActorRef<Heard>>>,
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

/// Spawns so many actors, which [`join`] or [`register`] takes.
pub(super) async fn spawn(node: &Node, actors: u32) -> Result<()> {
    for _ in 0..actors {
        let (actor, _) = Actor::spawn(None, Member(node.ears.clone()), ()).await?;
        lock(&node.ears.spawned).push(actor);
    }
    Ok(())
}

/// Has all actors that were spawned join the group.
pub(super) async fn join(node: &Node, in_flight: u32, start_ns: u64) -> Result<u64> {
    let group = node.registry.group::<Heard>(GROUP);
    let join = move |_, actor| {
        let group = group.clone();
        async move { Ok(_ = group.join(&actor, None).await?) }
    };
    with_all(node, in_flight, start_ns, join).await
}

/// Registers a name for each actor that was spawned.
pub(super) async fn register(node: &Node, names: Names, in_flight: u32, start_ns: u64) -> Result<u64> {
    let registry = node.registry.clone();
    let register = move |index, actor| {
        let (registry, name) = (registry.clone(), names.name(names.from + index));
        async move { Ok(_ = registry.register(&name, &actor).await?) }
    };
    with_all(node, in_flight, start_ns, register).await
}

/// Does something with all actors that were spawned, by so many tasks at once, from a moment on. Returns the moment at which all is done.
async fn with_all<F, A>(node: &Node, in_flight: u32, start_ns: u64, act: F) -> Result<u64>
where
    F: Fn(u32, ActorRef<Heard>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<()>> + Send,
{
    let actors = Arc::new(std::mem::take(&mut *lock(&node.ears.spawned)));
    let next = Arc::new(AtomicU32::new(0));
    tokio::time::sleep(Duration::from_nanos(start_ns.saturating_sub(now_ns()))).await;
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let (act, actors, next) = (act.clone(), actors.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(actor) = actors.get(index as usize) else { return anyhow::Ok(()) };
                act(index, actor.clone()).await?;
            }
        });
    }
    for done in tasks.join_all().await {
        done?;
    }
    Ok(now_ns())
}

/// Waits until the group has so many members here.
pub(super) async fn await_members(node: &Node, count: usize) -> Result<u64> {
    let group = node.registry.group::<Heard>(GROUP);
    until(|| group.count() == Ok(count), "the members").await?;
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
