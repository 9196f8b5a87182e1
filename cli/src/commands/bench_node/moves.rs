//! Names that move to other nodes when this one drains, and somebody who looks on.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};
use callsign::{Received, Receiving, RegisterOptions, Registry};
use callsign_store::lock::lock;
use tokio::task::JoinHandle;

use super::Node;
use crate::{
    commands::bench::orders::{Looked, Names, Took},
    echo::{self, Echo},
    measure::now_ns,
};

/// What goes on until the process ends, or is asked for.
#[derive(Default)]
pub(super) struct Moving {
    receiving: Mutex<Option<Receiving>>,
    looks: Mutex<Option<JoinHandle<Result<Looked>>>>,
    is_over: AtomicBool,
}

/// Takes each name that is offered, with an actor of its own.
pub(super) fn receive(node: &Node) {
    let of = node.name.clone();
    let receiving = node.registry.receive::<Echo, _>(move |_| {
        let of = of.clone();
        async move { Ok(Received::new(echo::spawn(&of).await?, |_| async { Ok(()) })) }
    });
    *lock(&node.moving.receiving) = Some(receiving);
}

/// Registers names, each with an actor of its own, which are offered when this node drains.
pub(super) async fn offer(node: &Node, names: Names) -> Result<()> {
    for number in names.from..names.to {
        let actor = echo::spawn(&node.name).await?;
        let options = RegisterOptions::default().offer(|_| async { Ok(Vec::new()) });
        node.registry.register_with(&names.name(number), &actor, options).await?;
    }
    Ok(())
}

/// Looks up one name after the other, again and again, until [`looked_on`].
pub(super) fn look_on(node: &Node, names: Names) {
    let (registry, moving) = (node.registry.clone(), node.moving.clone());
    let looks = tokio::task::spawn_blocking(move || look(&registry, &names, &moving.is_over));
    *lock(&node.moving.looks) = Some(looks);
}

fn look(registry: &Registry, names: &Names, is_over: &AtomicBool) -> Result<Looked> {
    let all: Vec<String> = (names.from..names.to).map(|number| names.name(number)).collect();
    let mut looked = Looked::default();
    while !is_over.load(Ordering::SeqCst) {
        for name in &all {
            looked.lookups += 1;
            looked.free += u64::from(registry.lookup(name)?.is_none());
        }
    }
    Ok(looked)
}

/// What was seen.
pub(super) async fn looked_on(node: &Node) -> Result<Looked> {
    node.moving.is_over.store(true, Ordering::SeqCst);
    let looks = lock(&node.moving.looks).take();
    looks.context("nobody looks on")?.await?
}

/// Drains.
pub(super) async fn drain(node: &Node) -> Took {
    let begin = now_ns();
    // Who leads afterwards does not matter here.
    let _ = node.registry.drain().await;
    Took { ns: now_ns() - begin }
}
