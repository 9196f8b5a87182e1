//! Actors of this process, each for a name or a membership of its own, and what many tasks do with them at once.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use callsign::{RactorClusterMessage, remote_message};
use callsign_store::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{sync::oneshot, task::JoinSet};

use super::Node;
use crate::{
    commands::bench::orders::{Done, Names},
    measure::{micros, now_ns, quantile_of_sorted},
};

/// What an actor takes.
#[derive(Debug, RactorClusterMessage)]
pub(crate) enum Heard {
    /// Counts.
    Text(Vec<u8>),
}
remote_message!(Heard, "callsign.bench.heard/1");

/// The actors of this node, and what they have heard, all together.
#[derive(Default)]
pub(super) struct Actors {
    spawned: Mutex<Arc<Vec<ActorRef<Heard>>>>,
    heard: Arc<Tally>,
    /// What the actor with a thread of its own has heard.
    apart: Arc<Tally>,
}

/// What so many actors have heard, all together.
#[derive(Default)]
pub(super) struct Tally {
    /// How many actors hear each broadcast.
    actors: AtomicU32,
    /// How many messages they have heard.
    messages: AtomicU32,
    /// How many broadcasts all of them have heard.
    broadcasts: AtomicU32,
    /// When the last actor heard the last broadcast.
    last_ns: AtomicU64,
}

impl Tally {
    /// One of the actors has heard something. Only for the last of them the clock is read, which takes as long as all else here.
    fn count(&self) {
        let messages = self.messages.fetch_add(1, Ordering::AcqRel) + 1;
        if messages.is_multiple_of(self.actors.load(Ordering::Relaxed)) {
            self.last_ns.store(now_ns(), Ordering::Relaxed);
            self.broadcasts.fetch_add(1, Ordering::Release);
        }
    }

    /// When the last actor heard the last of so many broadcasts; 0 without actors. `None`: not yet.
    pub(super) fn heard_ns(&self, broadcasts: u32) -> Option<u64> {
        let is_heard = self.broadcasts.load(Ordering::Acquire) >= broadcasts;
        let is_nobody = self.actors.load(Ordering::Relaxed) == 0;
        (is_heard || is_nobody).then(|| self.last_ns.load(Ordering::Relaxed))
    }
}

impl Actors {
    /// Those that were spawned last.
    pub(super) fn spawned(&self) -> Arc<Vec<ActorRef<Heard>>> {
        lock(&self.spawned).clone()
    }

    pub(super) fn heard(&self) -> &Tally {
        &self.heard
    }

    pub(super) fn apart(&self) -> &Tally {
        &self.apart
    }
}

struct TallyListener(Arc<Tally>);

impl Actor for TallyListener {
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
        self.0.count();
        Ok(())
    }
}

/// Spawns so many actors. Those of before go on, and are known by their names only.
pub(super) async fn spawn(node: &Node, actors: u32) -> Result<()> {
    let mut spawned = Vec::with_capacity(actors as usize);
    for _ in 0..actors {
        spawned.push(Actor::spawn(None, TallyListener(node.actors.heard.clone()), ()).await?.0);
    }
    *lock(&node.actors.spawned) = Arc::new(spawned);
    node.actors.heard.actors.store(actors, Ordering::Relaxed);
    Ok(())
}

/// Spawns an actor with a thread of its own. It hears a message when that has come, however many others are still to have their turn.
pub(super) async fn spawn_apart(node: &Node) -> Result<ActorRef<Heard>> {
    let (tell, spawned) = oneshot::channel();
    let tally = node.actors.apart.clone();
    tally.actors.fetch_add(1, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = async move {
        let spawned = Actor::spawn(None, TallyListener(tally), ()).await;
        let (told, running) = match spawned {
            Ok((actor, running)) => (Ok(actor), Some(running)),
            Err(error) => (Err(error), None),
        };
        // The order that waits for it may have ended.
        let _ = tell.send(told);
        if let Some(running) = running {
            let _ = running.await;
        }
    };
    std::thread::Builder::new().name("apart".to_owned()).spawn(move || runtime.block_on(run))?;
    Ok(spawned.await??)
}

/// Registers names, for the actors that were spawned by turns.
pub(super) async fn register(node: &Node, names: Names, in_flight: u32, start_ns: u64) -> Result<Done> {
    let (registry, actors) = (node.registry.clone(), node.actors.spawned());
    let all = 0..names.len();
    let register = move |number: u32| {
        let (registry, name) = (registry.clone(), names.name(names.from + number));
        let turn = (number as usize).checked_rem(actors.len()).unwrap_or(0);
        let actor = actors.get(turn).cloned();
        async move { Ok(_ = registry.register(&name, &actor.context("a name has no actor")?).await?) }
    };
    timed(all, in_flight, start_ns, register).await
}

/// Unregisters names.
pub(super) async fn unregister(node: &Node, names: Names, in_flight: u32, start_ns: u64) -> Result<Done> {
    let (registry, all) = (node.registry.clone(), names.from..names.to);
    let unregister = move |number| {
        let (registry, name) = (registry.clone(), names.name(number));
        async move { Ok(_ = registry.unregister(&name).await?) }
    };
    timed(all, in_flight, start_ns, unregister).await
}

/// Ends all actors that were spawned last. Returns the moment before the first.
pub(super) fn end(node: &Node) -> u64 {
    let actors = std::mem::take(&mut *lock(&node.actors.spawned));
    let begin = now_ns();
    actors.iter().for_each(|actor| actor.stop(None));
    begin
}

/// As [`each`], and says how long each took. Fails if one failed.
pub(super) async fn timed<A>(
    numbers: Range<u32>,
    tasks: u32,
    start_ns: u64,
    act: impl Fn(u32) -> A + Clone + Send + 'static,
) -> Result<Done>
where
    A: Future<Output = Result<()>> + Send,
{
    // In one piece, so that it leaves no holes where names are: their memory is measured.
    let took: Arc<[AtomicU64]> = numbers.clone().map(|_| AtomicU64::new(0)).collect();
    let failed = Arc::new(Mutex::new(None));
    let (first, samples, failures) = (numbers.start, took.clone(), failed.clone());
    let act = move |number: u32| {
        let (act, samples, failures) = (act.clone(), samples.clone(), failures.clone());
        async move {
            let begin = now_ns();
            if let Err(error) = act(number).await {
                lock(&failures).get_or_insert(error);
            }
            samples[(number - first) as usize].store(now_ns() - begin, Ordering::Relaxed);
        }
    };
    each(numbers, tasks, start_ns, act).await;
    let done_ns = now_ns();
    if let Some(error) = lock(&failed).take() {
        return Err(error);
    }
    let mut sorted: Vec<f64> = took.iter().map(|took| micros(took.load(Ordering::Relaxed))).collect();
    sorted.sort_by(f64::total_cmp);
    let quantiles = (0..=Done::PARTS)
        .filter_map(|part| quantile_of_sorted(&sorted, f64::from(part) / f64::from(Done::PARTS)));
    Ok(Done { done_ns, took_us: quantiles.collect() })
}

/// Does something for each number, by so many tasks at once, from a moment on. A task takes the next number when it has done the last.
pub(super) async fn each<T, A>(
    numbers: Range<u32>,
    tasks: u32,
    start_ns: u64,
    act: impl Fn(u32) -> A + Clone + Send + 'static,
) -> Vec<T>
where
    T: Send + 'static,
    A: Future<Output = T> + Send,
{
    let next = Arc::new(AtomicU32::new(numbers.start));
    tokio::time::sleep(Duration::from_nanos(start_ns.saturating_sub(now_ns()))).await;
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (act, next) = (act.clone(), next.clone());
        running.spawn(async move {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end {
                    return done;
                }
                done.push(act(number).await);
            }
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}
