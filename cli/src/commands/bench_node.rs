//! `callsign bench-node`: one process of the bench. Takes orders from standard input, ends with it.

use std::{
    io::{BufRead, Write},
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use callsign::{Config, Registry, Secret};
use ractor::ActorRef;
use serde::Serialize;
use serde_json::Value;

use crate::{
    commands::bench::orders::{Leading, Order, OrderLine, ProcessUsage, ReportLine, Took},
    echo::{self, Echo},
    logging,
    measure::{cpu, memory, now_ns, system_calls, voluntary_switches, written_bytes},
    output::LossyLines,
};

mod actors;
mod commits;
mod groups;
mod lookups;
mod moves;
mod probe;
mod reads;
mod registrations;
mod sequential;
mod starts;
mod watches;

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A node that has joined, and the actor that it registers under all names.
#[derive(Clone)]
struct Node {
    /// The first registry, in which all is measured that is measured in one.
    registry: Registry,
    others: Vec<Registry>,
    actor: ActorRef<Echo>,
    name: String,
    /// How long a condition is waited for.
    patience: Duration,
    /// What its readers of watches have seen.
    seen: Arc<watches::SeenByReaders>,
    /// Actors that have a name or a membership each.
    actors: Arc<actors::Actors>,
    /// What moves its names, and looks on.
    moving: Arc<moves::Moving>,
    /// What registers one name after the other.
    probe: Arc<probe::Probe>,
}

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    let (log, _logged) = LossyLines::to(std::io::stderr())?;
    logging::begin(&logging::LogArgs::default(), "error", &log, false)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let node = Arc::new(OnceLock::new());
    for line in std::io::stdin().lock().lines() {
        let OrderLine { id, order } = serde_json::from_str(&line?).context("an order cannot be read")?;
        let node = node.clone();
        runtime.spawn(async move {
            let result = obey(&node, order).await.map_err(|error| format!("{error:#}"));
            let Ok(line) = serde_json::to_string(&ReportLine { id, result }) else { return };
            // Fails when the bench has ended; so will this process.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn report(value: impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(value)?)
}

async fn obey(joined: &OnceLock<Node>, order: Order) -> Result<Value> {
    if let Order::Join { node, store, cluster, secret, registries, ordered, until, patience_ms } = order {
        let config =
            Config::new(&node, store).cluster(cluster).secret(Secret::new(&secret)?).ordered(ordered);
        let patience = Duration::from_millis(patience_ms);
        let (node, took) = join(&node, config, registries, until, patience).await?;
        if joined.set(node).is_err() {
            bail!("this process has joined already");
        }
        return report(took);
    }
    if let Order::Usage = order {
        let cpu_us = u64::try_from(cpu().as_micros())?;
        let (commits, written_bytes) = (commits::committed(), written_bytes());
        let (system_calls, switches) = (system_calls(), voluntary_switches());
        let memory_bytes = memory()?;
        return report(ProcessUsage { cpu_us, memory_bytes, commits, written_bytes, system_calls, switches });
    }
    let node = joined.get().context("this process has not joined")?;
    match order {
        Order::Join { .. } | Order::Usage => bail!("done above"),
        Order::Ready => {
            for registry in node.registries() {
                ensure!(
                    registry.ready(node.patience).await.is_ok(),
                    "the node does not get ready: {:?}",
                    registry.status()
                );
            }
            Ok(Value::Null)
        }
        Order::Leader => {
            let mut found = None;
            let serving = || {
                found = node.registry.leader().filter(|leader| leader.serving);
                found.is_some()
            };
            node.until(serving, "a leader").await?;
            let leader = found.context("there is no leader")?;
            report(Leading { node: leader.node.to_string(), epoch: leader.epoch.0 })
        }
        Order::Register { names, meta, spared, in_flight, start_ns } => {
            report(registrations::register(node, names, meta, spared, in_flight, start_ns).await?)
        }
        Order::SelectPages { names, limit, pages } => {
            let registry = node.registry.clone();
            let ns = tokio::task::spawn_blocking(move || lookups::pages(&registry, &names, limit, pages));
            report(Took { ns: ns.await?? })
        }
        Order::Contest { names, in_flight, start_ns } => {
            report(registrations::contest(node, names, in_flight, start_ns).await?)
        }
        Order::Holders { names } => {
            let holder = |number| node.registry.lookup(&names.name(number));
            let holders: Result<Vec<_>, _> = (names.from..names.to).map(holder).collect();
            report(
                holders?.into_iter().map(|entry| entry.map(|entry| entry.node().clone())).collect::<Vec<_>>(),
            )
        }
        Order::AwaitCount { count } => {
            node.until(|| node.count() == Some(count), "so many names")
                .await
                .with_context(|| format!("{count} names wanted, there are {:?}", node.count()))?;
            report(now_ns())
        }
        Order::Echo => report(sequential::echo().await?),
        Order::Sequential { names, store, echo } => {
            report(sequential::measure(node, names, &store, echo).await?)
        }
        Order::LookUp { local, remote, rounds, each } => {
            let node = node.clone();
            let measured = tokio::task::spawn_blocking(move || {
                lookups::measure(&node.registry, &local, &remote, rounds, each)
            });
            report(measured.await??)
        }
        Order::Watch { readers } => report(watches::watch(node, readers)?),
        Order::Unwatch => {
            watches::unwatch(node).await;
            report(())
        }
        Order::Watched { names } => report(watches::watched(node, names).await?),
        Order::Note { prefix } => report(watches::note(node, &prefix)?),
        Order::Noted { count } => report(watches::noted(node, count).await?),
        Order::Acknowledged { names } => report(watches::acknowledged(node, names).await?),
        Order::StartOneByOne { names, store } => report(starts::one_by_one(node, names, &store).await?),
        Order::StartTogether { names, callers } => report(starts::together(node, names, callers).await?),
        Order::Spawn { actors } => report(actors::spawn(node, actors).await?),
        Order::RegisterEach { names, in_flight, start_ns } => {
            report(actors::register(node, names, in_flight, start_ns).await?)
        }
        Order::UnregisterEach { names, in_flight, start_ns } => {
            report(actors::unregister(node, names, in_flight, start_ns).await?)
        }
        Order::EndActors => report(actors::end(node)),
        Order::Probe { prefix } => report(probe::begin(node, prefix)?),
        Order::Probed => report(probe::end(node).await?),
        Order::AwaitFree { name } => {
            node.until(|| node.registry.lookup(&name).is_ok_and(|entry| entry.is_none()), "a free name")
                .await?;
            report(now_ns())
        }
        Order::Read { local, remote } => {
            let registry = node.registry.clone();
            let read = tokio::task::spawn_blocking(move || reads::measure(&registry, &local, &remote));
            report(read.await??)
        }
        Order::JoinGroup { group, in_flight, start_ns } => {
            report(groups::join(node, group, in_flight, start_ns).await?)
        }
        Order::AwaitMembers { count } => report(groups::await_members(node, count).await?),
        Order::Broadcast => report(groups::broadcast(node)?),
        Order::JoinGroupApart => report(groups::join_apart(node).await?),
        Order::Heard { broadcasts } => report(groups::heard(node, broadcasts).await?),
        Order::ReceiveNames => {
            moves::receive(node);
            Ok(Value::Null)
        }
        Order::OfferNames { names } => report(moves::offer(node, names).await?),
        Order::LookOn { names } => {
            moves::look_on(node, names);
            Ok(Value::Null)
        }
        Order::LookedOn => report(moves::looked_on(node).await?),
        Order::Drain => report(moves::drain(node).await),
        Order::RegisterAtLast { name } => report(registrations::register_at_last(node, &name).await?),
    }
}

impl Node {
    fn registries(&self) -> impl Iterator<Item = &Registry> {
        std::iter::once(&self.registry).chain(&self.others)
    }

    /// The registry of a name with this number: each has its turn, but the first ones that are spared.
    fn of(&self, number: u32, spared: u32) -> &Registry {
        let turn = number as usize % (self.others.len() + 1).saturating_sub(spared as usize).max(1);
        self.registries().nth(spared as usize + turn).unwrap_or(&self.registry)
    }

    /// How many names are in all registries.
    fn count(&self) -> Option<usize> {
        self.registries().map(|registry| registry.count().ok()).sum()
    }

    async fn until(&self, holds: impl FnMut() -> bool, what: &str) -> Result<()> {
        until(self.patience, holds, what).await
    }
}

async fn join(
    name: &str,
    config: Config,
    registries: u32,
    count: Option<usize>,
    patience: Duration,
) -> Result<(Node, Took)> {
    commits::count();
    let start = now_ns();
    let registry = Registry::join(config).await?;
    let mut others = Vec::new();
    for number in 1..registries {
        others.push(registry.join_beside(&format!("r{number}")).await?);
    }
    if let Some(count) = count {
        // Others may register more meanwhile.
        let has_all = || registry.count().is_ok_and(|known| known >= count);
        until(patience, has_all, "the names").await?;
    }
    let took = Took { ns: now_ns() - start };
    let (actor, name) = (echo::spawn(name).await?, name.to_owned());
    let (seen, actors) = (Arc::default(), Arc::default());
    let (moving, probe) = (Arc::default(), Arc::default());
    Ok((Node { registry, others, actor, name, patience, seen, actors, moving, probe }, took))
}

/// Looks at a condition each millisecond until it holds.
async fn until(patience: Duration, mut holds: impl FnMut() -> bool, what: &str) -> Result<()> {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(patience, waiting).await.with_context(|| format!("waited in vain for {what}"))
}
